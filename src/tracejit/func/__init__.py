"""Functions of functions: gradients as values, products with Jacobians, modules called with other parameters."""

from __future__ import annotations

from .derivatives import grad, grad_and_value, jvp, value_and_grad, vjp
from .functional import functional_call

__all__ = ["functional_call", "grad", "grad_and_value", "jvp", "value_and_grad", "vjp"]
