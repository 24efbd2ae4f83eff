"""Loops in graphs: a body that runs once per round, handing values on from one round to the next.

::

    %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, w, xs, count=5, carried=1, items=1)
        graph round(h: f32[4, 8], w: f32[8, 8], x: f32[4, 8]) {
            %0: f32[4, 8] = matmul(h, w)
            %1: f32[4, 8] = add(%0, x)
            return %1, %0
        }
    %1: f32[4, 8] = part(%0, index=0)       # h after the last round
    %2: f32[5, 4, 8] = part(%0, index=1)    # what each round gave, one after the other

The operands of a loop are the first values of what is *carried*, then what is the same in every round (*fixed*), then
stacks of *items*: tensors whose first dimension is the round. The body is a graph whose inputs are the carried values,
the fixed values, and one item of each stack; it returns the carried values of the next round, then what is collected.
The loop's parts are the last carried values, and a stack of each collected output.

An *open* loop has one more attribute, ``until``: it ends after the first round whose last carried value, a single
truth value, is that, and after ``count`` rounds at the latest. It has no items and collects nothing::

    %0: loop(f64[], bool[]) = loop(x, go_on, count=100, carried=2, items=0, until=False)
        graph round(x: f64[], before: bool[]) {
            %0: f64[] = mul(x, 0.5)
            %1: bool[] = gt(%0, 1.0)
            return %0, %1
        }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ShapeError
from ..ops.op import Array
from ..ops.source import full
from ..ops.table import Contraction
from ..types import Scalar, TensorType
from .graph import Graph, Value

#: Attributes of a loop: ``carried`` and ``items`` are how many inputs of the body are of that kind.
_ATTRIBUTES: dict[str, Any] = {
    **dict.fromkeys(("body", "count", "carried", "items"), Parameter.empty),
    "until": None,
}


@dataclass(frozen=True, eq=False)
class Body:
    """The body of a loop as an attribute: compared by identity."""

    graph: Graph

    def __repr__(self) -> str:
        return self.graph.name


@dataclass(frozen=True, slots=True)
class LoopType(TensorType):
    """The type of a loop: that of each of its parts."""

    parts: tuple[TensorType, ...] = ()

    def __str__(self) -> str:
        return f"loop({', '.join(map(str, self.parts))})"


class Loop(Contraction):
    """The kind of the one op :data:`loop`."""

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """A list of the parts, as arrays."""
        from . import interpreter

        return run_rounds(operands, attributes, interpreter.run, _stacked_arrays)

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """A list of the parts, as tensors; op by op, so that autograd records it."""
        from . import interpreter

        return run_rounds(operands, attributes, interpreter.run_tensors, _stacked_tensors)


class Part(Contraction):
    """The kind of the one op :data:`part`."""

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """One of the parts a loop evaluated to."""
        return operands[0][attributes["index"]]

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """The same for tensors."""
        return operands[0][attributes["index"]]


def _stacked_arrays(found: list[Any], kind: TensorType) -> Any:
    return np.stack(found) if found else np.empty((0, *kind.shape), kind.dtype.np)


def _stacked_tensors(found: list[Any], kind: TensorType) -> Any:
    from ..ops.functions.joining import stack

    return stack(found) if found else full(shape=(0, *kind.shape), value=0, dtype=kind.dtype)


def run_rounds(
    operands: Sequence[Any],
    attributes: Mapping[str, Any],
    run: Callable[[Graph, list[Any]], list[Any]],
    stack: Callable[[list[Any], TensorType], Any],
) -> list[Any]:
    """All rounds of a loop, with a function that runs a graph and one that stacks what was collected."""
    graph: Graph = attributes["body"].graph
    carried, items, count = attributes["carried"], attributes["items"], attributes["count"]
    until = attributes.get("until")
    state = list(operands[:carried])
    fixed = list(operands[carried : len(operands) - items])
    stacks = operands[len(operands) - items :]
    kinds = [v.spec for v in graph.outputs[carried:]]
    collected: list[list[Any]] = [[] for _ in kinds]
    for number in range(count):
        found = run(graph, [*state, *fixed, *(s[number, ...] for s in stacks)])
        state = list(found[:carried])
        for gathered, one in zip(collected, found[carried:], strict=True):
            gathered.append(one)
        if until is not None and _truth(state[-1]) is until:
            break
    return [*state, *map(stack, collected, kinds)]


def _truth(value: Any) -> bool:
    """What an array or a tensor of one element holds."""
    return bool(getattr(value, "array", value).item())


def _loop_type(*operands: TensorType | Scalar, **attributes: Any) -> TensorType:
    graph: Graph = attributes["body"].graph
    carried, items, count = attributes["carried"], attributes["items"], attributes["count"]
    first = len(operands) - items
    if not 0 <= carried <= first or carried > len(graph.outputs):
        raise ShapeError(f"loop: {carried} carried values and {items} items do not fit its body")
    for number, (x, value) in enumerate(zip(operands, graph.inputs, strict=True)):
        assert isinstance(x, TensorType)
        shape = x.shape[1:] if number >= first else x.shape
        if shape != value.spec.shape or x.dtype is not value.spec.dtype:
            raise ShapeError(f"loop: operand {number} is {x}, its body takes {value.spec}")
        if number >= first and x.shape[0] != count:
            raise ShapeError(f"loop: a stack of {x.shape[0]} items for {count} rounds")
    parts = [v.spec for v in graph.outputs[:carried]]
    for before, after in zip(graph.inputs, parts, strict=False):
        if before.spec != after:
            raise ShapeError(f"loop: {before.spec} is carried on as {after}")
    if attributes.get("until") is not None:
        _check_open(graph, carried, items)
    parts += [TensorType((count, *v.spec.shape), v.spec.dtype) for v in graph.outputs[carried:]]
    return LoopType((), dtypes.int64, tuple(parts))


def _check_open(graph: Graph, carried: int, items: int) -> None:
    if items or len(graph.outputs) > carried:
        raise ShapeError("loop: how many rounds there are is not known, so there are no stacks")
    last = graph.outputs[-1].spec if carried else None
    if last is None or last.dtype is not dtypes.bool_ or last.numel != 1:
        raise ShapeError("loop: what is carried last decides about the end: one truth value")


def _part_type(x: TensorType, *, index: int) -> TensorType:
    assert isinstance(x, LoopType)
    return x.parts[index]


def _body(*operands: Array, **attributes: Any) -> Array:
    raise NotImplementedError


loop = Loop(
    name="loop",
    operands=("values",),
    variadic=True,
    attributes=_ATTRIBUTES,
    body=_body,
    grads={},
    infer_type=_loop_type,
    doc="A body that runs once per round.",
)
part = Part(
    name="part",
    operands=("loop",),
    variadic=False,
    attributes={"index": Parameter.empty},
    body=_body,
    grads={},
    infer_type=_part_type,
    doc="One result of a loop.",
)


def is_loop(value: Value) -> bool:
    """Is this the token of a loop (its results are its parts)?"""
    return value.op is loop


def is_open(loop: Value) -> bool:
    """Does what a loop computes decide how many rounds there are?"""
    return loop.attributes.get("until") is not None


def is_last_carried(value: Value) -> bool:
    """Is this a part that lies where it was carried to the end? (Those of open loops are copied.)"""
    if value.op is not part or is_open(value.value_operands[0]):
        return False
    index: int = value.attributes["index"]
    carried: int = value.value_operands[0].attributes["carried"]
    return index < carried


def body_of(value: Value) -> Graph:
    """The body of a loop."""
    found: Graph = value.attributes["body"].graph
    return found


def split_operands(
    value: Value,
) -> tuple[tuple[Value, ...], tuple[Value, ...], tuple[Value, ...]]:
    """First values of what is carried, fixed values, stacks of items."""
    carried, items = value.attributes["carried"], value.attributes["items"]
    operands = value.value_operands
    last = len(operands) - items
    return operands[:carried], operands[carried:last], operands[last:]


def loop_value(
    carried: Sequence[Value],
    fixed: Sequence[Value],
    stacks: Sequence[Value],
    graph: Graph,
    count: int,
    line: tuple[str, int] | None = None,
    until: bool | None = None,
) -> Value:
    """The statement of a loop."""
    attributes = {
        "body": Body(graph),
        "count": count,
        "carried": len(carried),
        "items": len(stacks),
    }
    if until is not None:
        attributes["until"] = until
    operands = (*carried, *fixed, *stacks)
    kind = loop.infer([x.spec for x in operands], attributes)
    return Value(kind, loop, operands, attributes, line=line)


def part_value(value: Value, index: int) -> Value:
    """The statement of one of a loop's parts."""
    attributes = {"index": index}
    return Value(part.infer([value.spec], attributes), part, (value,), attributes, line=value.line)
