"""Recording: an eager run, written down as it happens.

The recorder hears of every op after it ran. It keeps one IR value per storage: views are replayed from the value of the
tensor they show, in-place writes replace that value, so the graph is functional whatever the Python did. Tensors from
outside become inputs. ``bool(t)`` and ``t.item()`` become guards.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...cuda.arrays import MODULES
from ...ir.builder import Occurrences
from ...ir.graph import Guard, Value
from ...modes import MODES
from ...ops import elementwise
from ...ops.indexing import take
from ...ops.selection import Selected
from ...ops.table import Op
from ...passes.gradient.gradient import stored_by
from ...tensor import Tensor
from ...types import Scalar, TensorType
from ..foreseen.inside import ForeseenInside
from ..numbers.numbers import outcome_key
from ..numbers.places import Place
from ..rounds.rounds import Rounds
from ..sizes.door import Door
from ..sizes.extents_inside import ExtentsInside
from ..sizes.found_sizes import FindsSizes, SizesFound, user_line
from ..sizes.layouts_inside import LayoutsInside
from .absent_attributes import AbsentAttributes
from .arrays_inside import ArraysInside
from .devices import one_device
from .draws_inside import DrawsInside
from .gradients_inside import GradientsInside
from .identities import Identities
from .inputs import Signature
from .kept_alive import KeptAlive
from .masked_parts import settle_lookups, written_down
from .numbers_inside import NumbersInside
from .recording import OutputRecipe, Recording
from .storage_places import StoragePlaces
from .turned_inside import TurnedInside
from .views_inside import ViewsInside
from .walks_inside import WalksInside
from .writes_inside import WritesInside

MAX_STATEMENTS = 200_000
_NUMBERS = frozenset({bool, int, float})


class Recorder(
    GradientsInside,
    NumbersInside,
    FindsSizes,
    ExtentsInside,
    WritesInside,
    ViewsInside,
    LayoutsInside,
    AbsentAttributes,
    StoragePlaces,
    Identities,
    TurnedInside,
    WalksInside,
    ArraysInside,
    DrawsInside,
    ForeseenInside,
):
    """Listens to one eager run in this thread."""

    door = Door

    def __init__(self, signature: Signature, arguments: Sequence[tuple[str, Tensor]]) -> None:
        GradientsInside.__init__(self)
        NumbersInside.__init__(self)
        FindsSizes.__init__(self)
        ExtentsInside.__init__(self)
        Identities.__init__(self)
        ViewsInside.__init__(self)
        TurnedInside.__init__(self)
        WalksInside.__init__(self)
        DrawsInside.__init__(self)
        self.signature = signature
        self.builder = signature.builder
        self.path: dict[Any, None] = {}
        self.guards: dict[tuple[Value, Any], None] = {}
        self.roots: dict[int, Value] = {}
        self.external: dict[int, tuple[Tensor, Value]] = {}
        self.alive = KeptAlive(weakref.WeakMethod(self.forget))
        self.failure: str | None = None
        self.watched: Any = None  # who watches the calls of this run, if that has to be done
        self.occurrences = Occurrences()
        WritesInside.__init__(self)
        #: Where the run left what its leaves have after the result.
        self.held: tuple[Place, ...] = ()
        self.in_arguments: Any = []  # what it left in its arguments, None where that cannot be told
        self.overtaken: str | None = None  # what another thread did, or new code does
        self.rounds: Rounds | None = None
        self.unwritten = False  # were rounds left out?
        self.aside = ""  # what else is told of the run
        self.line: tuple[str, int] | None = None  # of what is recorded once more
        for position, (name, tensor) in enumerate(arguments):
            if id(tensor) not in self.roots:
                self.positions[id(tensor)] = position
                self.adopt(tensor, signature.argument(position, name, tensor))

    # --- values --------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: Op | Selected,
        operands: Sequence[Value | Scalar],
        attributes: dict[str, Any],
        tracked: bool = False,
        type: TensorType | None = None,
        line: tuple[str, int] | None = None,
    ) -> Value:
        """Write one op down at a line, the user's current one; on the tape, equal computations stay apart."""
        if isinstance(op, Selected):  # a step to a view
            operands, op = (*operands, op.index), take
        computed = getattr(op, "in_graphs", None) is not None
        occurrences = self.occurrences if tracked else None
        line = self.line or line or user_line(2)
        value: Value = self.builder.emit(
            op, operands, attributes, line, occurrences=occurrences, type=type
        )
        if tracked:
            self.taped.update(stored_by(value))
        if computed:
            self.note(value)
        else:
            self.path.setdefault(value)
        return value

    # --- what the dispatcher reports -----------------------------------------------------------------------------

    def record(
        self,
        op: Op,
        operands: Sequence[Any],
        attributes: dict[str, Any],
        out: Tensor,
        varying: bool = False,
    ) -> None:
        """An op ran, perhaps on ``varying`` numbers."""
        if varying:
            self.on_the_tape.append(out._grad_fn)
        if self.failure is None:
            if self.trial is not None:
                self.trial_ran(op, operands)
            try:
                self._record(op, operands, attributes, out)
            except Exception as error:  # noqa: BLE001  (recording must never break the run it listens to)
                self.unsupported(
                    f"{op.name} could not be recorded ({type(error).__name__}: {error})"
                )
        if self.packs:
            self.pack()

    def _record(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], out: Tensor
    ) -> None:
        if self.pending is not None:
            operands, attributes = self.pending
            self.pending = None
            self.on_tape(out, op, operands, attributes)
        self.alive.append(out)
        if self.parts:
            self.part_made(out)
        if attributes:
            attributes = self.constants(attributes)
        if getattr(op, "dynamic", False) and self.find(op, operands, attributes, out):
            return
        if op.is_view and out._base is not None:
            value = self.viewed(op, operands, attributes, out)
        else:
            value = self.computed(op, operands, attributes, out)
        if self.rounds is not None:
            self.rounds.ran(op, operands, attributes, out, value)
        self.comes_again(op, operands, attributes, out, value)

    def computed(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], out: Tensor
    ) -> Value:
        """An op made what is no view: what stands for it."""
        kind = out.spec if self.scope is None else None  # what ran has a type already
        values = self._values(op, operands, attributes)
        line = user_line(5)  # below are this, `record`, the dispatcher and who called that
        value = written_down(self, op, values, attributes, out._requires_grad, kind, line)
        if not out._requires_grad and op.differentiable:
            tracked = any(isinstance(x, Tensor) and x._requires_grad for x in operands)
            if tracked and value.spec.dtype.is_differentiable:
                value = self.emit(elementwise.detach_copy, (value,), {})
        self.check_length()
        self.roots[id(out)] = value
        self.show(out, value)
        return value

    def check_length(self) -> None:
        """Give up where there are too many statements."""
        if len(self.path) > MAX_STATEMENTS:
            self.unsupported(f"more than {MAX_STATEMENTS} operations in one call")

    def _values(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
        """What stands in the graph for operands; most are tensors whose value is known, or plain numbers."""
        known = {} if self.parts else self.roots
        values: list[Any] = []
        for position, x in enumerate(operands):
            value = known.get(id(x))
            if value is None:
                if type(x) in _NUMBERS:
                    value = x
                elif isinstance(x, Tensor):
                    value = self.value_of(x)
                else:
                    value = self.operand(op, operands, position, attributes)
            values.append(value)
        return values

    def detach(self, source: Tensor, result: Tensor) -> None:
        """``result`` shows ``source`` without its history."""
        if self.failure is None:
            self.alive.append(result)
            self.parents[id(result)] = (source, ((elementwise.detach_copy, {}),))
            if self.rounds is not None:
                self.rounds.detached(source, result, user_line())

    def number_read(self, tensor: Tensor, value: Scalar) -> Any:
        """What Python gets that asked for the number in a one-element tensor."""
        self.stop_trial("reads a number from a tensor")
        if isinstance(value, complex):
            self.unsupported("a complex number read from a tensor")
        if self.failure is None and not isinstance(value, bool) and self.compared(tensor, value):
            return value
        if self.failure is None and type(value) is int and self.size_lines:
            size = None
            with self.careful("an index read from a tensor"):
                size = self.item_as_size(tensor)
            if size is not None:
                return size
        if self.failure is None and not isinstance(value, bool) and self.item_lines:
            with self.careful("a number read from a tensor"):
                source = self.value_of(tensor)
                if self.varies(source, value):
                    self.not_in_rounds()
                    return self.item(source, value)
        return self.guard(tensor, value)

    def guard(self, tensor: Tensor, value: Scalar) -> Scalar:
        """Python asked for the truth or value of a one-element tensor, and gets it."""
        self.stop_trial("decides by the value of a tensor")
        if self.failure is None:
            with self.careful("a branch"):
                if self.watched is None:
                    self._guard(tensor, value)
                else:
                    self.watched.apart(self, self._guard, tensor, value)
        return value

    def _guard(self, tensor: Tensor, value: Scalar) -> None:
        condition = self.value_of(tensor)
        if isinstance(value, bool) and condition.spec.dtype.category != "bool":
            condition = self.emit(elementwise.ne, (condition, 0), {})
        key = (condition, outcome_key(value))
        if key not in self.guards:
            self.guards[key] = None
            line = self.line or user_line()
            self.end_piece(Guard(condition, value, line, MODES.refusing))
        if self.rounds is not None:
            self.rounds.visit(self, tensor, value, condition)

    def escape(self, tensor: Tensor, how: str) -> None:
        """The values left for Python code that cannot be followed (``how``: by which call)."""
        del tensor
        self.unsupported(f"{how} of a tensor inside a compiled function")

    def read(self, tensor: Tensor, how: str) -> list[int] | None:
        """The values are asked for as a list (``how``: by which call), to be given if they can be followed."""
        self.stop_trial(f"calls {how}")
        found = None
        if self.failure is None:
            with self.careful(how):
                found = self.sizes_in(tensor)
        if found is None:
            self.escape(tensor, how)
        self.lists_read.add(user_line())
        return found

    def unsupported(self, reason: str) -> None:
        """Give up recording (the run itself goes on); the first reason counts."""
        self.stop_trial(f"does what cannot be recorded: {reason}")
        MODES.before_write()  # what cannot be recorded may write to memory
        if self.failure is None:
            line = self.line or user_line()
            self.failure = reason + (f" ({line[0].rsplit('/', 1)[-1]}:{line[1]})" if line else "")
            self.close()

    @contextmanager
    def careful(self, what: str) -> Iterator[None]:
        """Recording must never break the eager run it listens to."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.unsupported(f"{what} could not be recorded ({type(error).__name__}: {error})")

    # --- the result ----------------------------------------------------------------------------------------------

    def finish(self, results: Sequence[Any], structure: Any = None) -> Recording:
        """The recording of a run that returned ``results``, tensors and varying numbers, in a ``structure``."""
        shown: dict[Value, Tensor] = {}
        numbers, stores = self.returned(results), self.stored()
        outputs = [x for x in results if isinstance(x, Tensor)]
        slots = self.final_slots(len(outputs))
        left = [s.tensor._grad for s in slots]
        outputs = [*outputs, *(g for g in left if g is not None)]
        self.check_flags(outputs)
        recipes = tuple(self.recipe(tensor, shown) for tensor in outputs)
        if MODULES:
            self.signature.device = one_device(self, outputs)
        self.check_functions(outputs)
        self.check_arrays(recipes)
        self.check_drawn()
        self.check_percents()
        self.check_parts()
        self.check_histories(outputs, recipes)
        writes = tuple(self.new_values())
        self.check_rebound(outputs, [r.value for r in recipes])
        self.check_unread()
        settle_lookups(self, [*(r.value for r in recipes), *(w[1] for w in writes)], structure)
        effects = self.effects(slots, recipes)
        self.signature.flags.update({k: before for k, (_, before) in self.found_flags.items()})
        kept, draws = self.kept_writes(outputs, recipes), dict(self.random_calls)
        found = Recording(tuple(self.path), recipes, writes, draws, effects, kept, numbers, stores)
        found.held, found.later = self.held, tuple(self.state_later)
        found.part_reads = len(self.reads_of_parts(outputs, recipes))
        found.tape, found.freed = self.tape(outputs, recipes), self.freeing
        found.walks = self.walks
        if self.scope is not None:
            found.sizes = SizesFound(
                self.scope, {**self.decided, None: self.scope.taken()}, self.scope.values()
            )
        return found

    def recipe(self, tensor: Tensor, shown: dict[Value, Tensor]) -> OutputRecipe:
        """How to make an output: what it shows, through which views.

        ``shown`` are the computed values that outputs show already: two tensors stay two, even when value numbering
        made one value of them.
        """
        self.value_of(tensor)
        output, number, requires_grad = tensor, id(tensor), tensor._flows is True
        tensor, steps = self.origin(tensor)
        apart = None if output._writes is tensor._writes else output._writes.value
        untracked = output._untracked_view and not requires_grad
        piece = output._piece
        stale = bool(steps) and output._base is not None and output._seen != output._writes.value
        alone = self.cut_off(output)
        if id(tensor) in self.external:
            value = self.external[id(tensor)][1]
            shares = apart, untracked, stale, self.is_own(output, ())
            known = value, steps, requires_grad, number
            return OutputRecipe("input", *known, False, None, 0, *shares, None, piece)
        if id(tensor) in self.left_behind:
            self.unsupported(
                "a result shows a tensor from before its .data, flags or shape changed"
            )
        source, turns = self.in_memory(output, tensor)
        steps = turns + steps
        if alone is not None:
            if untracked:
                self.unsupported("x[t] for a tensor t, a view made under no_grad, is a result")
            source, tensor, steps, untracked = alone, output, (), False
        # Other views of the tensor were outputs before: then all of them show the same copy.
        value = next((v for v, t in shown.items() if t is tensor), source)
        while shown.setdefault(value, tensor) is not tensor:
            emit = self.builder.emit
            value = emit(elementwise.clone, (source,), {}, occurrences=self.occurrences)
            self.path.setdefault(value)
        spent, leaf = self.spent(output), self.new_leaf(output)
        cut = any(op is elementwise.detach_copy for op, _ in steps)
        requires_grad = spent is None and leaf is None and tensor._flows is True and not cut
        inference, version = tensor._inference, tensor._writes.value
        kinds = spent, version, apart, untracked, stale, self.is_own(output, turns), leaf, piece
        return OutputRecipe("computed", value, steps, requires_grad, number, inference, *kinds)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """This thread's ops are reported to ``recorder``."""
    MODES.recorder = recorder
    try:
        yield recorder
    finally:
        MODES.recorder = MODES.builder = None
