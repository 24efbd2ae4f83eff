"""The native launcher and thread pool, written in LLVM's assembly language.

There is no C compiler where the package is installed, and atomics, blocking and calls through
pointers are outside the kernel language, so these few functions are given to LLVM as text. Each
says in C-like comments what it does. `native.py` compiles them once per machine and keeps the
object in the kernel store. All shared memory is arrays of 64-bit words; the word numbers below are
the single description that Python and native code share.
"""

from __future__ import annotations

from string import Template

from tracejit.runtime.native.blas_ir import BLAS_IR
from tracejit.runtime.native.call_ir import CALL_IR
from tracejit.runtime.native.door_ir import DOOR_IR
from tracejit.runtime.native.float_ir import float_ir
from tracejit.runtime.native.guard_ir import GUARD_IR
from tracejit.runtime.native.loops_ir import LOOPS_IR
from tracejit.runtime.native.objects_ir import OBJECTS_IR
from tracejit.runtime.native.pool_ir import POOL_IR
from tracejit.runtime.native.python_ir import PYTHON_IR
from tracejit.runtime.native.quick_ir import QUICK_IR
from tracejit.runtime.native.results_ir import RESULTS_IR
from tracejit.runtime.native.run_ir import RUN_IR

__all__ = [
    "CONTEXT",
    "CONTEXT_WORDS",
    "HEADER_WORDS",
    "MASK_BYTES",
    "POOL",
    "POOL_CELLS",
    "STEP_WORDS",
    "module_text",
]

# A program table: header, then one row per step and per loop, then pairs of words: the (slot, value)
# pairs of each step's arguments, and right behind them its increments if it has any. A loop's row
# comes before the rows of its steps; it has no fn, and the number of steps in place of n_args.
HEADER_WORDS = 4  # n_rows, max_args, context address, slots needed
# fn, first_arg, n_args, extent_slot, extent_value, grain, flags, first_increment (0: none); in the flags from
# bit 8 on: how many workers may take part (0: all)
# 0, end, n_steps, count_slot, count_value, n_after, flags, 0: `end` is where the address of the byte
# that ends the loop stands, and behind it its increments, among the pairs (0: none)
STEP_WORDS = 8

# The words of the process-wide context. `blas_*` are used by steps that call BLAS.
CONTEXT = {
    "pool": 0,
    "threads": 1,
    "start_pool": 2,  # a Python callable: called when a step wants the pool and there is none
    "type_error": 3,
    "value_error": 4,
    "blas_get_threads": 5,
    "blas_set_threads": 6,
    "blas_lock": 7,
    "blas_depth": 8,
    "blas_saved": 9,
    "watched": 10,  # nonzero: programs run by their Python, which is being watched
}

# What native code has to know of Python objects; see `layout`.
_OBJECTS = (
    "none true false empty_tuple list_type dict_type fresh release pointer_of layout_of fail counters",
    "config dtypes modes name_dict name_default name_disabled",
    "name_recorder name_builder name_saved_hooks name_unusual name_grad name_inference",
    "tensor_type block_type version_type",
    "tensor_array tensor_base tensor_block tensor_grad_fn tensor_inference tensor_layout",
    "tensor_pointer tensor_requires_grad tensor_type_slot tensor_writes",
    "block_array block_bucket block_cell block_ptr bucket_free bucket_size bucket_capacity",
    "function_routes slow_call ended",
)
CONTEXT.update({name: 16 + i for i, name in enumerate(" ".join(_OBJECTS).split())})
CONTEXT_WORDS = 96

# The words of a pool. Words written by different threads are 64 bytes apart.
POOL = {
    "state": 0,  # generation << 16 | threads inside the job << 1 | job is open
    "stop": 8,
    "threads": 9,
    "spins": 10,
    "mutex": 11,
    "condition": 12,
    "caller_cpu": 13,  # where the caller was when workers were last told to stay away
    "masks": 14,  # per CPU the set of all others, as sched_setaffinity takes it; 0: leave it be
    "thread_ids": 15,  # i32 per thread, the caller's unused
    "sleepers": 16,
    "patience": 17,  # how many times as long as `spins` workers may spin
    "busy": 24,
    "job_function": 32,
    "job_args": 33,
    "job_extent": 34,
    "job_chunk": 35,
    "job_float_mode": 36,  # of the thread that runs the job
    "job_workers": 37,  # those with a number below this take part
    "job_backwards": 38,  # 1: every thread begins with the last of its chunks
    "error": 40,
}
MASK_BYTES = 128  # of one CPU set: 1024 CPUs
POOL_CELLS = 48  # from here 8 words per thread: next chunk, end of its chunks, the first of them

_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "arm": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "other": ("", ""),
}
# How to read a clock that costs next to nothing, and what it gains in some milliseconds. Without
# one, every look is a long time after the last.
_CLOCK = {
    "x86": (
        "declare i64 @llvm.readcyclecounter()",
        "%now = call i64 @llvm.readcyclecounter()",
        1 << 26,
    ),
    "arm": (
        "declare i64 @llvm.readsteadycounter()",
        "%now = call i64 @llvm.readsteadycounter()",
        1 << 20,
    ),
    "other": ("", "%now = add i64 %before, 64", 64),
}


def _architecture(triple: str) -> str:
    name = triple.split("-")[0]
    if name in ("x86_64", "amd64", "i686"):
        return "x86"
    return "arm" if name in ("aarch64", "arm64") else "other"


def module_text(triple: str) -> str:
    """The whole module for a target triple.

    >>> module_text("x86_64-unknown-linux-gnu").splitlines()[0]
    'target triple = "x86_64-unknown-linux-gnu"'
    """
    architecture = _architecture(triple)
    declaration, pause = _PAUSE[architecture]
    counter, clock, enough = _CLOCK[architecture]
    text = (
        _EXTERNAL
        + float_ir(architecture)
        + POOL_IR
        + LOOPS_IR
        + RUN_IR
        + BLAS_IR
        + PYTHON_IR
        + GUARD_IR
    )
    words = {"PAUSE": pause, "CLOCK": clock, "ENOUGH": str(enough), "NEAR": str(enough >> 5)}
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    objects = Template(OBJECTS_IR + RESULTS_IR + QUICK_IR + DOOR_IR + CALL_IR).substitute(CONTEXT)
    return f'target triple = "{triple}"\n{declaration}\n{counter}\n{text}{objects}'


# Every external function carries a prefix and is linked by address, so nothing depends on what the
# dynamic linker happens to export.
_EXTERNAL = """
declare i32 @tracejit_x_pthread_mutex_lock(ptr)
declare i32 @tracejit_x_pthread_mutex_unlock(ptr)
declare i32 @tracejit_x_pthread_cond_wait(ptr, ptr)
declare i32 @tracejit_x_pthread_cond_broadcast(ptr)
declare i32 @tracejit_x_sched_yield()
declare i32 @tracejit_x_sched_getcpu()
declare i32 @tracejit_x_sched_setaffinity(i32, i64, ptr)
declare ptr @tracejit_x_PyEval_SaveThread()
declare void @tracejit_x_PyEval_RestoreThread(ptr)
declare ptr @tracejit_x_PyLong_AsVoidPtr(ptr)
declare i64 @tracejit_x_PyLong_AsLongLong(ptr)
declare ptr @tracejit_x_PyLong_FromLongLong(i64)
declare i32 @tracejit_x_PyBytes_AsStringAndSize(ptr, ptr, ptr)
declare ptr @tracejit_x_PyErr_Occurred()
declare i32 @tracejit_x_PyErr_CheckSignals()
declare void @tracejit_x_PyErr_SetString(ptr, ptr)
declare ptr @tracejit_x_PyObject_CallNoArgs(ptr)
declare void @tracejit_x_Py_DecRef(ptr)
declare void @tracejit_x_Py_IncRef(ptr)
declare ptr @tracejit_x_PyObject_CallOneArg(ptr, ptr)
declare ptr @tracejit_x_PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @tracejit_x_PyObject_GetAttr(ptr, ptr)
declare ptr @tracejit_x_PyType_GenericAlloc(ptr, i64)
declare i32 @tracejit_x_PyType_IsSubtype(ptr, ptr)
declare ptr @tracejit_x_PyDict_GetItem(ptr, ptr)
declare i32 @tracejit_x_PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @tracejit_x_PyTuple_New(i64)
declare ptr @tracejit_x_PyList_New(i64)
declare i32 @tracejit_x_PyList_Append(ptr, ptr)
declare void @tracejit_x_PyErr_Clear()
declare void @tracejit_x_PyErr_Fetch(ptr, ptr, ptr)
declare void @tracejit_x_PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @tracejit_x_PyException_SetTraceback(ptr, ptr)
"""
