"""Plans in the store: found by all that planning hangs on, so that a process makes only those that none made before.

A plan for any sizes is what symbols and text are made of: the words of its table, in which addresses are named by what
they are the addresses of, what it added to the symbols, and what it decided about them. Found in a scope whose symbols
are the same, it is the plan that would have been made.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import marshal
import os
import platform
import zlib
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ... import config
from ...codegen.identity import machine
from ...dtypes import get_default_dtype
from ...extents import Extents
from ...locks import renewed_lock
from ...version import __version__
from ..behind import worker
from ..blas import find_blas
from ..counts import COUNTS
from ..machine_code.store import plan_store
from ..native.native import context_address
from ..plan.records import KeptPlan, Plan
from ..program import Outline, ProgramPlan
from ..threads import planned_workers
from .data import Decoder, Encoder, NotKept
from .scope import AsItWas, Mark, add, state
from .task import Task

__all__ = ["program_plan", "surroundings"]

_log = logging.getLogger("tracejit.store")

#: The word of a table that is an address of this process by itself (see `launcher.table_words`).
_CONTEXT = 2
#: Folders of modules that plans are made by, beside those at the top. To look at all files would take twice as long.
PLANNING = ("autograd", "codegen", "cuda", "ir", "ops", "passes", "runtime", "scalar_math")
_SLOTS = ("output_slots", "output_types", "pack_bytes", "arena_bytes", "constants", "late")


def program_plan(
    task: Task, scope: Extents, lock: Any, capture: bool = False
) -> tuple[ProgramPlan, tuple[int, ...]]:
    """The plan of a program, from the store or made now, and the inputs that it reads.

    ``scope`` has the symbols of all sizes; whoever plans with it holds ``lock``.

    >>> from contextlib import nullcontext
    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[8], y: f32[8]) { %0: f32[8] = exp(y) return %0 }")
    >>> program, reads = program_plan(Task(graph, ((1,), (1,))), Extents(), nullcontext())
    >>> [kernel.name for kernel in program.plan.kernels], reads
    (['k_exp'], (1,))
    """
    key = _key(task, scope) if _may_be_kept(task) else None
    if key is not None:
        found = _read(key, task, scope, lock)
        if found is not None:
            COUNTS.plans_read += 1
            return found
    COUNTS.plans_made += 1
    mark = Mark(scope)
    plan, reads = task.plan()
    program = ProgramPlan(plan, scope, capture)
    if key is not None:
        _write(key, program, reads, mark)
    return program, reads


def _may_be_kept(task: Task) -> bool:
    """Plans for devices are not, nor are plans whose stages somebody wants to see."""
    return config.keeps_plans and config.dump_directory is None and task.device < 0


# --- keys ----------------------------------------------------------------------------------------------------------


def _key(task: Task, scope: Extents) -> str | None:
    """What a plan is found by, None where it cannot be kept."""
    encoder = Encoder()
    try:
        words = [
            encoder.graph(task.graph),
            encoder.all(task.strides),
            sorted((task.overwrite or {}).items()),
            list(task.pack),
            [[i, encoder(at)] for i, at in sorted((task.packed or {}).items())],
            task.may_refuse,
            state(scope),
        ]
    except NotKept as reason:
        _log.debug("the plan of %s is not kept: %s", task.graph.name, reason)
        return None
    # In the first version of this form equal data are equal bytes, whoever else refers to their parts.
    data = marshal.dumps([words, encoder.tables(), surroundings(), _settings()], 0)
    return hashlib.sha256(data).hexdigest()


def _settings() -> list[Any]:
    """What plans depend on that may be set while a process runs."""
    return [planned_workers(), config.grain_elements, get_default_dtype().short]


#: Held while somebody looks around: another thread that did so meanwhile would take his time, and its own.
_looking = renewed_lock()


def surroundings() -> list[Any]:
    """What plans depend on besides: this package, as its files are now, the machine, and the libraries.

    >>> surroundings() is surroundings()
    True
    """
    with _looking:
        return _surroundings()


@lru_cache(maxsize=1)
def _surroundings() -> list[Any]:
    blas = find_blas()
    library = blas and [blas.origin, blas.max_size, blas.controlled, blas.vectors_only]
    versions = [str(__version__), np.__version__, platform.python_version()]
    return [*versions, machine(), library, modules_of(Path(__file__).parents[2])]


def modules_of(package: Path) -> str:
    """The modules of a package that plans are made by: their names, sizes and times.

    >>> modules_of(Path(__file__).parents[2]) == surroundings()[-1]
    True
    """
    found: list[tuple[str, int, int]] = []
    top = str(package)
    folders = [top, *[str(package / name) for name in PLANNING]]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append((entry.path, status.st_size, status.st_mtime_ns))
                elif folder != top and "." not in entry.name and entry.name != "__pycache__":
                    folders.append(entry.path)
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


# --- writing and reading -------------------------------------------------------------------------------------------


def _write(key: str, program: ProgramPlan, reads: tuple[int, ...], mark: Mark) -> None:
    """Keep a plan, if all of it can be kept."""
    encoder = Encoder()
    plan, outline = program.plan, program.outline
    try:
        found: dict[str, Any] = {
            "reads": list(reads),
            "counts": [plan.n_inputs, plan.n_outputs, plan.hosts],
            "refuses": plan.refuses,
            "packed": sorted(plan.packed_inputs),
            "slots": [encoder(getattr(plan, name)) for name in _SLOTS],
            "source": outline.source,
            "outside": [encoder(outline.sizes), encoder(outline.hosts)],
            "words": _plain_words(outline.words, encoder),
            **mark.added(encoder),
        }
    except NotKept as reason:
        _log.debug("the plan of %s is not kept: %s", plan.name, reason)
        return
    _waiting.append((key, {**found, **encoder.tables()}))
    worker().submit_idle(put_waiting)


#: Plans to be written, by key.
_waiting: deque[tuple[str, dict[str, Any]]] = deque()


def put_waiting() -> None:
    """Write the plans that wait, at the end of the program at the latest.

    >>> put_waiting()
    """
    with contextlib.suppress(IndexError):
        while True:
            key, found = _waiting.popleft()
            text = json.dumps(found, separators=(",", ":"))
            plan_store().put(key, zlib.compress(text.encode(), 1))


atexit.register(put_waiting)


def _plain_words(words: list[Any], encoder: Encoder) -> list[list[int]]:
    """The words that are numbers in every process, and where which sizes and which addresses stand: places, numbers."""
    numbers: list[int] = []
    others: dict[str, list[int]] = {"e": [], "a": []}
    for place, word in enumerate(words):
        plain = 0 if place == _CONTEXT else encoder(word)
        if type(plain) is list:
            kind, number = plain
            others[kind] += [place, number]
            plain = 0
        numbers.append(plain)
    return [numbers, *others.values()]


def _words(found: list[list[int]], decoder: Decoder) -> list[Any]:
    """The words of a table in this process."""
    words, sizes, addresses = found
    words[_CONTEXT] = context_address
    for known, pairs in ((decoder.extents, sizes), (decoder.addresses, addresses)):
        for place, number in zip(pairs[::2], pairs[1::2], strict=True):
            words[place] = known[number]
    return words


def _read(
    key: str, task: Task, scope: Extents, lock: Any
) -> tuple[ProgramPlan, tuple[int, ...]] | None:
    """The plan that is kept under a key; None where there is none."""
    data = plan_store().get(key)
    if data is None and _waiting:
        put_waiting()
        data = plan_store().get(key)
    if data is None:
        return None
    found = json.loads(zlib.decompress(data))
    decoder, before = Decoder(scope, found), AsItWas(scope)

    def again() -> Plan:
        with lock, before.again():
            return task.plan()[0]

    add(scope, found, decoder)
    slots = dict(zip(_SLOTS, decoder.all(found["slots"]), strict=True))
    n_inputs, n_outputs, hosts = found["counts"]
    plan = KeptPlan(
        name=task.graph.name,
        n_inputs=n_inputs,
        n_outputs=n_outputs,
        packed_inputs=frozenset(found["packed"]),
        hosts=hosts,
        refuses=found["refuses"],
        again=again,
        **slots,
    )
    words, outside = _words(found["words"], decoder), decoder.all(found["outside"])
    outline = Outline(words, found["source"], *outside)
    return ProgramPlan(plan, scope, outline=outline), tuple(found["reads"])
