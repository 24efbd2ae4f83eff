"""Sizes known only at run time: compiled programs give what eager execution gives, and are recorded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.trace.entry import Entry
from tracejit.trace.sizes import sized_walk
from tracejit.trace.tree.plan import CALLS_PER_PATH, EFFORT, PlanStore

Program = Callable[..., Any]

WEIGHT = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def weight() -> tj.Tensor:
    return tj.tensor(WEIGHT)


def outcome(function: Program, arrays: tuple[np.ndarray, ...], backward: bool) -> Any:
    """Results and gradients of a call, or the error it raises."""
    tensors = [tj.tensor(a) for a in arrays]
    for t in tensors:
        if backward and t.is_floating_point():
            t.requires_grad_()
    try:
        result = function(*tensors)
        leaves = list(result) if isinstance(result, (tuple, list)) else [result]
        loss = [(x * x).sum() for x in leaves if isinstance(x, tj.Tensor) and x.requires_grad]
        if loss:
            sum(loss[1:], loss[0]).backward()
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as error:
        return type(error), str(error).splitlines()[0]
    gradients = [t.grad for t in tensors]
    values = [x.detach() if isinstance(x, tj.Tensor) else x for x in leaves]
    return type(result), values, gradients


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tj.Tensor):
        assert isinstance(found, tj.Tensor)
        assert (found.dtype, tuple(found.shape)) == (expected.dtype, tuple(expected.shape))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-4, atol=2e-5)
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert type(found) is type(expected)
        assert found == expected


def compare(program: Program, calls: list[tuple[np.ndarray, ...]], backward: bool = True) -> Any:
    """Run ``calls`` eagerly and compiled; the compiled function."""
    compiled = tj.compile(program)
    for arrays in calls:
        same(outcome(compiled, arrays, backward), outcome(program, arrays, backward))
    return compiled


def vectors(*counts: int, length: int = 12) -> list[tuple[np.ndarray, ...]]:
    """Vectors with so many positive elements."""
    rng = np.random.default_rng(0)
    found = []
    for count in counts:
        signs = np.where(rng.permutation(length) < count, 1, -1)
        found.append(((rng.uniform(0.1, 2.0, length) * signs).astype(np.float32),))
    return found


def rows(*counts: int, length: int = 12) -> list[tuple[np.ndarray, ...]]:
    """Matrices of four columns, of which so many rows begin with a positive number."""
    rng = np.random.default_rng(2)
    found = []
    for (first,) in vectors(*counts, length=length):
        x = rng.standard_normal((length, 4)).astype(np.float32)
        x[:, 0] = first
        found.append((x,))
    return found


COUNTS = (7, 4, 12, 0, 1, 2, 5, 7, 1, 0, 9, 12)


def chosen(x: tj.Tensor) -> tj.Tensor:
    return x[x[:, 0] > 0]


def written(x: tj.Tensor) -> tj.Tensor:
    y = x * 1
    y[y > 0] = 5.0
    return y


def added(x: tj.Tensor) -> tj.Tensor:
    y = x * 1
    y[y > 0] += x[x > 0]
    return y


def doubled(x: tj.Tensor) -> tj.Tensor:
    y = x * 1
    y[y > 0] *= 2
    return y


def put(x: tj.Tensor) -> tj.Tensor:
    index = (x[:, 0] > 0).nonzero().squeeze(1)
    out = tj.zeros(12, 4)
    out.index_add_(0, index, x.index_select(0, index) * 2)
    return out


def padded(x: tj.Tensor) -> tj.Tensor:
    y = x[x > 0]
    return tj.cat([y, y.new_zeros(12 - y.shape[0])])


def arithmetic(x: tj.Tensor) -> tuple[Any, ...]:
    y = chosen(x)
    n = y.shape[0]
    return y.reshape(n * 4) + tj.arange(n * 4), tj.zeros(n, 2) + n, y.sum() / (n + 1), n * 2 + 1


def attention(x: tj.Tensor) -> tj.Tensor:
    y = chosen(x)
    return (y @ y.T / 2).softmax(-1) @ y


def both(x: tj.Tensor) -> tj.Tensor:
    return tj.cat([x[x > 0].exp(), x[x < 0], x])


#: Programs that are recorded once, whatever is found (and once more where nothing is found).
ONCE: dict[str, tuple[Program, Callable[..., Any], int]] = {
    "mask": (lambda x: x[x > 0].sum(), vectors, 1),
    "masked_select": (lambda x: tj.masked_select(x, x > 0) * 3, vectors, 1),
    "where": (lambda x: x[tj.where(x > 0)].exp(), vectors, 1),
    "mean": (lambda x: x[x > 0].mean(), vectors, 1),
    "rows": (lambda x: (chosen(x) @ weight()).relu().sum(0), rows, 1),
    "bias": (lambda x: chosen(x) @ weight() + weight()[0], rows, 1),
    "columns": (lambda x: chosen(x) * chosen(x)[:, :1], rows, 1),
    "transposed": (lambda x: chosen(x).T @ chosen(x), rows, 1),
    "layer_norm": (lambda x: tj.nn.functional.layer_norm(chosen(x), (4,)), rows, 1),
    "row softmax": (lambda x: chosen(x).softmax(-1), rows, 1),
    "written": (written, vectors, 1),
    "added": (added, vectors, 1),
    "doubled": (doubled, vectors, 1),
    "index_add": (put, rows, 1),
    "padded": (padded, vectors, 1),
    "arithmetic": (arithmetic, rows, 1),
    "shape": (lambda x: (chosen(x), chosen(x).shape, chosen(x).numel()), rows, 1),
    "both": (both, vectors, 1),
    "stack": (lambda x: tj.stack([x[x > 0], x[x > 0] * 2]), vectors, 1),
    "outer": (lambda x: x[x > 0][:, None] * x[None, :], vectors, 1),
    "flip": (lambda x: x[x > 0].flip(0).cumsum(0), vectors, 1),
    "view": (lambda x: chosen(x).view(-1, 2, 2).transpose(1, 2).reshape(-1, 4), rows, 1),
    "sort": (lambda x: x[x > 0].sort().values, vectors, 1),
    "scatter": (
        lambda x: x.masked_scatter(x > 0, x.abs().repeat(2)),
        vectors,
        1,
    ),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("backward", [False, True])
def test_one_recording_serves_every_size(name: str, backward: bool) -> None:
    program, inputs, most = ONCE[name]
    compiled = compare(program, inputs(*COUNTS), backward)
    assert compiled.stats.recordings <= most, str(compiled.explain())
    assert not compiled.reasons
    assert compiled.plans.made <= most


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ONCE)
def test_recorded_with_none_and_one_first(name: str) -> None:
    program, inputs, most = ONCE[name]
    for counts in ((0, 5, 1, 12), (1, 0, 5, 12, 1), (12, 1, 0)):
        compiled = compare(program, inputs(*counts))
        assert compiled.stats.recordings <= most, str(compiled.explain())
        assert not compiled.reasons


def halves(x: tj.Tensor) -> tj.Tensor:
    return tj.cat([x[x > 0], x[~(x > 0)]]).reshape(4, 3)


def thirds(x: tj.Tensor) -> tj.Tensor:
    parts = [x[x > 1], x[(x <= 1) & (x > -1)], x[x <= -1]]
    return tj.cat([p * (i + 1) for i, p in enumerate(parts)]).view(3, 4)


def twice_and_once(x: tj.Tensor) -> tj.Tensor:
    more, rest = x[x > 0], x[x <= 0]
    return tj.cat([more, more, rest, rest]).reshape(2, 12).sum(0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("program", [halves, thirds, twice_and_once])
@pytest.mark.parametrize("backward", [False, True])
def test_parts_of_a_known_whole(program: Program, backward: bool) -> None:
    """Sizes of which only some are known when a plan turns out not to hold are planned for as parts of the whole."""
    rng = np.random.default_rng(5)
    for _ in range(6):
        compiled = compare(program, vectors(*rng.integers(0, 13, 10)), backward)
        assert compiled.stats.recordings == 1, str(compiled.explain())
        assert not compiled.reasons


def first_column(y: tj.Tensor) -> None:
    y[:, 0] = 1.0


def last_of_each(y: tj.Tensor) -> None:
    y[..., -1] = y[..., 0] * 2


def columns_apart(y: tj.Tensor) -> None:
    y[:, ::2] = -1.0
    y[:, 1:3].mul_(2)


def transposed_row(y: tj.Tensor) -> None:
    y.t()[1] = 0.5


def along_it(y: tj.Tensor) -> None:
    y[1:] = 0.0


@pytest.mark.parametrize(
    "write", [first_column, last_of_each, columns_apart, transposed_row, along_it]
)
def test_parts_of_what_is_found_are_written_and_differentiated(
    write: Callable[[tj.Tensor], None],
) -> None:
    """The history of a view that is written to has the sizes of the run, whatever is written."""

    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x[:, 0] > 0] * 3
        write(y)
        return (y * y).cumsum(-1)[..., 1:]

    compiled = compare(program, rows(7, 4, 11, 5, 9, 2, 7), backward=True)
    assert compiled.stats.recordings == 1, str(compiled.explain())
    assert not compiled.reasons


def test_many_paths_are_not_planned_anew_for_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for other sizes takes as long as there are paths: where those are many eager code serves the call."""
    planned: list[int] = []
    planned_for = Entry.planned_for

    def counting(entry: Entry, told: dict[int, int], number: int) -> Any:
        planned.append(entry.root.count_ends())
        return planned_for(entry, told, number)

    monkeypatch.setattr(Entry, "planned_for", counting)

    def routed(x: Any, w: Any, expert: Any) -> Any:
        y = tj.zeros_like(x)
        for i in range(w.shape[0]):
            (rows,) = tj.where(expert == i)
            if rows.numel() == 0:
                continue
            y[rows] += x[rows] @ w[i]
        return y

    compiled = tj.compile(routed)
    rng = np.random.default_rng(0)
    w = tj.tensor(rng.standard_normal((6, 4, 4)))
    for _ in range(60):
        x, expert = tj.tensor(rng.standard_normal((4, 4))), tj.tensor(rng.integers(0, 6, 4))
        expected = routed(x, w, expert)
        np.testing.assert_allclose(compiled(x, w, expert).numpy(), expected.numpy(), rtol=1e-12)
    assert sum(planned) <= EFFORT + 60 // CALLS_PER_PATH, planned
    assert compiled.stats.recordings > 16


def test_effort_comes_back_with_calls() -> None:
    plans = PlanStore()
    assert plans.worth(EFFORT)
    assert not plans.worth(2)
    assert [plans.worth(2) for _ in range(2 * CALLS_PER_PATH)].count(True) == 1
    assert not any(plans.worth(EFFORT + 1) for _ in range(EFFORT * CALLS_PER_PATH))


def test_long_paths_are_not_planned_anew_for_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan takes as long as there are pieces, and one path may have hundreds."""
    planned: list[int] = []
    planned_for = Entry.planned_for

    def counting(entry: Entry, told: dict[int, int], number: int) -> Any:
        planned.append(number)
        return planned_for(entry, told, number)

    monkeypatch.setattr(Entry, "planned_for", counting)
    monkeypatch.setattr(sized_walk, "PIECES_OF_PATH", 1)

    def halves_again(x: Any) -> Any:
        for i in range(20):
            parts = [x[x > 1], x[(x <= 1) & (x > -1)], x[x <= -1]]
            x = tj.cat([p * (1 + i / 50) for p in parts]).view(3, 4).sin().view(-1) * 2
        return x

    compiled = tj.compile(halves_again)
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = tj.tensor(rng.standard_normal(12))
        np.testing.assert_allclose(compiled(x).numpy(), halves_again(x).numpy(), rtol=1e-12)
    assert not planned
    assert compiled.reasons == [
        "much that was recorded is not planned anew for the sizes of few calls"
    ]
