"""Writes that read a part of the memory they change, to elements that share a place, and to one of several views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn

PARTLY: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x[1:].add_(x[:-1]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "an item": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "the other way": lambda x: x[:-1].mul_(x[1:]),
    "some elements on": lambda x: x[2:6].sub_(x[:4]),
    "turned": lambda x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    "one for all": lambda x: x.div_(x[3]),
    "two operands": lambda x: x[1:].addcmul_(x[:-1], x[:-1]),
    "a weight": lambda x: x[1:].lerp_(x[:-1], 0.5),
    "a comparison": lambda x: x[1:].gt_(x[:-1]),
    "by name": lambda x: x[1:].add_(other=x[:-1]),
    "out of a function": lambda x: tj.add(x[:-1], 1, out=x[1:]),
    "out of an op": lambda x: tj.exp(x[:-1], out=x[1:]),
    "the operator": lambda x: x[1:].__iadd__(x[:-1]),
    "at positions": lambda x: x.__setitem__([0, 1], x[2:4]),
    "one at positions": lambda x: x.__setitem__([0, 1], x[2]),
    "all of it, at positions": lambda x: x.__setitem__(list(range(8)), x),
    "one of a list": lambda x: x.__setitem__([0, 1], x[2:3]),
    "under a mask": lambda x: x.__setitem__(x > 5, x[:2]),
    "put": lambda x: x.index_put_((tj.tensor([0]),), x[1:2]),
}


@pytest.mark.parametrize("what", PARTLY)
def test_what_shares_a_part_is_refused(what: str) -> None:
    x = tj.arange(8.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        PARTLY[what](x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


SERVED: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "itself": (lambda x: x.add_(x), [0, 2, 4, 6]),
    "the same view": (lambda x: x[1:].add_(x[1:]), [0, 2, 4, 6]),
    "every other": (lambda x: x[::2].add_(x[1::2]), [1, 1, 5, 3]),
    "beside it": (lambda x: x[:2].add_(x[2:]), [2, 4, 2, 3]),
    "a copy": (lambda x: x[1:].add_(x[:-1].clone()), [0, 1, 3, 5]),
    "turned round": (lambda x: x.copy_(x.flip(0)), [3, 2, 1, 0]),
    "one for all": (lambda x: x.__setitem__(..., x[-1:]), [3, 3, 3, 3]),
    "one element for all": (lambda x: x.__setitem__(slice(None), x[1]), [1, 1, 1, 1]),
    "a row for all": (lambda x: x.view(2, 2).__setitem__(..., x[2:]), [2, 3, 2, 3]),
    "one under a mask": (lambda x: x.__setitem__(x > 1, x[1:2]), [0, 1, 1, 1]),
    "a number to fill": (lambda x: x.masked_fill_(x > 1, x[1]), [0, 1, 1, 1]),
    "a number at positions": (lambda x: x.index_fill_(0, tj.tensor([0]), x[3]), [3, 1, 2, 3]),
    "a sum": (lambda x: tj.sum(x.view(2, 2), 0, out=x[:2]), [2, 4, 2, 3]),
}


@pytest.mark.parametrize("what", SERVED)
def test_what_does_not_is_served(what: str) -> None:
    x = tj.arange(4.0)
    write, expected = SERVED[what]
    write(x)
    assert x.tolist() == expected


def test_a_mask_that_shares_a_part_is_refused() -> None:
    mask = tj.tensor([True, False, True, False])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        mask[1:].masked_fill_(mask[:-1], False)
    assert mask.tolist() == [True, False, True, False]


def test_compiled_code_refuses_the_same() -> None:
    @tj.compile
    def function(x: Any, y: Any) -> Any:
        return x.add_(y)

    for _ in range(3):
        function(tj.ones(3), tj.ones(3))
    x = tj.arange(4.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        function(x[1:], x[:-1])
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [2.0, tj.tensor(2.0)])
def test_one_value_fills_expanded_elements(value: Any) -> None:
    base = tj.zeros(1, 3)
    wide = base.expand(4, 3)
    assert wide.fill_(value) is wide
    assert wide.tolist() == [[2.0] * 3] * 4
    assert base.tolist() == [[2.0] * 3]
    assert base._version == 1


def test_zeros_and_constants_fill_them_too() -> None:
    base = tj.ones(3, 1)
    base.expand(3, 5).zero_()
    assert base.tolist() == [[0.0]] * 3
    nn.init.constant_(base.expand(3, 2), 4.0)
    assert base.tolist() == [[4.0]] * 3


def test_several_values_for_one_place_are_refused() -> None:
    for write in (lambda x: x.add_(1), lambda x: x.copy_(tj.ones(4, 3)), lambda x: x.uniform_()):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write(tj.zeros(1, 3).expand(4, 3))


@pytest.mark.parametrize("compiled", [False, True])
def test_expanded_fills_inside_functions(compiled: bool) -> None:
    def function(x: Any) -> Any:
        base = x * 1
        base[:1].expand(3, 2).fill_(7.0)
        return base

    run = tj.compile(function) if compiled else function
    for _ in range(3):
        assert run(tj.zeros(2, 2)).tolist() == [[7.0, 7.0], [0.0, 0.0]]


PIECES: dict[str, Callable[[Any], Any]] = {
    "unbind": lambda x: x.unbind(0)[0],
    "unbind of the namespace": lambda x: tj.unbind(x)[1],
    "split": lambda x: x.split(1)[0],
    "lengths": lambda x: x.split([1, 2])[0],
    "split_with_sizes": lambda x: tj.split_with_sizes(x, [1, 2])[0],
    "chunk": lambda x: x.chunk(2)[0],
    "iteration": lambda x: next(iter(x)),
    "a view of one": lambda x: x.split(1)[0].view(-1),
    "an item of one": lambda x: x.unbind(0)[0][0],
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("what", PIECES)
def test_one_of_several_views_is_not_written_to(what: str, compiled: bool) -> None:
    def function(x: Any) -> Any:
        y = x * 1
        PIECES[what](y).add_(1)
        return y

    run = tj.compile(function) if compiled else function
    for _ in range(3):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            run(tj.ones(3, 2, requires_grad=True))
        assert run(tj.ones(3, 2)).sum().item() > 6
        with tj.no_grad():
            assert run(tj.ones(3, 2, requires_grad=True)).sum().item() > 6


@pytest.mark.parametrize("what", PIECES)
def test_nor_with_what_requires_grad(what: str) -> None:
    y, w = tj.ones(3, 2), tj.tensor(2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        PIECES[what](y).mul_(w)
    assert y.tolist() == [[1.0] * 2] * 3


WHOLE: dict[str, Callable[[Any], Any]] = {
    "select": lambda x: x.select(0, 0),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "tensor_split": lambda x: x.tensor_split(2)[0],
    "unsafe_split": lambda x: tj.unsafe_split(x, 1)[0],
    "unsafe_chunk": lambda x: tj.unsafe_chunk(x, 2)[0],
    "unsafe_split_with_sizes": lambda x: tj.unsafe_split_with_sizes(x, [1, 2])[0],
}


@pytest.mark.parametrize("what", WHOLE)
def test_other_views_are(what: str) -> None:
    x = tj.ones(3, 2, requires_grad=True)
    y = x * 1
    WHOLE[what](y).zero_()
    y.sum().backward()
    assert x.grad.sum().item() == y.sum().item()


def test_a_piece_of_what_changed_meanwhile_has_no_history() -> None:
    y = tj.ones(3, 2, requires_grad=True) * 1
    first, *_ = y.unbind(0)
    y.add_(1)
    with pytest.raises(
        RuntimeError, match="its base or another view of its base has been modified"
    ):
        first.sum()
