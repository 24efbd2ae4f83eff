"""Powers of bools by a Python bool are bools; by tensors of bools there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from each_way import assert_each, assert_each_raises

X = tj.tensor([True, False])


def test_by_a_python_bool() -> None:
    assert_each([True, False], lambda x: x**True, X)
    assert_each([True, True], lambda x: x**False, X)
    assert_each([True, False], lambda x: x.pow(True), X)
    assert_each([True, True], lambda x: x.pow_(False), X)
    assert_each([1, 2], lambda x: x**True, tj.tensor([1, 2]))


def test_in_place() -> None:
    def raised(x: Any) -> Any:
        x **= False
        return x

    assert_each([True, True], raised, X)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "by itself": lambda x: x**x,
    "by a 0-d tensor": lambda x: x.pow(x[0]),
    "of a number": lambda x: True**x,
    "in place": lambda x: x.pow_(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_of_tensors_of_bools(name: str) -> None:
    assert_each_raises(NotImplementedError, "not implemented for 'Bool'", REFUSED[name], X)
