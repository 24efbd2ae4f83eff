"""Lists, dicts and objects among the arguments that a compiled function changes, or hands out again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn


def seen(value: Any) -> Any:
    """What is in a nested value, for comparisons."""
    if isinstance(value, tj.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return type(value), [(key, seen(x)) for key, x in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [seen(x) for x in value]
    return value if not hasattr(value, "__dict__") else (type(value), seen(vars(value)))


def compared(function: Callable[..., Any], given: Callable[[int], Any], calls: int = 6) -> Any:
    """The compiled function, after calls that did to their arguments what eager ones do."""
    f = tj.compile(function)
    for i in range(calls):
        ours, theirs = given(i), given(i)
        found, expected = f(*ours), function(*theirs)
        assert seen(found) == seen(expected), i
        assert seen(ours) == seen(theirs), i
        for x, y in zip(ours, theirs, strict=True):
            assert (found is x) == (expected is y)
    return f


CHANGES = [
    "items.append(x * 2)",
    "items.append(items[0])",
    "items.extend([x, [x + 1, 'a']])",
    "items.pop()",
    "items.insert(0, x)",
    "items.clear()",
    "items[0] = items[1]",
    "items[0], items[1] = items[1], x - 1",
    "items.reverse()",
    "items += [x]; items[0] = x * 3",
    "table['b'] = x * 2",
    "table['a'] = None",
    "table.pop('a')",
    "table['a'], table['c'] = x, table['a']",
    "table.update(z=items[0]); table['n'] = 3; table['n'] += 1",
    "table['n'] = x.sum().item()",
    "table.setdefault('kept', []).append(x * 2)",
    "table['kept'] = items; items.append(x)",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mapping", [dict, OrderedDict])
def test_lists_and_dicts(change: str, mapping: type) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(x, items, table):\n    {change}\n    return x * 2\n", space)

    def given(i: int) -> Any:
        x = tj.ones(2) * i
        return x, [x, x + 1], mapping(a=tj.zeros(2) + i)

    f = compared(space["f"], given)
    assert f.stats.compiled_calls >= 2, f.explain()


class Layer:
    def __init__(self) -> None:
        self.keys: Any = None

    def update(self, k: Any) -> Any:
        self.keys = k if self.keys is None else tj.cat([self.keys, k], -1)
        return self.keys


class Cache:
    """Grows with every call, as caches of transformers do."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.length = 0

    def update(self, k: Any, i: int) -> Any:
        while len(self.layers) <= i:
            self.layers.append(Layer())
        self.length += int(i == 0)
        return self.layers[i].update(k)


def step(x: Any, cache: Cache) -> Any:
    for i in range(2):
        x = x + cache.update(x, i).mean(-1, keepdim=True)
    return x, cache


def test_caches_made_for_each_sequence() -> None:
    f = tj.compile(step)
    for sequence in range(8):
        ours, theirs = Cache(), Cache()
        for i in range(7):
            x = tj.ones(2, 1) * (sequence + i)
            (a, again), (b, _) = f(x, ours), step(x, theirs)
            assert again is ours
            assert tj.allclose(a, b)
        assert (ours.length, len(ours.layers)) == (7, 2)
        for p, q in zip(ours.layers, theirs.layers, strict=True):
            assert tj.allclose(p.keys, q.keys)
    assert f.stats.recordings <= 20
    assert f.stats.compiled_calls >= 36


@dataclass
class Batch:
    x: Any
    seen: int = 0
    h: Any = None


class Plain:
    def __init__(self, x: Any) -> None:
        self.x, self.seen = x, 0


@pytest.mark.parametrize("make", [Batch, Plain, lambda x: SimpleNamespace(x=x, seen=0)])
def test_objects_go_through(make: Callable[[Any], Any]) -> None:
    layer = nn.Linear(2, 3)

    def f(batch: Any) -> Any:
        batch.h = layer(batch.x)
        batch.seen += 1
        batch.notes = {"mean": batch.h.mean()}
        return batch

    def given(i: int) -> Any:
        return (make(tj.ones(4, 2) * i),)

    for function in (f, tj.compile(f)):
        for i in range(8):
            (batch,) = given(i)
            assert function(batch) is batch
            assert batch.seen == 1
            assert tj.allclose(batch.h, layer(batch.x))
            assert batch.notes["mean"].item() == pytest.approx(batch.h.mean().item())
            batch.h.sum().backward()
    if make is not Batch:  # a field of its own makes a dataclass an object like others
        assert function.stats.compiled_calls >= 3, function.explain()


def test_gradients_of_what_is_left() -> None:
    w = tj.ones(2, requires_grad=True)

    def f(table: Any) -> Any:
        table["h"] = table["x"] * w
        table["h2"] = table["h"] * w

    for function in (f, tj.compile(f)):
        for i in range(5):
            table = {"x": tj.ones(2) * i}
            w.grad = None
            function(table)
            table["h2"].sum().backward()
            assert w.grad.tolist() == [2.0 * i, 2.0 * i]
    assert function.stats.compiled_calls >= 3


def test_an_error_leaves_what_the_eager_run_leaves() -> None:
    def f(x: Any, items: Any) -> Any:
        items.append(x * 2)
        if x.sum() > 3:
            raise ValueError("too much")
        items.append(x * 3)

    g = tj.compile(f)
    for i in range(8):
        ours: list[Any] = []
        theirs: list[Any] = []
        x = tj.ones(2) * (i % 3)
        for function, items in ((f, theirs), (g, ours)):
            try:
                function(x, items)
            except ValueError as error:
                items.append(str(error))
        assert seen(ours) == seen(theirs)
    assert g.stats.compiled_calls >= 2


def test_one_list_twice() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        a.append(x)
        return x * len(b)

    g = tj.compile(f)
    for i in range(8):
        a: list[Any] = []
        b: list[Any] = []
        assert g(tj.ones(2), a, a if i > 4 else b).tolist() == [float(i > 4)] * 2
        assert len(a) == 1
    assert g.stats.compiled_calls >= 2


def test_a_dict_that_the_code_knows() -> None:
    kept = {"n": 0}
    layer = nn.Linear(2, 1)
    optimizer = tj.optim.SGD(layer.parameters(), 0.1)

    def f(x: Any, state: Any) -> Any:
        state["n"] += 1
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()
        return x * kept["n"]

    g = tj.compile(f)
    for i in range(10):
        own = {"n": i}
        before = kept["n"]
        result = g(tj.ones(2), kept if i > 6 else own)
        assert result.tolist() == [float(before + (i > 6))] * 2


# --- objects that are made for the call -------------------------------------------------------------------------------


class Graph:
    def __init__(self, x: Any, edges: Any, scale: float = 1.0) -> None:
        self.x, self.edges, self.scale = x, edges, scale

    @property
    def count(self) -> Any:
        return self.x.size(0)


def test_graphs() -> None:
    def f(graph: Any) -> Any:
        sums = tj.zeros(graph.count, 2).index_add(0, graph.edges[1], graph.x[graph.edges[0]])
        return sums * graph.scale

    g = tj.compile(f)
    for i in range(12):
        n = 3 + i % 4
        graph = Graph(tj.randn(n, 2), tj.randint(0, n, (2, 6)), 0.5 * i)
        assert tj.allclose(g(graph), f(graph))
    assert g.stats.compiled_calls >= 6, g.explain()


class Setting:
    def __init__(self, scale: float) -> None:
        self.scale = scale


class Linked(Setting):
    """Objects of a class that came known to the code once are compared by identity from then on."""


def test_objects_that_are_told_from_their_equals() -> None:
    known = Setting(2.0)
    table: dict[Any, int] = {}

    def f(x: Any, a: Any, b: Any) -> Any:
        return x * a.scale + 10 * (a is known) + 100 * (a is b) + 1000 * (a in table)

    g = tj.compile(f)
    for i in range(18):
        a = known if i in (8, 13) else Setting(2.0)
        b = a if i in (9, 15) else Setting(3.0)
        if i > 15:
            table[a] = 1
        assert g(tj.ones(1), a, b).item() == f(tj.ones(1), a, b).item(), i


def test_objects_with_modules_are_compared_by_identity() -> None:
    class Model:
        def __init__(self, i: int) -> None:
            self.layer = nn.Linear(2, 2)
            self.scale = float(i)

    def f(model: Any, x: Any) -> Any:
        return model.layer(x) * model.scale

    g = tj.compile(f)
    for i in range(5):
        model = Model(i)
        for _ in range(3):
            assert tj.allclose(g(model, tj.ones(1, 2)), f(model, tj.ones(1, 2)))


@pytest.mark.parametrize("make", [Linked, lambda s: SimpleNamespace(scale=s), lambda s: [s]])
def test_arguments_that_contain_themselves(make: Callable[[float], Any]) -> None:
    def f(x: Any, setting: Any) -> Any:
        return x * (setting[0] if isinstance(setting, list) else setting.scale)

    g = tj.compile(f)
    for i in range(10):
        setting = make(float(i))
        if i > 5:
            if isinstance(setting, list):
                setting.append(setting)
            else:
                setting.me = setting
        assert g(tj.ones(1), setting).item() == i
    assert "its arguments contain themselves" in str(g.explain())


def test_a_dict_that_is_put_into_itself() -> None:
    def knot(table: Any, x: Any) -> Any:
        table["itself"] = table
        return x * 2

    f = tj.compile(knot)
    for i in range(4):
        table: dict[str, Any] = {}
        assert f(table, tj.ones(1) * i).item() == 2 * i
        assert table["itself"] is table
    assert any("changes its arguments" in reason for reason in f.reasons), f.reasons


class Row:
    """A key that compares with rows only."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: Any) -> bool:
        return bool(self.number == other.number)

    def __hash__(self) -> int:
        return hash(self.number)


def test_keys_of_dicts_are_compared_with_keys_only() -> None:
    def counted(row: Row, x: Any) -> Any:
        table[row] = table.get(row, 0) + 1
        return x * table[row]

    found = []
    for function in (counted, tj.compile(counted)):
        table: dict[Row, int] = {}
        found.append([function(Row(i % 2), tj.ones(1)).item() for i in range(8)])
        found[-1] += [(key.number, count) for key, count in table.items()]
    assert found[0] == found[1]
