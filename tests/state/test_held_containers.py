"""Long dicts and lists whose items a compiled function replaces: averages by name, counts, caches by position."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import tracejit as tj

MAKE: dict[str, Any] = {
    "dict": lambda items: dict(items),
    "ordered": lambda items: OrderedDict(items),
    "derived": lambda items: type("Named", (dict,), {})(items),
    "list": lambda items: [x for _, x in items],
    "derived list": lambda items: type("Row", (list,), {})(x for _, x in items),
}


def filled(kind: str, count: int, value: Any) -> tuple[Any, list[Any]]:
    items = [(f"k{i}", value(i)) for i in range(count)]
    made = MAKE[kind](items)
    return made, list(made) if isinstance(made, dict) else list(range(count))


def shown(value: Any) -> Any:
    values = value.values() if isinstance(value, dict) else value
    return [x.tolist() if isinstance(x, tj.Tensor) else x for x in values]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("count", [5, 30, 200])
@pytest.mark.parametrize("kind", MAKE)
def test_averages_by_name(kind: str, count: int) -> None:
    """All items are replaced at every call; programs look at them, and replace some, in between."""

    def run(compiled: bool) -> Any:
        shadow, keys = filled(kind, count, lambda i: tj.full((2,), float(i)))

        def step(x: Any) -> Any:
            for i, k in enumerate(keys):
                shadow[k] = shadow[k] * 0.9 + x * (i % 3)
            return shadow[keys[0]].sum()

        f, found = tj.compile(step) if compiled else step, []
        for call in range(9):
            if call == 6:
                shadow[keys[-1]] = tj.zeros(2)
            found.append((f(tj.ones(2) * call).item(), shown(shadow)))
        if compiled:
            assert f.stats.compiled_calls >= 5, f.explain()
        return found

    for a, b in zip(run(True), run(False), strict=True):
        assert a[0] == pytest.approx(b[0])
        assert all(x == pytest.approx(y) for x, y in zip(a[1], b[1], strict=True))


@pytest.mark.parametrize("kind", MAKE)
def test_one_of_many_items(kind: str) -> None:
    def run(compiled: bool) -> Any:
        kept, keys = filled(kind, 40, lambda i: tj.zeros(2) if i == 7 else float(i))

        def step(x: Any) -> Any:
            kept[keys[7]] = kept[keys[7]] + x
            kept[keys[8]] = kept[keys[8]] + 1.0
            return x * kept[keys[8]] + kept[keys[9]]

        f, found = tj.compile(step) if compiled else step, []
        for call in range(12):
            if call == 8:
                kept[keys[9]] = 5.0
            found.append((f(tj.ones(2)).tolist(), shown(kept)))
        if compiled:
            assert f.stats.compiled_calls >= 5, f.explain()
        return found

    assert run(True) == run(False)


def test_long_dicts_that_grow_are_seen() -> None:
    table = {k: tj.ones(1) for k in range(30)}

    @tj.compile
    def total(x: Any) -> Any:
        table[0] = table[0] + x
        return sum(table.values())

    for call in range(12):
        if call % 4 == 3:
            table[len(table)] = tj.ones(1)
        before = sum(table.values()).item()
        assert total(tj.ones(1)).item() == before + 1
