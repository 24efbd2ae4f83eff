"""Elementwise ops of large eager arrays by kernels of their expressions: NumPy's bits, and which calls they serve."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import large_calls
from tracejit.ops.namespace import wide
from tracejit.ops.op import lookup
from tracejit.ops.printed import PRINTED, divided
from tracejit.runtime.eager import printed

COUNT = 70_000
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 65504, 65520, 6e-8, 2.9e-8)
DTYPES = (tj.float32, tj.float64, tj.float16, tj.bfloat16)


@pytest.fixture(autouse=True)
def met_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "_met", {})


def numbers(dtype: Any, seed: int) -> Any:
    """Of all sizes, or quarters of whole numbers, with special ones among them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(COUNT) * 10.0 ** rng.integers(-9, 9, COUNT)
    if seed % 2:
        x = rng.integers(-20, 20, COUNT) / 4
    chosen = rng.random(COUNT) < 0.3
    x[chosen] = rng.choice(SPECIAL, int(chosen.sum()))
    with np.errstate(over="ignore"):
        return tj.from_numpy(x.astype(np.float32)).to(dtype)


def cases_of(name: str, dtype: Any) -> Any:
    op: Any = lookup(name)
    for seed in (0, 1):
        x, y, z = (numbers(dtype, seed + 2 * i) for i in range(3))
        if len(op.operands) == 1:
            yield from ((x,), (x.reshape(100, 700),))
        elif len(op.operands) == 2:
            yield from ((x, y), (x, y[5]), (x, 0.75), (x, 0.0), (x, -3.0))
        else:
            yield from ((x, y, z), (x, -0.5, 2.0), (x, y[7], z))


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_kernels_give_the_bits_of_numpy(name, monkeypatch):
    options: list[dict[str, Any]] = [{"dtype": d} for d in DTYPES] if name == "cast" else [{}]
    made = printed._table.cache_info().misses
    for dtype, given in itertools.product(DTYPES, options):
        for operands in cases_of(name, dtype):
            found = []
            for patience in (1 << 62, 0):
                for constant in ("PATIENCE", "PATIENCE_CHEAP"):
                    monkeypatch.setattr(printed, constant, patience)
                found.append(lookup(name)(*operands, **given))
            assert found[0].spec == found[1].spec
            a, b = (x.numpy() for x in found)
            bits = f"u{a.dtype.itemsize}"
            nan = (a != a) & (b != b)
            np.testing.assert_array_equal(
                np.where(nan, 0, a.view(bits)), np.where(nan, 0, b.view(bits))
            )
    assert printed._table.cache_info().misses > made


def test_a_kernel_is_made_after_numpy_computed_for_as_long(monkeypatch):
    monkeypatch.setattr(large_calls, "PATIENCE", 1 << 60)  # which would compute bounds sooner
    x = tj.ones(1 << 20)
    for function, patience in (
        (lambda: x.clamp(-1, 1), printed.PATIENCE_CHEAP),
        (lambda: x % 0.7, printed.PATIENCE),
    ):
        used: list[Any] = []
        table = printed._table
        monkeypatch.setattr(
            printed, "_table", lambda *key, t=table, u=used: u.append(key) or t(*key)
        )
        for _ in range(patience // (1 << 20) - 1):
            function()
        assert not used
        function()
        assert len(used) == 1
        monkeypatch.setattr(printed, "_table", table)


def test_other_layouts_small_arrays_and_whole_numbers_are_left_to_numpy(monkeypatch):
    for constant in ("PATIENCE", "PATIENCE_CHEAP"):
        monkeypatch.setattr(printed, constant, 0)
    monkeypatch.setattr(printed, "_table", None)  # a call of it would fail
    x = tj.ones(300, 400)
    assert x.T.sign().sum() == 120_000
    assert (x % x[:1]).sum() == 0
    assert x[:10].sign().sum() == 4_000
    assert (x.long() + 2).sum() == 360_000
    assert (x.long().T % 2).sum() == 120_000
    monkeypatch.setattr(tj.config, "disabled", True)
    assert x.sign().sum() == 120_000


def test_half_precision_becomes_single_by_a_kernel(monkeypatch):
    monkeypatch.setattr(printed, "PATIENCE", 0)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found, wanted = wide(x), x.astype(np.float32)
    assert printed._met
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "u2", "u4", "u8"])
def test_divisions_of_whole_numbers_are_numpys(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed, "PATIENCE", 0)
    op: Any = lookup(name)
    rng = np.random.default_rng(len(name))
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, info.max, info.max - 1, 1, 2, 3, 7, 0], dtype)
    x = rng.integers(info.min, info.max, printed.LEAST, np.dtype(dtype), endpoint=True)
    y = rng.integers(info.min, info.max, printed.LEAST, np.dtype(dtype), endpoint=True)
    x[:81], y[:81] = np.repeat(edges, 9), np.tile(edges, 9)
    y[::5] = edges[5]
    y[2::7] = (y[2::7] % 11).astype(dtype)
    if info.min < 0:
        y[3::7] = -1
    y[y == 0] = 1
    made = divided(op, x, y)
    assert (made is None) is (dtype in ("u2", "u4", "u8"))
    with np.errstate(all="ignore"):
        if made is not None:
            np.testing.assert_array_equal(made, getattr(np, name)(x, y))
        np.testing.assert_array_equal(op.body(x, y), getattr(np, name)(x, y))
    y[-1] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        op.body(x, y)
