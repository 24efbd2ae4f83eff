"""Layers without sizes, made in compiled functions that also print or warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import tracejit as tj


def printing(x: tj.Tensor) -> tj.Tensor:
    print("made")
    layer = tj.nn.LazyLinear(2)
    return layer(x)


def warning(x: tj.Tensor) -> tj.Tensor:
    warnings.warn("made", UserWarning, stacklevel=1)
    return tj.nn.LazyBatchNorm1d()(tj.nn.LazyLinear(2)(x))


@pytest.mark.parametrize("f", [printing, warning], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_layer_without_sizes_beside_an_effect(
    f: Callable[[tj.Tensor], tj.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    compiled, x = tj.compile(f), tj.ones(4, 3)
    for call in range(1, 4):
        tj.manual_seed(call)
        expected = f(x)
        tj.manual_seed(call)
        assert compiled(x).tolist() == expected.tolist()
    assert capsys.readouterr().out == ("made\n" * 6 if f is printing else "")
