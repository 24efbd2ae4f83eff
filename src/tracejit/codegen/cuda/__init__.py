"""Printers of device kernels, their lowering to PTX, and cubins."""
