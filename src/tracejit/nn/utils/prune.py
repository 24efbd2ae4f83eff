"""Pruning: weights that a mask sets to zero, by methods that say where."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...ops.functions.factories import ones_like
from ...ops.functions.sampling import rand
from ...ops.table import FUNCTIONS
from ..module import Module
from .convert_parameters import parameters_to_vector
from .pruning_methods import BasePruningMethod, PruningContainer, forget, method_of

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _count(amount: Any, size: int) -> int:
    """How many of ``size`` entries are pruned: a number of them, or a share."""
    if not isinstance(amount, numbers.Integral):
        share: int = round(amount * size)
        return share
    if int(amount) > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return int(amount)


class Identity(BasePruningMethod):
    """Prunes nothing; the mask is there."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """All ones."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes ``amount`` entries (a number or a share) at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where random numbers are largest."""
        return _without(default_mask, FUNCTIONS["rand_like"](t), _count(self.amount, t.numel()))


class L1Unstructured(BasePruningMethod):
    """Prunes the ``amount`` entries (a number or a share) of least absolute value."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where absolute values are least."""
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()), largest=False)


def _without(mask: Any, ranks: Any, count: int, largest: bool = True) -> Any:
    """``mask`` with zeros at the ``count`` entries that rank highest, or lowest."""
    found = mask.clone().contiguous()
    if count:
        with no_grad():
            found.view(-1)[ranks.view(-1).topk(count, largest=largest).indices] = 0
    return found


def _check_slices(t: Any, dim: int) -> None:
    if t.ndim < 2:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {t.shape} with {t.ndim} dims"
        )
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _only(t: Any, default_mask: Any, ranks: Any, dim: int, amount: Any) -> Any:
    """The part of ``default_mask`` in the slices that rank highest."""
    count = _count(amount, ranks.numel())
    if not count:
        return default_mask
    with no_grad():
        kept = ranks.new_zeros(ranks.shape, dtype=t.dtype)
        kept[ranks.topk(ranks.numel() - count).indices] = 1
        shape = [1] * t.ndim
        shape[dim] = ranks.numel()
        return kept.reshape(shape) * default_mask.to(t.dtype)


class RandomStructured(BasePruningMethod):
    """Prunes ``amount`` slices (a number or a share) along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero in the slices whose random numbers are least."""
        _check_slices(t, self.dim)
        return _only(t, default_mask, rand(t.shape[self.dim]), self.dim, self.amount)


class LnStructured(BasePruningMethod):
    """Prunes the ``amount`` slices (a number or a share) along ``dim`` of least ``n``-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero in the slices of least norm."""
        _check_slices(t, self.dim)
        norms = t.norm(p=self.n, dim=[d for d in range(t.ndim) if d != self.dim % t.ndim])
        return _only(t, default_mask, norms, self.dim, self.amount)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where either mask is."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give ``module.name`` a mask of ones; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.identity(tj.nn.Linear(1, 1), "weight").weight_mask
    tensor([[1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune ``amount`` entries (a number or a share) at random; the module.

    Raises ``ValueError`` for an amount that is negative or too large.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.random_unstructured(tj.nn.Linear(2, 2), "weight", 3).weight_mask.sum()
    tensor(1.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` entries of least absolute value, or of least score; the module.

    Raises ``ValueError`` for an amount that is negative or too large.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.prune.l1_unstructured(tj.nn.Linear(2, 2), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum())
    2
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune ``amount`` slices along ``dim`` at random; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.random_structured(tj.nn.Linear(2, 2), "weight", 1, dim=0).weight_mask.sum()
    tensor(2.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the ``amount`` slices along ``dim`` of least ``n``-norm; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.ln_structured(tj.nn.Linear(2, 2), "weight", 1, 2, dim=1).weight_mask.sum()
    tensor(2.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune by ``mask``; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.custom_from_mask(tj.nn.Linear(1, 2), "bias", tj.tensor([0, 1])).bias_mask
    tensor([0., 1.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune all of these tensors as if they were one.

    ``importance_scores`` has scores by module and name. Raises ``TypeError`` for a method that prunes slices.

    >>> import tracejit as tj
    >>> prune, layer = tj.nn.utils.prune, tj.nn.Linear(2, 2)
    >>> both = [(layer, "weight"), (layer, "bias")]
    >>> prune.global_unstructured(both, prune.L1Unstructured, amount=2)
    >>> int(layer.weight_mask.sum() + layer.bias_mask.sum())
    4
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    weights = [getattr(module, name) for module, name in pairs]
    scores = [given.get(pair, weight) for pair, weight in zip(pairs, weights, strict=True)]
    known = [
        getattr(module, f"{name}_mask", ones_like(weight))
        for (module, name), weight in zip(pairs, weights, strict=True)
    ]
    method: Any = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    mask = PruningContainer(method).compute_mask(
        parameters_to_vector(scores), parameters_to_vector(known)
    )
    parts = mask.split([weight.numel() for weight in weights])
    for (module, name), part, weight in zip(pairs, parts, weights, strict=True):
        custom_from_mask(module, name, part.view_as(weight))


def remove(module: Any, name: str) -> Any:
    """Make the pruned weight an ordinary parameter with the zeros it has; the module.

    Raises ``ValueError`` when ``name`` is not pruned.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.prune.l1_unstructured(tj.nn.Linear(2, 2), "weight", 1)
    >>> sorted(dict(tj.nn.utils.prune.remove(layer, "weight").named_parameters()))
    ['bias', 'weight']
    """
    method = method_of(module, name)
    if method is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    method.remove(module)
    forget(module, method)
    return module


def is_pruned(module: Module) -> bool:
    """Is something pruned in the module, or in one below it?

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.is_pruned(tj.nn.Linear(1, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
