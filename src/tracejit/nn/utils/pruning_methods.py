"""What a method of pruning is, and several of them one after the other: hooks of the module that they prune.

The weight is kept as ``<name>_orig``, the mask as ``<name>_mask``. The module gets a class of its own, in which the
name is their product, computed at every access; the hook that tells of the method has nothing left to do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...ops.functions.factories import ones_like
from .parametrize import own_class

__all__ = ["BasePruningMethod", "PruningContainer", "forget", "method_of"]


class BasePruningMethod(ABC):
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
    >>> layer = tj.nn.Linear(2, 2)
    >>> hook = EveryOther.apply(layer, "bias")
    >>> layer.bias_mask
    tensor([0., 1.])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        """Nothing: the weight is the product already."""
        return

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of ``t``, or of scores, from what is left of it."""

    def apply_mask(self, module: Any) -> Any:
        """The weight times its mask."""
        return _product(module, self._tensor_name)

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune ``module.name`` by a method of these arguments; the method that the module has as a hook now."""
        old = method_of(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if old is not None:
            method = _after(old, method)
        weight = getattr(module, name)
        scores = weight if importance_scores is None else importance_scores
        if scores.shape != weight.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {weight.shape}"
            )
        if old is None:
            mask = method.compute_mask(scores, default_mask=ones_like(weight))
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", weight)
        else:
            known = getattr(module, f"{name}_mask").detach().clone()
            mask = method.compute_mask(scores, default_mask=known)
            forget(module, old)
        module.register_buffer(f"{name}_mask", mask)
        module.register_forward_pre_hook(method)
        _show(module, (*_names(module), name))
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` times its mask."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, "
                f"got {scores.shape} vs {t.shape}"
            )
        known = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=known)

    def remove(self, module: Any) -> None:
        """Make the weight of the module an ordinary parameter with the zeros it has."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        _show(module, [other for other in _names(module) if other != name])
        original = module._parameters[f"{name}_orig"]
        original.data = weight.data
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Methods that pruned one weight one after the other; the last one says what is pruned of what is left.

    >>> import tracejit as tj
    >>> prune, layer = tj.nn.utils.prune, tj.nn.Linear(2, 2)
    >>> layer = prune.l1_unstructured(prune.l1_unstructured(layer, "weight", 1), "weight", 1)
    >>> [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
    ['PruningContainer']
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add one more method for the same name.

        Raises ``TypeError`` for something else, ``ValueError`` for one of another name.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of what the last method leaves of ``default_mask``."""
        method = self._pruning_methods[-1]
        left = _left(method, t, default_mask)
        mask = default_mask.to(t.dtype)
        further = method.compute_mask(t[left], default_mask=default_mask[left])
        mask[left] = further.to(mask.dtype)
        return mask


def _left(method: Any, t: Any, mask: Any) -> Any:
    """What a method prunes of, where a mask is there already."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return (slice(None),) * t.ndim
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dim = method.dim + t.ndim if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
    kept = mask.sum(dim=[d for d in range(t.ndim) if d != dim]) != 0
    return (slice(None),) * dim + (kept,)


def _after(old: BasePruningMethod, method: BasePruningMethod) -> PruningContainer:
    """The methods of ``old``, and one more."""
    found = old if isinstance(old, PruningContainer) else PruningContainer(old)
    found.add_pruning_method(method)
    return found


def method_of(module: Any, name: str) -> BasePruningMethod | None:
    """The hook that tells how ``module.name`` is pruned.

    >>> import tracejit as tj
    >>> method_of(tj.nn.Linear(1, 1), "weight")
    """
    found = [
        hook
        for hook in module._forward_pre_hooks.values()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    return found[0] if found else None


def forget(module: Any, method: BasePruningMethod | None) -> None:
    """Take the hook of a method away.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.prune.identity(tj.nn.Linear(1, 1), "weight")
    >>> forget(layer, method_of(layer, "weight"))
    >>> tj.nn.utils.prune.is_pruned(layer)
    False
    """
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is method:
            del module._forward_pre_hooks[key]


def _names(module: Any) -> tuple[str, ...]:
    """The pruned tensors of a module."""
    return tuple(getattr(type(module), "_pruned", ()))


def _show(module: Any, names: Iterable[str]) -> None:
    """Let ``names`` and no others be read as products."""
    names = tuple(dict.fromkeys(names))
    kind = type(module)
    if "_pruned" in vars(kind):
        object.__setattr__(module, "__class__", kind._class_before)
    if names:
        members = {name: property(_reader(name)) for name in names}
        own_class(module, kind.__name__, _pruned=names, **members)


def _product(module: Any, name: str) -> Any:
    original = getattr(module, f"{name}_orig")
    return getattr(module, f"{name}_mask").to(original.dtype) * original


def _reader(name: str) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        method = method_of(self, name)
        return _product(self, name) if method is None else method.apply_mask(self)

    return read
