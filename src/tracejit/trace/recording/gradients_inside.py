"""What a recorded run does to autograd: gradients read, written and dropped, backward passes, Python called again.

A backward pass inside a recorded function really runs, and its operations are recorded like any others; so are the
in-place changes of an optimizer. What is left to note is where the run touches ``tensor.grad`` (state that a replay has
to find as it was, and to leave as the run left it), which tape may be walked (only what was made inside), and what the
graph alone does not tell about outputs whose history a backward pass inside has freed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol

from ...autograd.node import AccumulateGrad, Edge, Node, next_number
from ...ir.graph import Value
from ...layout import layout_of
from ...passes.gradient.gradient import storage, stored_by
from ...tensor import Tensor
from ..backward.freeing import is_leaf, led_to
from ..state.checks import Check
from ..state.gradients import ArgumentGradient, GradientSlot, HookedLeaf, NoHooks, leaf_hooks
from ..state.state import StateGuard
from .flags_inside import FlagsInside
from .functions_inside import FunctionsInside
from .hooks_inside import HooksInside
from .spent import Spent, open_steps
from .tape_inside import TapeInside

if TYPE_CHECKING:
    from .inputs import Signature
    from .recording import OutputRecipe, Step


class Repeated(Protocol):
    """Python that every replay runs."""

    def __call__(self) -> Any:
        """Run it."""

    def saved(self) -> Callable[[], None]:
        """A function that takes what it changes back to what it is now."""

    def namespaces(self) -> Iterable[tuple[dict[str, Any], frozenset[str] | None]]:
        """Where it sets numbers, and by which names (None: any); lists there may change whatever they are called."""


@dataclass(frozen=True, eq=False)
class SlotEffect:
    """What a call leaves in a ``.grad``: output ``output``, or None; of argument ``position``, or of ``tensor``."""

    tensor: Tensor
    position: int
    output: int


@dataclass(frozen=True, eq=False)
class Effects:
    """What a run did besides returning outputs and writing to tensors.

    ``tracked`` are the inputs written to with the gradient mode on, ``calls`` run again after everything else,
    ``flags`` leaves that require grad from then on, or do so no longer (arguments by their positions), ``turned`` the
    inputs of which views were turned in place, and how often.
    """

    slots: tuple[SlotEffect, ...]
    tracked: frozenset[Value]
    calls: tuple[Repeated, ...]
    flags: tuple[tuple[Tensor | int, bool], ...] = ()
    turned: tuple[tuple[Value, int], ...] = ()

    @property
    def summary(self) -> Any:
        """What two runs that end alike have in common."""
        slots = [(id(s.tensor), s.position, s.output) for s in self.slots]
        flags = [(x if isinstance(x, int) else (id(x),), flag) for x, flag in self.flags]
        return slots, len(self.calls), flags, [(id(v), n) for v, n in self.turned]


@dataclass(eq=False)
class _Slot:
    """The ``.grad`` of a tensor from outside: whether the run looked at it, and what it saw."""

    tensor: Tensor
    read: bool
    before: Tensor | None


class GradientsInside(FunctionsInside, HooksInside, TapeInside, FlagsInside):
    """The part of a recorder that follows autograd."""

    signature: Signature
    parents: dict[int, tuple[Tensor, tuple[Step, ...]]]
    written: dict[int, Tensor]
    outside_turned: dict[int, int]
    written_while_away: Callable[[], Iterator[tuple[Value, int]]]
    rebound: dict[int, Any]
    write_counts: dict[int, int]
    adopt: Callable[[Tensor, Value], Value]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Step, ...]]]
    not_in_rounds: Callable[[], None]
    unheard: list[tuple[int, int]]
    was_unheard: Callable[[Node], bool]

    def __init__(self) -> None:
        FunctionsInside.__init__(self)
        HooksInside.__init__(self)
        FlagsInside.__init__(self)
        self.first_node = next_number()
        self.slots: dict[int, _Slot] = {}
        self.leaves: dict[int, Tensor] = {}
        self.known_hooks: Mapping[int, tuple[int, ...]] = {}  # of leaves that the guard knows
        self.tracked_writes: set[int] = set()
        self.taped: Counter[Value] = Counter()  # what nodes of the tape may have saved, how often
        self.freeing = False  # did a backward pass run inside?
        self.calls: list[Repeated] = []
        self.sent: list[Any] = []  # records that were handed to loggers
        self.checks: list[Check] = []  # Python state that the run turned out to depend on
        # Step counters, and how often they were counted.
        self.counted: dict[int, tuple[Tensor, int]] = {}
        self.packed: dict[int, Any] = {}  # packed sequences, and the padded batches behind them
        self.own: dict[int, Any] = {}  # optimizers and their parts that the run made
        self.scheduled: set[int] = set()  # optimizers, and groups, whose learning rates changed
        self.rates_told: set[int] = set()  # schedules that told rates they set at the end
        self.outlooks: dict[int, Any] = {}  # what is known of them before, by their optimizers
        self.foreseen: dict[tuple[int, str], dict[str, Any]] = {}  # places where that stands
        self.set_hyper: set[tuple[int, str]] = set()  # by group and name: what the run set

    # --- tensors that stand for others ---------------------------------------------------------------------------

    def alias(self, source: Tensor, result: Tensor) -> None:
        """``result`` shows the memory of ``source``."""
        if self.failure is None:
            self.alive.append(result)
            self.parents[id(result)] = (source, ())

    def copied(self, source: Tensor, result: Tensor) -> None:
        """``result`` keeps the values that ``source`` has now."""
        if self.failure is None:
            with self.careful("a saved copy"):
                self.not_in_rounds()
                self.alive.append(result)
                value = self.roots[id(result)] = self.value_of(source)
                self.show(result, value)

    def unpacked(self, tensor: Tensor) -> None:
        """The tape gives back a saved tensor: one made inside without the recorder's knowledge is no input."""
        self.trial_saved(tensor)
        if self.failure is None and id(self.origin(tensor)[0]) not in self.roots:
            self.unsupported("a backward pass reads a tensor that was not recorded")

    def inside(self, tensor: Tensor) -> bool:
        """Was this tensor made by the recorded run?"""
        number = id(tensor)
        return number in self.parents or (number in self.roots and number not in self.external)

    def may_be_saved(self, tensor: Tensor, except_for: Value | None = None) -> bool:
        """Could the tape have kept the values of ``tensor``, as they are now, for a backward pass?

        Not counted is the node of ``except_for``.
        """
        memory = storage(self.roots[id(tensor)])
        own = () if except_for is None or except_for.op is None else stored_by(except_for)
        return self.taped[memory] > sum(x is memory for x in own)

    # --- backward passes -----------------------------------------------------------------------------------------

    def backward_node(self, node: Node, adds: bool) -> None:
        """A backward pass is about to run ``node``, and to add to its ``.grad`` if it is a leaf and ``adds``."""
        self.trial_visits(node, adds)
        self.freeing = True
        if isinstance(node, AccumulateGrad):
            self._leaf(node)
        elif node.sequence < self.first_node:
            self.unsupported(
                "a backward pass through operations from outside the compiled function"
            )
        elif self.unheard and self.was_unheard(node):
            self.unsupported("a backward pass inside goes through a walk along a sequence")

    def _leaf(self, node: AccumulateGrad) -> None:
        leaf = node.variable
        hooks = leaf_hooks(leaf)
        if hooks and not node.hooked and self.known_hooks.get(id(leaf)) == hooks:
            return  # code like any other, which the guard watches
        if node.hooked or hooks:
            if not self.inside(leaf) and id(leaf) not in self.positions:
                self.checks.append(HookedLeaf(leaf, "the gradient hooks of a leaf"))
            self.unsupported("a gradient hook in a backward pass inside a compiled function")
        elif not self.inside(leaf):
            self.leaves[id(leaf)] = leaf

    # --- the .grad of tensors --------------------------------------------------------------------------------------

    def gradient_read(self, tensor: Tensor) -> None:
        """The run looks at ``tensor.grad``."""
        self.trial_gradient(tensor)
        if self.failure is None and id(tensor) not in self.slots and not self.inside(tensor):
            with self.careful("a gradient"):
                self._read(tensor)

    def _read(self, tensor: Tensor) -> None:
        found = tensor._grad
        if found is not None:
            if found.requires_grad or found._base is not None or found._inference:
                self.unsupported("a gradient that has a history or is a view, from outside")
                return
            if id(found) in self.roots or id(found) in self.parents:
                self.unsupported("a gradient that the function also reaches in another way")
                return
            owner = self.positions.get(id(tensor), tensor)
            self.adopt(found, self.signature.gradient(owner, found))
        self.slots[id(tensor)] = _Slot(tensor, True, found)

    def gradient_set(self, tensor: Tensor) -> None:
        """``tensor.grad`` is about to be replaced."""
        self.trial_gradient(tensor)
        if self.failure is None and not self.inside(tensor):
            self.slots.setdefault(id(tensor), _Slot(tensor, False, None))

    def final_slots(self, outputs: int) -> list[SlotEffect]:
        """What the run left in every ``.grad`` it replaced; tensors among it become outputs from ``outputs`` on."""
        found = []
        for slot in self.slots.values():
            now = slot.tensor._grad
            if slot.read and now is slot.before:
                continue
            position = self.positions.get(id(slot.tensor), -1)
            found.append(SlotEffect(slot.tensor, position, -1 if now is None else outputs))
            outputs += now is not None
        return found

    # --- what runs again ---------------------------------------------------------------------------------------------

    def again(self, call: Repeated) -> None:
        """Python that every replay runs, after everything else."""
        self.calls.append(call)

    def numbers(self, row: Any) -> None:
        """The tensors of ``row`` show numbers that ``row.refresh()`` sets before every replay."""
        if self.failure is None:
            for cell, value in zip(row.cells, self.signature.row(row), strict=True):
                self.adopt(cell, value)

    def is_changed(self, tensor: Tensor) -> bool:
        """Does ``tensor`` hold what the run made of it, rather than what was there before?"""
        return self.inside(tensor) or id(tensor) in self.written

    @property
    def has_effects(self) -> bool:
        """Did the run change what another run would find?"""
        changed = self.written or self.slots or self.calls or self.tracked_writes
        return bool(changed or self.found_flags)

    # --- the end -----------------------------------------------------------------------------------------------------

    def spent(self, output: Tensor) -> Spent | None:
        """For an output whose history was freed by a backward pass inside: the inputs that history led to.

        Where something was freed on the ways to some of them only, passes to the others go on.
        """
        if not (self.freeing and output.requires_grad):
            return None
        leaves: dict[Value, None] = {}
        ends: dict[Edge, int] = {}
        nodes: list[Node] = []
        for node in self.nodes_behind([output]):
            if not is_leaf(node):
                nodes.append(node)
                continue
            known = self.external.get(id(node.variable))
            if known is not None:
                ends[node, 0] = 1 << len(leaves)
                leaves[known[1]] = None
        nodes.sort(key=lambda node: node.sequence)
        freed = [bits for node, bits in led_to(nodes, ends).items() if node.freed]
        if not freed:
            return None
        if reduce(or_, freed) == (1 << len(leaves)) - 1:
            return Spent(tuple(leaves))
        assert output.grad_fn is not None
        return Spent(tuple(leaves), open_steps(output.grad_fn, nodes, ends, self.partly_freed))

    def is_spent(self, output: Tensor) -> bool:
        """Can no backward pass go anywhere from an output any more?"""
        found = self.spent(output)
        return found is not None and not found.steps

    def partly_freed(self) -> None:
        """Give up for a history of which other things than the plainest steps remain."""
        self.unsupported("a backward pass inside freed a part of the history of a result")

    def effects(
        self, slots: Sequence[SlotEffect], recipes: Sequence[OutputRecipe]
    ) -> Effects | None:
        """The effects of the run; None when a plain replay has nothing more to do."""
        for counter, _ in self.counted.values():
            if id(counter) in self.roots:
                self.unsupported(
                    "the step count of an optimizer is read inside a compiled function"
                )
        plain = not slots and not self.calls and not self.tracked_writes and not self.written
        flags = self.flags_left
        plain = plain and not flags and not self.outside_turned
        if plain and not self.signature.special and all(r.spent is None for r in recipes):
            return None
        tracked = frozenset(self.external[key][1] for key in self.tracked_writes)
        if not self.rebound.keys().isdisjoint(self.outside_turned):
            self.unsupported("a view turned in place of a tensor whose .data is assigned to")
        outside = {k: self.external[k][1] for k in self.outside_turned}
        turned = {v: self.outside_turned[k] for k, v in outside.items() if self.roots[k] is v}
        turned.update(self.written_while_away())
        return Effects(tuple(slots), tracked, tuple(self.calls), flags, tuple(turned.items()))

    def widened(self, guard: StateGuard) -> StateGuard:
        """``guard`` with the Python state that the run itself turned out to depend on."""
        known = self.signature.checks
        for check in self.checks:
            known.setdefault((type(check), id(check.holder)), check)
        if not known:
            return guard
        return guard.wider(known.values())

    def settled(self, guard: StateGuard, reachable: Iterable[Any]) -> StateGuard:
        """``guard`` with what must be in the ``.grad`` of tensors, and that leaves have no hooks.

        A gradient that is also ``reachable`` in another way must be the very tensor it was.
        """
        known = self.signature.gradient_checks
        gradients = {id(s.before) for s in self.slots.values() if s.read and s.before is not None}
        named = {id(x) for x in reachable if id(x) in gradients}
        for slot in self.slots.values():
            if slot.read and id(slot.tensor) not in self.positions:
                same = id(slot.before) in named
                known[id(slot.tensor)] = GradientSlot.of(slot.tensor, slot.before, same)
        outside = {k: t for k, t in self.leaves.items() if k not in self.positions}
        self.signature.leaves.update(outside)
        checks: list[Check] = list(known.values())
        if self.signature.leaves:
            checks.append(NoHooks.of(tuple(self.signature.leaves.values())))
        return guard.wider(checks) if checks else guard

    def argument_gradients(self) -> tuple[tuple[int, ArgumentGradient], ...]:
        """What must be true of the ``.grad`` and hooks of arguments."""
        known = self.signature.argument_gradients
        for number, position in self.positions.items():
            slot = self.slots.get(number)
            if slot is not None and slot.read:
                layout = None if slot.before is None else layout_of(slot.before)
                known[position] = ArgumentGradient(True, layout, slot.tensor.is_leaf)
            elif number in self.leaves:
                known.setdefault(position, ArgumentGradient(False, None))
        return tuple(known.items())
