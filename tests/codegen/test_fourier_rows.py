"""Fourier transforms by kernels: what NumPy finds in double precision, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.products.vector_machine import vector_machine
from tracejit.ops import host_fourier
from tracejit.runtime.eager.fourier import transform

needs_vectors = pytest.mark.skipif(vector_machine() is None, reason="no vectors with masks")
NORMS = ["backward", "ortho", "forward"]
#: Products of two, three, five and seven, among them each alone, and rows that do not fill the last tile; few rows and
#: long ones, whose elements fill the lanes, in whole squares of vectors and others.
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
    (300, 7),
    (40, 343),
    (1, 2),
    (1, 18),
    (3, 90),
    (2, 256),
    (1, 630),
    (1, 972),
    (9, 2048),
    (1, 5000),
    (2, 16384),
]


def complex_of(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(sum(shape))
    x = draw.standard_normal(shape) + 1j * draw.standard_normal(shape)
    return x.astype("complex64" if kind == "float32" else "complex128")


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    size = np.abs(wanted).max(axis=-1, keepdims=True)
    assert float((np.abs(found - wanted) / size).max()) <= 8 * np.finfo(found.dtype).eps


@pytest.mark.sampled(4)
@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_transforms(kind: str, shape: tuple[int, int]) -> None:
    x, n = complex_of(kind, shape), shape[1]
    wide = x.astype(np.complex128)
    half = np.fft.rfft(wide.real).astype(x.dtype)
    half[:, 0] += 0.5j  # which is not looked at
    half[:, -1] += 0.5j if n % 2 == 0 else 0
    for mode, given, inverse, wanted in (
        ("complex", x, False, np.fft.fft(wide)),
        ("complex", x, True, np.fft.ifft(wide) * n),
        ("of_real", x.real, False, np.fft.rfft(wide.real)),
        ("to_real", half, True, np.fft.irfft(half.astype(np.complex128), n) * n),
    ):
        for scale in (1.0, 1 / n):
            result = transform(mode, given, n, inverse, scale)
            if mode != "complex" and n % 2:
                assert result is None
                continue
            assert result is not None
            close(result, wanted * scale)


@pytest.mark.sampled(2)
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
            close(np.moveaxis(result, dim, -1), np.moveaxis(wanted, dim, -1))


@needs_vectors
def test_lengths_that_are_left_to_others() -> None:
    assert transform("complex", complex_of("float32", (3, 1 << 15)), 1 << 15, False, 1.0) is None
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
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_results_that_are_not_finite_are_the_librarys(
    value: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = complex_of("float32", (100, 60))
    x[7, 3], x[99, 0], x[50, 59] = value, value * 1j, complex(value, value)
    half, alone = x[:, :31].copy(), complex_of("float32", (200,))
    alone[100] = complex(value, value)

    def found() -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            given = [tj.tensor(y) for y in (x, x.real.copy(), half, alone)]
            function = tj.compile(results) if compiled else results
            return [y.numpy() for y in function(*given)]

    def results(
        x: tj.Tensor, real: tj.Tensor, half: tj.Tensor, alone: tj.Tensor
    ) -> list[tj.Tensor]:
        few = tj.fft.fft(alone), tj.fft.rfft(alone.real), tj.fft.ifft2(alone.reshape(2, 100))
        return [
            tj.fft.fft(x),
            tj.fft.rfft(real),
            tj.fft.irfft(half, 60),
            tj.fft.fft(x, dim=0),
            *few,
        ]

    ours = found()
    monkeypatch.setattr(host_fourier, "_kernel", [])
    for a, b in zip(ours, found(), strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        odd = not np.isfinite(b).all()
        assert odd or value == 3e38
        if odd:
            np.testing.assert_array_equal(a, b)


@needs_vectors
@pytest.mark.parametrize("n", [48, 500, 512])
def test_bits_depend_on_neither_threads_nor_neighbours(n: int) -> None:
    x, before, found = complex_of("float32", (999, n)), tj.get_num_threads(), []
    try:
        for threads in (1, 2):
            tj.set_num_threads(threads)
            found.append(transform("complex", x, n, False, 1.0))
    finally:
        tj.set_num_threads(before)
    found.append(transform("complex", x[::-1], n, False, 1.0))
    one, two, backwards = found
    assert one is not None
    assert two is not None
    assert backwards is not None
    assert np.array_equal(one, two)
    assert np.array_equal(one, backwards[::-1])


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


def waves(psi: tj.Tensor, rounds: int) -> tj.Tensor:
    """Rounds of a split-step method, of which each transforms and transforms back."""
    k = tj.fft.fftfreq(psi.shape[-1], dtype=psi.real.dtype) * psi.shape[-1]
    half, whole = tj.exp(-0.01j * k), tj.exp(-0.001j * k * k)
    for _ in range(rounds):
        psi = half * tj.fft.ifft(whole * tj.fft.fft(half * psi))
    return psi.abs()


@pytest.mark.sampled(2)
@needs_vectors
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(256,), (30, 20), (3, 1000)])
def test_loops_hold_transforms(kind: str, shape: tuple[int, ...]) -> None:
    x, function = tj.tensor(complex_of(kind, shape)), tj.compile(waves)
    wanted = waves(x, 12)
    for _ in range(3):
        tj.testing.assert_close(function(x, 12), wanted, rtol=0, atol=1e-5)
    assert "loop of" in str(function.explain())


def heat(u: tj.Tensor) -> tj.Tensor:
    """Rounds along two dimensions, of real numbers."""
    for _ in range(10):
        spectrum = tj.fft.rfft2(u)
        u = tj.fft.irfft2(0.9 * spectrum, s=u.shape[-2:])
        u = u + 0.01 * (u - u**3)
    return u


@needs_vectors
@pytest.mark.parametrize("shape", [(30, 48), (2, 16, 20)])
def test_planes_in_loops_and_their_gradients(shape: tuple[int, ...]) -> None:
    x = tj.tensor(np.random.default_rng(0).standard_normal(shape))
    rows = [x.clone().requires_grad_() for _ in range(3)]
    function = tj.compile(heat)
    results = [heat(rows[0]), function(rows[1]), function(rows[2])]
    for found in results:
        found.square().sum().backward()
    for row, found in zip(rows[1:], results[1:], strict=True):
        tj.testing.assert_close(found, results[0])
        tj.testing.assert_close(row.grad, rows[0].grad)
