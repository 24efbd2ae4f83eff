"""Sizes that vary: those that only a run tells, and extents of arguments that calls hand over."""
