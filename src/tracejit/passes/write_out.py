"""Writing loops out: rounds that have nothing to do with each other, on values that were only stacked for them.

Before (of the loop, and around it)::

    %0: f32[1, 8] = unsqueeze(a, dims=(0,))
    %1: f32[1, 8] = unsqueeze(b, dims=(0,))
    %2: f32[2, 8] = cat(%0, %1, dim=0)
    %3: loop(f32[2, 8]) = loop(%2, count=2, carried=0, items=1)
        graph round(x: f32[8]) {
            %0: f32[8] = exp(x)
            return %0
        }
    %4: f32[2, 8] = part(%3, index=0)

After, what takes the stack apart again finds what it is made of::

    %0: f32[8] = exp(a)
    %1: f32[1, 8] = unsqueeze(%0, dims=(0,))
    %2: f32[8] = exp(b)
    %3: f32[1, 8] = unsqueeze(%2, dims=(0,))
    %4: f32[2, 8] = cat(%1, %3, dim=0)

The step of an optimizer over many parameters has this form. Every round is a launch of the same kernel, on memory where
it lies; run as one they would all be copied together first and apart afterwards.
"""

from __future__ import annotations

from ..extents import is_symbolic
from ..ir.builder import Builder
from ..ir.graph import Value
from ..ir.loops import body_of, split_operands
from ..ops.movement import cat, squeeze, unsqueeze
from ..ops.table import Elementwise, Movement
from .rewrite_loops import Parts

#: Rounds are written out as long as there are no more statements than this afterwards.
MOST_STATEMENTS = 8192


def written_out(builder: Builder, loop: Value, used: set[int]) -> Parts | None:
    """The rule: a loop without carried values over stacks of single values, round by round."""
    carried, fixed, stacks = split_operands(loop)
    count, body = loop.attributes["count"], body_of(loop)
    if carried or not stacks or is_symbolic(count) or count * len(body.body) > MOST_STATEMENTS:
        return None
    if not all(map(_is_pointwise, body.values)) or len(list(body.values)) != len(body.body):
        return None
    items = [found for stack in stacks if (found := _items(stack, count)) is not None]
    if len(items) < len(stacks):
        return None
    results: list[list[Value]] = [[] for _ in body.outputs]
    for number in range(count):
        singles = [builder.emit(squeeze, (item[number],), {"dims": (0,)}) for item in items]
        mapping = dict(zip(body.inputs, (*fixed, *singles), strict=True))
        for value in body.values:
            mapping[value] = builder.copy(value, mapping)
        for index, output in enumerate(body.outputs):
            if index in used:
                one = builder.emit(unsqueeze, (mapping[output],), {"dims": (0,)})
                results[index].append(one)
    return lambda index: builder.emit(cat, results[index], {"dim": 0})


def _is_pointwise(value: Value) -> bool:
    """Is this computed element by element, or a view?"""
    return isinstance(value.op, Elementwise) or (
        isinstance(value.op, Movement) and value.op.is_view
    )


def _items(stack: Value, count: int) -> tuple[Value, ...] | None:
    """The pieces of a stack that was put together of one piece a round."""
    if stack.op is not cat or stack.attributes["dim"] != 0 or len(stack.operands) != count:
        return None
    pieces = stack.value_operands
    return pieces if all(x.type.shape[0] == 1 for x in pieces) else None
