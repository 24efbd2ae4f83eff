"""A plan made callable: one generated straight-line Python function per plan, and a table of numbers per set of sizes.

The function takes tensors, allocates the output blocks and the arena, runs the native steps in one call (one call per
stretch between host calls) and returns a block, or for host results an array, per output.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from ..cuda.arrays import address_of
from ..extents import Extents, is_symbolic
from ..generated import define
from ..sizes import Computed
from ..types import TensorType
from .ahead import wait
from .allocator import allocate
from .callbacks import fail, pointer_of
from .counts import COUNTS
from .eager.filling import bind_numbers, filler, numbers_in
from .launcher import Loop, Step, Table, make_table, rows, signed, table_words
from .machine_code.promised import GoneError, Promised, settled
from .plan.host import caller
from .plan.plan import Plan
from .plan.records import Constant, HostCall, HostOperand, KeptPlan, Slot, may_lie_on_the_host

AnyPlan = Plan | KeptPlan
#: Called with every program that is made.
watchers: list[Callable[[Program], None]] = []
_alive: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()


def alive() -> list[Program]:
    """All programs there are."""
    return [p for p in (reference() for reference in _alive.valuerefs()) if p is not None]


#: From so many tensors on, text goes through them in loops: lines for each would take long to compile.
MANY = 64


class Program:
    """Runs a plan for one set of sizes.

    ``run(*tensors)`` returns one block or array per graph output; ``source`` is the text of that function.
    ``types`` are those of the outputs.
    """

    plan: AnyPlan
    table: Table
    types: tuple[TensorType, ...]
    source: str
    run: Callable[..., Any]
    names: dict[str, Any]  # what the text of the function refers to
    captured: Any = None  # what runs it as a CUDA graph
    _sizes: tuple[Extents, Mapping[int, int]]

    def __init__(self, plan: Plan) -> None:
        bound = ProgramPlan(plan).bind({})
        self.__dict__.update(bound.__dict__)
        self._made()

    @classmethod
    def of(
        cls,
        plan: AnyPlan,
        table: Table,
        types: tuple[TensorType, ...],
        source: str,
        names: dict[str, Any],
        sizes: tuple[Extents, Mapping[int, int]],
    ) -> Program:
        """A program from its parts; ``sizes`` are the symbols of the plan and their values."""
        self = object.__new__(cls)
        self.plan = plan
        self.table = table
        self.types = types
        self.source = source
        self.run = define(source, f"program {plan.name}", "run", names)
        self.names = self.run.__globals__
        self._sizes = sizes
        self._made()
        return self

    def _made(self) -> None:
        _alive[id(self)] = self
        for watch in watchers:
            watch(self)

    def bound(self, value: Any) -> Any:
        """``value`` (nested tuples, lists, dicts) of the plan with this program's sizes in it."""
        return bind_numbers(*self._sizes, value)

    def host_name(self, number: int) -> str:
        """The op that a library call of the program runs."""
        calls = (i for i in self.plan.items if isinstance(i, HostCall))
        return next(call.op.name for call in calls if call.index == number)


@dataclass(frozen=True)
class Outline:
    """What a program is made of: the words of its table, the text of its function, and what that refers to."""

    words: list[Any]
    source: str
    sizes: dict[str, int]
    hosts: list[HostCall]

    @classmethod
    def of(cls, plan: AnyPlan) -> Outline:
        """That of a program that runs ``plan``."""
        words = table_words([i for i in plan.items if not isinstance(i, HostCall)])
        writer = _RunWriter(plan)
        return cls(words, writer.text(), writer.sizes, writer.hosts)


class ProgramPlan:
    """A plan with everything made that does not depend on sizes; :meth:`bind` adds the sizes."""

    def __init__(
        self,
        plan: AnyPlan,
        scope: Extents | None = None,
        capture: bool = False,
        outline: Outline | None = None,
    ) -> None:
        self.plan = plan
        self.capture = capture
        if outline is None:
            outline = Outline.of(plan)
        self.outline, self.words, self.source = outline, outline.words, outline.source
        self.sizes, self.hosts = outline.sizes, outline.hosts
        self.types = plan.output_types
        numbers = [
            *self.words,
            *self.sizes.values(),
            *numbers_in((self.types, self.hosts, plan.constants)),
        ]
        self.symbolic = list({id(x): x for x in numbers if is_symbolic(x)}.values())
        self.scope = scope or Extents()
        self.compute = Computed(self.scope, self.symbolic)
        numbers_of = {id(x): n for n, x in enumerate(self.symbolic)}
        self.places = np.array([i for i, w in enumerate(self.words) if is_symbolic(w)], np.intp)
        self.sources = np.array([numbers_of[id(self.words[i])] for i in self.places], np.intp)
        self.promised = [i for i, word in enumerate(self.words) if type(word) is Promised]
        fixed = [0 if is_symbolic(word) else signed(word) for word in self.words]
        self.fixed = np.array(fixed, np.int64)
        self.fill_types = filler(self.types)
        self.fill_constants = [filler(c) for c in plan.constants]
        self.fill_hosts = [filler(call) for call in self.hosts]

    def bind(self, sizes: Mapping[int, int]) -> Program:
        """The program for these values of the symbols."""
        wait()
        computed = self.compute(sizes)
        try:
            words = self._words(computed)
        except GoneError:  # the store has the plan still, but not all of its kernels
            assert isinstance(self.plan, KeptPlan)
            COUNTS.plans_made += 1
            self.__init__(self.plan.whole, self.scope, self.capture)  # type: ignore[misc]
            return self.bind(sizes)
        found = dict(zip(map(id, self.symbolic), computed, strict=True))
        table = make_table(words)
        names: dict[str, Any] = {
            "run_slots": table.run_slots,
            "allocate": allocate,
            "pointer_of": pointer_of,
            "address_of": address_of,
            "fail": fail,
            "itemgetter": itemgetter,
        }
        memory = _device_memory(self.plan.device)
        if memory is not None:
            names |= {**memory.names(), "refuse": fail}
        for name, size in self.sizes.items():
            names[name] = found.get(id(size), size)
        constants = [
            _made(c if fill is None else fill(found), memory)
            for c, fill in zip(self.plan.constants, self.fill_constants, strict=True)
        ]
        for i, array in enumerate(constants):
            names[f"constant{i}"], names[f"c{i}"] = array, address_of(array)
        for call, fill in zip(self.hosts, self.fill_hosts, strict=True):
            filled = call if fill is None else fill(found)
            names[f"call{call.index}"] = caller(filled, constants, memory)
        types = self.types if self.fill_types is None else self.fill_types(found)
        program = Program.of(self.plan, table, types, self.source, names, (self.scope, sizes))
        if memory is not None:
            program.captured = memory.capturing(program, self.capture)
            program.run = memory.switching(program.captured or program.run)
        return program

    def _words(self, computed: Sequence[int]) -> np.ndarray:
        """The words of the table, with these values of what is symbolic."""
        words = self.fixed.copy()
        if computed:
            numbers = [signed(settled(x)) for x in computed]  # some are addresses of kernels
            words[self.places] = np.array(numbers, np.int64)[self.sources]
        for place in self.promised:
            words[place] = settled(self.words[place])
        return words


def _steps(item: Step | Loop | HostCall) -> tuple[Step, ...]:
    """The native steps of an item."""
    if isinstance(item, Loop):
        return (*item.steps, *item.after)
    return (item,) if isinstance(item, Step) else ()


def _made(constant: Constant, memory: Any) -> Any:
    """The array of a constant."""
    array = np.ascontiguousarray(constant.op.evaluate((), constant.attributes))
    return array if memory is None else memory.made(array)


def _device_memory(device: int) -> Any:
    """How a program on a GPU comes by memory, None on the host."""
    if device < 0:
        return None
    from .cuda.program import DeviceMemory

    return DeviceMemory(device)


class _RunWriter:
    """Writes the Python function of a plan."""

    def __init__(self, plan: AnyPlan) -> None:
        self.plan = plan
        self.sizes: dict[str, int] = {}
        self.hosts: list[HostCall] = []
        self.lines: list[str] = []
        self.many = False

    def text(self) -> str:
        plan = self.plan
        used = self.used_inputs()
        self.many = self.takes_many(used)
        names = [f"t{i}" for i in range(len(plan.inputs)) if i not in plan.packed_inputs]
        names += ["pack"] if plan.packed_inputs else []
        self.lines = [f"def run({'*t' if self.many else ', '.join(names)}):"]
        if self.many:
            self.add("p = [x._pointer or pointer_of(x) for x in t]")
        for i, value in enumerate(plan.inputs):
            if plan.device >= 0 and i not in plan.packed_inputs and may_lie_on_the_host(value):
                self.add(f"t{i} = uploaded(t{i})")
            if i in used and not self.many:
                self.add(f"p{i} = t{i}._pointer or pointer_of(t{i})")
        sizes = self.output_sizes()
        for i, nbytes in enumerate(sizes):
            if nbytes is not None:
                self.add(f"b{i} = allocate({self.size(f'size{i}', nbytes)})")
        if plan.has_arena:
            self.add(f"arena = allocate({self.size('arena_size', plan.arena_bytes)})")
        if plan.has_pack:
            self.add(f"pack = allocate({self.size('pack_size', plan.pack_bytes)})")
        if plan.refuses:
            self.add("word = take_word()")
        self.steps(used, sizes)
        results = [self.result(slot) for slot in plan.output_slots if slot.kind != "pack"]
        results += ["pack"] if plan.has_pack else []
        inputs = [str(slot.index) for slot in plan.output_slots if slot.kind == "input"]
        if self.many and len(inputs) == len(results) > 1:
            self.lines.insert(0, f"results = itemgetter({', '.join(inputs)})")
            self.add("return results(t)")
        else:
            self.add(f"return ({', '.join(results)}{',' if len(results) == 1 else ''})")
        return "\n".join(self.lines) + "\n"

    def takes_many(self, used: set[int]) -> bool:
        """Are there so many inputs that text for each would take longer to compile than it saves?"""
        plan, count = self.plan, len(self.plan.inputs)
        return count >= MANY and plan.device < 0 and not plan.packed_inputs and len(used) == count

    def add(self, line: str) -> None:
        self.lines.append("    " + line)

    def size(self, name: str, nbytes: int) -> str:
        """A size by name, so that programs for other sizes have the same text."""
        self.sizes[name] = nbytes
        return name

    def used_inputs(self) -> set[int]:
        """Inputs whose address some native step needs."""
        used: set[int] = set()
        for item in self.plan.items:
            for step in _steps(item):
                used.update(slot for slot, _ in step.args if 0 <= slot < len(self.plan.inputs))
        return used

    def reads_slot(self, number: int) -> bool:
        """Does a native step read a slot?"""
        steps = (step for item in self.plan.items for step in _steps(item))
        return any(slot == number for step in steps for slot, _ in step.args)

    def output_sizes(self) -> list[int | None]:
        """Bytes of every distinct output block; None for host results."""
        sizes: dict[int, int] = {}
        for slot, kind in zip(self.plan.output_slots, self.plan.output_types, strict=True):
            if slot.kind == "output":
                sizes[slot.index] = kind.nbytes
        return [sizes.get(i) for i in range(self.plan.n_outputs)]

    def slots(self, used: set[int], sizes: Sequence[int | None], ready: int) -> str:
        """The slot values of a launch: inputs, outputs, arena, host results so far."""
        parts = [f"p{i}" if i in used else "0" for i in range(len(self.plan.inputs))]
        parts = ["*p"] if self.many else parts
        parts += ["0" if n is None else f"b{i}.ptr" for i, n in enumerate(sizes)]
        parts.append("arena.ptr" if self.plan.has_arena else "0")
        parts.append("pack.ptr" if self.plan.has_pack or self.plan.packed_inputs else "0")
        if self.plan.device >= 0:
            from .cuda.plan import HANDLE
            from .cuda.program import special_slots

            parts += special_slots(self.plan.refuses, self.reads_slot(len(parts) + HANDLE))
        parts += [
            f"c{slot.index}"
            if slot.kind == "constant"
            else f"q{slot.index}"
            if slot.index < ready
            else "0"
            for slot in self.plan.late
        ]
        return ", ".join(parts)

    def steps(self, used: set[int], sizes: Sequence[int | None]) -> None:
        checked = self.plan.checked if self.plan.refuses else -1
        first = native = ready = 0
        for number, item in enumerate((*self.plan.items, None)):
            if native > first and (number == checked or not isinstance(item, (Step, Loop))):
                self.launch(first, native, self.slots(used, sizes, ready))
                first = native
            if number == checked:
                self.add("if refused(word): refuse(1)")
            if isinstance(item, HostCall):
                self.host(item)
                ready = item.index + 1
            elif item is not None:
                native += rows(item)

    def launch(self, first: int, last: int, slots: str) -> None:
        self.add(f"code = run_slots({first}, {last}, {slots})")
        self.add("if code: fail(code)")

    def host(self, call: HostCall) -> None:
        """One op body on arrays."""
        self.hosts.append(call)
        storage = [self.storage(x.slot) for x in call.operands if isinstance(x, HostOperand)]
        self.add(f"h{call.index} = call{call.index}({', '.join(storage)})")
        self.add(f"q{call.index} = address_of(h{call.index})")

    def storage(self, slot: Slot) -> str:
        if slot.kind == "input":
            return f"{self.input(slot.index)}.array"
        part = "" if self.plan.device >= 0 else ".array"
        if slot.kind == "output":
            return f"b{slot.index}{part}"
        if slot.kind == "host":
            return f"h{slot.index}"
        return f"{slot.kind}{part}" if slot.kind in ("arena", "pack") else "None"

    def result(self, slot: Slot) -> str:
        return (
            f"b{slot.index}"
            if slot.kind == "output"
            else f"h{slot.index}"
            if slot.kind == "host"
            else self.input(slot.index)
        )

    def input(self, number: int) -> str:
        return f"t[{number}]" if self.many else f"t{number}"
