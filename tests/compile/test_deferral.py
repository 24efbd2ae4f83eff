"""Operations that a recorded run puts off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import config, deferral
from tracejit.deferred import Deferred
from tracejit.errors import TracejitError
from tracejit.trace import first_call


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """All operations are large enough, and no program is."""
    monkeypatch.setattr(deferral, "LEAST_BYTES", 0)
    monkeypatch.setattr(first_call, "WORTH", 1e9)


def waits(x: tj.Tensor) -> bool:
    """Is this tensor put off?"""
    return type(x._block) is Deferred


def first(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the call that is recorded."""
    compiled = tj.compile(function)
    result = compiled(*arguments)
    assert compiled.stats.recordings == 1, compiled.explain()
    return result


# --- what is put off, and when it is computed ------------------------------------------------------------------------


def test_what_nobody_looks_at_is_never_computed(computed: list[str]) -> None:
    def f(x: tj.Tensor) -> tj.Tensor:
        y = x.exp()
        del y
        return x * 2

    assert first(f, tj.ones(3)).tolist() == [2, 2, 2]
    assert "mul" in computed
    assert "exp" not in computed


def test_a_look_computes_all_that_waits_in_order(computed: list[str]) -> None:
    seen: list[tuple[bool, float, bool]] = []

    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        z = y.exp()
        before = waits(z)
        seen.append((before, float(y.array[0]), waits(z)))
        return z

    assert first(f, tj.zeros(3)).tolist() == [1, 1, 1]
    assert seen == [(True, 0.0, True)]  # whose own look is still to come
    assert computed == ["mul", "exp"]


def test_small_operations_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferral, "LEAST_BYTES", 1 << 18)
    seen: list[bool] = []

    def f(x: tj.Tensor, y: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        a, b = x * 2, y * 2
        seen.extend((waits(a), waits(b), waits(b[:1].sum())))
        return a, b

    first(f, tj.ones(3), tj.ones(1 << 16))
    assert seen == [False, True, True]


def test_branches_see_numbers(computed: list[str]) -> None:
    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        return y.exp() if y.sum() > 0 else y - 1

    assert first(f, tj.full((3,), -1.0)).tolist() == [-3, -3, -3]
    assert computed == ["mul", "sum", "gt", "sub"]


def test_who_asks_again_and_again_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def f(x: tj.Tensor) -> tj.Tensor:
        for _ in range(8):
            x = x + 1
            seen.append(waits(x))
            if x.sum() > 1e9:
                break
        return x

    first(f, tj.ones(3))
    assert seen == [True] * 5 + [False] * 3


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "defers", False)
    seen: list[bool] = []

    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        seen.append(waits(y))
        return y

    first(f, tj.ones(3))
    assert seen == [False]


def test_thousands_in_a_row() -> None:
    def f(x: tj.Tensor) -> tj.Tensor:
        for _ in range(5000):
            x = x + 1
        return x

    assert first(f, tj.zeros(2)).tolist() == [5000, 5000]


# --- what is known without the elements ------------------------------------------------------------------------------


def test_places_in_memory_are_those_of_eager_code() -> None:
    def f(x: tj.Tensor) -> Any:
        y = x * 2
        several = (
            *(
                y,
                y.T,
                y[1:, ::2],
                y.unsqueeze(1),
                y[:1].expand(4, 5),
                y.reshape(-1),
                y.T.reshape(-1),
            ),
            *(y.view(5, 3), y.diagonal(), y.sum(0), y[:, :1].squeeze(1), y @ y.T, y > 1, y.T + 1),
        )
        facts = [
            (tuple(v.shape), v.stride(), v.is_contiguous(), v.dtype, v._is_view(), v.device.type)
            for v in several
        ]
        own = [v.data_ptr() == y.data_ptr() for v in several]
        return facts, own, [v.tolist() for v in several]

    x = tj.arange(15.0).reshape(3, 5)
    found: list[Any] = []

    def g(x: tj.Tensor) -> tj.Tensor:
        found.append(f(x))
        return x + 1

    first(g, x)
    assert found == [f(x)]


def test_views_share_memory_with_what_they_show() -> None:
    def f(x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        y = x * 2
        row = y[0]
        row += 10
        y[1] = row
        return y, row

    compiled = tj.compile(f)
    for _ in range(3):
        y, row = compiled(tj.ones(2, 2))
        assert y.tolist() == [[12, 12], [12, 12]]
        row.zero_()
        assert y[0].tolist() == [0, 0]


# --- memory that is written to ---------------------------------------------------------------------------------------


def by_method(x: tj.Tensor) -> None:
    x.add_(10)


def by_item(x: tj.Tensor) -> None:
    x[0] = 10


def through_a_view(x: tj.Tensor) -> None:
    x[1:].mul_(5)


def through_data(x: tj.Tensor) -> None:
    x.data.fill_(5)


def by_numpy(x: tj.Tensor) -> None:
    x.numpy()[0] = 10


def by_out(x: tj.Tensor) -> None:
    tj.add(x, 1, out=x)


def in_all(x: tj.Tensor) -> None:
    tj._foreach_add_([x], 1.0)


def by_an_optimizer(x: tj.Tensor) -> None:
    x.grad = tj.ones_like(x)
    tj.optim.SGD([x], 0.5).step()


@pytest.mark.parametrize(
    "write",
    [by_method, by_item, through_a_view, through_data, by_numpy, by_out, in_all, by_an_optimizer],
)
def test_what_was_read_before_a_write_is_as_it_was(write: Callable[[tj.Tensor], None]) -> None:
    def f(x: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor, tj.Tensor]:
        y = x * 2
        part = (x[1:] + 1).exp()
        write(x)
        return y, part, x + y

    eager, given = tj.tensor([1.0, 2.0, 3.0]), tj.tensor([1.0, 2.0, 3.0])
    wanted, found = f(eager), first(f, given)
    for a, b in zip((*found, given), (*wanted, eager), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_arrays_of_numpy_that_a_function_can_reach_are_written_to_unseen() -> None:
    array = np.ones(3, np.float32)
    x = tj.from_numpy(array)

    def f(array: Any) -> tj.Tensor:
        y = x * 2
        array[0] = 7
        return y

    assert tj.compile(f)(array).tolist() == [2, 2, 2]
    kept = [array]

    def g() -> tj.Tensor:
        y = x * 2
        kept[0][0] = 9
        return y

    assert tj.compile(g)().tolist() == [14, 2, 2]


def test_results_kept_elsewhere_are_those_of_the_call() -> None:
    kept: list[tj.Tensor] = []

    class Cache:
        last: Any = None

    cache = Cache()

    def f(x: tj.Tensor) -> tj.Tensor:
        cache.last = x * 3
        return x * 2

    x = tj.ones(3)
    kept.append(first(f, x))
    x.add_(5)
    assert kept[0].tolist() == [2, 2, 2]
    assert cache.last.tolist() == [3, 3, 3]


def test_results_of_a_call_that_failed() -> None:
    kept: list[tj.Tensor] = []

    def f(x: tj.Tensor) -> tj.Tensor:
        kept.append(x * 3)
        raise KeyError("no")

    x = tj.ones(3)
    with pytest.raises(KeyError):
        tj.compile(f)(x)
    x.add_(5)
    assert kept[0].tolist() == [3, 3, 3]
    assert (x + 1).tolist() == [7, 7, 7]
    assert not waits(x * 2)


def test_another_thread_may_look() -> None:
    seen: list[Any] = []

    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        thread = threading.Thread(target=lambda: seen.append(y.tolist()))
        thread.start()
        thread.join()
        return y + 1

    assert tj.compile(f)(tj.ones(2)).tolist() == [3, 3]
    assert seen == [[2, 2]]


def test_a_write_that_nobody_was_told_of_is_an_error() -> None:
    def f(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        x._writes.value += 1
        return y

    with pytest.raises(TracejitError, match="mul was put off"):
        tj.compile(f)(tj.ones(3))


# --- errors ----------------------------------------------------------------------------------------------------------


def test_errors_come_where_they_belong() -> None:
    reached: list[int] = []

    def shapes(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        reached.append(1)
        z = y + tj.ones(5)
        reached.append(2)
        return z

    with pytest.raises(RuntimeError, match="size"):
        tj.compile(shapes)(tj.ones(3))
    assert reached == [1]

    def positions(x: tj.Tensor, at: tj.Tensor) -> tj.Tensor:
        y = x * 2
        reached.append(3)
        z = tj.nn.functional.embedding(at, y)
        reached.append(4)
        return z

    with pytest.raises(IndexError, match="out of"):
        tj.compile(positions)(tj.ones(3, 2), tj.tensor([1, 7]))
    assert reached == [1, 3]

    def singular(x: tj.Tensor) -> tj.Tensor:
        y = tj.linalg.inv(x * 0)
        reached.append(5)
        return y

    with pytest.raises(tj.linalg.LinAlgError):
        tj.compile(singular)(tj.ones(3, 3))
    assert reached == [1, 3]


def test_views_at_the_position_in_a_tensor_are_looked_at() -> None:
    def f(x: tj.Tensor, at: tj.Tensor) -> tj.Tensor:
        y = x * 2
        y[at] = 5.0
        y[at].add_(1)
        return y

    assert first(f, tj.ones(3, 2), tj.tensor(1)).tolist() == [[2, 2], [6, 6], [2, 2]]
