"""Results whose history a backward pass inside a call went through: what later passes through them still can reach.

Eagerly, such a pass frees the steps that kept something, and a later pass that comes by one of those is an error. Steps
that keep nothing (the sum that adds the bias of a linear layer) go on passing gradients: to leaves that lie behind
such steps only. A compiled call gives its results a node that does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...autograd.late import End, LateNode
from ...autograd.node import FREED, Edge, Node
from ...autograd.op_node import OpNode
from ...autograd.rules import differentiate_operands
from ...errors import AutogradError
from ...ir.graph import Value
from ...types import TensorType
from ..backward.freeing import led_to

#: Of how many steps a way to a leaf may be.
_MOST_STEPS = 64


@dataclass(frozen=True, eq=False, slots=True)
class OpenStep:
    """A step that kept nothing. ``below`` has what lies behind each edge: another step, or the leaves it leads to.

    A step is a number from zero on among those of its history, leaves are bits; ``freed`` tells which edges lead to a
    step that was freed.
    """

    op: Any
    attributes: dict[str, Any]
    operands: tuple[Any, ...]
    out_type: Any
    below: tuple[int | None, ...]
    leaves: tuple[int, ...]
    freed: tuple[bool, ...]

    def gradients(self, gradient: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        """Those of the operands that are ``wanted``."""
        known = {"g": gradient, "out_type": self.out_type, "types": self.operands}
        return differentiate_operands(self.op, self.operands, self.attributes, known, wanted)


@dataclass(frozen=True, eq=False, slots=True)
class Spent:
    """The inputs that a freed history led to, and the steps in it that still can be gone through, last made first."""

    leaves: tuple[Value, ...]
    steps: tuple[OpenStep, ...] = ()

    @property
    def sizes(self) -> tuple[Any, ...]:
        """What of the steps is made of sizes."""
        return tuple([(x.attributes, x.operands, x.out_type) for x in self.steps])

    def sized(self, sizes: Sequence[Any]) -> Spent:
        """The same with other :attr:`sizes`."""
        pairs = zip(self.steps, sizes, strict=True)
        steps = [replace(x, attributes=a, operands=o, out_type=t) for x, (a, o, t) in pairs]
        return Spent(self.leaves, tuple(steps))

    def gradients(self, gradient: Any, wanted: Sequence[bool]) -> list[Any]:
        """Those of the ``wanted`` leaves in a pass that begins with ``gradient``."""
        asked = sum(1 << i for i, one in enumerate(wanted) if one)
        if not self.steps:
            raise AutogradError(FREED)
        found: list[Any] = [None] * len(self.leaves)
        arrived: list[Any] = [None] * len(self.steps)
        arrived[0] = gradient
        for step, present in zip(self.steps, arrived, strict=True):  # which is filled on the way
            if present is None:
                continue
            ways = [bool(bits & asked) for bits in step.leaves]
            if any(way and gone for way, gone in zip(ways, step.freed, strict=True)):
                raise AutogradError(FREED)
            passed = step.gradients(present, ways)
            for below, bits, way, one in zip(step.below, step.leaves, ways, passed, strict=True):
                if way and one is not None:
                    into, place = (
                        (found, bits.bit_length() - 1) if below is None else (arrived, below)
                    )
                    into[place] = one if into[place] is None else into[place] + one
        return found


class SpentBackward(LateNode):
    """The node behind a result whose saved values a backward pass inside the call has freed."""

    partial = True

    def __init__(self, edges: Sequence[End], function: str, spent: Spent) -> None:
        super().__init__(edges)
        self.function = function
        self.spent = spent

    def name(self) -> str:
        """The name ``grad_fn`` prints."""
        return f"Compiled_{self.function}_Backward"

    @property
    def freed(self) -> bool:
        """Always: that is its meaning."""
        return True

    def apply(self, grads: list[Any]) -> Sequence[Any]:
        """Refuse, as the freed nodes would."""
        raise AutogradError(FREED)

    def come_by(self) -> Sequence[Any]:
        """Refuse, if the first step was freed."""
        if not self.spent.steps:
            raise AutogradError(FREED)
        return [None] * len(self.ends)

    def apply_part(self, grads: list[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        """The gradients of leaves that no freed step lies before; refuse those of others."""
        return self.spent.gradients(grads[0], wanted)


def open_steps(
    root: Node, nodes: Sequence[Node], ends: Mapping[Edge, int], refuse: Callable[[], None]
) -> tuple[OpenStep, ...]:
    """The steps that a pass from ``root`` can go through before it comes to a freed one.

    ``nodes`` are all behind it, in the order in which they were made, ``ends`` the bits of leaves. What the steps do
    must be the same in every call, or else ``refuse`` is called.
    """
    below = led_to(nodes, ends)
    inside = set(nodes)
    ahead = {root}
    steps: list[Node] = []
    for node in reversed(nodes):
        if node not in ahead or node.freed:
            continue
        if not _same_in_every_call(node):
            refuse()
        steps.append(node)
        for edge in node.edges:
            if edge is None:
                continue
            if edge[0] in inside:
                ahead.add(edge[0])
            elif edge not in ends:
                refuse()
    if len(steps) > _MOST_STEPS:
        refuse()
    places = {node: i for i, node in enumerate(steps)}
    return tuple([_open_step(node, places, below, ends) for node in steps])


def _same_in_every_call(node: Node) -> bool:
    """Does a step pass on what follows from the gradient alone, in each call of the recording?

    It is made for its plain numbers (the place of a slice); those that are sizes are the call's own (``Spent.sized``).
    Numbers among its operands do not matter: a rule that reads one has the step keep it.
    """
    return type(node) is OpNode and not node.keeps and not node.hooked


def _open_step(
    node: Any, places: Mapping[Node, int], below: Mapping[Node, int], ends: Mapping[Edge, int]
) -> OpenStep:
    """A step as later calls need it, which keeps nothing of the run alive."""
    edges = node.edges
    leaves = [0 if e is None else below.get(e[0], ends.get(e, 0)) for e in edges]
    operands = tuple([x if isinstance(x, TensorType) else None for x in node.operands])
    return OpenStep(
        node.op,
        node.attributes,
        operands,
        node.out_type,
        tuple([None if e is None else places.get(e[0]) for e in edges]),
        tuple(leaves),
        tuple([e is not None and e[0].freed for e in edges]),
    )
