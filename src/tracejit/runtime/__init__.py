"""Running programs: kernels, plans, memory, threads, the kernel store."""
