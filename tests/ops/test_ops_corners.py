"""Corners of single functions: scalars in place of vectors, integers, widths that cut, extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional


def test_ranges_of_integers_convert_their_bounds() -> None:
    assert tj.arange(1.0, 5.000001, 2.0, dtype=tj.int64).tolist() == [1, 3]
    assert tj.arange(2.1, -2.9, -1.0, dtype=tj.int64).tolist() == [2, 1, 0, -1]
    assert tj.arange(end=3).tolist() == [0, 1, 2]
    assert tj.linspace(4.3, 50, 50, dtype=tj.int64)[:4].tolist() == [4, 4, 5, 6]
    assert tj.logspace(4.3, 0, 2, 3.0, dtype=tj.int64).tolist() == [81, 1]


def test_differences_between_what_is_put_around() -> None:
    x = tj.tensor([1, 4, 9])
    assert tj.diff(x, prepend=tj.tensor([0]), append=tj.tensor([16])).tolist() == [1, 3, 5, 7]
    assert tj.diff(x, n=0, prepend=tj.tensor([0])).tolist() == [1, 4, 9]
    assert tj.diff(x, n=5).shape == (0,)
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        tj.diff(tj.tensor(1.0))


def test_medians_without_nan_along_a_dimension() -> None:
    nan = math.nan
    found = tj.nanmedian(tj.tensor([[3.0, nan, 1.0], [nan, nan, nan]]), 1)
    np.testing.assert_array_equal(found.values.numpy(), np.array([1.0, nan], np.float32))
    assert found.indices[0].item() == 2
    assert tj.nanmedian(tj.tensor(2.0), 0, True).values.item() == 2.0


@pytest.mark.parametrize(
    ("how", "expected"),
    [("linear", 1.75), ("lower", 1.0), ("higher", 2.0), ("midpoint", 1.5), ("nearest", 2.0)],
)
def test_quantiles_at_a_tensor_of_shares(how: str, expected: float) -> None:
    x = tj.tensor([[3.0, 1.0, 2.0, 4.0]])
    q = tj.tensor([0.25, 1.0], requires_grad=True)
    found = tj.quantile(x, q, 1, True, interpolation=how)
    assert found.shape == (2, 1, 1)
    assert found.flatten().tolist() == [expected, 4.0]
    if how == "linear":
        (slope,) = tj.autograd.grad(found.sum(), q)
        assert slope.tolist() == [3.0, 0.0]
    assert tj.quantile(tj.tensor(5.0), 0.5, 0, True).item() == 5.0


def test_running_logarithms_neither_overflow_nor_vanish() -> None:
    x = tj.tensor([-800.0, 0.0, 700.0], dtype=tj.float64, requires_grad=True)
    y = tj.logcumsumexp(x, 0)
    np.testing.assert_allclose(y.detach().numpy(), [-800.0, 0.0, 700.0])
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1.0, 1.0, 1.0])


def test_cut_and_wrapped_padding() -> None:
    x = tj.arange(4).reshape(1, 1, 4)
    assert F.pad(x, (-1, 1), "circular").flatten().tolist() == [1, 2, 3, 1]


def test_scalars_as_vectors_of_one() -> None:
    x, at = tj.tensor(3.0), tj.tensor([0])
    assert x.index_add(0, at, tj.tensor(2.0)).item() == 5.0
    assert x.index_copy(0, at, tj.tensor(2.0)).item() == 2.0
    assert x.index_fill(0, at, 7.0).item() == 7.0
    assert x.gather(0, at).tolist() == [3.0]
    assert x.unfold(0, 1, 1).tolist() == [3.0]
    assert tj.argwhere(x).shape == (1, 0)
    assert tj.nonzero(tj.tensor(0.0)).shape == (0, 0)
    z = tj.tensor(2.0, requires_grad=True)
    z.scatter_reduce(0, tj.tensor(0), tj.tensor(4.0), "prod").backward()
    assert z.grad.item() == 4.0


def test_broadcasting_where_only_one_side_had_it() -> None:
    mask = tj.tensor([[True, False], [False, True]])
    assert tj.masked_scatter(tj.zeros(2), mask, tj.tensor([5.0, 6.0])).tolist() == [[5, 0], [0, 6]]
    assert tj.tensordot(tj.ones(1, 3), tj.ones(2, 3), ([0, 1], [0, 1])).item() == 6.0
    a, b = tj.tensor([[1.0, 0.0]]), tj.tensor([[1.0], [1.0]])
    np.testing.assert_allclose(F.cosine_similarity(a, b, 0).numpy(), [1.0, 0.0], atol=1e-6)
    assert tj.take_along_dim(tj.tensor([[1, 2]]), tj.tensor([[-1]]), 1).tolist() == [[2]]


def test_einstein_sums_by_lists_and_capitals() -> None:
    a, b = tj.arange(6.0).reshape(2, 3), tj.arange(3.0)
    expected = (a @ b).tolist()
    assert tj.einsum("Ij,j->I", a, b).tolist() == expected
    assert tj.einsum(a, [0, 1], b, [1], [0]).tolist() == expected
    assert tj.einsum(a, [..., 1], b, [1]).tolist() == expected


def test_whole_numbers_stay_whole() -> None:
    flags = tj.tensor([True, False])
    assert flags.clamp_min(True).tolist() == [True, True]
    assert flags.clamp_max(False).dtype is tj.bool
    assert F.hardtanh(tj.tensor([-3, 0, 3])).tolist() == [-1, 0, 1]
    assert F.relu6(tj.tensor([-3, 9], dtype=tj.int32)).tolist() == [0, 6]
    image = tj.tensor([[[[0, 255], [255, 0]]]], dtype=tj.uint8)
    grown = F.interpolate(image, size=(3, 3), mode="bilinear", align_corners=True)
    assert grown.dtype is tj.uint8
    assert abs(int(grown[0, 0, 1, 1]) - 128) <= 1


def test_rows_that_are_used_are_shortened_in_place() -> None:
    weight = tj.tensor([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]])
    rows = F.embedding(tj.tensor([0, 1, 0]), weight, max_norm=1.0)
    np.testing.assert_allclose(rows.numpy(), [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]], rtol=1e-5)
    np.testing.assert_allclose(weight.numpy(), [[0.6, 0.8], [0.3, 0.4], [30, 40]], rtol=1e-5)


def test_images_sampled_by_cubic_pieces() -> None:
    """Cubic pieces pass through the values, and through the middle of a line."""
    line = tj.arange(8.0).expand(1, 1, 8, 8)
    at = tj.tensor([[[[0.0, 0.0], [2 / 3.5 - 1, 0.0]]]])
    found = F.grid_sample(line, at, mode="bicubic", align_corners=True)
    np.testing.assert_allclose(found.flatten().numpy(), [3.5, 2.0], rtol=1e-5)
    with pytest.raises(RuntimeError, match="4D"):
        F.grid_sample(tj.zeros(1, 1, 2, 2, 2), tj.zeros(1, 1, 1, 1, 3), mode="bicubic")


@pytest.mark.parametrize("dtype", [tj.bool, tj.int64])
def test_running_logarithms_of_sums_are_of_fractions(dtype: tj.dtype) -> None:
    with pytest.raises(NotImplementedError, match="logcumsumexp_out_cpu"):
        tj.logcumsumexp(tj.ones(3).to(dtype), 0)


@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.float16, tj.bfloat16])
def test_powers_of_a_half(dtype) -> None:
    """The number 0.5 is a square root (not so for float16), a tensor of 0.5 an exponent like any other."""
    x = tj.tensor([-math.inf, -0.0, 0.0, math.inf, 4.0], dtype=dtype)
    power = {0.5: [math.inf, 0.0, 0.0, math.inf, 2.0], -0.5: [0.0, math.inf, math.inf, 0.0, 0.5]}
    root = {
        0.5: [math.nan, -0.0, 0.0, math.inf, 2.0],
        -0.5: [math.nan, -math.inf, math.inf, 0.0, 0.5],
    }
    if dtype is tj.float16:
        root = power
    by_number, by_tensor = (lambda x, p: x**p), (lambda x, p: x.pow(p))
    compiled, compiled_by_tensor = tj.compile(by_number), tj.compile(by_tensor)
    for p in (0.5, -0.5, 0.5, -0.5, 0.5):
        for f in (by_number, compiled):
            assert repr(f(x, p).tolist()) == repr(root[p])
        for exponent in (
            tj.tensor(p, dtype=dtype),
            tj.full((1,), p, dtype=dtype),
            tj.full((5,), p, dtype=dtype),
        ):
            for f in (by_tensor, compiled_by_tensor):
                assert repr(f(x, exponent).tolist()) == repr(power[p])


@pytest.mark.parametrize("compiled", [False, True])
def test_slopes_of_sinc_near_zero(compiled: bool) -> None:
    """As its series has them: a quotient would take the difference of numbers that are nearly equal."""
    x = tj.tensor([1e-30, 1e-9, -1e-4, 0.02, 0.05, 0.0], dtype=tj.float64, requires_grad=True)
    function = tj.compile(tj.sinc) if compiled else tj.sinc
    for _ in range(1 + compiled):
        (slope,) = tj.autograd.grad(function(x).sum(), x)
    near = x.detach().numpy() * math.pi
    expected = -math.pi * near / 3 * (1 - near**2 / 10 + near**4 / 280)
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-9)


def test_shares_of_large_logarithms() -> None:
    x = tj.tensor([1000.0, -1000.0], requires_grad=True)
    (share,) = tj.autograd.grad(tj.logaddexp(x, x.detach()).sum(), x)
    assert share.tolist() == [0.5, 0.5]


def test_exponentials_of_matrices_in_single_precision() -> None:
    x = np.random.default_rng(3).standard_normal((5, 5)) * 4
    found = tj.matrix_exp(tj.tensor(x, dtype=tj.float32)).numpy()
    exact = tj.matrix_exp(tj.tensor(x.astype(np.float32), dtype=tj.float64)).numpy()
    np.testing.assert_allclose(found, exact, atol=1e-7 * np.abs(exact).max(), rtol=0)


NEVER_VIEWS = {
    "channel_shuffle 1": lambda x: tj.channel_shuffle(x, 1),
    "channel_shuffle 4": lambda x: tj.channel_shuffle(x, 4),
    "pixel_shuffle": lambda x: tj.pixel_shuffle(x, 1),
    "pixel_shuffle of a pixel": lambda x: tj.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: tj.pixel_unshuffle(x.reshape(1, 1, 2, 2), 1),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 0),
    "of one element": lambda x: x[0, 1, 0].repeat_interleave(3),
    "once": lambda x: x.repeat_interleave(1, 1),
    "interpolate": lambda x: tj.nn.functional.interpolate(x, scale_factor=1.0),
    "matrix_power": lambda x: x.reshape(2, 2).matrix_power(1),
}


@pytest.mark.parametrize("name", NEVER_VIEWS)
def test_elements_that_are_moved_or_repeated_are_copies(name: str) -> None:
    """Also where they all come to lie as they did."""
    compiled = tj.compile(NEVER_VIEWS[name])
    for f in (NEVER_VIEWS[name], compiled, compiled, compiled):
        x = tj.arange(4.0).reshape(1, 4, 1, 1)
        y = f(x)
        expected = y.clone()
        y[0] = expected[0] = -1
        assert x.flatten().tolist() == [0, 1, 2, 3]
        assert tj.equal(y, expected)
    assert compiled.stats.compiled_calls == 2


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_extremes_of_nothing_at_all(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{name}\(\): Expected reduction dim to be specified"):
        getattr(tj.zeros(0, 3), name)()
    with pytest.raises(IndexError):
        getattr(tj.zeros(0, 3), name)(0)


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("count", [0, 2])
def test_only_one_element_is_a_number(convert: type, count: int) -> None:
    with pytest.raises(ValueError, match="only one element tensors can be converted"):
        convert(tj.zeros(count))
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        tj.zeros(count).item()


def test_gradients_of_logaddexp_beside_truth_values() -> None:
    """Nothing can be subtracted from a truth value, but its gradient rule does not have to."""
    y = tj.tensor([1.0, 2.0], requires_grad=True)
    mask = tj.tensor([True, False])
    for function in (tj.logaddexp, tj.compile(lambda x, y: tj.logaddexp(x, y))):
        for x in (mask, mask):
            (found,) = tj.autograd.grad(function(x, y).sum(), y)
            np.testing.assert_allclose(found.numpy(), [0.5, 1 / (1 + np.exp(-2.0))], rtol=1e-6)


def test_slopes_beside_special_values() -> None:
    inf, nan = math.inf, math.nan

    def slopes(function, *values: list[float]) -> list[list[float]]:
        leaves = [tj.tensor(v, requires_grad=True) for v in values]
        function(*leaves).sum().backward()
        return [leaf.grad.tolist() for leaf in leaves]

    expected = {
        "copysign": (
            tj.copysign,
            [[inf, 0.0, -2.0], [1.0, 1.0, 3.0]],
            [[nan, 0.0, -1.0], [0.0, 0.0, 0.0]],
        ),
        "logit": (tj.logit, [[0.5, 1.5, -0.5, 0.0, -0.0, 1.0]], [[4.0, nan, nan, inf, inf, inf]]),
        "trunc": (
            lambda x, y: tj.div(x, y, rounding_mode="trunc"),
            [[1.0, inf], [0.0, 0.0]],
            [[0.0] * 2, [0.0] * 2],
        ),
        "remainder": (tj.remainder, [[1.0, inf], [-inf, 1.0]], [[1.0, 1.0], [1.0, nan]]),
        "norm": (lambda x: tj.linalg.norm(x, 0.5), [[0.0, 0.0]], [[0.0, 0.0]]),
        "norm of one": (lambda x: tj.linalg.norm(x, 0.5), [[0.0, 4.0]], [[0.0, 1.0]]),
        "entr": (tj.special.entr, [[1.0, -1.0, 0.0]], [[-1.0, nan, inf]]),
        "xlogy": (
            tj.xlogy,
            [[0.0, 0.0, 0.0, 2.0], [0.0, -1.0, inf, 1.0]],
            [[0.0, 0.0, inf, 0.0], [nan, 0.0, 0.0, 2.0]],
        ),
        "xlog1py": (
            tj.special.xlog1py,
            [[0.0, 0.0, 2.0], [-1.0, inf, 0.0]],
            [[0.0, inf, 0.0], [nan, 0.0, 2.0]],
        ),
    }
    for name, (function, values, wanted) in expected.items():
        np.testing.assert_array_equal(slopes(function, *values), wanted, name)
        np.testing.assert_array_equal(slopes(tj.compile(function), *values), wanted, name)


def test_gathering_nothing_keeps_the_history() -> None:
    x = tj.ones(5, requires_grad=True)
    found = tj.gather(x, 0, tj.zeros((2, 0), dtype=tj.int64))
    assert found.shape == (2, 0)
    found.sum().backward()
    assert x.grad.tolist() == [0.0] * 5


def test_spectra_of_complex_windows_and_roots_of_complex_squares() -> None:
    x = tj.arange(16.0)
    window = tj.ones(8, dtype=tj.complex64)
    spectrum = tj.stft(x, 8, window=window, return_complex=True, onesided=False)
    found = tj.istft(spectrum, 8, window=window, onesided=False, return_complex=True)
    np.testing.assert_allclose(found.real.numpy(), x.numpy(), atol=1e-5)
    z = tj.tensor([3.0 + 0.0j, 4.0j])  # the squares, not those of magnitudes
    np.testing.assert_allclose(F.rms_norm(z, (2,), eps=4.5).numpy(), [3.0, 4.0j], rtol=1e-6)


def test_exponentials_of_matrices_in_half_precision() -> None:
    assert tj.matrix_exp(tj.zeros(2, 2, dtype=tj.bfloat16)).equal(tj.eye(2, dtype=tj.bfloat16))


def test_memory_of_another_library_has_an_offset_of_its_own() -> None:
    class Foreign:
        """Like a tensor of another library: it has a dtype, but no ``base``."""

        dtype = "float32"

        def __init__(self) -> None:
            self.array = np.arange(6, dtype=np.float32)
            self.__array_interface__ = self.array.__array_interface__

    x = tj.from_numpy(np.asarray(Foreign()))
    assert x.storage_offset() == 0
    assert tj.as_strided(x, (2, 2), (1, 2), 1).tolist() == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tj.aminmax(tj.ones(5, 0), dim=1), IndexError, "non-zero size"),
        (lambda: tj.aminmax(tj.ones(5, 0)), RuntimeError, "empty dimension"),
        (lambda: tj.max(1, 2), TypeError, "max"),
        (lambda: F.scaled_dot_product_attention(*[tj.ones(3)] * 3), RuntimeError, "at least 2 dim"),
        (lambda: tj.min(1, 2), TypeError, "min"),
    ],
)
def test_what_is_refused(call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_between_infinities_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    rows = np.array(list(itertools.product([-np.inf, 0.0, 2.0, np.inf], repeat=3)))
    for share in (0.0, 0.1, 0.3, 0.5, 0.6, 0.9, 1.0):
        for kind in ("linear", "midpoint"):
            found, expected = (
                getattr(t, name)(t.tensor(rows), share, 1, interpolation=kind) for t in (tj, torch)
            )
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
