"""Spectral normalisation: a weight divided by its largest singular value (Miyato et al., 2018)."""

from __future__ import annotations

from typing import Any, TypeVar

from ...autograd.grad_mode import no_grad
from ...ops.functions.sampling import randn
from .. import functional as F
from ..convolution import _ConvTranspose
from ..module import Module
from ..parameter import Parameter
from ..uninitialized import must_have_a_shape
from .parametrize import own_class

M = TypeVar("M", bound=Module)

__all__ = ["as_matrix", "default_dim", "iterate", "remove_spectral_norm", "spectral_norm"]


def as_matrix(weight: Any, dim: int) -> Any:
    """``weight`` with dimension ``dim`` as rows and all others as columns.

    >>> import tracejit as tj
    >>> as_matrix(tj.zeros(2, 3, 4), 1).shape
    tracejit.Size([3, 8])
    """
    if dim:
        order = [dim, *(d for d in range(weight.ndim) if d != dim)]
        weight = weight.permute(*order)
    return weight.reshape(weight.shape[0], -1)


def default_dim(module: Module) -> int:
    """The dimension of outputs: 1 for transposed convolutions, else 0.

    >>> import tracejit as tj
    >>> default_dim(tj.nn.ConvTranspose1d(1, 1, 1)), default_dim(tj.nn.Linear(1, 1))
    (1, 0)
    """
    return 1 if isinstance(module, _ConvTranspose) else 0


def iterate(matrix: Any, u: Any, v: Any, rounds: int, eps: float) -> None:
    """Move ``u`` and ``v`` towards the first singular vectors, in place.

    >>> import tracejit as tj
    >>> u, v = tj.tensor([1.0, 1.0]), tj.tensor([1.0, 1.0])
    >>> iterate(tj.tensor([[3.0, 0.0], [0.0, 1.0]]), u, v, 20, 1e-12)
    >>> u
    tensor([1.0000e+00, 2.4676e-19])
    """
    with no_grad():
        for _ in range(rounds):
            u.copy_(F.normalize(matrix @ v, dim=0, eps=eps))
            v.copy_(F.normalize(matrix.T @ u, dim=0, eps=eps))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide the parameter ``name`` by its largest singular value, found by power iteration.

    The parameter becomes ``name_orig``, the singular vectors are the buffers ``name_u`` and ``name_v``; while training
    every call of the module makes ``n_power_iterations`` rounds. Raises ``ValueError`` for less than one round and
    ``RuntimeError`` when the name is normalised already. In new programs use
    ``nn.utils.parametrizations.spectral_norm``.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.spectral_norm(tj.nn.Linear(2, 3), n_power_iterations=50)
    >>> _ = layer(tj.ones(2))
    >>> tj.allclose((layer.weight.T @ layer.weight).trace(), (layer.weight**2).sum())
    True
    """
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        )
    known = dict(getattr(type(module), "_spectral_norms", {}))
    if name in known:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    rows = default_dim(module) if dim is None else dim
    weight = module._parameters[name]
    assert weight is not None
    must_have_a_shape(weight, "`SpectralNorm`")
    matrix = as_matrix(weight.detach(), rows)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for part, size in (("u", matrix.shape[0]), ("v", matrix.shape[1])):
        start = F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps)
        module.register_buffer(f"{name}_{part}", start)

    def read(self: Any) -> Any:
        original, u, v = (getattr(self, f"{name}_{part}") for part in ("orig", "u", "v"))
        u, v = u.clone(), v.clone()  # backward reads them after the next round changed them
        return original / (u @ (as_matrix(original, rows) @ v))

    def before(self: Any, args: Any) -> None:
        if self.training:
            now = as_matrix(getattr(self, f"{name}_orig").detach(), rows)
            u, v = getattr(self, f"{name}_u"), getattr(self, f"{name}_v")
            iterate(now.T, v, u, n_power_iterations, eps)  # v first

    handle = module.register_forward_pre_hook(before)
    members = {name: property(read), "_spectral_norms": {**known, name: handle}}
    own_class(module, type(module).__name__, **members)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight an ordinary parameter again, with the value it has.

    Raises ``ValueError`` when ``name`` is not normalised.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.remove_spectral_norm(tj.nn.utils.spectral_norm(tj.nn.Linear(2, 3)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    known = vars(type(module)).get("_spectral_norms", {})
    if name not in known:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    with no_grad():
        value = getattr(module, name).clone()
    known[name].remove()
    object.__setattr__(module, "__class__", type(module)._class_before)  # type: ignore[attr-defined]
    for part in ("orig", "u", "v"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(value))
    return module
