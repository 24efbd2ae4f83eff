"""Which inputs and outputs backward may read again where they lie, instead of copies.

Before backward the user may change an input in place. Eager execution refuses a pass that comes by a step which kept
it, and no other: a pass from one of several results may not come by that step. So what backward reads for a result
lies outside only if eager execution kept it on the way from that very result. Before, where ``f(x)`` returns
``(x*x).detach()*x, x*x``::

    the gradient of the first result reads  x*x, which eager execution has kept: computed again from x
    the gradient of the second reads        x

After, ``x`` is read for the second only, and ``x*x`` is kept for the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Graph, Value
from .gradient import Gradient, storage

__all__ = ["by_reference"]


def by_reference(
    forward: Graph, gradient: Gradient, seeds: Sequence[Value], values: Sequence[Value]
) -> set[Value]:
    """What may be read where it lies; ``values`` are the statements of ``forward`` and ``gradient`` from ``seeds``.

    >>> from dataclasses import replace
    >>> from tracejit.ir import parse
    >>> from tracejit.passes.gradient.gradient import differentiate
    >>> f = parse("graph f(x: f32[3]) { %0: f32[3] = mul(x, x)  %1: f32[3] = exp(%0)  return %0, %1 }")
    >>> found = replace(differentiate(f, [True]), saved_inputs={0: 0b11}, saved_outputs={1: 0b10})
    >>> seeds, values = found.graph.inputs[1:], [*f.values, *found.graph.values]
    >>> by_reference(f, found, seeds, values) == {*f.inputs, f.outputs[1]}
    True
    >>> found = replace(found, saved_inputs={0: 0b01})
    >>> by_reference(f, found, seeds, values) == {f.outputs[1]}
    True
    """
    kept: dict[Value, int] = {}
    for positions, those in (
        (gradient.saved_inputs, forward.inputs),
        (gradient.saved_outputs, forward.outputs),
    ):
        for position, bits in positions.items():
            place = storage(those[position])
            kept[place] = kept.get(place, 0) | bits
    if all(bits == -1 for bits in kept.values()):
        return set(kept)
    needed = _needed(dict(zip(seeds, gradient.seeds, strict=True)), values)
    return {v for v, bits in kept.items() if not needed.get(v, 0) & ~bits}


def _needed(seeds: Mapping[Value, int], values: Sequence[Value]) -> dict[Value, int]:
    """For what depends on no gradient, the bits of the outputs whose gradients (``seeds``) may be computed from it."""
    after = {seed: 1 << i for seed, i in seeds.items()}
    for value in values:
        bits = 0
        for x in value.value_operands:
            bits |= after.get(x, 0)
        if bits:
            after[value] = bits
    needed: dict[Value, int] = {}
    for value in reversed(values):
        bits = after.get(value) or needed.get(value, 0)
        if bits:
            for x in value.value_operands:
                if x not in after:
                    needed[x] = needed.get(x, 0) | bits
    return needed
