"""Views as copies, under the names that end in ``_copy``, and what is written through a view of any strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dtypes import DType
from .. import elementwise as e
from .. import indexing as ix
from .. import movement as m
from ..table import FUNCTIONS, METHODS, function
from .common import Tensor, check_tensor, shape_of
from .ranges import arange

#: Functions and methods that return views: a tensor they take and their arguments in an example.
_VIEWS = {
    "as_strided": ("tj.ones(4)", "(2,), (1,)"),
    "detach": ("tj.ones(2)", ""),
    "diagonal": ("tj.ones(2, 2)", ""),
    "expand": ("tj.ones(1, 4)", "(2, 4)"),
    "permute": ("tj.ones(2, 3)", "(1, 0)"),
    "select": ("tj.ones(2, 3)", "0, 1"),
    "split": ("tj.ones(2, 3)", "1"),
    "split_with_sizes": ("tj.ones(2, 3)", "[1, 1]"),
    "squeeze": ("tj.ones(1, 3)", ""),
    "t": ("tj.ones(2, 3)", ""),
    "transpose": ("tj.ones(2, 3)", "0, 1"),
    "unbind": ("tj.ones(2, 3)", ""),
    "unfold": ("tj.ones(4)", "0, 2, 2"),
    "unsqueeze": ("tj.ones(2)", "0"),
    "view": ("tj.ones(4)", "(2, 2)"),
    "view_as_complex": ("tj.ones(3, 2)", ""),
    "view_as_real": ("tj.ones(2, dtype=tj.complex64)", ""),
}


def _run(name: str, input: Tensor, args: Any, kwargs: Any) -> Any:
    """What the view of a name shows; another shape is taken whatever the strides are, for it is copied anyway."""
    shaped = name == "view" and "dtype" not in kwargs
    if shaped and not isinstance(next(iter(args), None), DType):
        name = "reshape"
    return (METHODS.get(name) or FUNCTIONS[name])(input, *args, **kwargs)


def _copying(name: str, made: str, arguments: str) -> Callable[..., Any]:
    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        check_tensor(f"{name}_copy", input)
        found = _run(name, input, args, kwargs)
        if isinstance(found, (tuple, list)):
            return tuple(e.clone(x) for x in found)
        return e.clone(found)

    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = (
        f"``{name}`` as a copy, which shares no memory with ``input``.\n\n>>> import tracejit as tj\n"
        f">>> found = tj.{name}_copy({', '.join(filter(None, (made, arguments)))})\n"
    )
    return copy


for _name, (_made, _arguments) in _VIEWS.items():
    function(method=False)(_copying(_name, _made, _arguments))


@function(method=False)
def alias_copy(input: Tensor) -> Tensor:
    """A copy.

    >>> import tracejit as tj
    >>> tj.alias_copy(tj.ones(2))
    tensor([1., 1.])
    """
    check_tensor("alias_copy", input)
    return e.clone(input)


@function(method=False)
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of ``input[start:end:step]`` along ``dim``.

    >>> import tracejit as tj
    >>> tj.slice_copy(tj.arange(5), 0, 1, 4, 2)
    tensor([1, 3])
    """
    check_tensor("slice_copy", input)
    key = (slice(None),) * (dim % max(input.ndim, 1))
    return e.clone(input[(*key, slice(start, end, step))])


@function()
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of a contiguous ``input`` with ``src`` written where ``as_strided`` would read.

    >>> import tracejit as tj
    >>> tj.as_strided_scatter(tj.zeros(4), tj.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    check_tensor("as_strided_scatter", input)
    check_tensor("as_strided_scatter", src, "src", 2)
    if shape_of(src) != tuple(size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(shape_of(src))}, "
            f"slice size = {list(size)}"
        )
    count = input.spec.numel
    places = arange(count).as_strided(size, stride, storage_offset or 0)
    row, index, values = (
        m.reshape(x, shape=(x.spec.numel,)) for x in (input, places, e.cast(src, dtype=input.dtype))
    )
    return m.reshape(ix.put(row, index, values, dim=0, accumulate=False), shape=shape_of(input))
