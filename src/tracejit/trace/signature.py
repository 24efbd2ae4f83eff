"""What makes two calls alike: the structure of the arguments, every tensor's layout, every other value.

Arguments are flattened through tuples, lists, dicts, dataclasses, named tuples and objects made for the call; the
leaves that are tensors become inputs, all others are part of the key.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ..device import device
from ..dtypes import DType
from ..extents import Extent
from ..ir.builder import attribute_key
from ..layout import layout_of
from ..numpy_numbers import NUMBERS
from ..ops.mixin import Size
from ..standing import stands
from ..tensor import Tensor
from .arrays.arguments import ArgumentArray, ArrayForm
from .arrays.unread import ArgumentPart
from .numbers.plain_parts import plain_parts, varying_parts
from .sizes.found_sizes import plain
from .state.values import added_to, describe, items_of, token

MAPPINGS = (dict, OrderedDict)
#: Classes whose objects are taken apart into their attributes, because they are made for the call (see `objects`).
APART: set[type] = set()


class Static:
    """A non-tensor leaf in a key: compared by type and value, or by identity when it is an object."""

    __slots__ = ("hash", "identity", "token", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.token = (device, value) if type(value) is device else token(value)
        self.identity = self.token[0] is None
        self.hash = hash(self.token)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and bool(self.token == other.token)

    def __repr__(self) -> str:
        return describe(self.value)


def statics_in(key: Any) -> Iterator[Static]:
    """The leaves of a key, or of the structure in it, that are no tensors.

    >>> [*statics_in((1, (Static(3), (Static("a"),))))]
    [3, 'a']
    """
    if isinstance(key, Static):
        yield key
    elif isinstance(key, tuple):
        for part in key:
            yield from statics_in(part)


class SizeLeaf:
    """A size that the run told, among what it returned."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeLeaf) and attribute_key(self.value) == attribute_key(
            other.value
        )

    def __hash__(self) -> int:
        return hash(attribute_key(self.value))


@dataclasses.dataclass(frozen=True)
class Given:
    """In the structure of a result: the list, dict or object at a ``position`` among the arguments' (`containers`)."""

    position: int


def fields_of(value: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass instance that is nothing but its fields, or of an object taken apart; else None."""
    if type(value) in APART:
        return tuple(vars(value))
    if isinstance(value, (type, DType)) or not dataclasses.is_dataclass(value):
        return None
    if hasattr(value, "_parameters") or isinstance(value, (dict, list, tuple)):
        return None  # a module, or a container with fields besides what it contains
    names = tuple(f.name for f in dataclasses.fields(value))
    known = all(hasattr(value, name) for name in names)
    return names if known and set(getattr(value, "__dict__", ())) <= set(names) else None


def is_named_tuple(value: tuple[Any, ...]) -> bool:
    """Is this a named tuple that is nothing but its fields?

    >>> from collections import namedtuple
    >>> Point = type("Point", (namedtuple("Pair", "x y"),), {})
    >>> point = Point(1, 2)
    >>> before = is_named_tuple(point)
    >>> point.unit = "m"
    >>> before, is_named_tuple(point), is_named_tuple((1, 2))
    (True, False, False)
    """
    kind = type(value)
    return hasattr(kind, "_fields") and kind.__iter__ is tuple.__iter__ and not added_to(value)


def flatten(value: Any, leaves: list[Any], numbers: list[Any] | None = None) -> Any:
    """Append the leaves of a nested value to ``leaves``; return its structure, hashable.

    With ``numbers``, ints and floats are appended to that, and the structure has their classes.
    """
    kind = type(value)
    if isinstance(value, Tensor):
        leaves.append(value)
        return None
    if kind is tuple or kind is list:
        return (kind, tuple([flatten(v, leaves, numbers) for v in value]))
    if numbers is not None and kind in NUMBERS:
        numbers.append(value)
        return kind
    if isinstance(value, tuple) and is_named_tuple(value):
        return (kind, tuple([flatten(v, leaves, numbers) for v in value]))
    if kind in MAPPINGS:
        parts = [
            (Static(k if type(k) is str else plain_parts(k)), flatten(v, leaves, numbers))
            for k, v in value.items()
        ]
        return (kind, tuple(parts))
    names = fields_of(value)
    if names is not None:
        fields = [(n, flatten(getattr(value, n), leaves, numbers)) for n in names]
        return (kind, tuple(fields))
    if stands(value):
        leaves.append(value)
        return None
    if kind is slice or kind is Size:
        varying = varying_parts(value)
        if varying is not None:
            return (kind, tuple([flatten(v, leaves, numbers) for v in varying]))
    if kind is ArgumentArray or kind is ArgumentPart:
        return _flatten_taken(value, leaves, numbers)
    if kind is Extent or (kind is Size and any(type(x) is Extent for x in value)):
        return SizeLeaf(value)
    return Static(plain_parts(value) if kind is frozenset else value)


def _flatten_taken(value: Any, leaves: list[Any], numbers: list[Any] | None) -> Any:
    """The structure of what stands for an argument."""
    if type(value) is ArgumentPart:
        return flatten(value.shown, leaves, numbers)
    leaves.append(value.tensor)
    return value.form


def containers(value: Any, found: list[Any]) -> list[Any]:
    """Every list, dict and object that :func:`flatten` takes apart, each as often as it occurs."""
    children: Any = ()
    given = value
    if type(value) is ArgumentPart:
        given, value = value.given, value.shown
    kind = type(value)
    if kind in MAPPINGS:
        children = value.values()
    elif isinstance(value, tuple) or kind is list:
        children = items_of(value)
    elif not isinstance(value, Tensor):
        names = fields_of(value)
        if names is None:
            return found
        children = [getattr(value, n) for n in names]
    if not isinstance(value, (tuple, Tensor)):
        found.append(given)
    for child in children:
        containers(child, found)
    return found


class _HandedIn(threading.local):
    """Lists, dicts and objects among the arguments of the call that a thread has under way, as they came."""

    containers: Sequence[Any] = ()


HANDED_IN = _HandedIn()


def unflatten(structure: Any, leaves: Any) -> Any:
    """The nested value of a structure, taking leaves from an iterator."""
    if structure is None:
        return next(leaves)
    if isinstance(structure, Given):
        return HANDED_IN.containers[structure.position]
    if isinstance(structure, Static):
        return structure.value
    if isinstance(structure, SizeLeaf):
        return plain(structure.value)
    kind, children = structure
    if kind in MAPPINGS:
        return kind((key.value, unflatten(child, leaves)) for key, child in children)
    if kind in (tuple, list, Size):
        return kind(unflatten(child, leaves) for child in children)
    if issubclass(kind, (tuple, slice)):
        return kind(*(unflatten(child, leaves) for child in children))
    base: Any = SimpleNamespace if issubclass(kind, SimpleNamespace) else object
    result = base.__new__(kind)
    for name, child in children:
        object.__setattr__(result, name, unflatten(child, leaves))
    return result


def leaf_count(structure: Any) -> int:
    """How many leaves something of this structure has."""
    if structure is None or type(structure) is ArrayForm:
        return 1
    if not isinstance(structure, tuple):
        return 0
    kind, children = structure
    pairs = kind in MAPPINGS or not issubclass(kind, (tuple, list, slice))
    return sum(leaf_count(child[1] if pairs else child) for child in children)


def holder_count(structure: Any) -> int:
    """How many lists, dicts and objects hold numbers, in a structure that has classes for these.

    >>> holder_count(flatten(([1], 2, {"a": (3, 4), "b": [5]}), [], []))
    3
    """
    if not isinstance(structure, tuple):
        return 0
    kind, children = structure
    is_tuple = issubclass(kind, tuple)
    parts = children if is_tuple or kind in (list, slice) else [x for _, x in children]
    own = not is_tuple and any(_has_numbers(x) for x in parts)
    return own + sum(map(holder_count, parts))


def _has_numbers(structure: Any) -> bool:
    """Is this a number, or a tuple of some?"""
    if isinstance(structure, tuple):
        kind, children = structure
        return issubclass(kind, tuple) and any(map(_has_numbers, children))
    return isinstance(structure, type)


def statics_of(structure: Any) -> list[Any]:
    """What Python state can hang on among the other parts: objects, and the classes of dataclasses and the like."""
    if structure is None or isinstance(structure, (SizeLeaf, ArrayForm)):
        return []
    if isinstance(structure, Static):
        holding = (
            isinstance(structure.value, (tuple, frozenset, slice))
            and type(structure.value) is not Size
        )
        return [structure.value] if structure.identity or holding else []
    kind, children = structure
    pairs = kind in MAPPINGS or not issubclass(kind, (tuple, list, slice))
    found = [s for child in children for s in statics_of(child[1] if pairs else child)]
    return found if kind in (tuple, list, Size, slice, *MAPPINGS) else [kind, *found]


def first_position(tensors: Sequence[Tensor], tensor: Tensor) -> int:
    """Position of the first leaf that is the same tensor."""
    return next(i for i, t in enumerate(tensors) if t is tensor)


def tensor_key(tensor: Tensor) -> tuple[type, Any, bool | None, bool]:
    """Class, layout, whether gradients are wanted, and whether it is an inference tensor."""
    layout = tensor._layout or layout_of(tensor)
    return type(tensor), layout, tensor._flows, tensor._inference


def call_key(modes: tuple[Any, ...], structure: Any, tensors: Sequence[Tensor]) -> Any:
    """What calls that one recording may serve have in common: modes, arguments, tensors, and which of these are one."""
    key = (*modes, structure, *map(tensor_key, tensors))
    count = len(tensors)
    if count > 1 and len(set(map(id, tensors))) != count:
        key = (*key, tuple([first_position(tensors, t) for t in tensors]))
    return key


def is_tensor(value: Any) -> bool:
    """Is this a tensor, or an array that counts as one?"""
    return isinstance(value, (Tensor, ArgumentArray))


def is_number(value: Any) -> bool:
    """Is this an int or a float, Python's or NumPy's, and nothing more special?"""
    return type(value) in NUMBERS


def leaf_names(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wanted: Callable[[Any], bool] = is_tensor,
) -> list[str]:
    """A readable name, after the parameters of ``function``, for every ``wanted`` leaf, in order of :func:`flatten`."""
    given = _parameter_names(function, len(args))
    names: list[str] = []
    for name, value in (*zip(given, args, strict=True), *kwargs.items()):
        _name_leaves(value, name, names, wanted)
    return unique(names)


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Names for ``count`` positional arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    named = [p.name for p in parameters if p.kind in kinds][:count]
    rest = next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "arg")
    return named + [f"{rest}{i}" for i in range(count - len(named))]


def _name_leaves(
    value: Any, name: str, names: list[str], wanted: Callable[[Any], bool] = is_tensor
) -> None:
    if wanted(value):
        names.append(name)
    elif isinstance(value, Tensor):
        pass
    elif type(value) is ArgumentPart:
        _name_leaves(value.shown, name, names, wanted)
    elif type(value) in (tuple, list) or (isinstance(value, tuple) and is_named_tuple(value)):
        for i, v in enumerate(value):
            _name_leaves(v, f"{name}_{i}", names, wanted)
    elif type(value) in MAPPINGS:
        for k, v in value.items():
            known = str(k).isidentifier()
            _name_leaves(v, f"{name}_{k if known else len(names)}", names, wanted)
    else:
        for key in fields_of(value) or ():
            _name_leaves(getattr(value, key), f"{name}_{key}", names, wanted)


def unique(names: list[str]) -> list[str]:
    """The names, with a number behind those that occurred before."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        result.append(name if count == 0 else f"{name}_{count}")
    return result
