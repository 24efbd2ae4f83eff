"""Complex numbers from parts and back: real, imag, abs, angle, polar, and views of pairs."""

from __future__ import annotations

import math

from ... import dtypes
from ...errors import DtypeError
from .. import comparison as c
from .. import complex_numbers as cx
from .. import elementwise as e
from .. import memory_views as mv
from .. import transcendental as t
from ..table import alias, function
from .common import Tensor, as_type, check_tensor, conjugated, constant
from .joining import stack
from .shaping import broadcast_tensors
from .slicing import select


def _part(input: Tensor, index: int) -> Tensor:
    return select(mv.view_as_real(input), input.ndim, index)


@function(method=False)
def real(input: Tensor) -> Tensor:
    """The real parts, a view; ``input`` itself when it is not complex.

    >>> import tracejit as tj
    >>> tj.real(tj.tensor([1 + 2j]))
    tensor([1.])
    """
    check_tensor("real", input)
    return _part(input, 0) if input.dtype.is_complex else input


@function(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, a view.

    Raises ``RuntimeError`` when ``input`` is not complex.

    >>> import tracejit as tj
    >>> tj.imag(tj.tensor([1 + 2j]))
    tensor([2.])
    """
    check_tensor("imag", input)
    if not input.dtype.is_complex:
        raise DtypeError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(input, 1)


@function(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts along a new last dimension of two, a view.

    Raises ``RuntimeError`` when ``input`` is not complex.

    >>> import tracejit as tj
    >>> tj.view_as_real(tj.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    check_tensor("view_as_real", input)
    return mv.view_as_real(input)


@function(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """Complex numbers of the pairs along the last dimension, a view.

    Raises ``RuntimeError`` unless the last dimension has two floating point elements, next to each other.

    >>> import tracejit as tj
    >>> tj.view_as_complex(tj.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    check_tensor("view_as_complex", input)
    if hasattr(input, "stride") and input.spec.shape[-1:] == (2,):
        _check_pairs(input)
    if input.dtype.is_half:  # no complex numbers have parts like these
        return cx.complex_of_parts(input)
    return mv.view_as_complex(input)


def _check_pairs(x: Tensor) -> None:
    """Refuse pairs that do not lie like complex numbers."""
    steps = x.stride()
    if steps[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 and n > 1 for step, n in zip(steps[:-1], x.spec.shape[:-1], strict=True)):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if x.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")


def _check_parts(first: Tensor, second: Tensor) -> None:
    """Refuse what no complex numbers are made of."""
    known = (dtypes.float16, dtypes.float32, dtypes.float64)
    if first.dtype not in known or second.dtype not in known:
        raise DtypeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{first.dtype.title} and {second.dtype.title}"
        )
    if first.dtype is not second.dtype:
        raise DtypeError(
            f"Expected object of scalar type {first.dtype.title} but got scalar type "
            f"{second.dtype.title} for second argument"
        )


@function(method=False)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers of real and imaginary parts, broadcast.

    Raises ``RuntimeError`` unless both have the same floating point dtype.

    >>> import tracejit as tj
    >>> tj.complex(tj.tensor([1.0]), tj.tensor([-2.0]))
    tensor([1.-2.j])
    """
    for position, (name, x) in enumerate((("real", real), ("imag", imag))):
        check_tensor("complex", x, name, position + 1)
    _check_parts(real, imag)
    real, imag = broadcast_tensors(real, imag)
    return cx.complex_of_parts(stack([real, imag], real.ndim))


@function(method=False)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers of absolute values and angles: ``abs * (cos(angle) + i sin(angle))``.

    Raises ``RuntimeError`` unless both have the same floating point dtype.

    >>> import tracejit as tj
    >>> tj.polar(tj.tensor([2.0]), tj.tensor([0.0]))
    tensor([2.+0.j])
    """
    check_tensor("polar", abs, "abs")
    check_tensor("polar", angle, "angle", 2)
    _check_parts(abs, angle)
    return complex(e.mul(abs, t.cos(angle)), e.mul(abs, t.sin(angle)))


@function()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; ``input`` itself when it is not complex.

    >>> import tracejit as tj
    >>> tj.conj(tj.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    check_tensor("conj", input)
    return conjugated(input)


@function()
def resolve_conj(input: Tensor) -> Tensor:
    """``input``: conjugates are always computed.

    >>> import tracejit as tj
    >>> tj.resolve_conj(tj.ones(1))
    tensor([1.])
    """
    check_tensor("resolve_conj", input)
    return input


@function()
def is_conj(input: Tensor) -> bool:
    """False: conjugates are always computed.

    >>> import tracejit as tj
    >>> tj.is_conj(tj.ones(1))
    False
    """
    check_tensor("is_conj", input)
    return False


@function()
def abs(input: Tensor) -> Tensor:
    """The absolute value, real also for complex numbers.

    >>> import tracejit as tj
    >>> tj.abs(tj.tensor([-1.5])), tj.abs(tj.tensor([3 + 4j]))
    (tensor([1.5000]), tensor([5.]))
    """
    check_tensor("abs", input)
    return cx.magnitude(input) if input.dtype.is_complex else e.abs(input)


@function()
def angle(input: Tensor) -> Tensor:
    """The angle of complex numbers; of real ones 0, or pi where they are negative.

    >>> import tracejit as tj
    >>> tj.angle(tj.tensor([1 + 1j, -1 + 0j]))
    tensor([0.7854, 3.1416])
    """
    check_tensor("angle", input)
    if input.dtype.is_complex:
        x, y = _part(input, 0), _part(input, 1)
        none = c.logical_and(c.eq(x, 0), c.eq(y, 0))  # no gradient there, rather than NaN
        return t.atan2(*(e.where(none, e.detach_copy(part), part) for part in (y, x)))
    x = as_type(input, dtypes.get_default_dtype()) if not input.dtype.is_floating_point else input
    turned = e.where(c.lt(x, 0), constant(math.pi, x.dtype), 0.0)
    return as_type(e.where(c.isnan(x), e.mul(x, 0.0), turned), x.dtype)


@function()
def sgn(input: Tensor) -> Tensor:
    """The sign; for complex numbers ``input / |input|``, and 0 at 0.

    >>> import tracejit as tj
    >>> tj.sgn(tj.tensor([-2.0, 0.0])), tj.sgn(tj.tensor([3 + 4j]))
    (tensor([-1.,  0.]), tensor([0.6000+0.8000j]))
    """
    check_tensor("sgn", input)
    if not input.dtype.is_complex:
        return e.sign(input)
    size = cx.magnitude(input)
    zero = c.eq(size, 0)
    return e.where(zero, 0.0, e.div(input, e.where(zero, 1.0, size)))


for _name, _target in {
    "absolute": abs,
    "conj_physical": conj,
    "resolve_neg": resolve_conj,
    "is_neg": is_conj,
}.items():
    alias(_name, _target)
