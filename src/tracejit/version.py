"""Versions: of the interface, which is PyTorch's, of this package, and of libraries it would be built with.

Programs ask ``torch.__version__`` what they may use, and mean PyTorch's interface by it.
"""

from __future__ import annotations

from .torch_version import TorchVersion

#: The version of the package.
tracejit = "0.1.0"
#: The release of PyTorch whose names and rules these are, and the package's own version.
__version__ = TorchVersion(f"2.13.0+tracejit.{tracejit}")

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "Unknown"
debug = False
