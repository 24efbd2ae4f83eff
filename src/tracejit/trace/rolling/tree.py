"""Rolling a recorded tree: repeated statements of a path without guards become loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen.cpu.alone import writer_of
from ...codegen.cpu.scatter import scatters
from ...ir.graph import Graph, Value
from ...ir.rules import RULE_OPS
from ...ops.random import RandomSource
from ...ops.table import Contraction, Movement
from ...passes.loops.loops import prepare
from ...passes.loops.optimize import restructure_loops
from ...passes.products.complex_parts import is_done_by_parts
from ...passes.simplify.views import reduces_nothing
from ...runtime.plan.assembly import is_fusible
from ...runtime.plan.pieces import is_move
from ...runtime.plan.vector_calls import is_vector_call
from ..recording.inputs import Signature
from ..tree.tree import Leaf, Segment, path_graph
from .draws import Draws
from .evidence import FEW_ROUNDS, MIN_ROUNDS, Evidence
from .forms import Seen
from .forwarding import forwarded
from .numbers import DifferentNumbers
from .rolling import Rolled, roll
from .slices import flat_slices, shown_late

#: Statements from which on it is worth looking for repetitions.
FEWEST_STATEMENTS = 12

#: What goes over windows, or mixes neighbours: steps of their own, or written out as elementwise work.
WINDOWED = frozenset(
    {
        *("convolution", "convolution_input", "convolution_weight", "mix_along"),
        *("unfold_windows", "fold_windows", "sum_windows", "spread_windows"),
        *("max_windows", "argmax_windows", "pick_windows", "put_windows"),
    }
)


def roll_tree(
    root: Segment, signature: Signature, wants: Callable[[Value], bool], seen: Seen
) -> bool:
    """Roll a tree that is one straight path; False when there is nothing to roll.

    ``wants`` tells which inputs want gradients, ``seen`` what earlier recordings of the function were like.
    """
    leaf = root.leaf
    if leaf is None or leaf.straight is not None:
        return False
    seen.evidence.note(root.statements)
    known = (len(root.statements), *seen.state())
    if leaf.looked_through == known:
        return False
    inputs, kept = signature.builder.inputs, _kept(leaf)
    found = seen.forms.roll(inputs, root.statements, kept)
    leaf.formed = found is not None
    if found is None:
        if len(root.statements) < FEWEST_STATEMENTS and not seen.evidence.varying:
            return False
        found = _rolled(root.statements, leaf, signature, seen.evidence)
        if found is None:
            leaf.looked_through = known
            return False
        seen.forms.note(inputs, found, kept)
    statements, mapping = list(found.statements), found.mapping
    if leaf.wanted:
        statements, mapping = _ready_for_gradients(leaf, signature, found, wants)
    straight = (root.statements, leaf.recording, leaf.graph)
    try:
        root.statements = statements
        _replace(leaf, signature, root.statements, mapping)
        leaf.straight = straight
    except BaseException:  # an interrupt too leaves it straight or rolled, and nothing between
        leaf.straight, (root.statements, leaf.recording, leaf.graph) = None, straight
        _forget(leaf)
        raise
    return True


def _kept(leaf: Leaf) -> list[Value]:
    """What the end of the path reads."""
    return [*leaf.graph.outputs, *leaf.recording.holds]


def _rolled(
    statements: Sequence[Value], leaf: Leaf, signature: Signature, evidence: Evidence
) -> Rolled | None:
    inputs, outputs = signature.builder.inputs, _kept(leaf)
    if leaf.recording.random_calls and signature.device >= 0:
        return None
    statements, changed = flat_slices(statements)
    if not leaf.wanted:  # else gradients would be summed in another order
        kept = [changed.get(v, v) for v in outputs]
        statements, further = forwarded(statements, kept)
        changed = {**{old: further.get(new, new) for old, new in changed.items()}, **further}
    statements = shown_late(statements)
    stages: list[Draws | DifferentNumbers] = []
    wanted = [[changed.get(v, v) for v in outputs]]
    if signature.device < 0:
        stages.append(DifferentNumbers(statements, FEW_ROUNDS if evidence.varying else MIN_ROUNDS))
    if leaf.recording.random_calls:
        stages.append(Draws(stages[-1].statements))
    for stage in stages:
        statements = stage.statements
        wanted.append([stage.mapping.get(v, v) for v in wanted[-1]])
    plannable = is_native if signature.device >= 0 else is_native_on_host
    found = roll(inputs, statements, wanted[-1], plannable, evidence)
    if found is None:
        return None
    for stage, kept in zip(reversed(stages), wanted[-2::-1], strict=True):
        found = stage.put_back(found, kept)
    mapping = {old: found.mapping[new] for old, new in zip(outputs, wanted[0], strict=True)}
    return dataclasses.replace(found, mapping=mapping)


def _ready_for_gradients(
    leaf: Leaf, signature: Signature, found: Rolled, wants: Callable[[Value], bool]
) -> tuple[list[Value], dict[Value, Value]]:
    """The statements with loops that also collect what backward needs, and what then stands for each value."""
    inputs = tuple(signature.builder.inputs)
    kept = tuple(found.mapping.values())
    graph = Graph(signature.builder.name, inputs, found.statements, kept)
    graph = restructure_loops(graph)
    shown = {found.mapping.get(leaf.shown[i], leaf.shown[i]) for i in leaf.wanted}
    wrt = [wants(v) for v in inputs]
    graph = prepare(graph, wrt, [v in shown for v in kept]).graph
    return list(graph.values), dict(zip(found.mapping, graph.outputs, strict=True))


def unroll_tree(root: Segment) -> None:
    """Take back what :func:`roll_tree` did; the tree will not be rolled again."""
    leaf = root.leaf
    assert leaf is not None
    assert leaf.straight is not None
    root.statements, leaf.recording, leaf.graph = leaf.straight
    _forget(leaf)


def is_native(value: Value) -> bool:
    """Can a native loop compute this?"""
    if isinstance(value.op, RandomSource):
        return value.spec.dtype.short in value.op.scalars
    if is_done_by_parts(value) or writer_of(value) is not None:
        return True
    if isinstance(value.op, Movement):
        return value.op.is_view or is_move(value)
    if scatters(value):
        return True
    if isinstance(value.op, Contraction) and value.op.name == "matmul":
        return value.spec.dtype.short in ("f32", "f64")
    if is_vector_call(value):
        return True
    if reduces_nothing(value):
        return True
    return is_fusible(value) or value.op in RULE_OPS  # of which none is left by then


def is_native_on_host(value: Value) -> bool:
    """Can a native loop compute this on the host? There convolutions and pooling are native, too."""
    return is_native(value) or (value.op is not None and value.op.name in WINDOWED)


def _replace(
    leaf: Leaf, signature: Signature, statements: list[Value], mapping: dict[Value, Value]
) -> None:
    found = leaf.recording

    def new(value: Value) -> Value:
        return mapping.get(value, value)

    changes: dict[str, Any] = {
        "path": tuple(statements),
        "outputs": tuple(dataclasses.replace(r, value=new(r.value)) for r in found.outputs),
        "writes": tuple((old, new(value), *rest) for old, value, *rest in found.writes),
        "holds": tuple(map(new, found.holds)),
    }
    leaf.recording = dataclasses.replace(found, **changes)
    graph = path_graph(leaf.recording, signature)
    leaf.graph = dataclasses.replace(graph, inputs=leaf.graph.inputs)
    _forget(leaf)


def _forget(leaf: Leaf) -> None:
    """What was derived from the recording."""
    for name in ("shown", "wanted"):
        leaf.__dict__.pop(name, None)
