"""The trace tree of a signature: growing it, planning it once for all sizes, walking it."""
