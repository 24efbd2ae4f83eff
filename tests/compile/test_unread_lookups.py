"""Lookups whose results nothing reads refuse positions out of range in compiled code too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tracejit as tj

LOOKUPS: dict[str, Callable[[tj.Tensor, tj.Tensor], object]] = {
    "a number": lambda x, at: x[at],
    "computed": lambda x, at: x[1 - at],
    "two of them": lambda x, at: x[at] * x[1 - at],
    "rows": lambda x, at: x[at.reshape(1)],
    "by element": lambda x, at: x.gather(0, at.reshape(1, 1)),
    "along": lambda x, at: tj.take_along_dim(x, at.reshape(1, 1), 0),
    "an embedding": lambda x, at: tj.nn.functional.embedding(at.reshape(1), x),
    "only the shape": lambda x, at: tj.zeros_like(x[at]),
    "written": lambda x, at: x.clone().__setitem__(at, 0.0),
    "scattered": lambda x, at: x.scatter(0, at.reshape(1, 1), 0.0),
    "added": lambda x, at: x.index_add(0, at.reshape(1), x[:1]),
    "divided": lambda x, at: 7 // at,
    "the rest": lambda x, at: at % at,
    "a loss": lambda x, at: tj.nn.functional.nll_loss(x, at.expand(2)),
}


def outcome(function: Callable[..., tj.Tensor], *args: tj.Tensor) -> object:
    try:
        return function(*args).tolist()
    except (IndexError, RuntimeError) as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("grad", [True, False])
def test_refused_as_in_eager_code(name: str, grad: bool) -> None:
    lookup = LOOKUPS[name]

    def f(x, at):
        lookup(x, at)
        return x * 2

    g = tj.compile(f)
    x = tj.tensor([[0.5, 1.0], [2.0, 3.0]], requires_grad=grad)
    for position in (1, 1, 1, 0, -1, 5, -5, 1, 2):
        at = tj.tensor(position)
        assert outcome(g, x, at) == outcome(f, x, at), position
    assert g.stats.compiled_calls >= 2, g.explain()


def test_only_on_the_path_that_does_not_read_it() -> None:
    def f(x, at, s):
        found = x[at]
        if s > 0:
            return found * 2
        return x * 2

    g = tj.compile(f)
    x = tj.arange(4.0).reshape(2, 2)
    for position, s in ((0, 1), (1, -1), (1, 1), (0, -1), (2, 1), (2, -1), (0, 1), (0, -1)):
        args = x, tj.tensor(position), tj.tensor(s)
        assert outcome(g, *args) == outcome(f, *args)
    assert g.stats.compiled_calls >= 4, g.explain()


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.max(1)[1],
        lambda x: x.sort(1)[1],
        lambda x: x.topk(2)[1],
        lambda x: (x * 2, x[tj.tensor([0, 1])])[0],
        lambda x: (x.argmax(0), x.gather(0, x.argmax(0, keepdim=True)))[0],
    ],
)
def test_positions_that_cannot_be_out_of_range_are_not_looked_at(body) -> None:
    g = tj.compile(body)
    for _ in range(3):
        g(tj.rand(3, 3))
    assert "guard" not in str(g.explain())
    assert g.stats.compiled_calls == 2


def test_in_a_loop() -> None:
    def f(x, at):
        for row in x:
            _ = row[at]
            x = x * 0.5 + row
        return x

    g = tj.compile(f)
    x = tj.rand(6, 3)
    for position in (0, 1, 2, -3, 3, -4, 1):
        args = x, tj.tensor([position])
        assert outcome(g, *args) == outcome(f, *args)
    assert g.stats.compiled_calls >= 3, g.explain()


def test_where_only_the_run_tells_how_many_there_are() -> None:
    def f(x, at):
        found = x[x > 0]
        _ = found[at]
        return found * 2

    g = tj.compile(f)
    for row in ([1.0, -1.0, 2.0], [1.0, 2.0, 3.0], [-1.0, -1.0, 4.0], [-1.0, -1.0, -1.0]):
        for position in (0, 1, 0, 2, -3, -2, -1):
            args = tj.tensor(row), tj.tensor([position])
            assert outcome(g, *args) == outcome(f, *args)
    assert g.stats.compiled_calls >= 12, g.explain()


def test_a_step_that_returns_nothing_stays_one_program() -> None:
    """The loss of a step is looked up, and only its gradient is used."""
    layer = tj.nn.Linear(4, 3)
    optimizer = tj.optim.SGD(layer.parameters(), lr=0.1)

    @tj.compile
    def step(x, target):
        optimizer.zero_grad()
        tj.nn.functional.cross_entropy(layer(x), target).backward()
        optimizer.step()

    x = tj.rand(5, 4)
    for _ in range(4):
        step(x, tj.tensor([0, 1, 2, 0, 1]))
    assert step.stats.compiled_calls == 3
    assert str(step.explain()).count("guard") == 1
    before = layer.weight.tolist()
    with pytest.raises(IndexError, match="out of bounds"):
        step(x, tj.tensor([0, 1, 3, 0, 1]))
    assert layer.weight.tolist() == before
    step(x, tj.tensor([0, 1, 2, 0, 1]))
    assert step.stats.compiled_calls == 4


@pytest.mark.parametrize("read", [True, False])
def test_in_rounds_that_a_tensor_ends(read: bool) -> None:
    def f(x, at):
        total = x.sum() * 0
        while x.abs().sum() > 0.5:
            total = total + x[at].sum()
            x = x * 0.5
            at = at + 1
        return (x, total) if read else (x, x)

    def call(function, *args):
        try:
            return [t.tolist() for t in function(*args)]
        except IndexError as error:
            return str(error).splitlines()[0]

    g = tj.compile(f)
    for size, position in ((1.0, 0), (2.0, 0), (1.0, 1), (4.0, -2), (64.0, 0), (1.0, 0)):
        args = tj.full((4,), size), tj.tensor([position])
        assert call(g, *args) == call(f, *args)
    assert ("nothing reads" in str(g.explain())) is not read
