"""Switches of PyTorch's libraries, for programs that set them: kept, and without effect.

Results never depend on chance or on the number of threads, and kernels are this package's own, so there is nothing to
benchmark, to make deterministic or to turn off. The one switch with an effect, the precision of products on a GPU, is
:func:`tracejit.set_float32_matmul_precision`; ``cuda.matmul.allow_tf32`` reads and writes that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .cuda.driver import is_available
from .cuda.precision import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


class _Switches:
    """Attributes that can be set, and questions."""

    def __init__(self, available: bool, **values: Any) -> None:
        self._available = available
        self.__dict__.update(values)

    def is_available(self) -> bool:
        """Is the library there?"""
        return self._available

    def is_built(self) -> bool:
        """Could the library be there?"""
        return self._available

    def version(self) -> int | None:
        """None: no such library is used."""
        return None


class _Cudnn(_Switches):
    """Switches of a library that is not used."""

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """Other values for a while; those not named are PyTorch's defaults of this function."""
        before = dict(vars(self))
        chosen = {"enabled": False, "benchmark": False, "deterministic": False, "allow_tf32": True}
        vars(self).update(chosen, **values)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


class _Products(_Switches):
    """Precision of products on a GPU."""

    @property
    def allow_tf32(self) -> bool:
        """May products of float32 round operands to TF32?"""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")


class _Cuda(_Switches):
    """Switches of the GPU."""

    def is_available(self) -> bool:
        """Is there a GPU?"""
        return is_available()

    def flash_sdp_enabled(self) -> bool:
        """False: attention is written in ops."""
        return False

    def enable_flash_sdp(self, enabled: bool) -> None:
        """Accepted and without effect."""

    @contextmanager
    def sdp_kernel(self, *_: Any, **__: Any) -> Iterator[None]:
        """Accepted and without effect: attention is written in ops."""
        yield

    enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp
    mem_efficient_sdp_enabled = math_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled


cpu = _Switches(True)
cudnn = _Cudnn(False, enabled=True, benchmark=False, deterministic=False, allow_tf32=True)
cuda = _Cuda(False, matmul=_Products(False))
mkl = _Switches(False)
mkldnn = _Switches(False, enabled=True)
mps = _Switches(False)
openmp = _Switches(False)
opt_einsum = _Switches(False, enabled=False, strategy=None)
quantized = _Switches(False, engine="none", supported_engines=["none"])

for _name in __all__:  # programs also say ``import tracejit.backends.cudnn as cudnn``
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
