"""Writes to expanded tensors, in which one place stands for several elements: allowed and refused as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")

WRITTEN = (
    *("x.masked_fill_(t.eye(3) > 0, 7.0)", "x.masked_fill_(t.tensor([True, False, True]), 7.0)"),
    *("x.masked_fill_(t.eye(3) > 1, 7.0)", "x.masked_fill_(t.eye(3) > 0, t.tensor(7.0))"),
    *("x.index_fill_(0, t.tensor([1]), 7.0)", "x.index_fill_(1, t.tensor([-1]), t.tensor(7.0))"),
    "x.index_fill_(0, t.tensor([], dtype=t.int64), 7.0)",
    "x.index_put_((t.tensor([1]),), t.tensor(7.0))",
    "x.index_put_((t.tensor([0, 2]), t.tensor([1, 1])), t.tensor([7.0, 8.0]))",
    "x.index_put_((t.tensor([0, 2]),), t.ones(2, 3), accumulate=True)",
    "x.index_put_((t.eye(3) > 0,), t.tensor([7.0, 8.0, 9.0]))",
    *("x.__setitem__(t.tensor([1, 2]), 7.0)", "x.__setitem__(t.eye(3) > 0, 7.0)"),
    "x.__setitem__((slice(None), t.tensor([1])), t.tensor([[7.0], [8.0], [9.0]]))",
    *("x.tril_()", "x.triu_()", "x.tril_(-2)", "x.triu_(1)"),
    *(
        "x.fill_(7.0)",
        "x.detach().fill_(7.0)",
        "x.detach().zero_()",
        "x.detach().masked_fill_(t.eye(3) > 0, 7.0)",
    ),
    "x.detach()[1].fill_(7.0)",
)
REFUSED = (
    *("x.add_(1)", "x.relu_()", "x.detach().mul_(t.ones(3))", "x.copy_(t.ones(3, 3))"),
    *("x.index_add_(0, t.tensor([1]), t.ones(1, 3))", "x.masked_scatter_(t.eye(3) > 0, t.ones(9))"),
)


def _base_and_view(t: Any, start: Any, text: str) -> tuple[Any, Any]:
    base = start * 1
    x = base.expand(3, 3)
    eval(text, {"t": t, "x": x})
    return base, x


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("text", WRITTEN)
def test_every_element_in_a_place_that_is_written_changes(text: str, compiled: bool) -> None:
    run = tj.compile(_base_and_view) if compiled else _base_and_view
    for shift in range(1 + 2 * compiled):
        numbers = np.arange(1.0, 4.0, dtype=np.float32)[None] + shift
        expected = _base_and_view(torch, torch.tensor(numbers), text)
        found = run(tj, tj.tensor(numbers), text)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=text)


@pytest.mark.parametrize("text", WRITTEN)
def test_the_same_for_one_column_and_for_memory_of_several(text: str) -> None:
    for shape in ((3, 1), (2, 3, 1)):
        numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        both = []
        for t in (torch, tj):
            base = t.tensor(numbers)
            x = base[-1].expand(3, 3) if len(shape) == 3 else base.expand(3, 3)
            eval(text, {"t": t, "x": x})
            both.append((base.numpy(), x.numpy()))
        for expected, found in zip(*both, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_computes_from_its_elements_is_refused(text: str) -> None:
    for t in (torch, tj):
        with pytest.raises(RuntimeError, match="refers to a single memory"):
            _base_and_view(t, t.ones(1, 3), text)


def test_positions_are_checked_first() -> None:
    for t in (torch, tj):
        x = t.zeros(1, 3).expand(3, 3)
        with pytest.raises(IndexError):
            x.index_fill_(0, t.tensor([3]), 1.0)
        with pytest.raises(IndexError):
            x.index_put_((t.tensor([3]),), t.tensor(1.0))
        assert not x.any()
