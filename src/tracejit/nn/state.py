"""A module's values by name: ``state_dict`` and its way back."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..autograd.grad_mode import no_grad
from ..tensor import Tensor
from .parameter import Parameter
from .structure import changed
from .uninitialized import is_lazy

EXTRA = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """Names that ``load_state_dict`` did not find, and names it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _persistent(module: Any) -> list[tuple[str, Tensor]]:
    """Parameters, then persistent buffers, of one module."""
    buffers = [(n, b) for n, b in module._buffers.items() if n not in module._transient]
    return [(n, t) for n, t in (*module._parameters.items(), *buffers) if t is not None]


def version_of(module: Any) -> int:
    """Which form of values the module's class saves: what its ``_version`` says, 1 where it says nothing.

    Asked of the class, as the attribute of a module counts its changes.
    """
    version: int = getattr(type(module), "_version", 1)
    return version


def save_own(module: Any, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Put the module's own values, without those of its children, into ``destination``."""
    for name, tensor in _persistent(module):
        destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if hasattr(module, "get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()


def state_dict(
    module: Any, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool
) -> OrderedDict[str, Any]:
    """Fill ``destination`` with the module's values, its own before its children's."""
    about = {"version": version_of(module)}
    metadata = getattr(destination, "_metadata", None)
    if metadata is not None:
        metadata[prefix[:-1]] = about
    hooks = module._hooks
    for hook in tuple(hooks.state_pre.values()) if hooks else ():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
    for hook in tuple(hooks.state_post.values()) if hooks else ():
        new = hook(module, destination, prefix, about)
        destination = destination if new is None else new
    return destination


def new_state() -> OrderedDict[str, Any]:
    """An empty dict for values, which has a place for what is known about the modules that they belong to."""
    values: OrderedDict[str, Any] = OrderedDict()
    values._metadata = OrderedDict()  # type: ignore[attr-defined]  # PyTorch's place for it
    return values


def load_state_dict(
    root: Any, values: Mapping[str, Any], strict: bool, assign: bool
) -> _IncompatibleKeys:
    """Load every value that fits, then report names and shapes that do not."""
    if not isinstance(values, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(values)}.")
    about = getattr(values, "_metadata", None) or {}
    loading = _Loading(about, {"assign_to_params_buffers": True} if assign else {}, [], [], [])
    found = _IncompatibleKeys(loading.missing, loading.unexpected)
    _load(root, OrderedDict(values), "", loading, found)
    missing, unexpected = loading.missing, loading.unexpected
    _report(
        type(root).__name__,
        missing if strict else [],
        unexpected if strict else [],
        loading.errors,
    )
    return found


class _Loading(NamedTuple):
    """What is told to every module, and what they report."""

    metadata: Mapping[str, Any]  # what was saved about each module, by its name
    extra: dict[str, Any]  # what every module is told besides
    missing: list[str]
    unexpected: list[str]
    errors: list[str]


def _load(
    module: Any, values: dict[str, Any], prefix: str, loading: _Loading, found: _IncompatibleKeys
) -> None:
    """A module's own values, then those of its children; each child sees the names below it only."""
    about = {**loading.metadata.get(prefix[:-1], {}), **loading.extra}
    module._load_from_state_dict(
        values, prefix, about, True, loading.missing, loading.unexpected, loading.errors
    )
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            own = {key: value for key, value in values.items() if key.startswith(below)}
            _load(child, own, below, loading, found)
    hooks = module._hooks
    for hook in tuple(hooks.load_post.values()) if hooks else ():
        if hook(module, found) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                "new values: change the lists they are given."
            )


def load_own(
    module: Any,
    values: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Load a module's own values; add to the lists what is missing, not known, or does not fit."""
    hooks = module._hooks
    for hook, with_module in tuple(hooks.load_pre.values()) if hooks else ():
        owner = (module,) if with_module else ()
        hook(*owner, values, prefix, metadata, strict, missing, unexpected, errors)
    assign = metadata.get("assign_to_params_buffers", False)
    own = dict(_persistent(module))
    for name, tensor in own.items():
        key = prefix + name
        if key not in values:
            missing.extend([key] if strict else ())
        elif not isinstance(values[key], Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected tracejit.Tensor from checkpoint '
                f"but received {type(values[key])}"
            )
        elif problem := _load_one(module, name, key, tensor, values[key], assign):
            errors.append(problem)
    if hasattr(module, "set_extra_state"):
        if prefix + EXTRA in values:
            module.set_extra_state(values[prefix + EXTRA])
        elif strict:
            missing.append(prefix + EXTRA)
    if strict:
        unexpected.extend(_unknown(module, values, prefix, own))


def _unknown(
    module: Any, values: dict[str, Any], prefix: str, own: dict[str, Tensor]
) -> Iterator[str]:
    """Names below ``prefix`` that belong neither to the module nor to a child."""
    extra = hasattr(module, "set_extra_state")
    for key in values:
        if key.startswith(prefix) and not (extra and key == prefix + EXTRA):
            first, dot, _ = key[len(prefix) :].partition(".")
            if (module._modules.get(first) is None) if dot else (first not in own):
                yield key


def _load_one(
    module: Any, name: str, key: str, current: Tensor, value: Tensor, assign: bool
) -> str | None:
    """Copy (or assign) one value; the problem, if there is one."""
    if is_lazy(current) and is_lazy(value):
        return None
    if current.ndim == 0 and value.shape == (1,):  # numbers had a dimension once
        value = value.reshape(())
    if value.shape != current.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {current.shape}."
        )
    if assign:
        _assign(module, name, current, value)
        return None

    if current.is_meta and not value.is_meta:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
            "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to "
            "their corresponding key in the module instead of copying them in place?)",
            stacklevel=2,
        )
    with no_grad():
        current.copy_(value)
    return None


def _assign(module: Any, name: str, current: Tensor, value: Tensor) -> None:
    """Put the tensor itself in place; a parameter keeps its ``requires_grad``."""
    if name not in module._parameters:
        module._buffers[name] = value
    elif isinstance(value, Parameter):
        module._parameters[name] = value.requires_grad_(current.requires_grad)
    else:
        module._parameters[name] = Parameter(value, requires_grad=current.requires_grad)
    changed(module)


def _report(name: str, missing: list[str], unexpected: list[str], errors: list[str]) -> None:
    lines = []
    if unexpected:
        lines.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
    if missing:
        lines.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    lines += errors
    if lines:
        raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t" + "\n\t".join(lines))


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
