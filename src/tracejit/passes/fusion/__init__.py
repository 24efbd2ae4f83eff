"""Which values become one kernel, and in which order kernels run."""
