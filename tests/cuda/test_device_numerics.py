"""Where CuPy computes in another way than NumPy, tensors on a device hold what those of the host hold all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stand_in
import stand_in_arrays

import tracejit as tj
from tracejit.cuda import arrays

pytestmark = pytest.mark.usefixtures("gpu")

_EDGES = [0.0, -0.0, 1.0, -1.0, 5.0, -5.0, 0.3, -0.1, 1e8, -1e8, float("inf"), -float("inf")]


def bits(x: Any) -> Any:
    """What tells numbers of both zeros apart, and counts all NaN as one."""
    found = x.cpu().double().numpy()
    return np.where(np.isnan(found), np.nan, found).tobytes()


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_divisions_with_a_remainder_are_exact(name: str, dtype: str) -> None:
    numbers = tj.tensor([*_EDGES, float("nan")], dtype=getattr(tj, dtype))
    x, y = numbers[:, None].expand(13, 13), numbers[None]
    expected = getattr(tj, name)(x, y)
    assert bits(getattr(tj, name)(x.cuda(), y.cuda())) == bits(expected)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_divisions_of_integers_too(name: str, dtype: str) -> None:
    kind = getattr(tj, dtype)
    info = tj.iinfo(kind)
    x = tj.tensor([info.max, info.max - 1, info.min + 1, 0, 7], dtype=kind)[:, None]
    y = tj.tensor([3, 7, info.max] + [-3, -7] * (info.min < 0), dtype=kind)
    expected = getattr(tj, name)(x, y)
    assert getattr(tj, name)(x.cuda(), y.cuda()).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_a_negative_zero_arrives(dtype: str) -> None:
    kind = getattr(tj, dtype)
    number = tj.tensor(-0.0, dtype=kind).cuda()
    full = tj.full((3,), -0.0, dtype=kind, device="cuda")
    scaled = tj.ones(2, dtype=kind, device="cuda") * -0.0
    for found in (number, full, scaled):
        assert np.signbit(found.cpu().numpy().real.astype(np.float64)).all()
    assert not np.signbit(tj.zeros((), dtype=kind, device="cuda").cpu().numpy().real.astype(float))


def test_filled_tensors_are_made_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    def placed(array: Any, index: int) -> Any:
        assert array.ndim == 0 or arrays.device_index(array) == index
        return plain(array, index)

    plain = arrays.placed
    monkeypatch.setattr("tracejit.ops.functions.common.placed", placed)
    x = tj.zeros(5, device="cuda")
    for made in (x, tj.ones_like(x), tj.full((2, 0), 3, device="cuda"), x.new_full((2,), True)):
        assert made.is_cuda
    assert tj.full((2,), 7, dtype=tj.uint8, device="cuda:1").tolist() == [7, 7]
    assert tj.full((2,), 1 + 2j, device="cuda").tolist() == [1 + 2j, 1 + 2j]


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_a_matrix_that_cannot_be_treated_is_an_error(name: str) -> None:
    function = getattr(tj.linalg, name)
    with pytest.raises(RuntimeError, match=name):
        function(tj.zeros(3, 3, device="cuda"))
    assert function(tj.eye(3).cuda()).cpu().equal(tj.eye(3))


def test_batches_of_systems_are_broadcast() -> None:
    a = tj.eye(3) * 2 + 0.1
    for left, right in (((), (4,)), ((4,), ()), ((2, 1), (4,))):
        x, b = a.expand(*left, 3, 3), tj.randn(*right, 3, 2)
        assert tj.linalg.solve(x.cuda(), b.cuda()).cpu().allclose(tj.linalg.solve(x, b))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float32", "float16"])
@pytest.mark.parametrize("shape", [(40, 3), (1, 2), (0, 2), (6, 0), (9, 2, 2)])
def test_distinct_rows(dtype: str, shape: tuple[int, ...]) -> None:
    kind = getattr(tj, dtype)
    x = (tj.randint(-1, 2, shape) * 100).to(kind)
    expected = tj.unique(x, dim=0, return_inverse=True, return_counts=True)
    found = tj.unique(x.cuda(), dim=0, return_inverse=True, return_counts=True)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.cpu().equal(b)


def test_positions_in_half_precision_and_of_nothing() -> None:
    edges, x = tj.tensor([1.0, 2.0, 4.0]).bfloat16(), tj.tensor([0.5, 2.0, 9.0]).bfloat16()
    assert tj.searchsorted(edges.cuda(), x.cuda()).tolist() == [0, 1, 3]
    assert tj.zeros(0, 3, device="cuda").argsort(0).shape == (0, 3)


def test_an_index_is_looked_at_once() -> None:
    x, index = tj.randn(5, 3).cuda(), tj.tensor([1, -1, 4]).cuda()
    stand_in_arrays.LOG.clear()
    x[index]
    assert stand_in_arrays.LOG.count("get") + stand_in_arrays.LOG.count("item") <= 1


def test_bfloat16_is_exported_from_a_device() -> None:
    x = tj.ones(3, dtype=tj.bfloat16)
    with pytest.raises(BufferError, match="bfloat16"):
        x.__dlpack__()
    assert x.cuda().__dlpack_device__() == (2, 0)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        bool,
        lambda x: tj.cuda.synchronize(),
        lambda x: tj.cuda.current_stream().synchronize(),
    ],
    ids=["item", "tolist", "cpu", "bool", "synchronize", "stream"],
)
def test_a_fault_says_what_to_do_wherever_it_shows(
    wait: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: Any, **__: Any) -> Any:
        raise stand_in.CUDARuntimeError(700)

    x = tj.ones((), device="cuda")
    for owner, names in (
        (stand_in_arrays.ndarray, ("item", "get", "tolist", "__bool__")),
        (stand_in_arrays.Device, ("synchronize",)),
        (stand_in.Stream, ("synchronize",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, faulty)
    with pytest.raises(tj.errors.DeviceError, match="Restart the process"):
        wait(x)


def test_functions_that_cupy_lacks_are_computed_on_the_host() -> None:
    x = tj.tensor([-1.0, 0.0, 2.5])
    found = tj.special.airy_ai(x.cuda())
    assert found.is_cuda
    assert found.cpu().equal(tj.special.airy_ai(x))
