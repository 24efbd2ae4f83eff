"""Tools for testing the compiler with itself: samples of every op, named workloads, random programs."""
