"""Pruning: weights that a mask sets to zero. The weight is kept as ``<name>_orig``, the mask as ``<name>_mask``.

The module gets a class of its own, in which the name is their product, computed at every access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...autograd.grad_mode import no_grad
from ...ops.functions.joining import cat
from ...ops.functions.sampling import rand
from ..module import Module
from ..parameter import Parameter
from .parametrize import own_class

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
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


def _count(amount: Any, size: int) -> int:
    """How many of ``size`` entries are pruned: a number of them, or a share."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, float) and not 0.0 <= amount <= 1.0) or amount < 0:
        raise ValueError(
            f"amount={amount} should either be a float in [0, 1] or a non-negative int"
        )
    if isinstance(amount, int) and amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount if isinstance(amount, int) else round(amount * size)


class BasePruningMethod:
    """A rule for masks: subclasses define ``compute_mask(t, default_mask)``.

    ``PRUNING_TYPE`` says what is pruned once more of a weight that is pruned already: single entries that are left
    ("unstructured"), slices along ``dim`` that are left ("structured"), or everything ("global").

    >>> import tracejit as tj
    >>> class EveryOther(tj.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> EveryOther.apply(tj.nn.Linear(2, 2), "bias").bias_mask
    tensor([0., 1.])
    """

    PRUNING_TYPE = "unstructured"
    dim = -1

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of ``t``, from one that is all ones."""
        raise NotImplementedError

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune ``module.name`` by a method of these arguments; the module."""
        method = cls(*args, **kwargs)
        old = module._buffers.get(f"{name}_mask")
        weight = getattr(module, f"{name}_orig" if old is not None else name)
        scores = weight if importance_scores is None else importance_scores
        if scores.shape != weight.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        with no_grad():
            mask = method._further(scores.detach(), weight.new_ones(weight.shape), old)
        if old is not None:
            module._buffers[f"{name}_mask"] = mask
            _show(module, _names(module))
            return module
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        module.register_buffer(f"{name}_mask", mask.to(weight.dtype))
        _show(module, (*_names(module), name))
        return module

    def _further(self, scores: Any, ones: Any, old: Any) -> Any:
        """The mask of all that is left by an old one."""
        if old is None:
            return self.compute_mask(scores, ones)
        mask = old.clone()
        if self.PRUNING_TYPE == "unstructured":
            left = mask == 1
        elif self.PRUNING_TYPE == "structured":
            others = [d for d in range(scores.ndim) if d != self.dim % scores.ndim]
            kept = mask.sum(others) != 0
            left = (slice(None),) * (self.dim % scores.ndim) + (kept,)
        else:
            left = ...
        mask[left] = self.compute_mask(scores[left], mask[left]).to(mask.dtype)
        return mask

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` times its mask."""
        scores = t if importance_scores is None else importance_scores
        ones = t.new_ones(t.shape) if default_mask is None else default_mask
        with no_grad():
            mask = self.compute_mask(scores.detach(), ones)
        return t * mask.to(t.dtype)


class Identity(BasePruningMethod):
    """Prunes nothing; the mask is there."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """All ones."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes ``amount`` entries (a number or a share) at random."""

    def __init__(self, amount: Any) -> None:
        _count(amount, 1 << 62)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where random numbers are largest."""
        return _without(default_mask, rand(t.shape), _count(self.amount, t.numel()))


class L1Unstructured(RandomUnstructured):
    """Prunes the ``amount`` entries (a number or a share) of least absolute value."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where absolute values are least."""
        return _without(default_mask, -t.abs(), _count(self.amount, t.numel()))


def _without(mask: Any, ranks: Any, count: int) -> Any:
    """``mask`` with zeros at the ``count`` entries that rank highest."""
    flat = mask.clone().reshape(-1)
    if count:
        flat[ranks.reshape(-1).topk(count).indices] = 0
    return flat.reshape(mask.shape)


class RandomStructured(BasePruningMethod):
    """Prunes ``amount`` slices (a number or a share) along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _count(amount, 1 << 62)
        self.amount, self.dim = amount, dim

    def _ranks(self, t: Any) -> Any:
        """One number for each slice: the lowest are pruned."""
        return rand(t.shape[self.dim])

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero in the slices that rank lowest."""
        if t.ndim < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. "
                f"Found tensor of shape {t.shape} with {t.ndim} dims"
            )
        ranks = self._ranks(t)
        kept = _without(ranks.new_ones(ranks.shape), -ranks, _count(self.amount, ranks.numel()))
        shape = [1] * t.ndim
        shape[self.dim] = ranks.numel()
        return default_mask * kept.reshape(shape)


class LnStructured(RandomStructured):
    """Prunes the ``amount`` slices (a number or a share) along ``dim`` of least ``n``-norm."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _ranks(self, t: Any) -> Any:
        return t.norm(p=self.n, dim=[d for d in range(t.ndim) if d != self.dim % t.ndim])


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero where either mask is."""
        return default_mask * self.mask.to(default_mask.dtype)


def _names(module: Any) -> tuple[str, ...]:
    """The pruned tensors of a module."""
    return tuple(getattr(type(module), "_pruned", ()))


def _show(module: Any, names: Iterable[str]) -> None:
    """Let ``names`` and no others be read as products."""
    names = tuple(dict.fromkeys(names))
    kind = type(module)
    if "_pruned" in vars(kind):
        object.__setattr__(module, "__class__", kind._class_before)
    members = {name: property(_reader(name)) for name in names}
    if names:
        own_class(module, kind.__name__, _pruned=names, **members)


def _reader(name: str) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        return getattr(self, f"{name}_mask") * getattr(self, f"{name}_orig")

    return read


def identity(module: Any, name: str) -> Any:
    """Give ``module.name`` a mask of ones; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.identity(tj.nn.Linear(1, 1), "weight").weight_mask
    tensor([[1.]])
    """
    return Identity.apply(module, name)


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune ``amount`` entries (a number or a share) at random; the module.

    Raises ``ValueError`` for an amount that is negative or too large.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.random_unstructured(tj.nn.Linear(2, 2), "weight", 3).weight_mask.sum()
    tensor(1.)
    """
    return RandomUnstructured.apply(module, name, amount)


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` entries of least absolute value, or of least score; the module.

    Raises ``ValueError`` for an amount that is negative or too large.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.prune.l1_unstructured(tj.nn.Linear(2, 2), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum())
    2
    """
    return L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune ``amount`` slices along ``dim`` at random; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.random_structured(tj.nn.Linear(2, 2), "weight", 1, dim=0).weight_mask.sum()
    tensor(2.)
    """
    return RandomStructured.apply(module, name, amount, dim)


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the ``amount`` slices along ``dim`` of least ``n``-norm; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.ln_structured(tj.nn.Linear(2, 2), "weight", 1, 2, dim=1).weight_mask.sum()
    tensor(2.)
    """
    return LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune by ``mask``; the module.

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.custom_from_mask(tj.nn.Linear(1, 2), "bias", tj.tensor([0, 1])).bias_mask
    tensor([0., 1.])
    """
    return CustomFromMask.apply(module, name, mask)


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
    pairs, scores = list(parameters), importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`.')
    values = [scores.get(pair, getattr(*pair)).detach() for pair in pairs]
    old = [getattr(module, f"{name}_mask", None) for module, name in pairs]
    ones = [v.new_ones(v.shape) if m is None else m for v, m in zip(values, old, strict=True)]
    with no_grad():
        flat = cat([v.reshape(-1) for v in values])
        known = cat([m.reshape(-1) for m in ones])
        mask = pruning_method(**kwargs)._further(
            flat, known, known if any(m is not None for m in old) else None
        )
    for (module, name), part, value in zip(
        pairs, mask.split([v.numel() for v in values]), values, strict=True
    ):
        custom_from_mask(module, name, part.reshape(value.shape))


def remove(module: Any, name: str) -> Any:
    """Make the pruned weight an ordinary parameter with the zeros it has; the module.

    Raises ``ValueError`` when ``name`` is not pruned.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.prune.l1_unstructured(tj.nn.Linear(2, 2), "weight", 1)
    >>> sorted(dict(tj.nn.utils.prune.remove(layer, "weight").named_parameters()))
    ['bias', 'weight']
    """
    if name not in _names(module):
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    original = module._parameters[f"{name}_orig"]
    with no_grad():
        original.copy_(original * module._buffers[f"{name}_mask"])
    _show(module, [other for other in _names(module) if other != name])
    delattr(module, f"{name}_orig")
    delattr(module, f"{name}_mask")
    module.register_parameter(name, original if isinstance(original, Parameter) else None)
    return module


def is_pruned(module: Module) -> bool:
    """Is something pruned in the module, or in one below it?

    >>> import tracejit as tj
    >>> tj.nn.utils.prune.is_pruned(tj.nn.Linear(1, 1))
    False
    """
    return any(_names(inner) for inner in module.modules())
