"""``tracejit.cpu.amp``: the older names, for the host alone."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .. import cpu
from ..dtypes import DType, bfloat16
from .autocasting import autocast as any_autocast
from .scaling import GradScaler as AnyScaler


class autocast(any_autocast):  # noqa: N801
    """Autocast on the host."""

    def __init__(
        self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(AnyScaler):
    """A scaler for the host."""

    def __init__(self, init_scale: float = 2.0**16, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", init_scale, *args, **kwargs)


amp = ModuleType("tracejit.cpu.amp", __doc__)
for _thing in (autocast, GradScaler):
    setattr(amp, _thing.__name__, _thing)
sys.modules[amp.__name__] = amp
setattr(cpu, "amp", amp)  # noqa: B010  (a module of a higher layer)
