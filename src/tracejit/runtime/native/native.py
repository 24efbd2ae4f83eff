"""The native functions of the runtime, ready to call, and the memory they share with Python.

`native()` loads the launcher's object code from the kernel store, resolves the C library and CPython
functions it needs by address, and wraps the entry points. It happens at the first launch, never at
import. Where the store lacks it, it is compiled in a hurry, once per machine, and again with care when
there is nothing else to do: its functions then take the place of the first ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracejit.locks import awaited_rlock, free_llvmlite
from tracejit.runtime.assembled import Effort, assembled, is_stored, process_triple
from tracejit.runtime.behind import worker
from tracejit.runtime.machine_code.loader import LoadError, load_object
from tracejit.runtime.native.launcher_ir import CONTEXT, CONTEXT_WORDS, module_text
from tracejit.runtime.native.layout import keep_for_ever, layout_words

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Native",
    "context",
    "context_address",
    "improve_when_idle",
    "loaded",
    "native",
    "prepare",
    "set_context",
    "stored",
]

# Shared by all tables; never freed, because native code reads it at any time.
context = (ctypes.c_int64 * CONTEXT_WORDS)()
context_address = ctypes.addressof(context)
context[CONTEXT["threads"]] = 1
context[CONTEXT["type_error"]] = id(TypeError)
context[CONTEXT["value_error"]] = id(ValueError)

_PYTHON = (
    "PyEval_SaveThread",
    "PyErr_CheckSignals",
    "PyEval_RestoreThread",
    "PyLong_AsVoidPtr",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyBytes_AsStringAndSize",
    "PyErr_Occurred",
    "PyErr_SetString",
    "PyObject_CallNoArgs",
    "Py_DecRef",
    "Py_IncRef",
    "PyObject_CallOneArg",
    "PyObject_Vectorcall",
    "PyObject_GetAttr",
    "PyType_GenericAlloc",
    "PyType_IsSubtype",
    "PyDict_GetItem",
    "PyDict_Next",
    "PyTuple_New",
    "PyList_New",
    "PyList_Append",
    "PyErr_Clear",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyException_SetTraceback",
)
_POSIX = (
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_broadcast",
    "sched_yield",
)
_LINUX = ("sched_getcpu", "sched_setaffinity")
_METH_FASTCALL, _METH_KEYWORDS, _METH_NOARGS = 0x80, 0x02, 0x04


def set_context(word: str, value: int) -> None:
    """Set one word of the context that native code reads.

    >>> threads = context[CONTEXT["threads"]]
    >>> set_context("threads", threads)
    >>> context[CONTEXT["threads"]] == threads
    True
    """
    context[CONTEXT[word]] = value


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class Native:
    """Entry points of the native module.

    `launch` is a ctypes function that releases the GIL; `worker`, `wake` and `spin` belong to the
    pool; `flush` sets whether the calling thread counts subnormal numbers as zero. `can_block` says
    whether threads can sleep (pthreads were found): without it there is no pool. `can_place` says
    whether they can be told which CPUs to run on. `knows_objects` says whether native code may read
    and make tensors: `run_quick` and `call` are of no use without.
    """

    launch: Callable[[int, int, int, bytes], int]
    worker: Callable[[int, int], None]
    wake: Callable[[int], None]
    spin: Callable[[int], None]
    flush: Callable[[int], int]
    can_block: bool
    can_place: bool
    run_bytes: _MethodDef
    run_ints: _MethodDef
    run_quick: _MethodDef
    call: _MethodDef
    unchanged: _MethodDef
    knows_objects: bool

    def bind(self, definition: _MethodDef, table_address: int) -> Callable[..., int]:
        """A Python built-in whose `self` is a table."""
        return _new_builtin(ctypes.byref(definition), table_address, None)  # type: ignore[no-any-return]

    def method(self, definition: _MethodDef, cls: type) -> Any:
        """A method of a class, to be assigned to an attribute of it."""
        return _new_method(cls, ctypes.byref(definition))


_BUILTINS = {
    "run_bytes": (b"run", _METH_FASTCALL),
    "run_ints": (b"run_slots", _METH_FASTCALL),
    "run_quick": (b"run", _METH_FASTCALL),
    "call": (b"__call__", _METH_FASTCALL | _METH_KEYWORDS),
    "block_del": (b"__del__", _METH_NOARGS),
    "unchanged": (b"unchanged", _METH_NOARGS),
}
_ENTRIES = ("launch", "worker", "wake", "spin", "flush", *_BUILTINS)
_lock = awaited_rlock(1)
_native: Native | None = None
#: What built-ins point to, by name: Python looks up the function there at every call.
_definitions: dict[str, _MethodDef] = {}
#: Was the module compiled in a hurry, and nobody asked yet for better?
_hurried = [False]


def native() -> Native:
    """The loaded module; the first call loads it. Raises `LoadError` where it cannot run.

    >>> native() is native()
    True
    """
    global _native
    if _native is None:
        with _lock:
            if _native is None:
                try:
                    _native = _load()
                    keep_for_ever(_native)  # built-ins point to its definitions
                except BaseException:
                    free_llvmlite()
                    raise
    return _native


def _load() -> Native:
    imports, absent = _imports()
    triple = process_triple()
    text = module_text(triple)
    effort = Effort.FULL if is_stored(text, Effort.FULL) else Effort.LEAST
    code = assembled(text, triple, effort)
    _hurried[0] = effort is Effort.LEAST
    addresses = {name: load_object(code, f"tracejit_{name}", imports) for name in _ENTRIES}
    for name, (spelled, flags) in _BUILTINS.items():
        _definitions[name] = _MethodDef(spelled, addresses[name], flags, None)
    bound: dict[str, Any] = {n: d for n, d in _definitions.items() if n != "block_del"}
    return Native(
        **_callables(addresses),
        can_block=absent.isdisjoint(_POSIX),
        can_place=absent.isdisjoint(_LINUX),
        knows_objects=_tell_objects(),
        **bound,
    )


def _callables(addresses: dict[str, int]) -> dict[str, Any]:
    """What Python calls by ctypes."""
    word, pointer = ctypes.c_int64, ctypes.c_void_p

    def function(name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(addresses[name])

    return {
        "launch": function("launch", word, pointer, word, word, ctypes.c_char_p),
        "worker": function("worker", None, pointer, word),
        "wake": function("wake", None, pointer),
        "spin": function("spin", None, word),
        "flush": function("flush", word, word),
    }


def improve_when_idle() -> None:
    """Have functions compiled in a hurry replaced when nobody waits; asked for once there are programs to run.

    >>> improve_when_idle()
    """
    if _hurried[0]:
        _hurried[0] = False
        worker().submit_idle(_improve)


def _improve() -> None:
    """Put carefully compiled functions in the place of those compiled in a hurry; both may run at the same time."""
    global _native
    triple = process_triple()
    code = assembled(module_text(triple), triple, Effort.FULL)
    imports, _ = _imports()
    addresses = {name: load_object(code, f"tracejit_{name}", imports) for name in _ENTRIES}
    with _lock:
        found = native()
        for name, definition in _definitions.items():
            definition.function = addresses[name]
        _native = dataclasses.replace(found, **_callables(addresses))


def _tell_objects() -> bool:
    """Put what is known of Python objects into the context, and have blocks die natively."""
    from tracejit.runtime.allocator import Block

    words = layout_words()
    if words is None:
        set_context("watched", 1)
        return False
    for name, value in words.items():
        set_context(name, value)
    definition = _definitions["block_del"]
    keep_for_ever(definition, context)
    Block.__del__ = _new_method(Block, ctypes.byref(definition))
    return True


def prepare() -> None:
    """Load the native runtime ahead of the first compiled call; a failure is left to that call to report.

    >>> prepare()
    """
    with contextlib.suppress(Exception):
        native()


def loaded() -> bool:
    """Is the native runtime there, so that nobody would wait for it?

    >>> prepare()
    >>> loaded()
    True
    """
    return _native is not None


def stored() -> bool:
    """Is the native runtime loaded, or its object code in the kernel store?

    >>> prepare()
    >>> stored()
    True
    """
    if loaded():
        return True
    text = module_text(process_triple())
    return any(is_stored(text, effort) for effort in Effort)


def _imports() -> tuple[dict[str, int], set[str]]:
    """Addresses of the external functions, and the names of those this system lacks."""
    addresses = {name: _address(name) for name in _PYTHON}
    absent = set()
    for name in (*_POSIX, *_LINUX):
        try:
            addresses[name] = _address(name)
        except LoadError:
            absent.add(name)
            addresses[name] = _address("PyErr_Occurred")  # linked, never called
    addresses["context"] = context_address
    return {f"tracejit_x_{name}": address for name, address in addresses.items()}, absent


def _address(name: str) -> int:
    for library in (ctypes.pythonapi, ctypes.CDLL(None)):
        try:
            function = getattr(library, name)
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise LoadError(f"this Python lacks the C function {name}")


_new_builtin = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyDescr_NewMethod", ctypes.pythonapi)
)
