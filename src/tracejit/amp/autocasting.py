"""Autocast: inside it, matrix products and convolutions of float32 compute in half precision.

Only products are cast, which is where the time goes: everything else takes the dtypes it is given, and promotes them. A
block switches one device type, and leaves the other as it is. A device without hardware for it (there is no GPU) leaves
autocast off, with a warning, as in PyTorch.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar
from typing import cast as as_type

from ..cuda.driver import is_available
from ..dtypes import DType, bfloat16, float16
from ..modes import MODES
from ..ops.elementwise import cast
from ..tensor import Tensor
from .switching import change, settings

F = TypeVar("F", bound=Callable[..., Any])


class autocast:  # noqa: N801
    """Inside a ``with`` block or a decorated function, products of float32 compute in ``dtype``.

    Raises ``RuntimeError`` for a device type or dtype that has no autocast.

    >>> import tracejit as tj
    >>> with tj.autocast("cpu", dtype=tj.bfloat16):
    ...     (tj.ones(2, 2) @ tj.ones(2, 2)).dtype
    tracejit.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        known = getattr(settings(), f"{device_type}_dtype")
        self.fast_dtype: DType = known if dtype is None else dtype
        if enabled and device_type == "cuda" and not is_available():
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in (float16, bfloat16):
            warnings.warn(
                f"In autocast, but the target dtype is not supported. Disabling autocast. Got {dtype}",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = settings().cache if cache_enabled is None else cache_enabled
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> autocast:
        values = {self.device: self._enabled, f"{self.device}_dtype": self.fast_dtype}
        values["cache"] = self._cache_enabled
        now = settings()._asdict()
        self._before.append({name: now[name] for name in values})
        change(**values)
        MODES.autocast_depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        MODES.autocast_depth -= 1
        change(**self._before.pop())

    def __call__(self, function: F) -> F:
        """``function`` run inside."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return as_type(F, inside)


def is_autocast_available(device_type: str) -> bool:
    """Can ``device_type`` be named?

    >>> import tracejit as tj
    >>> tj.amp.is_autocast_available("cpu"), tj.amp.is_autocast_available("toaster")
    (True, False)
    """
    return device_type in ("cpu", "cuda")


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DType | None = None
) -> Any:
    """``forward`` of a custom function, run outside autocast with float inputs in ``cast_inputs`` if that is given.

    >>> import tracejit as tj
    >>> tj.amp.custom_fwd(lambda x: x.dtype, device_type="cpu", cast_inputs=tj.float64)(tj.ones(1))
    tracejit.float64
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*(_converted(x, cast_inputs) for x in args), **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """``backward`` of a custom function, run outside autocast.

    >>> import tracejit as tj
    >>> tj.amp.custom_bwd(lambda x: x, device_type="cpu")(1)
    1
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return autocast(device_type, enabled=False)(bwd)


def _converted(value: Any, dtype: DType) -> Any:
    floats = isinstance(value, Tensor) and value.is_floating_point()
    return cast(value, dtype=dtype) if floats and value.dtype is not dtype else value
