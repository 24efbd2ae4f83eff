"""What plans are made of besides native steps: places of values, calls of ops' own bodies, constants; and plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...dtypes import int64
from ...extents import is_symbolic
from ...ir.graph import Graph, Value
from ...ops.table import Op
from ...types import Shape, TensorType
from ..launcher import Loop, Step, is_other_form

if TYPE_CHECKING:
    from ...passes.fusion.groups import Schedule
    from ..machine_code.kernels import Kernel


@dataclass(frozen=True)
class Slot:
    """Where a materialised value lives at run time."""

    kind: str  # "input", "output", "arena", "pack", "host", "constant"
    index: int
    offset: int = 0

    def moved(self, nbytes: int) -> Slot:
        """The place so many bytes further."""
        return Slot(self.kind, self.index, self.offset + nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStep(Step):
    """A step of vector code that says what it does, and how many bytes it reads and writes."""

    name: str
    moved: tuple[Any, Any]


@dataclass(frozen=True)
class Products:
    """The matrix products that a library computes: their dtypes, how to find it (None where it is missing).

    ``levels`` is how many strides a batch of matrices may take.
    """

    dtypes: frozenset[str]
    find: Callable[[], Any]
    levels: int = 2


@dataclass(frozen=True)
class HostCall:
    """A step that runs an op's own body on arrays."""

    op: Op
    operands: tuple[Any, ...]  # Operand views (Slot, TensorType, offset, strides) or Python numbers
    attributes: dict[str, Any]
    index: int


@dataclass(frozen=True)
class HostOperand:
    """An array argument of a host call."""

    slot: Slot
    spec: TensorType
    offset: int
    strides: Shape


@dataclass(frozen=True)
class Constant:
    """An array made once per program: a source that a library call reads."""

    op: Op
    attributes: dict[str, Any]


class Memory:
    """What plans say about memory."""

    arena_bytes: int
    output_slots: tuple[Slot, ...]

    @property
    def has_arena(self) -> bool:
        """Does it need memory for temporaries?"""
        return is_symbolic(self.arena_bytes) or self.arena_bytes > 0

    @property
    def has_pack(self) -> bool:
        """Does it return a pack?"""
        return any(slot.kind == "pack" for slot in self.output_slots)


@dataclass(frozen=True)
class Plan(Memory):
    """Everything a program needs: native steps with slots, host calls between them, buffers."""

    legal: Graph  # with views that memory allows
    graph: Graph  # and with memory for what is moved
    schedule: Schedule
    kernels: tuple[Kernel, ...]
    items: tuple[Step | Loop | HostCall, ...]
    inputs: tuple[Value, ...]
    output_slots: tuple[Slot, ...]
    output_types: tuple[TensorType, ...]
    packed_inputs: frozenset[int]
    pack_bytes: int
    arena_bytes: int
    hosts: int
    constants: tuple[Constant, ...]
    late: tuple[Slot, ...]
    device: int = -1  # the number of the GPU it is for, -1 for the host
    refuses: bool = False  # may a kernel on a device refuse its input?
    checked: int = 0  # the items before it are queued when it is asked whether one did

    @property
    def name(self) -> str:
        """What it is a plan of."""
        return self.graph.name

    @property
    def n_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.inputs)

    @property
    def n_outputs(self) -> int:
        """How many of the outputs are different values."""
        return len(set(self.graph.outputs))

    @property
    def launches(self) -> int:
        """Native steps per call; on a device, the forms of a kernel of which one launches itself count once."""
        steps = [i for i in self.items if not isinstance(i, HostCall)]
        return sum(self.device < 0 or not is_other_form(i) for i in steps)


@dataclass(frozen=True)
class KeptPlan(Memory):
    """What a program needs to run of a plan that an earlier process made.

    The rest, which tells what the program does, is planned again when somebody asks for it.
    """

    name: str
    n_inputs: int
    n_outputs: int
    output_slots: tuple[Slot, ...]
    output_types: tuple[TensorType, ...]
    packed_inputs: frozenset[int]
    pack_bytes: int
    arena_bytes: int
    hosts: int
    constants: tuple[Constant, ...]
    late: tuple[Slot, ...]
    refuses: bool
    again: Callable[[], Plan]
    device = -1
    checked = 0

    @cached_property
    def whole(self) -> Plan:
        """The same plan with everything."""
        return self.again()

    @property
    def legal(self) -> Graph:
        """The graph with views that memory allows."""
        return self.whole.legal

    @property
    def graph(self) -> Graph:
        """The graph with memory for what is moved."""
        return self.whole.graph

    @property
    def schedule(self) -> Schedule:
        """Its groups of statements in order."""
        return self.whole.schedule

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Its kernels."""
        return self.whole.kernels

    @property
    def items(self) -> tuple[Step | Loop | HostCall, ...]:
        """Its steps."""
        return self.whole.items

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The inputs of the graph."""
        return self.whole.inputs

    @property
    def launches(self) -> int:
        """Native steps per call."""
        return self.whole.launches


def may_lie_on_the_host(value: Value) -> bool:
    """Inputs that a call on a GPU may find on the host: single numbers, and keys of random draws."""
    shape = value.spec.shape
    return shape == () or (shape == (2,) and value.spec.dtype is int64)
