"""Parametrizations: a parameter or buffer as a function of what is learned.

The module gets a class of its own, in which the name is a property that computes the value at every access. What is
learned is kept in ``module.parametrizations.<name>``, as ``original`` or, where a parametrization takes several
tensors, ``original0``, ``original1``, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ...autograd.grad_mode import no_grad
from ...tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Buffer, Parameter
from ..structure import changed

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

#: How many ``with cached():`` are open, and the values computed inside.
_open = [0]
_values: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once and then remembered.

    >>> import tracejit as tj
    >>> with tj.nn.utils.parametrize.cached():
    ...     pass
    """
    _open[0] += 1
    try:
        yield
    finally:
        _open[0] -= 1
        if not _open[0]:
            _values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other to what is learned."""

    is_tensor: bool
    ntensors: int

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        start = _start(modules, original)
        self.is_tensor = isinstance(start, Tensor)
        parts = _parts(start)
        self.ntensors = len(parts)
        if self.is_tensor and start.dtype is not original.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype: "
                f"{original.dtype} became {start.dtype}"
            )
        for name, part in zip(self._names(), parts, strict=True):
            self._keep(name, part, original)
        if not unsafe:
            self._check(original)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _keep(self, name: str, part: Tensor, original: Tensor) -> None:
        if not isinstance(part, Tensor):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a sequence of tensors, got {type(part).__name__}"
            )
        if isinstance(original, Parameter):
            if self.is_tensor and part.shape == original.shape and part.dtype is original.dtype:
                with no_grad():  # the parameter stays the object that optimizers know
                    original.copy_(part)
                self.register_parameter(name, original)
                return
            self.register_parameter(name, Parameter(part.detach(), original.requires_grad))
        else:
            self.register_buffer(name, part)

    def _check(self, original: Tensor) -> None:
        """What is computed must have the type of the original."""
        with no_grad():
            value = self()
        if not isinstance(value, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
        if value.spec != original.spec:
            raise ValueError(
                "Registering a parametrization may not change the shape or the dtype of the tensor, unless the "
                f"`unsafe` flag is enabled: {original.spec} became {value.spec}"
            )

    def right_inverse(self, value: Tensor) -> None:
        """Set what is learned so that the computed tensor becomes ``value``.

        Raises ``RuntimeError`` where one has no ``right_inverse``, ``ValueError`` for other tensors than are learned.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            parts = _parts(value)
            learned = [getattr(self, name) for name in self._names()]
            if [x.dtype for x in learned] != [getattr(part, "dtype", None) for part in parts]:
                raise ValueError(
                    f"'right_inverse' gave {[getattr(p, 'spec', p) for p in parts]} where "
                    f"{[x.spec for x in learned]} are learned"
                )
            for kept, part in zip(learned, parts, strict=True):
                if kept.shape == part.shape:
                    kept.copy_(part)
                else:
                    kept.data = part.clone()

    def forward(self) -> Any:
        """The computed tensor."""
        found = self[0](*(getattr(self, name) for name in self._names()))
        for step in list(self)[1:]:
            found = step(found)
        return found


def _start(modules: Sequence[Any], value: Any) -> Any:
    """Where to start from so that the modules lead to ``value``, as far as they can say."""
    with no_grad():
        for module in reversed(modules):
            if hasattr(module, "right_inverse"):
                with suppress(NotImplementedError):
                    value = module.right_inverse(value)
    return value


def _parts(start: Any) -> list[Any]:
    """The tensors of a start; ``ValueError`` for what is no tensor, or sequence of them."""
    if not isinstance(start, (Tensor, list, tuple)):
        raise ValueError(
            f"'right_inverse' must return a Tensor or a sequence of tensors, got {type(start).__name__}"
        )
    return [start] if isinstance(start, Tensor) else list(start)


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        if not _open[0]:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _values:
            _values[key] = self.parametrizations[name]()
        return _values[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def own_class(module: Module, label: str, **members: Any) -> type[Module]:
    """Give ``module`` a class of its own with more members."""
    base = type(module)
    cls = type(label, (base,), {**members, "__module__": base.__module__, "_class_before": base})
    object.__setattr__(module, "__class__", cls)
    changed(module)
    return cls


def _check_on_top(value: Tensor, parametrization: Any) -> None:
    """``ValueError`` unless a further parametrization and its inverse keep shape and dtype of what is there.

    What is learned stays as it is: the new value is the parametrization of the old one, as in PyTorch.
    """
    with no_grad():
        new = parametrization(value)
        for found in (new, _start([parametrization], new)):
            if not isinstance(found, Tensor):
                raise ValueError(
                    f"A parametrization and its right_inverse must return a tensor. Got {type(found).__name__}."
                )
            if found.spec != value.spec:
                raise ValueError(
                    "Registering a parametrization may not change the shape or the dtype of the tensor, unless the "
                    f"`unsafe` flag is enabled: {value.spec} became {found.spec}"
                )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make ``module.tensor_name`` the result of ``parametrization(original)``; further ones are applied on top.

    The first one's ``right_inverse``, if there is one, says where to start so that the value stays what it is. Raises
    ``ValueError`` for a name that is neither parameter nor buffer and, unless ``unsafe``, when shape or dtype change.

    >>> import tracejit as tj
    >>> class Symmetric(tj.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = tj.nn.Linear(3, 3)
    >>> _ = tj.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_on_top(getattr(module, tensor_name), parametrization)
        found.append(parametrization)
        found.unsafe |= unsafe
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    found = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        own_class(module, f"Parametrized{type(module).__name__}")
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = found
    changed(module)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module parametrizations, or one for this name?

    >>> import tracejit as tj
    >>> tj.nn.utils.parametrize.is_parametrized(tj.nn.Linear(1, 1))
    False
    """
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that a module had before it was given parametrizations.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.parametrizations.weight_norm(tj.nn.Linear(1, 1))
    >>> type_before_parametrizations(layer) is tj.nn.Linear
    True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make ``module.tensor_name`` an ordinary parameter or buffer again: with the computed value, or the original's.

    Raises ``ValueError`` when the name is not parametrized, or several tensors are learned for it and
    ``leave_parametrized`` is False.

    >>> import tracejit as tj
    >>> layer = tj.nn.utils.parametrizations.weight_norm(tj.nn.Linear(2, 1))
    >>> _ = tj.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    table: Any = module.parametrizations
    found = table[tensor_name]
    learned = [getattr(found, name) for name in found._names()]
    if not leave_parametrized and not found.is_tensor:
        raise ValueError("Cannot leave unparametrized a tensor that is computed from several")
    with no_grad():
        value = getattr(module, tensor_name).clone() if leave_parametrized else learned[0]
    kept: Tensor = learned[0]
    if leave_parametrized and found.is_tensor and kept.spec == value.spec:
        kept.data = value  # other memory, so that what is known of the original keeps its values
        value = kept
    delattr(type(module), tensor_name)
    del table[tensor_name]
    if not len(table):
        del module.parametrizations
        object.__setattr__(module, "__class__", type(module)._class_before)  # type: ignore[attr-defined]
    if isinstance(learned[0], Parameter):
        as_parameter = isinstance(value, Parameter)
        module.register_parameter(tensor_name, value if as_parameter else Parameter(value))
    else:
        module.register_buffer(tensor_name, value if isinstance(value, Buffer) else value.detach())
    changed(module)
    return module
