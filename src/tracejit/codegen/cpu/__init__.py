"""Printers of CPU kernels, one per form of reduction."""
