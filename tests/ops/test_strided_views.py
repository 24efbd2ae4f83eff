"""``as_strided`` and ``unfold``: the memory they show, writing through them, their gradients, compiled and not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj


@st.composite
def layouts(draw) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Sizes, strides, an offset, and the length of a vector that they are within."""
    size = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    stride = tuple(draw(st.integers(0, 9)) for _ in size)
    offset = draw(st.integers(0, 5))
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return size, stride, offset, reach + 1 + draw(st.integers(0, 5))


def shown(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> list[int]:
    """The places of the elements, in order."""
    indices = itertools.product(*map(range, size))
    return [offset + sum(i * s for i, s in zip(index, stride, strict=True)) for index in indices]


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_values_writes_and_gradients(layout) -> None:
    size, stride, offset, count = layout
    places = shown(size, stride, offset)
    plain = np.arange(count, dtype=np.float32)
    view = tj.tensor(plain).as_strided(size, stride, offset)
    assert view.shape == size
    assert view.flatten().tolist() == plain[places].tolist()
    x = tj.tensor(plain, requires_grad=True)
    (x.as_strided(size, stride, offset) * tj.arange(len(places)).view(size)).sum().backward()
    expected = np.zeros(count, np.float32)
    np.add.at(expected, places, np.arange(len(places)))
    assert x.grad.tolist() == expected.tolist()
    if len({*places}) < len(places):
        return
    x = tj.tensor(plain)
    x.as_strided(size, stride, offset).mul_(-2)
    plain[places] *= -2
    assert x.tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2,), (1,), 1), ((3, 2), (2, 1), 0), ((2, 3), (1, 2), 0), ((2, 2), (3, 1), 1), ((), (), 3)],
)
def test_compiled(size, stride, offset) -> None:
    def function(x, w):
        y = x * 2
        y.as_strided(size, stride, offset).mul_(w)
        z = y.as_strided(size, stride, offset)
        return y, z, z * z

    def outer(x, w):
        x.as_strided(size, stride, offset).add_(1)
        return x.as_strided(size, stride, offset)

    compiled, compiled_outer = tj.compile(function), tj.compile(outer)
    for _ in range(3):
        found = []
        for f, g in ((function, outer), (compiled, compiled_outer)):
            x = tj.arange(7.0).requires_grad_()
            w = tj.tensor(3.0, requires_grad=True)
            y, z, s = f(x, w)
            (y.sum() + s.sum()).backward()
            other = tj.arange(7.0)
            shown = g(other, w)
            shown[...] = 5.0
            found.append([t.tolist() for t in (y, z, s, x.grad, w.grad, other)])
            found[-1].append((z.stride(), shown.stride()))
        assert found[0] == found[1]
    assert compiled.stats.compiled_calls == compiled_outer.stats.compiled_calls == 2


def test_places_are_counted_from_the_start_of_the_memory() -> None:
    x = tj.arange(8).view(2, 4)
    assert x[1].as_strided((2,), (1,)).tolist() == [4, 5]
    assert x[1].as_strided((2,), (1,), 1).tolist() == [1, 2]
    assert x.t().as_strided((2,), (1,), 1).tolist() == [1, 2]
    x[1].as_strided((2,), (3,), 0).zero_()
    assert x.flatten().tolist() == [0, 1, 2, 0, 4, 5, 6, 7]
    assert x.as_strided((0,), (1,)).shape == (0,)
    for size, stride, offset in (((9,), (1,), 0), ((2,), (1,), 7), ((2,), (-1,), 3), ((2,), (), 0)):
        with pytest.raises(RuntimeError):
            x.as_strided(size, stride, offset)


@pytest.mark.parametrize(("size", "step"), [(2, 2), (1, 2), (2, 3), (3, 3), (1, 1), (2, 1)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_windows_are_views(size: int, step: int, dim: int) -> None:
    x = tj.arange(36.0).view(6, 6)
    windows = x.unfold(dim, size, step)
    expected = np.lib.stride_tricks.sliding_window_view(np.array(x), size, dim)
    expected = np.take(expected, np.arange(0, 7 - size, step), axis=dim if dim >= 0 else 1)
    assert windows.tolist() == expected.tolist()
    x.mul_(2)
    assert windows.tolist() == (2 * expected).tolist()
    windows.zero_()
    taken = {int(v) for v in expected.flatten()}
    assert x.flatten().tolist() == [0.0 if v in taken else 2.0 * v for v in range(36)]


def test_a_hook_after_a_decision_is_recorded() -> None:
    def function(x):
        y = x * 1
        y = y * 2 if (y > 0).any() else y * 3
        y.register_hook(lambda g: g * 2)
        return y.sin()

    compiled = tj.compile(function)
    for sign in (1, -1, 1, -1, 1):
        found = []
        for f in (function, compiled):
            x = (sign * tj.ones(3)).requires_grad_()
            f(x).sum().backward()
            found.append(x.grad.tolist())
        assert np.allclose(*found, rtol=1e-6)
    assert compiled.stats.compiled_calls == 3


def test_compiled_code_looks_where_the_storage_of_this_call_is() -> None:
    compiled = tj.compile(lambda x: x.as_strided((2,), (1,), 2))
    whole = tj.arange(10)
    for start in (2, 2, 1, 0, 2, 0):
        assert compiled(whole[start : start + 4]).tolist() == [2, 3]
        assert compiled(whole[start : start + 4].detach()).tolist() == [2, 3]


@pytest.mark.parametrize(
    "view", [lambda x: x[:, None].expand(3, 2), lambda x: x.repeat(2)[::2], lambda x: x[2:]]
)
def test_compiled_code_looks_around_the_view_of_this_call(view: Any) -> None:
    compiled = tj.compile(lambda x: x.as_strided((3,), (1,), 0))
    for start in range(3):
        x = view(tj.arange(start, start + 3))
        assert compiled(x).tolist() == x.as_strided((3,), (1,), 0).tolist()
