"""Functions that refuse negative positions, where subscripts count them from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

F = tj.nn.functional


def with_max_norm(x: Any, i: Any) -> Any:
    return F.embedding(i, x.clone(), max_norm=1.0)


def gradient_only(x: Any, i: Any) -> Any:
    """The rows themselves are asked for nothing."""
    return tj.autograd.grad((F.embedding(i, x) * 2).sum(), x)[0]


REFUSING: dict[str, Callable[[Any, Any], Any]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "of a vector": lambda x, i: x[:, 0].index_select(-1, i).sum(),
    "embedding": lambda x, i: F.embedding(i, x) + 1,
    "padding_idx": lambda x, i: F.embedding(i, x, padding_idx=-1),
    "max_norm": with_max_norm,
    "by frequency": lambda x, i: F.embedding(i, x, scale_grad_by_freq=True),
    "gradient": gradient_only,
    "bag": lambda x, i: F.embedding_bag(i[None], x, mode="max"),
    "index_add": lambda x, i: x.index_add(0, i, x[:2] * 3),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2] * 3),
}


@pytest.mark.parametrize("name", REFUSING)
def test_refused_eagerly_and_compiled(name: str) -> None:
    f = REFUSING[name]
    compiled = tj.compile(f)
    x = tj.arange(12.0).reshape(4, 3).requires_grad_()
    for bad in (False, False, False, True, True, False):
        index = tj.tensor([1, -1 if bad else 3])
        if not bad:
            assert tj.equal(compiled(x, index), f(x, index))
            continue
        for run in (f, compiled):
            with pytest.raises(IndexError, match="index -1 is out of bounds"):
                run(x, index)
    assert compiled.stats.compiled_calls == 3


def test_rows_that_are_refused_are_not_shortened() -> None:
    layer = tj.nn.Embedding(3, 2, max_norm=0.5)
    layer.weight.data.fill_(1.0)
    with pytest.raises(IndexError):
        layer(tj.tensor([0, -1]))
    assert tj.equal(layer.weight, tj.ones(3, 2))


def test_subscripts_count_from_the_end() -> None:
    f = tj.compile(lambda x, i: x[i] * 2)
    x = tj.arange(12.0).reshape(4, 3)
    for _ in range(3):
        assert tj.equal(f(x, tj.tensor([1, -1])), x[1::2] * 2)
    assert f.stats.compiled_calls == 2
