"""Functions with a gradient rule of their own in graphs: the rule is written down beside what it is the rule of.

::

    %0: f32[3] = sign(x)                                            # what forward computed
    %1: f32[3] = stand_in(%0)                                       # a gradient of it, for now
    %2: f32[3] = mul(%1, 0.5)                                       # what backward makes of that
    %3: f32[] = rule(%1, %0, x, %2, outputs=1, inputs=1)
    %4: f32[3] = ruled(%0, %3, index=0)                             # what the function returns

The operands of a rule are stand-ins for the gradients of the outputs, the outputs as forward left them, the inputs that
get gradients, those gradients, and what eager execution would keep for backward. Differentiation repeats the statements
between stand-ins and gradients with gradients in place of the stand-ins. Afterwards ``ruled`` is its first operand, and
all that only a rule reads is dead. ``present`` is a gradient that is zeros where others of the same function are there
and it is not; ``sealed`` is one that cannot be differentiated again with respect to the gradients it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np

from .. import dtypes
from ..ops.table import Contraction
from ..types import TensorType
from .graph import Graph, Value


class SplitRuleError(Exception):
    """A rule was torn apart: what it stands for is no longer in one graph."""


class Rule(Contraction):
    """The kind of the one op :data:`rule`, a token: what it means is how it is differentiated."""

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """A zero."""
        del operands, attributes
        return np.zeros((), np.float32)


class Shown(Contraction):
    """The kind of ops that show their first operand."""

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """The first operand."""
        del attributes
        return operands[0]

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """The first operand, or a statement that shows it."""
        if isinstance(operands[0], Value):
            return super().__call__(*operands, **attributes)
        return operands[0]


def _first_type(x: TensorType, *others: Any, **attributes: Any) -> TensorType:
    del others, attributes
    return x


def _rule_type(*operands: Any, **attributes: Any) -> TensorType:
    del operands, attributes
    return TensorType((), dtypes.float32)


def _first(*operands: Any, **attributes: Any) -> Any:
    """What programs compute of a stand-in that another segment has a rule for: nobody reads it."""
    del attributes
    return operands[0].copy()


def _token(*operands: Any, **attributes: Any) -> Any:
    del operands, attributes
    return np.zeros((), np.float32)


def _shown(name: str, operands: tuple[str, ...], attributes: dict[str, Any], doc: str) -> Shown:
    return Shown(
        name=name,
        operands=operands,
        variadic=len(operands) == 1 and operands[0] == "values",
        attributes=attributes,
        body=_first,
        grads={},
        infer_type=_first_type,
        doc=doc,
    )


stand_in = _shown("stand_in", ("x",), {}, "Stands for a gradient of ``x``.")
ruled = _shown(
    "ruled", ("x", "rule"), {"index": Parameter.empty}, "``x``, whose gradient a rule takes."
)
present = _shown(
    "present", ("values",), {}, "The first of several gradients, of which some may be absent."
)
sealed = _shown(
    "sealed",
    ("values",),
    {"once": Parameter.empty},
    "The first operand, where differentiating it again is an error: the user's wish (``once``) or for want of a rule.",
)
rule = Rule(
    name="rule",
    operands=("values",),
    variadic=True,
    attributes={
        "outputs": Parameter.empty,
        "inputs": Parameter.empty,
        "once": False,  # must what backward computes not be differentiated again?
        "untold": False,  # is it not known how to differentiate that again?
    },
    body=_token,
    grads={},
    infer_type=_rule_type,
    doc="How gradients of outputs become gradients of inputs.",
)

#: The ops of this module; those that are more than their first operand when they run on the tape.
RULE_OPS = frozenset({stand_in, ruled, present, sealed, rule})
FOLLOWED = frozenset({rule, ruled, sealed})


@dataclass(frozen=True)
class RuleParts:
    """The operands of a rule by their roles."""

    stand_ins: tuple[Value, ...]
    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]
    gradients: tuple[Value, ...]
    saved: tuple[Value, ...]

    @classmethod
    def of(cls, value: Value) -> RuleParts:
        """Those of the statement ``value``. Raises :class:`SplitRuleError` where a stand-in is somewhere else."""
        operands = value.value_operands
        m, k = value.attributes["outputs"], value.attributes["inputs"]
        found = cls(
            operands[:m],
            operands[m : 2 * m],
            operands[2 * m : 2 * m + k],
            operands[2 * m + k : 2 * (m + k)],
            operands[2 * (m + k) :],
        )
        if any(x.op is not stand_in for x in found.stand_ins):
            raise SplitRuleError("a gradient rule was divided among rounds of a loop")
        return found

    def historied(self) -> dict[int, Value]:
        """The outputs whose history, where backward keeps them, is the function itself: no inputs returned."""
        inputs = set(self.inputs)
        return {i: v for i, v in enumerate(self.outputs) if v not in inputs}


def between(
    order: Mapping[Value, int], starts: Collection[Value], ends: Sequence[Value]
) -> list[Value]:
    """The statements on the way from ``starts`` to ``ends``, in order; ``order`` has the places of all statements.

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: f32[2]) { %0: f32[2] = exp(x) %1: f32[2] = sin(x) %2: f32[2] = mul(%0, %1) return %2 }"
    >>> graph = parse(text)
    >>> order = {v: i for i, v in enumerate(graph.values)}
    >>> [v.op.name for v in between(order, [graph.body[0]], graph.outputs)]
    ['mul']
    """
    lowest = min((order[v] for v in starts), default=0)
    above: set[Value] = set()
    waiting = list(ends)
    while waiting:
        value = waiting.pop()
        if value not in above and order.get(value, -1) > lowest:
            above.add(value)
            waiting.extend(value.value_operands)
    reached = set(starts)
    found = []
    for value in sorted(above, key=order.__getitem__):
        if value not in reached and any(x in reached for x in value.value_operands):
            reached.add(value)
            found.append(value)
    return found


#: Makes, of the statement of a rule, what is known by value and the graph's statements, a node of the eager tape.
Tape = Callable[[Value, Mapping[Value, Any], Graph], Any]
_tape: list[Tape] = []


def set_tape(tape: Tape) -> None:
    """Install what runs rules on tensors (done once by the part of the package that knows the tape)."""
    _tape[:] = [tape]


def on_tensors(value: Value, known: Mapping[Value, Any], graph: Graph) -> Any:
    """The statement ``value``, a rule or what one rules, on eager tensors."""
    return _tape[0](value, known, graph)
