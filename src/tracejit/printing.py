"""Tensors as text, laid out as PyTorch prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .cuda.arrays import fetched
from .errors import AutogradError

if TYPE_CHECKING:
    from .tensor import Tensor


@dataclass(frozen=True)
class PrintOptions:
    """How tensors are printed; see :func:`set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def get_printoptions() -> PrintOptions:
    """The options tensors are printed with.

    >>> import tracejit as tj
    >>> tj.get_printoptions().precision
    4
    """
    return _options


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed: digits after the point, number of elements from which a tensor is
    summarised, elements kept at each end of a dimension, line width, scientific notation (None: as needed).
    ``profile`` ("default", "short", "full") resets everything first. ``ValueError`` for another profile.

    >>> import tracejit as tj
    >>> tj.set_printoptions(precision=2)
    >>> tj.tensor([0.12345])
    tensor([0.12])
    >>> tj.set_printoptions(profile="default")
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"unknown print profile {profile!r}: one of {', '.join(_PROFILES)}")
    base = _options if profile is None else _PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = replace(base, sci_mode=sci_mode, **changes)


def tensor_text(tensor: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``: values, then what is not the default."""
    prefix = "tensor("
    dtype, shape = tensor.dtype, tuple(tensor.shape)
    suffixes = []
    default = dtypes.get_default_dtype()
    if tensor.is_meta:
        values = "..."
        suffixes += ["device='meta'", f"size={shape}"]
        if dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool_):
            suffixes.append(f"dtype={dtype!r}")
    elif math.prod(shape) == 0:
        values = "[]"
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        if dtype is not default:
            suffixes.append(f"dtype={dtype!r}")
    else:
        values = array_text(fetched(tensor.array), len(prefix))
        if dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool_):
            suffixes.append(f"dtype={dtype!r}")
    if tensor.is_cuda:
        suffixes.insert(0, f"device='{tensor.device}'")
    suffixes += _history(tensor)
    return _with_suffixes(prefix + values, suffixes, len(prefix))


def _history(tensor: Tensor) -> list[str]:
    """What is said of a tensor's place in the graph."""
    try:
        node = tensor.grad_fn
    except AutogradError:  # a view made under no_grad of what was written to since
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name()}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def array_text(array: Any, indent: int = 0) -> str:
    """The values of an array as nested, aligned, possibly summarised brackets."""
    if array.dtype.kind not in "biufc" or (array.dtype.itemsize < 4 and array.dtype.kind == "f"):
        array = array.astype(np.float32)
    summarize = array.size > _options.threshold
    shown = _ends(array) if summarize else array
    write, width = _formatter(shown)
    return _block_text(array, indent, summarize, write, width)


def _ends(array: Any) -> Any:
    """Only the elements a summary shows: they decide format and width."""
    edge = _options.edgeitems
    for axis, extent in enumerate(array.shape):
        if extent > 2 * edge:
            keep = [*range(edge), *range(extent - edge, extent)]
            array = array.take(keep, axis=axis)
    return array


def _formatter(array: Any) -> tuple[Callable[[Any], str], int]:
    """A function from a value to its text, and the width all texts are brought to."""
    if array.dtype.kind == "c":
        return _complex_formatter(array)
    if array.dtype.kind != "f":
        texts = [str(v) for v in array.ravel().tolist()]
        return _padded(str, max(map(len, texts), default=1))
    values = array.ravel().astype(np.float64)
    finite = values[np.isfinite(values) & (values != 0)]
    whole = bool(np.all(finite == np.ceil(finite)))
    scientific = _needs_exponent(finite, whole)
    if _options.sci_mode is not None and finite.size:
        scientific = _options.sci_mode
    digits = _options.precision
    write: Callable[[Any], str]
    if scientific:
        write = f"{{:.{digits}e}}".format
    elif whole:
        write = _whole_number
    else:
        write = f"{{:.{digits}f}}".format
    return _padded(write, max(map(len, map(write, finite.tolist())), default=1))


def _complex_formatter(array: Any) -> tuple[Callable[[Any], str], int]:
    """``1.0000-2.5000j``: both parts with digits of their own."""
    real, width = _formatter(array.real)
    imaginary, more = _formatter(array.imag)

    def write(value: complex) -> str:
        part = imaginary(value.imag).lstrip()
        return f"{real(value.real)}{'' if part.startswith('-') else '+'}{part}j"

    return write, width + more + 1


def _needs_exponent(finite: Any, whole: bool) -> bool:
    """Too large, too small or too far apart for a fixed number of digits."""
    if not finite.size:
        return False
    low, high = np.abs(finite).min(), np.abs(finite).max()
    with np.errstate(over="ignore"):
        return bool(high / low > 1000.0 or high > 1.0e8 or (not whole and low < 1.0e-4))


def _whole_number(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _padded(write: Callable[[Any], str], width: int) -> tuple[Callable[[Any], str], int]:
    return (lambda value: write(value).rjust(width)), width


def _block_text(
    array: Any, indent: int, summarize: bool, write: Callable[[Any], str], width: int
) -> str:
    if array.ndim == 0:
        return write(array.item())
    if array.ndim == 1:
        return _row_text(array, indent, summarize, write, width)
    parts = [
        "..." if rows is None else _block_text(rows, indent + 1, summarize, write, width)
        for rows in _shown(array, summarize)
    ]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{gap.join(parts)}]"


def _row_text(
    row: Any, indent: int, summarize: bool, write: Callable[[Any], str], width: int
) -> str:
    texts = [" ..." if v is None else write(v.item()) for v in _shown(row, summarize)]
    if summarize and not _options.edgeitems:
        texts = ["..."]
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _shown(array: Any, summarize: bool) -> Iterator[Any]:
    """The entries along the first dimension, None standing for those left out."""
    edge, count = _options.edgeitems, len(array)
    if not summarize or count <= 2 * edge:
        yield from (array[i, ...] for i in range(count))
        return
    yield from (array[i, ...] for i in range(edge))
    yield None
    yield from (array[i, ...] for i in range(count - edge, count))


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Append what follows the values, on new lines where the line would grow too long."""
    parts = [text]
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            used = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            used += len(suffix) + 2
    return "".join(parts) + ")"
