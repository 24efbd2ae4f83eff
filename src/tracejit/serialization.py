"""Saving and loading tensors and what holds them, as safetensors files: no code runs when a file is loaded.

A flat dict of tensors is stored under its own names and opens in any safetensors reader. Everything around tensors
(nested dicts, lists, tuples, numbers, strings, None) is a tree in JSON in the file's metadata, with a name in place of
every tensor. A tensor that occurs twice is stored once and comes back as one object; different tensors that share
storage (views) are stored separately and come back independent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import dtypes
from .cuda.arrays import fetched, placed
from .device import index_of
from .dtypes import DType
from .ops.complex_numbers import complex_of_parts
from .tensor import Tensor

__all__ = ["load", "save"]

_TREE = "tracejit"
_CODES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
}


def save(obj: Any, path: Any, **_: Any) -> None:
    """Write ``obj`` to a safetensors file (or open binary file), atomically: a reader sees the old file or the new one.

    ``obj`` is a tensor, or dicts, lists and tuples of tensors, numbers, strings, None and dtypes, such as a
    ``state_dict()``. Options of PyTorch's pickles are accepted and mean nothing. Raises ``TypeError`` naming the place
    of anything else and ``OSError`` when the file cannot be written.

    >>> import tempfile, tracejit as tj
    >>> file = tempfile.mkdtemp() + "/model.safetensors"
    >>> tj.save({"w": tj.ones(2), "epoch": 3}, file)
    >>> tj.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    from safetensors.numpy import save_file

    packer = _Packer()
    tree = packer.pack(obj, "")
    if hasattr(path, "write"):
        path.write(_bytes(packer.tensors, tree))
        return
    target = Path(path)
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    try:
        save_file(packer.tensors, temporary, {_TREE: json.dumps(tree), "format": "pt"})
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _bytes(tensors: dict[str, Any], tree: Any) -> bytes:
    from safetensors.numpy import save as to_bytes

    written: bytes = to_bytes(tensors, {_TREE: json.dumps(tree), "format": "pt"})
    return written


def _permissions(target: Path) -> int:
    """Those of the file to be replaced, or what the process gives new files."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def load(path: Any, map_location: Any = None, *, weights_only: bool = True, **_: Any) -> Any:
    """Read what :func:`save` wrote; any other safetensors file gives a dict of tensors.

    ``path`` may be an open binary file. Tensors arrive on the device that ``map_location`` names, on the host without
    one, or with a dict or function of places: files name none. There is never code in a file, whatever
    ``weights_only`` says. Raises ``FileNotFoundError``, and ``ValueError`` for a file that is damaged, is no
    safetensors file, or holds element types tensors cannot have.

    >>> import tempfile, tracejit as tj
    >>> file = tempfile.mkdtemp() + "/x.safetensors"
    >>> tj.save([tj.zeros(0, 3), tj.tensor(2)], file)
    >>> tj.load(file)
    [tensor([], size=(0, 3)), tensor(2)]
    """
    if hasattr(path, "read"):
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:
            copy.write(path.read())
            copy.flush()
            return load(copy.name, map_location)
    index = (
        -1
        if callable(map_location) or isinstance(map_location, Mapping)
        else index_of(map_location)
    )
    header, metadata = _verified_header(Path(path))
    tensors = _read_tensors(Path(path), header, index)
    text = metadata.get(_TREE)
    if text is None:
        return tensors
    try:
        return _unpack(json.loads(text), tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, f"its object tree cannot be read ({error})") from error


# --- from objects to a tree -----------------------------------------------------------------------------------------


class _Packer:
    """Turns an object into a JSON tree and collects its tensors by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.open: set[int] = set()

    def pack(self, value: Any, path: str) -> Any:
        """The tree of ``value``, which was found at ``path``."""
        if isinstance(value, Tensor):
            return self.pack_tensor(value, path)
        if isinstance(value, DType):
            return {"$": "dtype", "value": value.name}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"$": "float", "value": repr(value)}
        if not isinstance(value, (Mapping, list, tuple)):
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
        if isinstance(value, Mapping):
            if all(type(key) is str and key != "$" for key in value):
                return {k: self.pack(v, _below(path, k)) for k, v in value.items()}
            pairs = [
                [self.pack(k, f"{path} (a key)"), self.pack(v, _below(path, k))]
                for k, v in value.items()
            ]
            return {"$": "dict", "value": pairs}
        items = [self.pack(v, _below(path, i)) for i, v in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "value": items}

    def pack_tensor(self, tensor: Tensor, path: str) -> Any:
        name = self.names.get(id(tensor))
        if name is None:
            name = path or "tensor"
            while name in self.tensors or name == "__metadata__":
                name += "_"
            self.names[id(tensor)] = name
            array = np.ascontiguousarray(fetched(tensor.array)).reshape(tensor.shape)
            self.tensors[name] = _parts(array) if tensor.is_complex() else array
        node: dict[str, Any] = {"$": "tensor", "value": name}
        if tensor.is_complex():
            node["complex"] = True
        return {**node, "requires_grad": True} if tensor.requires_grad else node


def _parts(array: Any) -> Any:
    """Complex numbers, which files do not know, as pairs along a new last dimension."""
    return np.stack((array.real, array.imag), axis=-1)


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


# --- from a tree to objects -----------------------------------------------------------------------------------------


def _unpack(node: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(node, list):
        return [_unpack(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("$")
    if kind is None:
        return {key: _unpack(value, tensors) for key, value in node.items()}
    value = node["value"]
    if kind == "tensor":
        tensor = tensors[value]
        if node.get("complex"):
            tensor = complex_of_parts(tensor)
        return tensor.requires_grad_() if node.get("requires_grad") else tensor
    if kind == "tuple":
        return tuple(_unpack(item, tensors) for item in value)
    if kind == "dict":
        return {_unpack(key, tensors): _unpack(item, tensors) for key, item in value}
    if kind == "float":
        return float(value)
    if kind == "dtype":
        return dtypes.by_name(value)
    raise ValueError(f"unknown kind of node {kind!r}")


def _damaged(path: Any, why: str) -> ValueError:
    return ValueError(
        f"{os.fspath(path)} cannot be loaded: {why}. Files are written by tracejit.save or another safetensors writer; "
        "if this one was, it is damaged and must be replaced."
    )


def _verified_header(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The file's table of tensors and its metadata, once the library found sizes and offsets consistent."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    try:
        with safe_open(os.fspath(path), framework="np") as opened:
            metadata = opened.metadata() or {}
    except SafetensorError as error:
        raise _damaged(path, f"it is not a valid safetensors file ({error})") from error
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {"start": 8 + size, "tensors": header}, metadata


def _read_tensors(path: Path, header: dict[str, Any], index: int) -> dict[str, Tensor]:
    """Every tensor of the file in memory of its own, in the order of their data."""
    entries = sorted(header["tensors"].items(), key=lambda item: item[1]["data_offsets"])
    tensors = {}
    with path.open("rb") as file:
        for name, entry in entries:
            dtype = _CODES.get(entry["dtype"])
            if dtype is None:
                raise _damaged(
                    path, f"{name!r} has element type {entry['dtype']}, which tensors cannot hold"
                )
            array: Any = np.empty(entry["shape"], dtype.np)
            file.seek(header["start"] + entry["data_offsets"][0])
            if array.nbytes and file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:
                raise _damaged(path, f"the data of {name!r} is cut short")
            tensors[name] = Tensor._wrap(placed(array, index))
    return tensors
