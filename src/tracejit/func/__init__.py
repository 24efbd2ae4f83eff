"""Functions of functions: gradients as values, Jacobians, batches, modules called with other parameters."""

from __future__ import annotations

from .batching import vmap
from .derivatives import grad, grad_and_value, jvp, linearize, value_and_grad, vjp
from .functional import (
    debug_unwrap,
    functional_call,
    functionalize,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from .jacobians import hessian, jacfwd, jacrev

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]
