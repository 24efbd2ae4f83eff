"""Many views at once: what they show and say of themselves does not depend on how they came about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tracejit as tj
from tracejit.errors import TracejitError

MANY: list[tuple[str, Callable[[Any], Sequence[Any]], Callable[[Any, int], Any]]] = [
    ("unbind", lambda x: x.unbind(), lambda x, i: x[i]),
    ("unbind of columns", lambda x: x.unbind(1), lambda x, i: x[:, i]),
    ("iteration", list, lambda x, i: x[i]),
    ("split", lambda x: x.split(2), lambda x, i: x[2 * i : 2 * i + 2]),
    ("split of columns", lambda x: x.split([1, 3], 1), lambda x, i: x[:, 1:] if i else x[:, :1]),
    ("chunk", lambda x: x.chunk(3), lambda x, i: x[2 * i : 2 * i + 2]),
]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(("name", "make", "part"), MANY, ids=[name for name, _, _ in MANY])
def test_views_of_parts(name: str, make: Any, part: Any, tracked: bool):
    x = tj.arange(20.0).reshape(5, 4).clone().requires_grad_(tracked)
    for _ in range(4):  # the third call of a kind runs by the steps of the second
        views = make(x)
        assert len(views) == len([*views])
        for i, view in enumerate(views):
            expected = part(x, i)
            assert view.is_set_to(expected)
            assert view._is_view()
            assert view.requires_grad is tracked
            assert (view.shape, view.stride()) == (expected.shape, expected.stride())
            assert view.storage_offset() == expected.storage_offset()
            assert view.tolist() == expected.tolist()


@pytest.mark.parametrize(("name", "make", "part"), MANY, ids=[name for name, _, _ in MANY])
def test_views_see_what_is_written(name: str, make: Any, part: Any):
    x = tj.arange(20.0).reshape(5, 4)
    before = x._version
    views = make(x)
    views[0].mul_(-1.0)
    views[-1].add_(100.0)
    assert x._version == before + 2
    assert x.reshape(-1)[1 if x[0, 1] < 0 else 4].item() < 0
    assert x[4, 3].item() > 100


def test_pieces_are_not_changed_where_gradients_are_recorded():
    x = tj.arange(6.0).reshape(3, 2)
    rows = x.unbind()
    with pytest.raises((RuntimeError, TracejitError), match="returns multiple views"):
        rows[0].mul_(tj.ones(2, requires_grad=True))


def test_errors_are_the_same():
    with pytest.raises(IndexError, match="Dimension out of range"):
        tj.zeros(2, 3).unbind(2)
    with pytest.raises(RuntimeError, match="sum exactly to 5"):
        tj.zeros(5).split([2, 2])
