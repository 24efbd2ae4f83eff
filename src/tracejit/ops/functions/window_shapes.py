"""Windows of signal processing: Hann, Hamming, Blackman, Bartlett, Kaiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from .. import source as s
from ..table import function
from .common import Tensor, as_type
from .factories import made

_TITLES = {
    "hann": "The Hann window: half a period of a raised cosine",
    "hamming": "The Hamming window: ``alpha - beta * cos``",
    "blackman": "The Blackman window: a sum of two cosines",
    "bartlett": "The Bartlett window: a triangle",
    "kaiser": "The Kaiser window, wide for a small ``beta``",
}
Weights = Callable[..., "np.ndarray[Any, Any]"]


def cosines(at: Any, weights: Sequence[float]) -> Any:
    """A sum of cosines whose signs alternate, over one period."""
    return sum((-1) ** k * w * np.cos(2 * math.pi * k * at) for k, w in enumerate(weights))


def kaiser(at: Any, beta: float) -> Any:
    """Kaiser's weights over the length of the window."""
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * at - 1) ** 2, 0.0))) / np.i0(beta)


_SHAPES: dict[str, tuple[Weights, tuple[float, ...]]] = {
    "hann": (lambda at: cosines(at, (0.5, 0.5)), ()),
    "hamming": (lambda at, alpha, beta: cosines(at, (alpha, beta)), (0.54, 0.46)),
    "blackman": (lambda at: cosines(at, (0.42, 0.5, 0.08)), ()),
    "bartlett": (lambda at: 1 - np.abs(2 * at - 1), ()),
    "kaiser": (kaiser, (12.0,)),
}
_NAMES = {"hamming": ("alpha", "beta"), "kaiser": ("beta",)}


def _window(name: str) -> Callable[..., Tensor]:
    weights, defaults = _SHAPES[name]
    names = _NAMES.get(name, ())

    def window(
        window_length: int,
        periodic: bool = True,
        *given: float,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **named: float,
    ) -> Tensor:
        if window_length < 0:
            raise RuntimeError(
                f"{name}_window requires non-negative window_length, got {window_length}"
            )
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if not kind.is_floating_point:
            raise RuntimeError(f"{name}_window expects floating point dtypes, got: {kind!r}")
        unknown = set(named) - set(names)
        if unknown or len(given) > len(names):
            raise TypeError(f"{name}_window() got an unexpected argument {sorted(unknown)}")
        values = {
            **dict(zip(names, defaults, strict=True)),
            **dict(zip(names, given, strict=False)),
            **named,
        }
        return made(sampled(weights, window_length, periodic, values, kind), requires_grad, device)

    window.__name__ = window.__qualname__ = f"{name}_window"
    window.__doc__ = (
        f"{_TITLES[name]}. ``periodic`` windows are the first part of one that is longer by one.\n\n"
        "Raises ``RuntimeError`` for negative lengths and dtypes that are not floating point.\n\n"
        f">>> import tracejit as tj\n>>> tj.{name}_window(4).shape\ntracejit.Size([4])\n"
    )
    return function(method=False)(window)


def sampled(
    weights: Weights, count: int, periodic: bool, values: dict[str, float], kind: Any
) -> Tensor:
    """``count`` weights at equal steps from 0 to 1, or just short of it; computed in double precision."""
    if count < 2:
        return s.full(shape=(count,), value=1, dtype=kind)
    at = np.arange(count) / (count if periodic else count - 1)
    found = tuple(float(v) for v in weights(at, **values))
    return as_type(s.literal(values=found, shape=(count,), dtype=dtypes.float64), kind)


bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window = map(
    _window, sorted(_SHAPES)
)
