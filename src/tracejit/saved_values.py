"""What surrounds the tensors of a file: objects as a tree that JSON holds, and back. The tree is data, never code.

Strings, numbers, None, lists and dicts with names for keys are what JSON has for them; everything else is a node,
``{"$": kind, "value": ...}``. Tensors and arrays are named in the tree and collected beside it.
"""

from __future__ import annotations

import base64
import pathlib
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import dtypes
from .cuda.arrays import fetched
from .device import device
from .dtypes import DType
from .ops.complex_numbers import complex_of_parts
from .ops.mixin import Size
from .tensor import Tensor

#: What a ``defaultdict`` may make, by name.
_FACTORIES = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
_SIMPLE = (bool, int, str)
#: Ordered from the special to the general; the value of a node is a list of items.
_SEQUENCES: dict[str, type] = {
    "size": Size,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
}
_NAMESPACES = ("namespace", "arguments")


class Packer:
    """Turns an object into a tree and collects its tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.open: set[int] = set()

    def pack(self, value: Any, path: str) -> Any:
        """The tree of ``value``, which was found at ``path``."""
        if isinstance(value, Tensor):
            return self.pack_tensor(value, path)
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, _SIMPLE):
            return value
        if isinstance(value, float) and np.isfinite(value):
            return value
        node = self.pack_array(value, path) if isinstance(value, np.ndarray) else _plain(value)
        if node is not None:
            return node
        if not isinstance(value, (Mapping, list, *_SEQUENCES.values())) and not _namespace(value):
            raise TypeError(
                f"cannot save {type(value).__module__}.{type(value).__qualname__} (at {path or 'the top'}): save "
                "tensors in dicts, lists and tuples with numbers, strings and None; "
                "of a module or optimizer, its state_dict()"
            )
        if id(value) in self.open:
            raise ValueError(f"cannot save an object that contains itself (at {path or 'the top'})")
        self.open.add(id(value))
        try:
            return self.pack_container(value, path)
        finally:
            self.open.discard(id(value))

    def pack_container(self, value: Any, path: str) -> Any:
        """The node of what contains others."""
        if isinstance(value, Mapping):
            return self.pack_mapping(value, path)
        kind = _namespace(value)
        if kind:
            return {"$": kind, "value": self.pack_mapping(vars(value), path)}
        items = [self.pack(v, _below(path, i)) for i, v in enumerate(value)]
        if isinstance(value, list):
            return items
        kind = next(kind for kind, cls in _SEQUENCES.items() if isinstance(value, cls))
        node = {"$": kind, "value": items}
        return {**node, "most": value.maxlen} if isinstance(value, deque) else node

    def pack_mapping(self, value: Any, path: str) -> Any:
        """A dict with names for keys as JSON has it, another one as pairs."""
        facts = self.facts_of(value, path)
        if not facts and all(type(key) is str and key != "$" for key in value):
            return {k: self.pack(v, _below(path, k)) for k, v in value.items()}
        pairs = [
            [self.pack(k, f"{path} (a key)"), self.pack(v, _below(path, k))]
            for k, v in value.items()
        ]
        return {"$": "dict", "value": pairs, **facts}

    def facts_of(self, value: Any, path: str) -> dict[str, Any]:
        """What tells the class of a mapping, where that is not ``dict``."""
        if isinstance(value, Counter):
            return {"class": "counter"}
        if isinstance(value, OrderedDict):
            about = getattr(value, "_metadata", None)  # of modules, see `nn.state`
            known = {} if about is None else {"about": self.pack(about, f"{path} (metadata)")}
            return {"class": "ordered", **known}
        if isinstance(value, defaultdict):
            name = getattr(value.default_factory, "__name__", None)
            if value.default_factory is None or _FACTORIES.get(name or "") is value.default_factory:
                return {"class": "default", "factory": name}
        return {}

    def pack_array(self, array: Any, path: str) -> Any:
        """An array as its bytes, which files hold for any kind of element; None for an array of objects."""
        if array.dtype.hasobject:
            return None
        name = self.new_name(path or "array")
        flat = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.tensors[name] = flat
        kind = array.dtype.descr if array.dtype.names else array.dtype.str
        return {"$": "array", "value": name, "dtype": kind, "shape": list(array.shape)}

    def pack_tensor(self, tensor: Tensor, path: str) -> Any:
        """The name under which the tensor is collected, once however often it occurs."""
        name = self.names.get(id(tensor))
        if name is None:
            name = self.names[id(tensor)] = self.new_name(path or "tensor")
            array = np.ascontiguousarray(fetched(tensor.array)).reshape(tensor.shape)
            self.tensors[name] = _parts(array) if tensor.is_complex() else array
        node: dict[str, Any] = {"$": "tensor", "value": name}
        if tensor.is_complex():
            node["complex"] = True
        return {**node, "requires_grad": True} if tensor.requires_grad else node

    def new_name(self, name: str) -> str:
        """``name``, made longer where something else has it."""
        while name in self.tensors or name == "__metadata__":
            name += "_"
        return name


def _namespace(value: Any) -> str:
    """Which kind of namespace it is, if it is one of them and no more."""
    parsed = type(value).__name__ == "Namespace" and type(value).__module__ == "argparse"
    simple = type(value) is types.SimpleNamespace
    return _NAMESPACES[1] if parsed else _NAMESPACES[0] if simple else ""


def _plain(value: Any) -> dict[str, Any] | None:
    """The node of a value that contains no others, if it is one."""
    if isinstance(value, (float, complex)):
        return {"$": type(value).__name__, "value": repr(value)}
    if isinstance(value, DType):
        return {"$": "dtype", "value": value.name}
    if isinstance(value, device):
        return {"$": "device", "value": str(value)}
    if isinstance(value, pathlib.PurePath):
        return {"$": "path", "value": str(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"$": type(value).__name__, "value": base64.b64encode(value).decode()}
    if isinstance(value, (slice, range)):
        bounds = [value.start, value.stop, value.step]
        if all(bound is None or type(bound) is int for bound in bounds):
            return {"$": type(value).__name__, "value": bounds}
    return None


def _parts(array: Any) -> Any:
    """Complex numbers, which files do not know, as pairs along a new last dimension."""
    return np.stack((array.real, array.imag), axis=-1)


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


#: How a value without others is made from what its node has.
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": complex,
    "dtype": dtypes.by_name,
    "device": device,
    "path": pathlib.Path,
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "slice": lambda bounds: slice(*bounds),
    "range": lambda bounds: range(*bounds),
}


def unpack(node: Any, tensors: Mapping[str, Any]) -> Any:
    """The object of a tree. Raises ``ValueError``, ``TypeError`` or ``KeyError`` for a tree that nobody packed.

    >>> unpack({"a": [{"$": "complex", "value": "1j"}, {"$": "tuple", "value": [1, 2]}]}, {})
    {'a': [1j, (1, 2)]}
    """
    if isinstance(node, list):
        return [unpack(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("$")
    if kind is None:
        return {key: unpack(value, tensors) for key, value in node.items()}
    value = node["value"]
    if kind in _MAKERS:
        return _MAKERS[kind](value)
    if kind == "tensor":
        tensor = complex_of_parts(tensors[value]) if node.get("complex") else tensors[value]
        return tensor.requires_grad_() if node.get("requires_grad") else tensor
    if kind == "array":
        return _array(tensors[value], node["dtype"], node["shape"])
    if kind == "dict":
        pairs = [(unpack(key, tensors), unpack(item, tensors)) for key, item in value]
        return _mapping(pairs, node, tensors)
    if kind in _NAMESPACES:
        from argparse import Namespace

        cls = Namespace if kind == _NAMESPACES[1] else types.SimpleNamespace
        return cls(**unpack(value, tensors))
    if kind not in _SEQUENCES:
        raise ValueError(f"unknown kind of node {kind!r}")
    items = unpack(value, tensors)
    return deque(items, node["most"]) if kind == "deque" else _SEQUENCES[kind](items)


def _mapping(pairs: list[tuple[Any, Any]], node: Any, tensors: Mapping[str, Any]) -> Any:
    """A mapping of the class that the node tells."""
    kind = node.get("class")
    if kind == "default":
        name = node["factory"]
        return defaultdict(None if name is None else _FACTORIES[name], pairs)
    if kind == "counter":
        return Counter(dict(pairs))
    if kind != "ordered":
        return dict(pairs)
    made: Any = OrderedDict(pairs)
    if "about" in node:
        made._metadata = unpack(node["about"], tensors)
    return made


def _array(data: Any, kind: Any, shape: list[int]) -> Any:
    """An array from its bytes."""
    names = isinstance(kind, list)
    dtype: Any = np.dtype([tuple(field) for field in kind] if names else kind)
    return np.frombuffer(fetched(data.array).tobytes(), dtype).reshape(shape).copy()
