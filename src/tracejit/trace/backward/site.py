"""What the backward nodes of all calls along one compiled path share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...autograd.node import Edge
from ...errors import AutogradError
from ...ir.graph import Value
from ...ir.rules import RULE_OPS
from ...layout import MemoryLayout
from ...tensor import Tensor
from ...types import TensorType
from ..state.state import StateGuard
from .backward import AnyProgram, BoundBackward, zeros
from .freeing import History, Part, Parts
from .watched import Joint

if TYPE_CHECKING:
    from .leaf_pass import LeafPass

#: Ends the error of a pass that would have to read it as it is now.
STALE = "Compiled code reads it when the function is called: change it before the call, or after the backward pass."


@dataclass(eq=False)
class Site:
    """What all backward nodes of one compiled path share.

    ``checked`` are the values whose versions are checked.
    """

    function: str
    backward: BoundBackward
    programs: dict[tuple[MemoryLayout | None, ...], AnyProgram]
    types: tuple[TensorType, ...]
    seeds: tuple[int, ...]
    checked: tuple[Value, ...]
    report: Callable[[str], None]
    refused: Callable[[], None]  # a pass was, by a program
    positions: tuple[int | None, ...]  # of what is checked, among the inputs of the graph
    tape: History  # bits are outputs and edges
    later: tuple[tuple[str, StateGuard], ...] = ()  # state that custom backwards read, by name
    part_reads: int = 0  # how many of those checked are first because checkpointed parts read them
    rewrites: int = 0  # and how many with those that were kept as the run had written them
    #: Those of all its nodes, where all that wants gradients is captured.
    edges: tuple[Edge | None, ...] = ()
    #: The passes from numbers into leaves by the key of the steps ahead of them, where programs are there already, and
    #: the gradients that steps hand down.
    passes: dict[tuple[Any, ...], LeafPass] = field(default_factory=dict)
    handed: dict[tuple[Any, ...], Tensor | None] = field(default_factory=dict)

    def check_state(self) -> None:
        """Refuse a pass through a custom backward that would find other Python state than the call did."""
        for name, guard in self.later:
            if not guard.holds():
                raise AutogradError(
                    f"the backward of {name} in the compiled {self.function} reads Python state that has changed "
                    f"since the call: {guard.difference()}. {STALE}"
                )

    @cached_property
    def everything(self) -> int:
        """The bits of all parts."""
        return (1 << len(self.tape.parts)) - 1

    def let_go_before(self, value: Value) -> int:
        """The bits of the parts with steps ahead of those that kept ``value``."""
        return self.bits_of(dict(self.tape.before).get(value, ()))

    @cached_property
    def keepers(self) -> tuple[int | None, ...]:
        """The bits of the parts with steps that kept what is checked; None where the tape does not tell."""
        plain, rewritten = map(self._by_value, (self.tape.keepers, self.tape.rewritten))
        parts = [None] * self.part_reads
        written = self.checked[self.part_reads : self.rewrites]
        rest = map(plain.get, self.checked[self.rewrites :])
        return (*parts, *map(rewritten.get, written), *rest)

    def _by_value(self, known: Parts) -> dict[Value, int]:
        found: dict[Value, int] = {}
        for value, parts in known:  # of two outputs with equal values either may be meant
            found[value] = found.get(value, 0) | self.bits_of(parts)
        return found

    def bits_of(self, parts: Sequence[Part]) -> int:
        """One bit for each of these parts."""
        bits = {part: 1 << i for i, part in enumerate(self.tape.parts)}
        return sum(bits[part] for part in set(parts))

    @cached_property
    def joint(self) -> Joint:
        """Which outputs were computed from others."""
        return Joint(self.backward)

    def led_to(
        self, grads: Sequence[Any], gradients: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        """The gradients where the tape leads to from the outputs that have some: zeros if compiled code has none."""
        ends = 0
        for bits, gradient in zip(self.tape.ends, grads, strict=True):
            ends |= 0 if gradient is None else bits
        kinds = self.backward.wrt_types
        return [
            None if not ends >> i & 1 else zeros(kinds[i]) if g is None else g
            for i, g in enumerate(gradients)
        ]

    @cached_property
    def runs_on_nothing(self) -> bool:
        """Is there a custom function in it, whose backward is given zeros where no gradient comes?"""
        return any(v.op in RULE_OPS for v in self.joint.graph.values)

    def way(self, outputs: int) -> int:
        """The bits of the edges that passes come to from outputs with these bits, with a gradient or without."""
        found = 0
        for number, bits in enumerate(self.tape.ways):
            found |= bits if outputs >> number & 1 else 0
        return found

    def visited(self, grads: Sequence[Any], wanted: Sequence[bool] | None) -> int:
        """The bits of the parts that a pass comes by which has these gradients, and wants these (None: all)."""
        outputs = inputs = 0
        for i, gradient in enumerate(grads):
            if gradient is not None:
                outputs |= 1 << i
        if wanted is None:
            inputs = -1
        else:
            for i, one in enumerate(wanted):
                if one:
                    inputs |= 1 << i
        found = 0
        for i, (above, below) in enumerate(self.tape.parts):
            if above & outputs and below & inputs:
                found |= 1 << i
        return found
