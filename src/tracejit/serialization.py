"""Saving and loading tensors and what holds them, as safetensors files: no code runs when a file is loaded.

A flat dict of tensors is stored under its own names and opens in any safetensors reader. Everything around tensors
(nested containers, numbers, strings, None; see ``saved_values``) is a tree in JSON in the file's metadata, with a name
in place of every tensor. A tensor that occurs twice is stored once and comes back as one object; different tensors that
share storage (views) are stored separately and come back independent.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import aligned, dtypes
from .cuda.arrays import placed
from .device import index_of
from .saved_values import Packer, unpack
from .tensor import Tensor

__all__ = [
    "DEFAULT_PROTOCOL",
    "MAP_LOCATION",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "load",
    "location_tag",
    "safe_globals",
    "save",
]

#: What ``load`` takes as ``map_location``.
MAP_LOCATION = Any
#: The protocol of pickles that PyTorch's files are written with. None are written here.
DEFAULT_PROTOCOL = 2

_TREE = "tracejit"
_CODES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "U16": dtypes.uint16,
    "U32": dtypes.uint32,
    "U64": dtypes.uint64,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
}


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    **_: Any,
) -> None:
    """Write ``obj`` to a safetensors file (or open binary file), atomically: a reader sees the old file or the new one.

    ``obj`` is a tensor, or containers of tensors, arrays, numbers, strings, None, dtypes and the like, such as a
    ``state_dict()`` with the arguments of a program: the containers, devices and paths of the standard library, and
    NumPy's arrays. Options of PyTorch's pickles are accepted and mean nothing. Raises ``TypeError`` naming the place of
    anything else, above all of an instance of a class of yours, and ``OSError`` when the file cannot be written.

    >>> import tempfile, tracejit as tj
    >>> file = tempfile.mkdtemp() + "/model.safetensors"
    >>> tj.save({"w": tj.ones(2), "epoch": 3}, file)
    >>> tj.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    from safetensors.numpy import save_file

    packer = Packer()
    tree = packer.pack(obj, "")
    if hasattr(f, "write"):
        f.write(_bytes(packer.tensors, tree))
        return
    target = Path(f)
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


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **_: Any,
) -> Any:
    """Read what :func:`save` wrote; any other safetensors file gives a dict of tensors.

    ``f`` may be an open binary file. Tensors arrive on the device that ``map_location`` names, on the host without
    one, or with a dict or function of places: files name none. There is never code in a file, whatever
    ``weights_only`` says. Raises ``FileNotFoundError``, and ``ValueError`` for a file that is damaged, is no
    safetensors file, or holds element types tensors cannot have.

    >>> import tempfile, tracejit as tj
    >>> file = tempfile.mkdtemp() + "/x.safetensors"
    >>> tj.save([tj.zeros(0, 3), tj.tensor(2)], file)
    >>> tj.load(file)
    [tensor([], size=(0, 3)), tensor(2)]
    """
    if hasattr(f, "read"):
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:
            copy.write(f.read())
            copy.flush()
            return load(copy.name, map_location)
    index = (
        -1
        if map_location is None or callable(map_location) or isinstance(map_location, Mapping)
        else index_of(map_location)
    )
    header, metadata = _verified_header(Path(f))
    tensors = _read_tensors(Path(f), header, index)
    text = metadata.get(_TREE)
    if text is None:
        return tensors
    try:
        return unpack(json.loads(text), tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(f, f"its object tree cannot be read ({error})") from error


def location_tag(storage: Any) -> str:
    """Where memory is, as files of PyTorch say it.

    >>> import tracejit as tj
    >>> location_tag(tj.ones(2).untyped_storage())
    'cpu'
    """
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """``storage``, which is where ``location`` says; :func:`load` asks no function.

    >>> import tracejit as tj
    >>> memory = tj.ones(2).untyped_storage()
    >>> default_restore_location(memory, "cpu") is memory
    True
    """
    if location != location_tag(storage):
        raise RuntimeError(
            f"don't know how to restore data location of a storage on {storage.device} (tagged with {location})"
        )
    return storage


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Accepted and without effect: no file names classes or functions to call, so none has to be trusted.

    >>> add_safe_globals([dict])
    """


def get_safe_globals() -> list[Any]:
    """None: see :func:`add_safe_globals`.

    >>> get_safe_globals()
    []
    """
    return []


def clear_safe_globals() -> None:
    """Without effect, as :func:`add_safe_globals`.

    >>> clear_safe_globals()
    """


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """As :func:`add_safe_globals`, for the time of a ``with`` block.

    >>> with safe_globals([dict]):
    ...     pass
    """
    yield


def _damaged(path: Any, why: str) -> ValueError:
    return ValueError(
        f"{os.fspath(path)} cannot be loaded: {why}. Files are written by tracejit.save or another safetensors writer; "
        "if this one was, it is damaged and must be replaced."
    )


#: Why files of PyTorch, archives and others with pickles in them, are not read.
_FOREIGN = (
    "it is a pickle, as torch.save writes, and such files can run any code. Where you trust it, write its tensors "
    "anew with PyTorch: safetensors.torch.save_file(torch.load(old), new)."
)


def _verified_header(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The file's table of tensors and its metadata, once the library found sizes and offsets consistent."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no file", os.fspath(path))
    try:
        with safe_open(os.fspath(path), framework="np") as opened:
            metadata = opened.metadata() or {}
    except SafetensorError as error:
        with path.open("rb") as file:
            if file.read(4).startswith((b"PK\3\4", b"\x80")):
                raise ValueError(f"{os.fspath(path)} cannot be loaded: {_FOREIGN}") from None
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
            array: Any = aligned.empty(tuple(entry["shape"]), dtype.np)
            file.seek(header["start"] + entry["data_offsets"][0])
            if array.nbytes and file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:
                raise _damaged(path, f"the data of {name!r} is cut short")
            tensors[name] = Tensor._wrap(placed(array, index))
    return tensors
