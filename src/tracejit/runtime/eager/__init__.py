"""What eager code takes from the runtime: kernels and threads for large arrays and many small ones."""
