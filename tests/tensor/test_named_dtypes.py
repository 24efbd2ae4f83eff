"""Dtypes that have a name and no tensors: programs compare with them and look sizes up by them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import tracejit as tj
from tracejit.named_dtypes import NAMED


@pytest.mark.parametrize("name", NAMED)
def test_names_and_kinds_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="the oracle of this test is PyTorch")
    ours, theirs = getattr(tj, name), getattr(torch, name)
    assert isinstance(ours, tj.dtype)
    assert str(ours) == str(theirs).replace("torch", "tracejit")
    assert ours.is_floating_point is theirs.is_floating_point
    assert ours.is_complex is theirs.is_complex
    if not name.startswith("bits"):
        assert ours.itemsize == theirs.itemsize
    if "int" in name and "q" not in name:
        assert ours.is_signed is theirs.is_signed


def test_they_are_compared_and_looked_up() -> None:
    sizes = {tj.complex32: 4, tj.float32: 4, tj.quint8: 1}
    assert (sizes[tj.chalf], tj.chalf is tj.complex32) == (4, True)
    assert pickle.loads(pickle.dumps(tj.qint8)) is copy.deepcopy(tj.qint8) is tj.qint8
    compiled = tj.compile(lambda x: x * 2 if x.dtype != tj.complex32 else x, strict=True)
    assert [compiled(tj.ones(1)).item() for _ in range(3)] == [2.0] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: tj.zeros(2, dtype=dtype),
        lambda dtype: tj.empty(2, dtype=dtype),
        lambda dtype: tj.tensor([1], dtype=dtype),
        lambda dtype: tj.ones(2).to(dtype),
        lambda dtype: tj.ones(2).view(dtype),
        lambda dtype: tj.ones(2).sum(dtype=dtype),
    ],
)
@pytest.mark.parametrize("dtype", [tj.complex32, tj.qint8, tj.int4])
def test_tensors_of_them_are_refused(
    make: Callable[[tj.dtype], tj.Tensor], dtype: tj.dtype
) -> None:
    with pytest.raises(RuntimeError, match=f"no tensors of {dtype.name}"):
        make(dtype)
