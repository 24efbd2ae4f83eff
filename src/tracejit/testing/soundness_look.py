"""A look at a story's world: every value, flag, identity and overlap that can be seen from its names."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from .fuzz_check import difference

#: Relative to the largest value of a tensor: what other roundings and other orders of sums may change.
TOLERANCE = 3e-4
_HIDDEN = frozenset({"__builtins__", "stage", "__warningregistry__"})
#: Attributes of modules that say what changed, not what is, and what optimizers remember of computing before.
_COUNTERS = frozenset({"_version", "_transient", "_products"})


@dataclass(frozen=True)
class Difference:
    """What differs, in words; ``path`` names an array whose values do."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}: {self.words}" if self.path else self.words


@dataclass
class Look:
    """What was seen after a step: plain facts and arrays by path, and which tensors share memory."""

    step: str
    error: str
    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    shared: set[tuple[str, str]] = field(default_factory=set)
    seen: dict[int, str] = field(default_factory=dict)
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)


def look_at(space: dict[str, Any], step: str, error: str) -> Look:
    """Everything below the names of ``space``, and the process-wide state."""
    look = Look(step, error)
    for name in sorted(space.keys() - _HIDDEN):
        _enter(look, name, space[name], 0)
    _process(look)
    look.spans.sort()
    for number, (_, end, path) in enumerate(look.spans):
        for other_start, _, other in look.spans[number + 1 :]:
            if other_start >= end:
                break
            look.shared.add((min(path, other), max(path, other)))
    look.seen.clear()
    look.alive.clear()
    return look


def _process(look: Look) -> None:
    import tracejit as tj

    look.facts["grad mode"] = tj.is_grad_enabled()
    look.facts["default dtype"] = str(tj.get_default_dtype())
    look.facts["random state"] = tj.get_rng_state().tolist()
    look.facts["random state of Python"] = hash(random.getstate())
    state: Any = np.random.get_state()
    look.facts["random state of NumPy"] = (hash(state[1].tobytes()), state[2])


def _enter(look: Look, path: str, value: Any, depth: int) -> None:
    import tracejit as tj

    if isinstance(value, (bool, int, str, bytes, type(None), complex, np.dtype, tj.dtype, tj.Size)):
        look.facts[path] = (type(value).__name__, value)
    elif isinstance(value, float):
        look.facts[path] = "float"
        look.arrays[path] = np.asarray(value)
    elif id(value) in look.seen:
        look.facts[path] = f"is {look.seen[id(value)]}"
    elif depth < 12:
        look.seen[id(value)] = path
        look.alive.append(value)
        if isinstance(value, tj.Tensor):
            _tensor(look, path, value, depth)
        else:
            _inside(look, path, value, depth)


def _tensor(look: Look, path: str, tensor: Any, depth: int) -> None:
    array = tensor.detach().numpy()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    strides = tuple(s for n, s in pairs if n > 1) if tensor.numel() else ()
    look.facts[path] = (str(tensor.spec), strides, tensor.requires_grad, *_history(tensor))
    look.facts[f"{path}._version"] = None if tensor.is_inference() else tensor._version
    look.arrays[path] = np.array(array)
    if array.size:
        low, high = np.lib.array_utils.byte_bounds(array)
        look.spans.append((int(low), int(high), path))
    if tensor._grad is not None:
        _enter(look, f"{path}.grad", tensor._grad, depth + 1)
    for key, value in sorted(vars(tensor).items()):
        if not hasattr(type(tensor), key):
            _enter(look, f"{path}.{key}", value, depth + 1)


def _history(tensor: Any) -> tuple[Any, ...]:
    """Whether it is a leaf, and has a node; views that may no longer be used say so when they are asked."""
    try:
        return tensor.is_leaf, tensor.grad_fn is not None
    except RuntimeError as error:
        return (str(error).partition("\n")[0],)


def _inside(look: Look, path: str, value: Any, depth: int) -> None:
    """What an object that is no tensor holds."""
    import tracejit as tj

    if isinstance(value, (ModuleType, CodeType, BuiltinFunctionType)):
        return
    look.facts[path] = "dict" if isinstance(value, dict) else type(value).__name__
    if isinstance(value, np.ndarray):
        look.arrays[path] = value.copy()
    elif isinstance(value, dict):
        # Hooks are numbered through the whole process; what tensors print as is no matter of keys.
        keys = [n if isinstance(k, (int, tj.Tensor)) else str(k) for n, k in enumerate(value)]
        look.facts[f"keys of {path}"] = keys
        for key, item in zip(keys, value.values(), strict=True):
            _enter(look, f"{path}[{key!r}]", item, depth + 1)
    elif isinstance(value, (list, tuple, deque)):
        look.facts[f"len of {path}"] = len(value)
        for number, item in enumerate(value):
            _enter(look, f"{path}[{number}]", item, depth + 1)
    elif isinstance(value, (set, frozenset)):
        look.facts[path] = sorted(map(str, value))
    elif isinstance(value, (FunctionType, MethodType)):
        _function(look, path, value, depth)
    else:
        _object(look, path, value, depth)


def _function(look: Look, path: str, function: Any, depth: int) -> None:
    if function.__module__ != "story":
        return
    look.facts[f"code of {path}"] = function.__code__.co_name
    _enter(look, f"{path}.__defaults__", function.__defaults__, depth + 1)
    _enter(look, f"{path}.__kwdefaults__", function.__kwdefaults__, depth + 1)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        _enter(look, f"{name} in {path}", _content(cell), depth + 1)
    for key, value in sorted(vars(function).items()):
        _enter(look, f"{path}.{key}", value, depth + 1)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing"


def _object(look: Look, path: str, value: Any, depth: int) -> None:
    import tracejit as tj

    inner = getattr(value, "function", None) or getattr(value, "_orig_mod", None)
    if inner is not None and type(value).__module__.startswith("tracejit."):
        del look.facts[path]  # compiled: the same as what it compiles
        look.seen.pop(id(inner), None)
        _enter(look, path, inner, depth)
        return
    if isinstance(value, tj.Generator):
        look.facts[path] = value.get_state().tolist()
        return
    ours = value.__module__ if isinstance(value, type) else type(value).__module__
    kinds = tj.nn.Module, tj.optim.Optimizer, tj.optim.lr_scheduler.LRScheduler, SimpleNamespace
    watched = ours == "story" or isinstance(value, kinds)
    fields: Any = getattr(value, "__dict__", {}) if watched else {}
    for owner in type(value).__mro__ if type(value).__module__ == "story" else ():
        for key in vars(owner).get("__slots__", ()):
            _enter(look, f"{path}.{key}", getattr(value, key, "nothing"), depth + 1)
    for key in sorted(fields.keys() - _COUNTERS):
        if not key.startswith("__") and not isinstance(fields[key], (property, staticmethod)):
            _enter(look, f"{path}.{key}", fields[key], depth + 1)


# --- comparison ---------------------------------------------------------------------------------------------------


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def compare(expected: Look, found: Look) -> Difference | None:
    """The first difference between two looks."""
    words = facts_differ(expected, found)
    if words:
        return Difference("", words)
    for path, array in expected.arrays.items():
        other = found.arrays.get(path)
        if other is not None and _same_bits(array, other):
            continue
        text = difference(array, other, TOLERANCE)
        if text:
            return Difference(path, text)
    return None


def facts_differ(expected: Look, found: Look) -> str:
    """The first difference between two looks in words, values of arrays aside, or an empty string."""
    if expected.error != found.error:
        return f"eager: {expected.error or 'no error'}; compiled: {found.error or 'no error'}"
    for path, fact in expected.facts.items():
        if path not in found.facts or found.facts[path] != fact:
            return f"{path}: eager {fact}, compiled {found.facts.get(path, 'has none')}"
    for path in found.facts:
        if path not in expected.facts:
            return f"{path}: eager has none, compiled {found.facts[path]}"
    for a, b in sorted(expected.shared ^ found.shared):
        who = "eager" if (a, b) in expected.shared else "compiled"
        return f"{a} and {b} share memory only where they are {who}"
    return ""
