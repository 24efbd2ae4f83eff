"""An op of graphs only: windows that share elements, shown where they lie.

Eagerly windows are copied (:func:`~tracejit.ops.convolution.unfold_windows`); graphs that are not differentiated any
more read them in place.
"""

from __future__ import annotations

from inspect import Parameter

from ..types import Shape, TensorType
from .convolution import unfold_windows
from .kinds import Movement
from .op import Array
from .strides import windowed
from .windows import Pairs, Windows

__all__ = ["windows"]


def _around(kernel: Shape) -> Pairs:
    return ((0, 0),) * len(kernel)


def _type(x: TensorType, *, kernel: Shape, stride: Shape, dilation: Shape) -> TensorType:
    given = {"kernel": kernel, "stride": stride, "padding": _around(kernel), "dilation": dilation}
    found = unfold_windows.infer([x], given)
    assert isinstance(found, TensorType)
    return found


def _body(x: Array, *, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    found = Windows(kernel, stride, _around(kernel), dilation)
    return found.view(x, found.counts(x.shape[x.ndim - len(kernel) :]))


windows = Movement(
    name="windows",
    operands=("x",),
    variadic=False,
    attributes=dict.fromkeys(("kernel", "stride", "dilation"), Parameter.empty),
    grads={},
    doc="Every window of x's last dimensions, where it lies: (*leading, *size) to (*leading, *kernel, *windows).",
    body=_body,
    infer_shape=_type,
    strides=windowed,
)
