"""Where Python keeps what native code reads: offsets of slots, addresses of classes, names and singletons.

All of it is found in the running interpreter and checked against what Python says about the same objects, from what
is known to be readable outwards. Where anything lies elsewhere than expected (another build of CPython) native code
leaves objects alone: calls then go through Python, with the same results.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["keep_for_ever", "layout_words", "slot_offset"]

_OWNER = 16  # of a slot's descriptor: its class
_NAME = 24  # of that: its name
_MEMBER = 40  # of that: a pointer to its definition
_OFFSET = 16  # of the definition: where the slot lies in an object
_POINTER = ctypes.sizeof(ctypes.c_void_p)


def layout_words() -> dict[str, int] | None:
    """The words of the context about objects, or None where they cannot be trusted.

    >>> words = layout_words()
    >>> words is None or words["none"] == id(None)
    True
    """
    if not _plain():
        return None
    try:
        words = _slots() | _objects()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return words if _checked(words) else None


def keep_for_ever(*objects: Any) -> None:
    """Give objects a reference that nobody takes back: native code has their addresses, at exit too.

    >>> keep_for_ever(None)
    """
    for thing in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def slot_offset(cls: type, name: str) -> int:
    """The offset of a slot of the instances of ``cls``; ValueError where none of that name can be found.

    >>> slot_offset(object, "none")
    Traceback (most recent call last):
    ...
    ValueError: object has no slot none
    """
    for base in cls.__mro__:
        found = vars(base).get(name)
        if type(found).__name__ == "member_descriptor":
            offset = _offset(found, base)
            if not 2 * _POINTER <= offset <= cls.__basicsize__ - _POINTER:
                break
            return offset
    raise ValueError(f"{cls.__name__} has no slot {name}")


def _offset(descriptor: Any, owner: type) -> int:
    """Where the slot of a descriptor lies, or 0 if the descriptor is laid out in another way than the usual one."""
    start = id(descriptor)
    if type(descriptor).__basicsize__ != _MEMBER + _POINTER:
        return 0
    if _word(start + _OWNER) != id(owner) or _word(start + _NAME) != id(descriptor.__name__):
        return 0
    return _word(_word(start + _MEMBER) + _OFFSET)


def _slots() -> dict[str, int]:
    from tracejit.runtime.allocator import Block, _Bucket
    from tracejit.tensor import Tensor

    names = ("array", "base", "block", "grad_fn", "inference", "layout", "pointer")
    words = {f"tensor_{name}": slot_offset(Tensor, f"_{name}") for name in names}
    words |= {
        f"tensor_{name}": slot_offset(Tensor, f"_{name}") for name in ("requires_grad", "writes")
    }
    words["tensor_type_slot"] = slot_offset(Tensor, "_type")
    words |= {f"block_{name}": slot_offset(Block, name) for name in ("array", "bucket", "ptr")}
    words["block_cell"] = slot_offset(Block, "_cell")
    words |= {f"bucket_{name}": slot_offset(_Bucket, name) for name in ("free", "size", "capacity")}
    return words


def _objects() -> dict[str, int]:
    from tracejit import config, dtypes
    from tracejit.layout import layout_of
    from tracejit.modes import MODES
    from tracejit.runtime import allocator, callbacks
    from tracejit.tensor import Tensor
    from tracejit.tensor_core import Version

    modes = ("recorder", "builder", "saved_hooks", "unusual", "grad", "inference")
    objects: dict[str, Any] = {f"name_{name}": sys.intern(name) for name in (*modes, "disabled")}
    objects |= {"name_dict": sys.intern("__dict__"), "name_default": sys.intern("_default")}
    objects |= {"none": None, "true": True, "false": False, "empty_tuple": ()}
    objects |= {"config": vars(config), "dtypes": vars(dtypes), "modes": MODES}
    objects |= {"tensor_type": Tensor, "block_type": allocator.Block, "version_type": Version}
    objects |= {
        "list_type": list,
        "dict_type": dict,
        "fresh": allocator._fresh,
        "release": allocator._release,
    }
    objects |= {"pointer_of": callbacks.pointer_of, "fail": callbacks.fail, "layout_of": layout_of}
    keep_for_ever(*objects.values(), allocator._counters)
    words = {name: id(value) for name, value in objects.items()}
    return words | {"counters": allocator._counters.buffer_info()[0]}


def _plain() -> bool:
    """Do lists, tuples and reference counts lie where they do in the usual build?"""
    if (
        sys.implementation.name != "cpython"
        or sys.byteorder != "little"
        or _POINTER != 8
        # Builds for debugging references and those without a global lock have longer headers.
        or (object.__basicsize__, tuple.__basicsize__, list.__basicsize__) != (16, 24, 40)
    ):
        return False
    one, two = object(), object()
    listed, paired = [one, two], (one, two)
    count = ctypes.c_uint32.from_address(id(one)).value
    return (
        count == sys.getrefcount(one) - 1
        and _word(id(one) + 8) == id(object)
        and _word(id(listed) + 16) == _word(id(paired) + 16) == 2
        and _word(id(paired) + 24 + 8) == id(two)
        and _word(_word(id(listed) + 24) + 8) == id(two)
    )


def _checked(words: Mapping[str, int]) -> bool:
    """Are objects found in the slots of a tensor, of a block and of a bucket?"""
    from tracejit.runtime.allocator import allocate
    from tracejit.tensor import Tensor

    tensor, block = Tensor._wrap(np.zeros(1)), allocate(1)
    look: list[tuple[Any, str, Callable[[str], str]]] = [
        (tensor, "tensor_", lambda name: "_type" if name == "type_slot" else f"_{name}"),
        (block, "block_", lambda name: "_cell" if name == "cell" else name),
        (block.bucket, "bucket_", str),
    ]
    for holder, prefix, spelled in look:
        for key, offset in words.items():
            name = key.removeprefix(prefix)
            if name in (key, "type"):
                continue
            if _word(id(holder) + offset) != id(getattr(holder, spelled(name))):
                return False
    return True
