"""The version of this package, and those of libraries it would be built with: there are none."""

from __future__ import annotations

__version__ = "0.1.0"

cuda: str | None = None
hip: str | None = None
debug = False
