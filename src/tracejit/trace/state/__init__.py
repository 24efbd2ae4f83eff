"""Guards on Python state: the walk over all that a function's code can reach, and the checks it leaves."""
