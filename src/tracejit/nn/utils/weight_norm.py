"""Weight normalisation: a weight as a direction times a length (Salimans and Kingma, 2016)."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ..module import Module
from ..parameter import Parameter
from ..uninitialized import must_have_a_shape
from .parametrize import own_class

M = TypeVar("M", bound=Module)

__all__ = ["length", "remove_weight_norm", "weight_norm"]


def length(v: Any, dim: int | None) -> Any:
    """The Euclidean norm over all dimensions but ``dim`` (None or -1: over all).

    >>> import tracejit as tj
    >>> length(tj.tensor([[3.0, 4.0], [0.0, 2.0]]), 0)
    tensor([[5.],
            [2.]])
    """
    if dim is None or dim == -1:
        return (v * v).sum().sqrt()
    others = [d for d in range(v.ndim) if d != dim % v.ndim]
    return (v * v).sum(others, keepdim=True).sqrt() if others else v.abs()


def normed(g: Any, v: Any, dim: int | None) -> Any:
    """``g * v / |v|``."""
    return v * (g / length(v, dim))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace the parameter ``name`` by its length ``name_g`` and its direction ``name_v``.

    The weight is computed from them at every access. ``dim`` keeps a length for each index of that dimension, None one
    for all. Raises ``RuntimeError`` when the name has a weight norm already. In new programs use
    ``nn.utils.parametrizations.weight_norm``.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.weight_norm(tj.nn.Linear(2, 3))
    >>> layer.weight_g.shape, layer.weight_v.shape, layer.weight.shape
    (tracejit.Size([3, 1]), tracejit.Size([3, 2]), tracejit.Size([3, 2]))
    """
    normed_names = dict(getattr(type(module), "_weight_norms", {}))
    if name in normed_names:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    weight = getattr(module, name)
    must_have_a_shape(weight, "`WeightNorm`")
    delattr(module, name)
    with no_grad():
        g, v = length(weight, dim), weight.clone()
    module.register_parameter(f"{name}_g", Parameter(g.clone()))
    module.register_parameter(f"{name}_v", Parameter(v))

    def read(self: Any) -> Any:
        return normed(getattr(self, f"{name}_g"), getattr(self, f"{name}_v"), dim)

    members = {name: property(read), "_weight_norms": {**normed_names, name: dim}}
    own_class(module, type(module).__name__, **members)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight an ordinary parameter again, with the value it has.

    Raises ``ValueError`` when ``name`` has no weight norm.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.remove_weight_norm(tj.nn.utils.weight_norm(tj.nn.Linear(2, 3)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if name not in vars(type(module)).get("_weight_norms", {}):
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    with no_grad():
        value = getattr(module, name).clone()
    object.__setattr__(module, "__class__", type(module)._class_before)  # type: ignore[attr-defined]
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    module.register_parameter(name, Parameter(value))
    return module
