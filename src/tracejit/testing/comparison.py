"""Assertions about tensors, as tests of programs write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import tracejit as tj

__all__ = ["assert_allclose", "assert_close"]

_TOLERANCES = {
    tj.float16: (1e-3, 1e-5),
    tj.bfloat16: (1.6e-2, 1e-5),
    tj.float32: (1.3e-6, 1e-5),
    tj.float64: (1e-7, 1e-7),
    tj.complex64: (1.3e-6, 1e-5),
    tj.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Tensors, numbers, or lists and dicts of them are equal within ``atol + rtol * abs(expected)``.

    Without tolerances those of the coarser dtype are taken. Raises ``AssertionError`` when something differs, and
    ``ValueError`` when only one tolerance is given.

    >>> import tracejit as tj
    >>> tj.testing.assert_close(tj.ones(2) / 3 * 3, tj.ones(2))
    >>> tj.testing.assert_close([1.0, {"a": 2}], [1.0, {"a": 3}])
    Traceback (most recent call last):
    AssertionError: Scalars are not close! ['a' of 1]: 2 and 3
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    checks = {"device": check_device, "dtype": check_dtype, "stride": check_stride}
    tolerance = None if rtol is None or atol is None else (rtol, atol)
    problem = _difference(actual, expected, tolerance, equal_nan, checks, "")
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else msg or problem)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: Any = "",
) -> None:
    """:func:`assert_close` of old: ``expected`` may be anything a tensor is made of, dtypes may differ.

    >>> import tracejit as tj
    >>> tj.testing.assert_allclose(tj.ones(2), [1.0, 1.0])
    """
    assert_close(
        tj.as_tensor(actual),
        tj.as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=False,
        check_dtype=False,
        msg=msg or None,
    )


def _difference(
    actual: Any, expected: Any, tolerance: Any, equal_nan: bool, checks: dict[str, bool], place: str
) -> str:
    """What differs first, in words; nothing when nothing does."""
    at = f" [{place.strip()}]" if place else ""
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or actual.keys() != expected.keys():
            return f"The keys of the mappings do not match{at}"
        pairs = [(f"{k!r}", actual[k], expected[k]) for k in expected]
    elif isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"The length of the sequences mismatch{at}"
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    else:
        return _tensor_difference(actual, expected, tolerance, equal_nan, checks, at)
    inner = f" of {place}" if place else ""
    found = (_difference(a, b, tolerance, equal_nan, checks, f"{k}{inner}") for k, a, b in pairs)
    return next((problem for problem in found if problem), "")


def _tensor_difference(
    actual: Any, expected: Any, tolerance: Any, equal_nan: bool, checks: dict[str, bool], at: str
) -> str:
    numbers = not isinstance(actual, tj.Tensor) and not isinstance(expected, tj.Tensor)
    a, b = (x if isinstance(x, tj.Tensor) else tj.as_tensor(x) for x in (actual, expected))
    if a.shape != b.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.{at}"
    for name in ("device", "dtype") if not numbers else ():
        one, other = getattr(a, name), getattr(b, name)
        if checks[name] and one != other:
            return f"The values for attribute '{name}' do not match: {one} != {other}.{at}"
    if checks["stride"] and a.stride() != b.stride():
        return (
            f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}.{at}"
        )
    if tolerance is None:
        both = [_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (a, b)]
        tolerance = max(t[0] for t in both), max(t[1] for t in both)
    one, other = (x.detach().cpu().to(_widest(x)).numpy() for x in (a, b))
    close = np.isclose(one, other, rtol=tolerance[0], atol=tolerance[1], equal_nan=equal_nan)
    if close.all():
        return ""
    return _words(one, other, close, tolerance, numbers) + at + _scalars(actual, expected, numbers)


def _scalars(actual: Any, expected: Any, numbers: bool) -> str:
    return f": {actual} and {expected}" if numbers else ""


def _widest(tensor: tj.Tensor) -> tj.dtype:
    if tensor.dtype.is_complex:
        return tj.complex128
    return tj.float64 if tensor.dtype.is_floating_point else tensor.dtype


def _words(one: Any, other: Any, close: Any, tolerance: tuple[float, float], numbers: bool) -> str:
    """How many elements differ, and by how much at most."""
    if numbers:
        return "Scalars are not close!"
    wide = np.result_type(one, other, np.float64)
    gap = np.where(close, 0.0, np.abs(one.astype(wide) - other.astype(wide)))
    with np.errstate(all="ignore"):
        ratio = np.where(close, 0.0, gap / np.abs(other.astype(wide)))
    lines = [
        "Tensor-likes are not close!\n",
        f"Mismatched elements: {int((~close).sum())} / {close.size} ({100 * (~close).mean():.1f}%)",
    ]
    for kind, values, limit in (("absolute", gap, tolerance[1]), ("relative", ratio, tolerance[0])):
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
        lines.append(
            f"Greatest {kind} difference: {values[where]} at index {where} (up to {limit} allowed)"
        )
    return "\n".join(lines)
