"""A module's values by name: ``state_dict`` and its way back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..autograd.grad_mode import no_grad
from ..tensor import Tensor
from .parameter import Parameter
from .structure import changed

EXTRA = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """Names that ``load_state_dict`` did not find, and names it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _persistent(module: Any) -> list[tuple[str, Tensor]]:
    """Parameters, then persistent buffers, of one module."""
    buffers = [(n, b) for n, b in module._buffers.items() if n not in module._transient]
    return [(n, t) for n, t in (*module._parameters.items(), *buffers) if t is not None]


def state_dict(
    module: Any, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool
) -> OrderedDict[str, Any]:
    """Fill ``destination`` with the module's values, its own before its children's."""
    for name, tensor in _persistent(module):
        destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if hasattr(module, "get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
    return destination


def load_state_dict(
    root: Any, values: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Load every value that fits, then report names and shapes that do not."""
    if not isinstance(values, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(values)}.")
    missing: list[str] = []
    errors: list[str] = []
    known: set[str] = set()
    for path, module in root.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for name, tensor in _persistent(module):
            key = prefix + name
            known.add(key)
            if key not in values:
                missing.append(key)
            elif not isinstance(values[key], Tensor):
                errors.append(
                    f'While copying the parameter named "{key}", expected tracejit.Tensor from checkpoint '
                    f"but received {type(values[key])}"
                )
            elif problem := _load_one(module, name, key, tensor, values[key], assign):
                errors.append(problem)
        if hasattr(module, "set_extra_state"):
            known.add(prefix + EXTRA)
            if prefix + EXTRA in values:
                module.set_extra_state(values[prefix + EXTRA])
            else:
                missing.append(prefix + EXTRA)
    unexpected = [key for key in values if key not in known]
    _report(type(root).__name__, missing if strict else [], unexpected if strict else [], errors)
    return IncompatibleKeys(missing, unexpected)


def _load_one(
    module: Any, name: str, key: str, current: Tensor, value: Tensor, assign: bool
) -> str | None:
    """Copy (or assign) one value; the problem, if there is one."""
    if value.shape != current.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {current.shape}."
        )
    if assign:
        _assign(module, name, current, value)
        return None

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
