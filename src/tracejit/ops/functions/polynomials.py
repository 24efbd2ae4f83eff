"""Orthogonal polynomials and Bessel functions of half order under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import comparison as c
from .. import elementwise as e
from .. import transcendental as t
from ..polynomials import FAMILIES, orthogonal_polynomial
from ..table import function
from .common import Number, Tensor, check_tensor, refuse

POLYNOMIALS: dict[str, Callable[..., Tensor]] = {}


def _polynomial(family: str, shifted: bool) -> Callable[..., Tensor]:
    def polynomial(input: Tensor | Number, n: Tensor | Number) -> Tensor:
        x: Any = e.sub(e.mul(input, 2.0), 1.0) if shifted else input  # integers would wrap
        return orthogonal_polynomial(x, n, family=family)

    kind, letter = family.rsplit("_", 1)
    name = f"{'shifted_' if shifted else ''}{kind}_polynomial_{letter}"
    at = "``2 * input - 1``" if shifted else "``input``"
    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = (
        f"The {kind.title()} polynomial {letter.title()} of degree ``n`` at {at}, zero for negative degrees.\n\n"
        "There is no gradient; ``ValueError`` above degree 2**20.\n\n"
        f">>> import tracejit as tj\n>>> tj.special.{name}(tj.tensor([0.5]), 0)\n"
        "tensor([1.])\n"
    )
    return polynomial


for _family in FAMILIES:
    for _shifted in (False, True) if _family.startswith("chebyshev") else (False,):
        _made = function(method=False, namespace=False)(_polynomial(_family, _shifted))
        POLYNOMIALS[_made.__name__] = _made


@function(method=False, namespace=False)
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """``sin(x) / x``, one at zero.

    >>> import tracejit as tj
    >>> tj.special.spherical_bessel_j0(tj.tensor([0.0]))
    tensor([1.])
    """
    refuse("spherical_bessel_j0_cpu", input.dtype, "complex")
    check_tensor("special_spherical_bessel_j0", input)
    zero = c.eq(input, 0)
    x = e.where(zero, 1.0, input)
    found = e.where(c.isinf(x), 0.0, e.div(t.sin(x), x))
    return e.where(zero, 1.0, found)
