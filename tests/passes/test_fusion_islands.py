"""What nothing else reads is fused once and copied: into the very groups that fusing it gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tracejit.ir import parse
from tracejit.ir.graph import Graph, Value
from tracejit.passes.fusion import fusion
from tracejit.passes.fusion.groups import Group, Schedule
from tracejit.passes.fusion.islands import find_islands
from tracejit.runtime.plan.assembly import is_fusible

ELEMENTWISE = ("exp(#)", "neg(#)", "add(#, #)", "mul(#, #)", "sub(#, 1)", "div(2, #)")


def _recipe(random: random.Random, length: int) -> list[tuple[str, list[int]]]:
    """Operations, each with which of the earlier values it takes."""
    made: list[tuple[str, list[int]]] = []
    for count in range(length):
        text = random.choice(ELEMENTWISE)
        near = range(max(0, count - 3), count + 2)
        made.append((text, [random.choice(near) for _ in range(text.count("#"))]))
    return made


def _text(recipe: Sequence[tuple[str, list[int]]], copies: int, end: str) -> str:
    """``copies`` of a recipe, each on two inputs of its own and the product of two others."""
    lines, outputs = ["%0: f32[8, 8] = matmul(a, b)"], []
    for copy in range(copies):
        values = [f"x{copy}", "%0"]
        for text, taken in recipe:
            name = f"%{len(lines)}"
            for x in taken:
                text = text.replace("#", values[x], 1)
            lines.append(f"{name}: f32[8, 8] = {text}")
            values.append(name)
        if end:
            lines.append(f"%{len(lines)}: f32[8] = {end}({values[-1]}, dims=(1,), keepdim=False)")
        outputs.append(f"%{len(lines) - 1}")
    inputs = ", ".join(f"{x}: f32[8, 8]" for x in ["a", "b", *(f"x{c}" for c in range(copies))])
    return f"graph f({inputs}) {{ {' '.join(lines)} return {', '.join(outputs)} }}"


def _described(schedule: Schedule) -> list[Any]:
    order = {v: i for i, v in enumerate((*schedule.graph.inputs, *schedule.graph.values))}

    def numbers(found: dict[Value, Any]) -> list[Any]:
        return sorted((order[v], x) for v, x in found.items())

    groups = [
        (
            [order[v] for v in step.values],
            step.domain,
            step.reduced,
            numbers(step.dims),
            numbers(step.level),
            numbers(step.externals),
            [order[v] for v in schedule.outputs[step]],
        )
        for step in schedule.steps
        if isinstance(step, Group)
    ]
    return sorted(groups, key=lambda found: found[0])


def _fused(graph: Graph) -> Schedule:
    return fusion.fuse(graph, is_fusible, across=True)


@pytest.mark.parametrize("seed", range(40))
def test_copies_are_the_groups_that_fusing_gives(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(seed)
    recipe = _recipe(draws, draws.randint(6, 14))
    graph = parse(_text(recipe, draws.randint(2, 5), draws.choice(["", "sum", "amax"])))
    copied = _fused(graph)
    monkeypatch.setattr(fusion, "find_islands", lambda *given: [])
    assert _described(copied) == _described(_fused(graph))


def test_only_what_nothing_else_reads_is_an_island() -> None:
    recipe = [("exp(#)", [0]), *[("add(#, #)", [i, i + 1]) for i in range(1, 7)]]
    alone = parse(_text(recipe, 3, ""))
    assert [len(island.values) for island in find_islands(alone, is_fusible, {})] == [7, 7, 7]
    text = _text(recipe, 3, "")
    last = text.count("matmul") + 3 * len(recipe)
    read = text.replace(" return ", f" %{last}: f32[8, 8] = matmul(%{last - 1}, a) return ")
    assert len(find_islands(parse(read), is_fusible, {})) == 2


def test_islands_that_differ_are_fused_one_by_one() -> None:
    one = [("exp(#)", [0]), *[("add(#, #)", [i, i + 1]) for i in range(1, 7)]]
    text = _text(one, 2, "").replace("exp(x1)", "neg(x1)")
    assert find_islands(parse(text), is_fusible, {}) == []


def test_many_islands_are_entered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[Value] = []
    visit = fusion.Fuser.visit
    monkeypatch.setattr(
        fusion.Fuser, "visit", lambda self, value: (visited.append(value), visit(self, value))[1]
    )
    recipe = [("exp(#)", [0]), *[("mul(#, #)", [i, i + 1]) for i in range(1, 9)]]
    schedule = _fused(parse(_text(recipe, 20, "")))
    assert len(visited) == 1 + len(recipe)
    assert len(schedule.groups) == 20
