"""Complex numbers from parts and back: real, imag, abs, angle, polar, and views of pairs."""

from __future__ import annotations

import math

from ... import dtypes
from ...errors import DtypeError
from ...mirrored import Mirrored
from .. import comparison as c
from .. import complex_numbers as cx
from .. import elementwise as e
from .. import memory_views as mv
from .. import transcendental as t
from ..precision import full_precision
from ..table import alias, function
from .common import Tensor, as_type, check_tensor, conjugated, constant
from .joining import stack
from .shaping import broadcast_tensors
from .slicing import select


def _part(input: Tensor, index: int) -> Tensor:
    if not is_conj(input):
        return select(mv.view_as_real(input), input.ndim, index)
    part = select(mv.view_as_real(conj(input)), input.ndim, index)
    return mv.neg_view(part) if index else part


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
    if is_conj(input):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original."
        )
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
    if is_neg(input):
        raise RuntimeError("view_as_complex of a view of negatives: call .resolve_neg() first")
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


@function(method=False, within=full_precision)
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
    size, turn = cx.polar_size(abs), e.clone(angle)  # which programs may write to
    return complex(e.mul(size, t.cos(turn)), e.mul(size, t.sin(turn)))


@function()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, a view that is computed when it is read; ``input`` itself when it is not complex.

    >>> import tracejit as tj
    >>> z = tj.tensor([1 + 2j])
    >>> z.conj().add_(1j)
    tensor([1.-1.j])
    >>> z
    tensor([1.+1.j])
    """
    check_tensor("conj", input)
    return mv.conj_view(input) if input.dtype.is_complex else input


@function()
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate in memory of its own; ``input`` itself when it is not complex.

    >>> import tracejit as tj
    >>> tj.conj_physical(tj.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    check_tensor("conj_physical", input)
    return conjugated(input)


def _is_mirrored(x: Tensor) -> bool:
    """Is this a tensor, not a value of a graph, that shows what mirrored memory holds?"""
    return type(getattr(x, "_block", None)) is Mirrored


@function()
def is_conj(input: Tensor) -> bool:
    """Is this a view of conjugates, as :func:`conj` gives it?

    >>> import tracejit as tj
    >>> z = tj.tensor([1 + 2j])
    >>> tj.is_conj(z), tj.is_conj(z.conj()), tj.is_conj(z.conj() * 1)
    (False, True, False)
    """
    check_tensor("is_conj", input)
    return input.dtype.is_complex and _is_mirrored(input)


@function()
def is_neg(input: Tensor) -> bool:
    """Is this a view of negatives, as the imaginary parts of conjugates are?

    >>> import tracejit as tj
    >>> tj.is_neg(tj.ones(1)), tj.is_neg(tj.tensor([1j]).conj().imag)
    (False, True)
    """
    check_tensor("is_neg", input)
    return not input.dtype.is_complex and _is_mirrored(input)


@function()
def resolve_conj(input: Tensor) -> Tensor:
    """Conjugates in memory of their own where ``input`` is a view of some, else ``input``.

    >>> import tracejit as tj
    >>> tj.resolve_conj(tj.tensor([1j]).conj()).is_conj()
    False
    """
    return e.clone(input) if is_conj(input) else input


@function()
def resolve_neg(input: Tensor) -> Tensor:
    """Negatives in memory of their own where ``input`` is a view of some, else ``input``.

    >>> import tracejit as tj
    >>> tj.resolve_neg(tj.tensor([1j]).conj().imag)
    tensor([-1.])
    """
    return e.clone(input) if is_neg(input) else input


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


alias("absolute", abs)
