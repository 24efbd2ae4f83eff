"""Windows of signal processing: symmetric ones, and with ``sym=False`` the first part of one that is longer by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from .. import dtypes
from ..memory_formats import strided
from ..ops.functions.common import Tensor
from ..ops.functions.factories import made
from ..ops.functions.window_shapes import Weights, cosines, sampled
from ..ops.functions.window_shapes import kaiser as kaiser_weights

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    name: str, count: int, sym: bool, weights: Weights, options: dict[str, Any], **values: float
) -> Tensor:
    """The window of ``count`` weights at positions from 0 to 1."""
    if count < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={count}")
    dtype = options.pop("dtype", None)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind!r}")
    device, wanted = options.pop("device", None), options.pop("requires_grad", False)
    layout = options.pop("layout", None)
    if layout not in (None, strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument {min(options)!r}")
    return made(sampled(weights, count, not sym, values, kind), wanted, device)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """Cosines with weights ``a``: ``sum((-1)**k * a[k] * cos(2 pi k n / (M - 1)))``, (M,).

    ``options`` are ``dtype``, ``device``, ``layout`` and ``requires_grad``. Raises ``TypeError`` unless ``a`` can be
    iterated over, ``ValueError`` for negative lengths, no weights, and other dtypes than float32 and float64.

    >>> general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = tuple(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, sym, partial(cosines, weights=weights), options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """``alpha - (1 - alpha) * cos``, (M,); arguments and errors as :func:`general_cosine`.

    >>> general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(
        "general_hamming", M, sym, partial(cosines, weights=(alpha, 1.0 - alpha)), options
    )


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Hamming window, (M,); arguments and errors as :func:`general_cosine`.

    >>> hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _window("hamming", M, sym, partial(cosines, weights=(0.54, 0.46)), options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Hann window, (M,); arguments and errors as :func:`general_cosine`.

    >>> hann(3)
    tensor([0., 1., 0.])
    """
    return _window("hann", M, sym, partial(cosines, weights=(0.5, 0.5)), options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Blackman window, (M,); arguments and errors as :func:`general_cosine`.

    >>> blackman(1)
    tensor([1.])
    """
    return _window("blackman", M, sym, partial(cosines, weights=(0.42, 0.5, 0.08)), options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's minimum four-term window, (M,); arguments and errors as :func:`general_cosine`.

    >>> nuttall(1)
    tensor([1.])
    """
    return _window(
        "nuttall",
        M,
        sym,
        partial(cosines, weights=(0.3635819, 0.4891775, 0.1365995, 0.0106411)),
        options,
    )


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The Bartlett window, a triangle, (M,); arguments and errors as :func:`general_cosine`.

    >>> bartlett(3)
    tensor([0., 1., 0.])
    """
    return _window("bartlett", M, sym, lambda at: 1 - np.abs(2 * at - 1), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a period of a sine, which is zero just outside, (M,); arguments and errors as :func:`general_cosine`.

    >>> cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    last = M - 1 if sym else M
    return _window(
        "cosine", M, sym, lambda at: np.sin(math.pi * (at * last + 0.5) / (last + 1)), options
    )


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """``exp(-|n - center| / tau)``, (M,); the middle is the center by default and always of symmetric windows.

    Arguments and errors as :func:`general_cosine`; ``ValueError`` also unless ``tau`` is positive.

    >>> exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    last = M - 1 if sym else M
    middle = last / 2 if center is None else center
    return _window(
        "exponential", M, sym, lambda at: np.exp(-np.abs(at * last - middle) / tau), options
    )


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """A normal density of standard deviation ``std``, one in the middle, (M,).

    Arguments and errors as :func:`general_cosine`; ``ValueError`` also unless ``std`` is positive.

    >>> gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    last = M - 1 if sym else M
    return _window(
        "gaussian", M, sym, lambda at: np.exp(-0.5 * ((at - 0.5) * last / std) ** 2), options
    )


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """The Kaiser window, wide for a small ``beta``, (M,).

    Arguments and errors as :func:`general_cosine`; ``ValueError`` also for a negative ``beta``.

    >>> kaiser(1)
    tensor([1.])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, sym, kaiser_weights, options, beta=beta)
