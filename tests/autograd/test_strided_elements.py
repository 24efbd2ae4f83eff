"""Gradients of `as_strided` of tensors that lie in memory with gaps, or are a part of it: they go to these tensors."""

from __future__ import annotations

import pytest

import tracejit as tj


def _leaf(array):
    return array.requires_grad_()


def test_a_leaf_with_gaps_gets_the_gradients_of_its_elements():
    x = _leaf(tj.arange(12.0).reshape(3, 4)[:, 1:])
    shown = x.as_strided((2, 2), (1, 1), 2)
    assert shown.tolist() == [[2, 3], [3, 4]]
    (shown * shown).sum().backward()
    assert x.grad.tolist() == [[0, 4, 12], [0, 0, 0], [0, 0, 0]]  # 4 lies in the memory, not in x


def test_a_detached_part_of_memory_shows_what_lies_before_it():
    x = _leaf(tj.arange(12.0)[4:].detach())
    shown = x.as_strided((3,), (1,), 2)
    shown.pow(2).sum().backward()
    assert shown.tolist() == [2, 3, 4]
    assert x.grad.tolist() == [8] + 7 * [0]


def test_the_gradient_of_elements_in_one_place_is_shared():
    x = _leaf(tj.arange(3.0)[1:2].expand(4))
    ((x.as_strided((2,), (1,)) + 1) ** 2 * tj.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 2, 2, 2]


def test_one_element_none_and_complex_ones():
    x = _leaf(tj.arange(12.0)[::3])
    one, none = x.as_strided((), (), 6), x.as_strided((0,), (1,), 2)
    (one * one + none.sum()).backward()
    assert x.grad.tolist() == [0, 0, 12, 0]
    pairs = _leaf(tj.view_as_complex(tj.arange(12.0).reshape(6, 2))[::2])
    shown = pairs.as_strided((2,), (1,), 2)
    (shown * shown.conj()).real.sum().backward()
    assert pairs.grad.tolist() == [0, 8 + 10j, 0]


def test_second_gradients():
    x = _leaf(tj.arange(12.0).reshape(3, 4)[:, 1:])
    (g,) = tj.autograd.grad(x.as_strided((2, 2), (1, 1), 2).pow(3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert x.grad.tolist() == [[0, 288, 3888], [0, 0, 0], [0, 0, 0]]


def _beyond(w):
    return (w * 2).reshape(3, 4)[1:].as_strided((2, 2), (4, 1), 0)


def _within(w):
    return (w * 2).reshape(3, 4)[:, 1:].as_strided((2, 2), (4, 1))


@pytest.mark.parametrize(
    ("program", "expected"),
    [(_beyond, 4 * [0] + [2, 2] + 6 * [0]), (_within, [0, 2, 2, 0, 0, 2, 2, 0, 0, 0, 0, 0])],
)
def test_what_a_view_is_no_part_of_gets_no_gradient(program, expected):
    compiled = tj.compile(program)
    for run in (program, *3 * [compiled]):
        w = _leaf(tj.arange(12.0))
        run(w).sum().backward()
        assert w.grad.tolist() == expected
    assert (compiled.stats.compiled_calls > 0) is (program is _within)


def test_the_view_in_between_can_be_asked_for_its_gradient():
    w = _leaf(tj.arange(12.0))
    y = (w * 2).reshape(3, 4)[:, 1:]
    gradients = tj.autograd.grad(y.as_strided((2, 2), (1, 2)).sum(), [w, y])
    assert gradients[1].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert gradients[0].tolist() == [0, 2, 2, 2] + 8 * [0]
