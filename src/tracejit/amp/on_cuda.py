"""``tracejit.cuda.amp``: the older names, for the device "cuda" alone."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .. import cuda
from ..dtypes import DType, float16
from .autocasting import autocast as any_autocast
from .autocasting import custom_bwd, custom_fwd
from .scaling import GradScaler as AnyScaler


class autocast(any_autocast):  # noqa: N801
    """Autocast on the GPU; off, with a warning, where there is none."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(AnyScaler):
    """A scaler for the GPU; off, with a warning, where there is none."""

    def __init__(self, init_scale: float = 2.0**16, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", init_scale, *args, **kwargs)


amp = ModuleType("tracejit.cuda.amp", __doc__)
for _thing in (autocast, GradScaler, custom_bwd, custom_fwd):
    setattr(amp, _thing.__name__, _thing)
sys.modules[amp.__name__] = amp
setattr(cuda, "amp", amp)  # noqa: B010  (a module of a higher layer)
