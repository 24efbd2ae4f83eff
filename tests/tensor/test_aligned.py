"""What eager code makes begins where a cache line does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tracejit as tj
from tracejit import aligned
from tracejit.ops.slabs import converted

N = 300
ROWS = np.arange(float(N * N)).reshape(N, N)

MAKERS: dict[str, Callable[[], tj.Tensor]] = {
    "tensor of an array": lambda: tj.tensor(ROWS),
    "tensor of a part": lambda: tj.tensor(ROWS[1:, 1:], dtype=tj.float32),
    "tensor of a list": lambda: tj.tensor(ROWS.tolist()),
    "zeros": lambda: tj.zeros(N, N),
    "ones": lambda: tj.ones(N, N),
    "empty": lambda: tj.empty(N, N),
    "full": lambda: tj.full((N, N), 2.5),
    "arange": lambda: tj.arange(N * N),
    "randn": lambda: tj.randn(N, N),
    "rand": lambda: tj.rand(N, N, dtype=tj.float64),
    "clone": lambda: tj.from_numpy(ROWS)[1:].clone(),
    "conversion": lambda: tj.from_numpy(ROWS).half(),
    "weight": lambda: tj.nn.Linear(N, N).weight,
    "copied weight": lambda: copy.deepcopy(tj.nn.Linear(N, N)).weight,
}


@pytest.mark.parametrize("name", MAKERS)
def test_memory_begins_where_a_line_does(name: str) -> None:
    for _ in range(3):  # not by chance
        assert MAKERS[name]().data_ptr() % 64 == 0


def test_state_of_optimizers_and_files(tmp_path: Path) -> None:
    layer = tj.nn.Linear(N, N)
    optimizer = tj.optim.Adam(layer.parameters())
    layer(tj.ones(2, N)).sum().backward()
    optimizer.step()
    state = optimizer.state[layer.weight]
    assert state["exp_avg"].data_ptr() % 64 == 0
    tj.save(layer.state_dict(), tmp_path / "weights")
    assert tj.load(tmp_path / "weights")["weight"].data_ptr() % 64 == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.complex64, np.bool_])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (7, 300), (0, 5000), 2000])
def test_arrays_are_those_of_numpy(shape: int | tuple[int, ...], dtype: type) -> None:
    for ours, theirs in ((aligned.empty, np.empty), (aligned.zeros, np.zeros)):
        found, wanted = ours(shape, dtype), theirs(shape, dtype)
        assert (found.shape, found.dtype, found.strides) == (
            wanted.shape,
            wanted.dtype,
            wanted.strides,
        )
        assert found.flags.writeable
        assert found.flags.c_contiguous
    assert not aligned.zeros(shape, dtype).any()
    assert (aligned.full(shape, 1, dtype) == 1).all()


def test_copies_are_those_of_numpy() -> None:
    for x in (ROWS, ROWS.T, ROWS[::2, ::-3], ROWS[:3, :3], np.float64(3.0) + np.zeros(())):
        for dtype in (None, np.float32, np.int16, np.bool_):
            found = aligned.copy(x, dtype)
            np.testing.assert_array_equal(found, x.astype(dtype or x.dtype))
            assert found.flags.c_contiguous
            assert not np.shares_memory(found, x)
            kept = converted(x, dtype or x.dtype)
            assert kept.strides == x.astype(dtype or x.dtype).strides


def test_views_share_memory_as_before() -> None:
    x = tj.zeros(N, N)
    x[1:3].fill_(2.0)
    assert float(x.sum()) == 2.0 * 2 * N
    assert x.numpy().flags.writeable
    assert x.untyped_storage().nbytes() == N * N * 4
    assert x[1:].storage_offset() == N
    whole = aligned.zeros((N, N), np.float32)
    assert aligned.has_memory(whole)
    assert not any(map(aligned.has_memory, (whole[1:], whole.T, whole.reshape(-1), whole[:])))
    assert not aligned.has_memory(np.frombuffer(bytearray(4000)))
