"""Sizes that only a run tells: the extents of results whose shape depends on values, as symbols of a recording.

While a function is recorded, the types of tensors that depend on such a result hold :class:`Extent` objects, and so do
the shapes that the function looks at: the run goes on with real numbers, the record with symbols. What is compared is
noted as a decision, and what is read as a plain number is a decision for that number, so that the recording is right
for every size under which its decisions come out the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ...autograd.grad_mode import no_grad
from ...autograd.op_node import OpNode
from ...dtypes import int64
from ...errors import user_frame
from ...extents import Extent, Extents, hint, symbols_of
from ...ir.graph import Value
from ...modes import MODES
from ...ops.functions.common import as_type
from ...ops.ordering import as_sizes
from ...runtime.eager.filling import Numbered
from ...sizes import Decided
from ...symbols import Decision, Symbol
from ...tensor import Tensor
from ...types import TensorType
from .typical_sizes import typical

if TYPE_CHECKING:
    from ..recording.inputs import Signature


#: Elements of a vector that may be read as sizes.
MAX_READ = 256


class Registry:
    """The symbols of all recordings of one signature: a number means the same in each of them."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.texts: dict[str, int] = {}
        self.found: dict[Any, tuple[int, ...]] = {}
        self.neutral = Extents()
        self.neutral.symbols = self.symbols

    def given(self, value: Any, count: int) -> tuple[int, ...]:
        """The numbers of the ``count`` sizes that a run tells with ``value``."""
        known = self.found.get(value)
        if known is None:
            first = len(self.symbols)
            self.symbols += [Symbol(-1, 0) for _ in range(count)]
            known = self.found[value] = tuple(range(first, first + count))
        return known

    def defined(self, text: str, needs: tuple[int, ...]) -> int:
        """The number of the size that an expression computes."""
        known = self.texts.get(text)
        if known is None:
            known = self.texts[text] = len(self.symbols)
            self.symbols.append(Symbol(-1, None, f"n{known} = {text}", needs))
        return known

    def numbered(self, value: Any) -> Numbered:
        """``value`` (nested), whose extents become numbers for given values of the symbols."""
        return Numbered(self.neutral, value)


class RecordedExtents(Extents):
    """The extents of one recording, with the values of its run."""

    watched = True

    def __init__(
        self,
        registry: Registry,
        refuse: Callable[[str], None],
        number: Callable[[Extent], Any] = int,
    ) -> None:
        super().__init__()
        self.make_number = number  # that the run computes with
        self.read: set[int] = set()  # the symbols of sizes that are elements of tensors
        self.refuse = refuse
        self.registry = registry
        self.symbols: dict[int, Symbol] = {}
        self.count = 0
        self.shapes: dict[Any, Extent] = {}  # extents of tensors, by their terms
        self.line: tuple[str, int] | None = None  # where a plain number was last asked for

    def given(self, number: int, value: int) -> Extent:
        """The size that the run told for a symbol."""
        self.symbols[number] = Symbol(value, 0)
        found: Extent = self.extent((((number,), 1),))
        return found

    def define(self, text: str, value: int, low: int | None, *needs: Any) -> Extent:
        """The symbol that the expression ``text`` computes."""
        symbols = symbols_of(needs)
        number = self.registry.defined(text, symbols)
        self.symbols[number] = Symbol(value, low, f"n{number} = {text}", symbols)
        found: Extent = self.extent((((number,), 1),))
        return found

    def decide(self, extent: Extent, relation: str, outcome: bool) -> bool:
        """Note how a comparison with zero came out, and where."""
        before = len(self.decisions)
        super().decide(extent, relation, outcome)
        if len(self.decisions) > before:
            self.line = user_line()
        return outcome

    def pin(self, extent: Extent) -> None:
        """A plain number is made of an extent: no way to go on where it is an element of a tensor."""
        if self.read.isdisjoint(extent.symbols):
            super().pin(extent)
        else:
            self.refuse("tolist() of a tensor inside a compiled function, used for more than sizes")

    def number(self, extent: Extent) -> Any:
        """What stands for an extent where floats are made of it."""
        return self.make_number(extent)

    def call(self, function: Callable[..., tuple[int, ...]], *args: Any) -> tuple[int, ...]:
        """What a function makes of sizes is known for these only."""
        return function(*[int(x) if type(x) is Extent else x for x in args])

    def values(self) -> dict[int, int]:
        """The sizes that the run told."""
        return {n: s.value for n, s in self.symbols.items() if not s.statement}

    def taken(self) -> tuple[Decision, ...]:
        """The decisions made since the last time."""
        found = tuple(self.decisions.values())[self.count :]
        self.count += len(found)
        return found


@dataclass(frozen=True, slots=True)
class RunTimeType:
    """The type of a tensor while it is recorded, for the thread that records."""

    scope: Extents
    spec: TensorType
    thread: int


@dataclass(eq=False)
class SizesFound:
    """The sizes that a run was told, and what was decided about them before each end of a piece (None: the last)."""

    scope: RecordedExtents
    decided: Mapping[Any, tuple[Decision, ...]]
    values: Mapping[int, int]
    _typical: dict[Any, dict[int, int]] = field(default_factory=dict)

    def conditions(self, depth: int) -> list[Decision]:
        """What was decided before a segment below ``depth`` ends."""
        return [d for some in list(self.decided.values())[: depth + 1] for d in some]

    def like(
        self,
        told: Mapping[int, int],
        depth: int,
        others: Collection[int] = (),
        exactly: bool = False,
    ) -> Mapping[int, int]:
        """Sizes to plan for, for which everything decided up to ``depth`` holds.

        They are like those ``told``, or else those of this run, and ``exactly`` these if that can be.
        """
        values = {**self.values, **{n: v for n, v in told.items() if n in self.values}}
        conditions = self.conditions(depth)
        found = self._like(values, depth, others, self.values.keys() - told.keys())
        # The first plan is for sizes like those of this run, and does not hold for those told.
        again = told and found == self._like(self.values, depth, others, self.values.keys())
        if (exactly or again) and Decided(self.scope, conditions)(values):
            return values
        return found

    def _like(
        self, values: Mapping[int, int], depth: int, others: Collection[int], free: Collection[int]
    ) -> dict[int, int]:
        """Typical sizes that are like ``values``, of which those that are ``free`` are changed before the rest."""
        key = depth, tuple(values.values()), frozenset(free)
        if key not in self._typical:
            shapes = list(self.scope.shapes.values())
            conditions = self.conditions(depth)
            self._typical[key] = typical(self.scope, values, conditions, shapes, others, free)
        return self._typical[key]


def has_extents(value: Any) -> bool:
    """Is there an extent in ``value`` (nested)?"""
    if isinstance(value, (tuple, list)):
        return any(map(has_extents, value))
    if isinstance(value, dict):
        return any(map(has_extents, value.values()))
    return type(value) is Extent


def plain(value: Any) -> Any:
    """``value`` (nested) with its extents as the numbers they are in this run."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(plain, value)) if has_extents(value) else value
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    return hint(value)


class FindsSizes:
    """The part of a recorder that follows sizes which the run tells."""

    signature: Signature
    builder: Any
    door: Any  # what stands before every op from then on
    path: dict[Any, None]
    roots: dict[int, Value]
    value_of: Callable[[Tensor], Value]
    unsupported: Callable[[str], None]
    size: Callable[[Extent], Any]
    follow_sizes: Callable[[], None]
    all_written: Callable[[], None]
    more_than_sizes: Callable[[str], None]
    rounds: Any
    let_go_of_numbers: Callable[[], None]
    line: tuple[str, int] | None
    widened_arguments: list[Tensor]

    def __init__(self) -> None:
        self.size_lines: Collection[Any] = ()  # where ints are read from tensors that index
        self.scope: RecordedExtents | None = None
        self.handed_over: set[int] = set()  # the tensors in which a call hands over sizes
        self.pending: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.decided: dict[Any, tuple[Decision, ...]] = {}  # before each end of a piece

    def find(
        self, op: Any, operands: Sequence[Any], attributes: Mapping[str, Any], out: Tensor
    ) -> bool:
        """An op ran whose shape depends on values; False when it does not for these operands."""
        values = [self.value_of(x) if isinstance(x, Tensor) else x for x in operands]
        types = [x.spec if isinstance(x, Value) else x for x in values]
        axes = op.told_axes(types, attributes)
        if not axes:
            return False
        kind = op.infer(types, attributes)
        shape: list[Any] = list(out.array.shape)
        scope = self.scope or self.open()
        new = Value(kind, op, tuple(values), dict(attributes), line=user_line())
        value = self.builder.found(new)
        numbers = iter(self.signature.sizes.given(value, len(axes)))
        for d, known in enumerate(kind.shape):
            shape[d] = scope.given(next(numbers), shape[d]) if d in axes else known
        value.spec = TensorType(tuple(shape), kind.dtype)
        self.end_piece(value)
        self.roots[id(out)] = value
        self.show(out, value)
        return True

    def sizes_in(self, tensor: Tensor) -> list[int] | None:
        """The elements of a vector as sizes, where they can be; reading them ends a piece."""
        kind = tensor.spec
        if kind.dtype.category != "int" or len(kind.shape) != 1:
            return None
        array = tensor.array
        if not 0 < array.size <= MAX_READ or int(array.min()) < 0:
            return None
        vector = self.value_of(tensor)
        if has_extents(
            kind.shape
        ):  # how many there are decides, which should be as many as the code asked for
            if not any(type(x) is int and x == array.size for x in vector.attributes.values()):
                return None
            int(kind.shape[0])
        found = self.sizes_of(vector, array.tolist())
        assert self.scope is not None
        self.scope.read.update(n for x in found for n in x.symbols)
        return found

    def item_as_size(self, tensor: Tensor) -> Any:
        """The int in a tensor of one element as a size, on lines that use it as one; None elsewhere."""
        if user_line() not in self.size_lines:
            return None
        with no_grad():
            vector = as_type(tensor.detach(), int64).reshape(1)
        found = self.sizes_in(vector)
        return None if found is None else found[0]

    def sizes_handed_over(self, vector: Tensor) -> list[Any]:
        """The sizes among the arguments, which a call hands over as the elements of ``vector``."""
        self.handed_over.add(id(vector))
        return self.sizes_of(self.value_of(vector), vector.array.tolist())

    def sizes_of(self, vector: Value, values: list[int]) -> list[Any]:
        """The elements of a vector as sizes, given what they are in this run; a piece ends here."""
        scope = self.scope or self.open()
        kind = TensorType((len(values),), int64)
        line = self.line or user_line()
        count = {"count": len(values)}
        value = self.builder.found(Value(kind, as_sizes, (vector,), count, line=line))
        numbers = self.signature.sizes.given(value, len(values))
        self.end_piece(value)
        return [scope.given(n, x) for n, x in zip(numbers, values, strict=True)]

    def open(self) -> RecordedExtents:
        """From here on extents are about."""
        self.all_written()
        scope = self.scope = self.builder.scope = RecordedExtents(
            self.signature.sizes, self.more_than_sizes, self.size
        )
        if MODES.recorder is self:
            MODES.builder = self.door(self)
            self.follow_sizes()
        return scope

    def close(self) -> None:
        """From here on extents are numbers, and rounds are not looked at."""
        if self.rounds is not None:
            self.rounds.close()
        self.let_go_of_numbers()
        self.builder.scope = None
        if self.scope is not None:
            self.scope.closed = True
        for tensor in self.widened_arguments:
            tensor._run_time_type = None

    def before_ops(self) -> Any:
        """What stands before ops that the tape alone keeps, if extents are about."""
        return None if self.scope is None or self.scope.closed else self.door(self)

    def not_in_rounds(self) -> None:
        """Something happens that an open loop cannot hold."""
        if self.rounds is not None and self.rounds.visits:
            self.rounds.spoil()

    def end_piece(self, statement: Any) -> None:
        """The path goes on depending on a guard or a found size: note what was decided up to here."""
        if statement not in self.path:
            self.path[statement] = None
            if self.scope is not None:
                self.decided[statement] = self.scope.taken()

    def show(self, tensor: Tensor, value: Value) -> None:
        """While recording, ``tensor`` has the type of ``value``; so does the tape."""
        self.has_type(tensor, value.op, value.spec)

    def has_type(self, tensor: Tensor, op: Any, kind: TensorType) -> None:
        """While recording, ``tensor`` is of this type; so it is for the tape, where ``op`` made it."""
        if self.scope is None or not has_extents(kind.shape):
            return
        shape: tuple[Any, ...] = kind.shape
        self.scope.shapes.update((x.terms, x) for x in shape if has_extents(x))
        tensor._type = None
        tensor._run_time_type = RunTimeType(self.scope, kind, get_ident())
        node = tensor._grad_fn
        if isinstance(node, OpNode) and node.op is op:
            node.out_type = kind

    def on_tape(
        self, out: Tensor, op: Any, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> None:
        """The step of the tape that made ``out`` holds numbers: put the extents there."""
        if op.is_view and out._base is not None:
            out._chain = (*out._chain[:-1], (op, attributes))
        node = out._grad_fn
        if isinstance(node, OpNode) and node.op is op:
            node.attributes = attributes
            node.operands = tuple(
                x if type(x) is Extent else known
                for x, known in zip(operands, node.operands, strict=True)
            )
            for name, x in zip(op.operands, operands, strict=False):
                if node.saved and name in node.saved and type(x) is Extent:
                    node.saved[name] = x


def user_line(above: int = 1) -> tuple[str, int] | None:
    """The user's present line; so many frames from here on are this package's."""
    frame = user_frame(above + 1)
    return None if frame is None else (sys.intern(frame.f_code.co_filename), frame.f_lineno)
