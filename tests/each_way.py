"""One function called eagerly, and compiled three times over: by the recording, by the program, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tracejit as tj


def results(function: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """What each of the calls gives. Tensors among the arguments are copied for each, so they may be written to."""
    compiled = tj.compile(function)
    for call in (function, compiled, compiled, compiled):
        yield call(*[x.detach().clone() if isinstance(x, tj.Tensor) else x for x in args])


def assert_each(expected: Any, function: Callable[..., Any], *args: Any) -> None:
    """Does every call give a tensor of these numbers? NaN is one of them."""
    for found in results(function, *args):
        assert repr(found.tolist()) == repr(expected)


def assert_each_raises(
    error: type[Exception], text: str, function: Callable[..., Any], *args: Any
) -> None:
    """Does every call raise this error with a text in which the given one is found?"""
    compiled = tj.compile(function)
    for call in (function, compiled, compiled, compiled):
        with pytest.raises(error, match=text):
            call(*[x.detach().clone() if isinstance(x, tj.Tensor) else x for x in args])
