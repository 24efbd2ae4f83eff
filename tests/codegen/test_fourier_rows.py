"""Fourier transforms of many short rows by kernels: what NumPy finds in double precision, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.ops import host_fourier
from tracejit.runtime.eager.fourier import transform

needs_vectors = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")
NORMS = ["backward", "ortho", "forward"]
#: Products of two, three and five, among them each alone, and rows that do not fill the last tile.
SHAPES = [
    (1025, 2),
    (1025, 4),
    (411, 6),
    (300, 10),
    (205, 16),
    (70, 30),
    (33, 64),
    (17, 100),
    (9, 1000),
    (8, 1024),
]


def complex_of(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(sum(shape))
    x = draw.standard_normal(shape) + 1j * draw.standard_normal(shape)
    return x.astype("complex64" if kind == "float32" else "complex128")


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    size = np.abs(wanted).max(axis=-1, keepdims=True)
    assert float((np.abs(found - wanted) / size).max()) <= 8 * np.finfo(found.dtype).eps


@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_transforms(kind: str, shape: tuple[int, int]) -> None:
    x, n = complex_of(kind, shape), shape[1]
    wide = x.astype(np.complex128)
    half = np.fft.rfft(wide.real).astype(x.dtype)
    half[:, 0] += 0.5j  # which is not looked at
    for mode, given, inverse, wanted in (
        ("complex", x, False, np.fft.fft(wide)),
        ("complex", x, True, np.fft.ifft(wide) * n),
        ("of_real", x.real, False, np.fft.rfft(wide.real)),
        ("to_real", half, True, np.fft.irfft(half.astype(np.complex128), n) * n),
    ):
        for scale in (1.0, 1 / n):
            result = transform(mode, given, n, inverse, scale)
            assert result is not None
            assert not len(result[1])
            close(result[0], wanted * scale)


@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(40, 100), (3, 30, 33), (2, 64, 16), (5, 4, 3, 7), (1, 1000, 9)])
def test_columns(kind: str, shape: tuple[int, ...]) -> None:
    x = complex_of(kind, shape)
    for dim in range(len(shape) - 1):
        n = shape[dim]
        wide, real = x.astype(np.complex128), n % 2 == 0
        half = np.fft.rfft(wide.real, axis=dim).astype(x.dtype)
        for mode, given, inverse, wanted in (
            ("complex", x, False, np.fft.fft(wide, axis=dim)),
            ("complex", x, True, np.fft.ifft(wide, axis=dim) * n),
            ("of_real", x.real, False, np.fft.rfft(wide.real, axis=dim)),
            ("to_real", half, True, np.fft.irfft(half.astype(np.complex128), n, axis=dim) * n),
        ):
            result = transform(mode, given, n, inverse, 1.0, dim)
            if mode != "complex" and not real:
                assert result is None
                continue
            assert result is not None
            assert not len(result[1])
            close(np.moveaxis(result[0], dim, -1), np.moveaxis(wanted, dim, -1))


@needs_vectors
def test_lengths_that_are_left_to_others() -> None:
    assert transform("complex", complex_of("float32", (300, 7)), 7, False, 1.0) is None
    assert transform("complex", complex_of("float32", (300, 22)), 22, False, 1.0) is None
    assert transform("of_real", np.ones((300, 15)), 15, False, 1.0) is None


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("dims", [(-1,), (0,), (0, 1), (1, 0)])
def test_functions(kind: str, dims: tuple[int, ...], norm: str) -> None:
    x = complex_of(kind, (60, 48))
    wide = x.astype(np.complex128)
    half = np.fft.rfftn(wide.real, axes=dims).astype(x.dtype)
    count = x.shape[dims[-1]]
    sizes = tuple(x.shape[d] for d in dims)

    def found(x: tj.Tensor, half: tj.Tensor) -> list[tj.Tensor]:
        return [
            tj.fft.fftn(x, dim=dims, norm=norm),
            tj.fft.ifftn(x, dim=dims, norm=norm),
            tj.fft.rfftn(x.real, dim=dims, norm=norm),
            tj.fft.irfftn(half, s=sizes, dim=dims, norm=norm),
        ]

    wanted = [
        np.fft.fftn(wide, axes=dims, norm=norm),
        np.fft.ifftn(wide, axes=dims, norm=norm),
        np.fft.rfftn(wide.real, axes=dims, norm=norm),
        np.fft.irfftn(half.astype(np.complex128), s=sizes, axes=dims, norm=norm),
    ]
    compiled = tj.compile(found)
    for function in (found, compiled, compiled):
        for a, b in zip(function(tj.tensor(x), tj.tensor(half)), wanted, strict=True):
            assert a.numpy().dtype.itemsize * (1 if a.is_complex() else 2) == x.dtype.itemsize
            assert np.abs(a.numpy() - b).max() <= 16 * np.finfo(x.dtype).eps * np.abs(b).max()
    assert count == wanted[3].shape[dims[-1]]


@needs_vectors
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_rows_that_are_not_finite_are_the_librarys(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = complex_of("float32", (100, 60))
    x[7, 3], x[99, 0], x[50, 59] = value, value * 1j, complex(value, value)
    half = x[:, :31].copy()

    def found() -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            given = [tj.tensor(y) for y in (x, x.real.copy(), half)]
            results = tj.fft.fft(given[0]), tj.fft.rfft(given[1]), tj.fft.irfft(given[2], 60)
            return [y.numpy() for y in results]

    columns = tj.tensor(x)
    with np.errstate(all="ignore"):
        before = tj.fft.fft(columns, dim=0).numpy()
    ours = found()
    monkeypatch.setattr(host_fourier, "_kernel", [])
    for a, b in zip(ours, found(), strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        odd = ~np.isfinite(b).all(axis=1)
        assert odd[7] or value == 3e38
        np.testing.assert_array_equal(a[odd], b[odd])
        np.testing.assert_allclose(a[8:50], b[8:50], atol=1e-4)
    with np.errstate(all="ignore"):
        wanted = tj.fft.fft(columns, dim=0).numpy()
    np.testing.assert_array_equal(np.isfinite(before), np.isfinite(wanted))
    if value != 3e38:  # all columns are, where one is not finite
        np.testing.assert_array_equal(before, wanted)


@needs_vectors
def test_bits_depend_on_neither_threads_nor_neighbours() -> None:
    x, before, found = complex_of("float32", (999, 48)), tj.get_num_threads(), []
    try:
        for threads in (1, 2):
            tj.set_num_threads(threads)
            found.append(transform("complex", x, 48, False, 1.0))
    finally:
        tj.set_num_threads(before)
    found.append(transform("complex", x[::-1], 48, False, 1.0))
    arrays = [pair[0] for pair in found if pair is not None]
    assert np.array_equal(arrays[0], arrays[1])
    assert np.array_equal(arrays[0], arrays[2][::-1])


def test_gradients() -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal((64, 60)))

    def loss(x: tj.Tensor) -> tj.Tensor:
        whole = tj.fft.rfft(x)
        return (tj.fft.irfft(whole * whole.conj(), 60) ** 2).sum()

    rows = [x.clone().requires_grad_() for _ in range(2)]
    loss(rows[0]).backward()
    tj.compile(loss)(rows[1]).backward()
    step = tj.tensor(np.random.default_rng(1).standard_normal((64, 60)))
    apart = (loss(x + 1e-5 * step) - loss(x - 1e-5 * step)) / 2e-5
    for row in rows:
        assert row.grad is not None
        assert float((row.grad * step).sum()) == pytest.approx(float(apart), rel=1e-6)


def test_spectrograms_are_made_of_such_rows() -> None:
    x = np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    window = tj.hann_window(400)
    found = tj.stft(tj.tensor(x), 400, 100, window=window, center=False, return_complex=True)
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 400)[::100]
    wanted = np.fft.rfft(frames * window.numpy()).T
    assert np.abs(found.numpy() - wanted).max() <= 1e-5 * np.abs(wanted).max()
