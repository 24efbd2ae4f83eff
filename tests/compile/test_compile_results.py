"""compile(): results that are objects, and what was one object in them, are made again at every call."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import pytest

import tracejit as tj


class Output(OrderedDict[str, Any]):
    """Items that are attributes too, as libraries of models return them."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return tuple(self.values())[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


@dataclass
class Scores(Output):
    loss: Any = None
    logits: Any = None
    hidden: Any = None


class Node:
    def __init__(self, value: Any, parent: Any = None) -> None:
        self.value = value
        self.parent = parent
        self.children: list[Node] = []
        if parent is not None:
            parent.children.append(self)


class Slots:
    __slots__ = ("__weakref__", "left", "right")

    def __init__(self, left: Any) -> None:
        self.left = left


class Row(list[Any]):
    """A list with a name."""


class Frozen:
    def __init__(self, value: Any) -> None:
        vars(self)["value"] = value

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("this cannot change")

    @property
    def doubled(self) -> Any:
        return self.value * 2  # type: ignore[attr-defined]


class Finalized:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __del__(self) -> None:
        pass


OUTSIDE = SimpleNamespace(scale=2.0)


def called(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """What eager execution returns, and the result of a call that ran compiled."""
    compiled = tj.compile(function)
    compiled(*arguments)
    first = compiled(*arguments)
    result = compiled(*arguments)
    assert compiled.stats.compiled_calls == 2, str(compiled.explain())
    assert result is not first
    return function(*arguments), result


def test_a_dict_with_attributes() -> None:
    def f(x: Any) -> Any:
        return Scores(loss=x.square().sum(), logits=x * 2, hidden=[x, x + 1])

    x = tj.tensor([1.0, 2.0], requires_grad=True)
    eager, result = called(f, x)
    assert type(result) is Scores
    assert list(result) == list(eager) == ["loss", "logits", "hidden"]
    assert result.hidden is result["hidden"] is result[2]
    assert result.loss is result["loss"]
    assert [t.tolist() for t in result.hidden] == [t.tolist() for t in eager.hidden]
    result.loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_is_missing_stays_missing() -> None:
    _, result = called(lambda x: Scores(logits=x.exp()), tj.ones(2))
    assert list(result) == ["logits"]
    assert result.loss is None


def test_objects_that_know_each_other() -> None:
    def f(x: Any) -> Any:
        root = Node(x * 3)
        return Node(x * 2, root), root

    eager, (leaf, root) = called(f, tj.ones(3))
    assert leaf.parent is root
    assert root.children[0] is leaf
    assert root.value.tolist() == eager[1].value.tolist()
    assert leaf.value.tolist() == [2.0, 2.0, 2.0]


def test_slots() -> None:
    _, result = called(lambda x: Slots(x + 1), tj.ones(2))
    assert result.left.tolist() == [2.0, 2.0]
    assert not hasattr(result, "right")


def test_a_derived_list() -> None:
    def f(x: Any) -> Any:
        row = Row([x * 2, "text"])
        row.name = ("name", x)  # type: ignore[attr-defined]
        return row

    _, result = called(f, tj.ones(2))
    assert type(result) is Row
    assert result[0].tolist() == [2.0, 2.0]
    assert result[1] == "text"
    assert result.name[0] == "name"


def test_a_list_twice() -> None:
    def f(x: Any) -> Any:
        both = [x * 2]
        return both, {"again": both}

    _, (one, other) = called(f, tj.ones(2))
    assert other["again"] is one


def test_an_object_that_refuses_attributes() -> None:
    _, result = called(lambda x: Frozen(x + 1), tj.ones(2))
    assert result.doubled.tolist() == [4.0, 4.0]


def test_a_namespace_and_a_distribution() -> None:
    def f(x: Any) -> Any:
        return SimpleNamespace(policy=tj.distributions.Normal(x, x.exp()), value=x.sum())

    x = tj.tensor([0.5, 1.0], requires_grad=True)
    eager, result = called(f, x)
    difference = result.policy.log_prob(tj.zeros(2)) - eager.policy.log_prob(tj.zeros(2))
    assert difference.abs().max() < 1e-6
    result.policy.rsample().sum().backward()
    assert x.grad is not None


def test_objects_from_outside_are_handed_out() -> None:
    def f(x: Any, given: Any) -> Any:
        made = Node(x * OUTSIDE.scale)
        return SimpleNamespace(made=made, kept=OUTSIDE, given=given)

    given = Slots(1)
    _, result = called(f, tj.ones(2), given)
    assert result.kept is OUTSIDE
    assert result.given is given
    assert result.made.value.tolist() == [2.0, 2.0]


def test_objects_out_of_a_cache_are_handed_out() -> None:
    @functools.cache
    def table(n: int) -> Node:
        return Node(n)

    @functools.lru_cache
    def listed(n: int) -> list[int]:
        return [n]

    compiled = tj.compile(lambda x: (x * 2, table(3)))
    assert len({id(compiled(tj.ones(2))[1]) for _ in range(4)}) == 1
    assert compiled.stats.compiled_calls == 2
    refused = tj.compile(lambda x: (x * 2, listed(3)))
    assert len({id(refused(tj.ones(2))[1]) for _ in range(4)}) == 1
    assert refused.stats.compiled_calls == 0


@pytest.mark.parametrize("make", [Finalized, Exception, lambda x: lambda: x])
def test_objects_that_are_more_than_they_show(make: Any) -> None:
    compiled = tj.compile(lambda x: make(x * 2))
    results = [compiled(tj.ones(2)) for _ in range(3)]
    assert len({id(r) for r in results}) == 3
    assert compiled.stats.compiled_calls == 0
    assert "made inside" in str(compiled.explain())


def test_branches_and_numbers() -> None:
    def f(x: Any, k: float) -> Any:
        made = Node(x * k)
        made.number = k + 1  # type: ignore[attr-defined]
        if x.sum() > 0:
            made.positive = True  # type: ignore[attr-defined]
        return made

    compiled = tj.compile(f)
    for step, sign in enumerate((1, -1, 1, 1, -1, -1, 1)):
        result = compiled(sign * tj.ones(2), float(step))
        assert hasattr(result, "positive") == (sign > 0)
        assert type(result.number) is float
        assert result.number == step + 1
        assert result.value.tolist() == [sign * step] * 2
    assert compiled.stats.compiled_calls >= 2


def test_sizes_that_the_run_tells() -> None:
    def f(x: Any) -> Any:
        found = x.nonzero()
        return SimpleNamespace(count=found.shape[0], where=found)

    compiled = tj.compile(f)
    for values in ([0, 1], [1, 1], [0, 0], [1, 0]):
        result = compiled(tj.tensor(values))
        assert type(result.count) is int
        assert result.count == sum(values)
        assert result.where.shape == (sum(values), 1)
    assert compiled.stats.compiled_calls == 3


def test_verified() -> None:
    compiled = tj.compile(lambda x: Scores(logits=x.exp(), hidden=Node(x)), verify=True)
    results = [compiled(tj.ones(2)) for _ in range(3)]
    assert results[-1].hidden.value.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("total", [1.0, float("nan")])
def test_verified_numbers_may_differ_by_rounding(total: float) -> None:
    def f(x: tj.Tensor) -> dict[str, Any]:
        return {"mean": (x.exp() * x).mean().item(), "total": total, "node": Node(x)}

    tj.manual_seed(0)
    inputs = [tj.randn(3001) for _ in range(20)]
    verified, compiled = tj.compile(f, verify=True), tj.compile(f)
    for x in inputs:
        assert verified(x)["mean"] == pytest.approx(f(x)["mean"], 1e-4)
    assert verified.stats.compiled_calls > 10
    assert any(compiled(x)["mean"] != f(x)["mean"] for x in inputs)


def test_a_changed_object_is_the_callers_own() -> None:
    compiled = tj.compile(lambda x: Node([x * 2]))
    compiled(tj.ones(2))
    first = compiled(tj.ones(2))
    first.value.append("more")
    first.parent = "changed"
    second = compiled(tj.ones(2))
    assert len(second.value) == 1
    assert second.parent is None
