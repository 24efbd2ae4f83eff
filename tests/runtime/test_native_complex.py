"""Arithmetic of complex numbers is done on their parts in kernels, with the bits of eager execution."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops, loops
from ir_graphs import assert_same_bits
from tracejit.runtime.threads import get_num_threads, set_num_threads

OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "conjugate": lambda a, b: a.conj() * b,
    "literal": lambda a, b: a + 1.5,
    "to_parts": lambda a, b: tj.view_as_real(a) * 2,
    "of_parts": lambda a, b: tj.view_as_complex(tj.view_as_real(a) * 3) * b,
    "cast": lambda a, b: b.real.to(a.dtype) * a,
    "other numbers": lambda a, b: (a.real > 0).to(a.dtype) + b * (a.imag > 0).int(),
    "div": lambda a, b: a / b,
    "div by number": lambda a, b: (a / 2.5) + b / (1 - 2j),
    "reciprocal": lambda a, b: 1 / a,
    "abs": lambda a, b: a.abs(),
    "square": lambda a, b: a.square() + b**2,
    "powers": lambda a, b: a**3 - a**5 + a**8,
    "where": lambda a, b: tj.where(a.abs() < 1, a, b),
    "filled": lambda a, b: a.masked_fill(b.abs() < 1, 2 - 1j),
    "zeros": lambda a, b: tj.zeros_like(a) + b,
    "equal": lambda a, b: (a == b) | (a != a.clone()),
    "kinds": lambda a, b: a.isnan() | b.isinf() | ~a.isfinite(),
    "sgn": lambda a, b: a.sgn(),
    "views": lambda a, b: (a * 2).reshape(-1)[1:].unsqueeze(0) + 1,
    "squared size": lambda a, b: (a * b).real ** 2 + (a * b).imag ** 2,
    "sums": lambda a, b: (a * 0.5).isfinite().float().sum(),
    "many": lambda a, b: ((a * b + 1) / (a - 2j)).conj() * 0.5,
}
#: Functions that are not NumPy's to the bit, since they have elementary ones inside, and sums.
CLOSE = {
    "exp": lambda a, b: tj.exp(a),
    "log": lambda a, b: tj.log(a),
    "sqrt": lambda a, b: tj.sqrt(a),
    "turned": lambda a, b: tj.exp(1j * a.real) * b,
    "size of exp": lambda a, b: tj.exp(a * 0.5).abs(),
}
LAYOUTS = {
    "dense": lambda r: (r(9, 17), r(9, 17)),
    "turned": lambda r: (r(9, 17), r(17, 9).t()),
    "steps": lambda r: (r(18, 34)[::2, 1::2], r(9, 17).flip(0)),
    "column": lambda r: (r(9, 17), r(9, 1)),
    "row": lambda r: (r(5, 1, 17), r(3, 1)),
    "many": lambda r: (r(300, 401), r(401)),
    "one": lambda r: (r(1), r(1)),
    "number": lambda r: (r(), r()),
    "real": lambda r: (r(9, 17), r(9, 17).real),
}


def _numbers(dtype, seed):
    """Tensors of a dtype with special numbers in them."""
    rng = np.random.default_rng(seed)
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-42]

    def make(*shape):
        parts = rng.standard_normal((*shape, 2))
        parts = np.where(rng.random(parts.shape) < 0.05, rng.choice(special, parts.shape), parts)
        return tj.view_as_complex(tj.from_numpy(parts)).to(dtype)

    return make


def _results(function, dtype, compiled, complex_only=False):
    """What a function gives compiled, and eagerly, for operands that lie in every way."""
    for seed, layout in enumerate(LAYOUTS.values()):
        a, b = layout(_numbers(dtype, seed))
        if complex_only and not b.is_complex():
            continue
        for _ in range(2):
            found = compiled(a, b)
        expected = function(a, b)
        assert found.spec == expected.spec
        yield found, expected


@pytest.mark.sampled(36)
@pytest.mark.parametrize("dtype", [tj.complex64, tj.complex128], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_every_layout_has_the_bits_of_eager_execution(name, dtype):
    function = OPS[name]
    compiled = tj.compile(function, strict=True)
    for found, expected in _results(function, dtype, compiled, complex_only=name == "cast"):
        # Which NaN comes out, and with which sign, is not said.
        sides = [tj.view_as_real(x) if x.is_complex() else x for x in (found, expected)]
        assert_same_bits(*(np.where(np.isnan(x.numpy()), np.nan, x.numpy()) for x in sides))
    assert not host_ops(compiled)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [tj.complex64, tj.complex128], ids=str)
@pytest.mark.parametrize("name", CLOSE)
def test_functions_are_close_and_have_special_values(name, dtype):
    function = CLOSE[name]
    compiled = tj.compile(function, strict=True)
    for found, expected in _results(function, dtype, compiled):
        mine, theirs = (
            (tj.view_as_real(x) if x.is_complex() else x).numpy() for x in (found, expected)
        )
        for kind in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(kind(mine), kind(theirs))
        mine, theirs = (
            np.where(np.isfinite(x), x, 0).astype(np.longdouble) for x in (mine, theirs)
        )
        size = (
            np.abs(theirs).max(axis=-1, keepdims=True) if expected.is_complex() else np.abs(theirs)
        )
        assert (
            np.abs(mine - theirs) <= 16 * np.finfo(expected.real.numpy().dtype).eps * size
        ).all()
    assert not host_ops(compiled)


GRID = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 1e-20, 1e-40, -1e-45, 88.9, -120.0, 3e38, -2e38]
GRID += [np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_all_pairs_of_special_parts(name):
    parts = np.array([[a, b] for a in GRID for b in GRID], np.float32)
    z = tj.view_as_complex(tj.from_numpy(parts))
    function = getattr(tj, name)
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        found = tj.view_as_real(compiled(z)).numpy()
    expected = tj.view_as_real(function(z)).numpy()
    np.testing.assert_allclose(found, expected, 4e-6, 1e-37)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[signed], np.signbit(expected)[signed])


def test_sums_and_means():
    def f(z):
        return (z * z.conj()).sum(0), z.mean(), z.sum(1, keepdim=True) * 2, (z.abs() ** 2).sum()

    compiled = tj.compile(f, strict=True)
    z = tj.randn(30, 40, dtype=tj.complex64)
    for _ in range(2):
        found = compiled(z)
    for mine, expected in zip(found, f(z), strict=True):
        tj.testing.assert_close(mine, expected)
    assert not host_ops(compiled)


def escapes(c):
    """How long numbers stay small under squaring: complex arithmetic, sizes and choices."""
    z, count = tj.zeros_like(c), tj.zeros(c.shape)
    for _ in range(20):
        z = z * z + c
        inside = z.abs() < 2
        count = count + inside.float()
        z = tj.where(inside, z, tj.zeros_like(z))
    return count, z


def newton(z):
    for _ in range(15):
        z = z - (z**3 - 1) / (3 * z**2)
    return z


def oscillate(z):
    for k in range(12):
        z = z * tj.exp(-0.1j * (z.real + k)) + 0.01 * z.conj()
    return z


def shift(z):
    for _ in range(12):
        z = tj.cat([z[1:] * 0.5, z[:1] + 1j])
    return z


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [escapes, newton, oscillate, shift])
@pytest.mark.parametrize("shape", [(50, 40), (7,), (1,)])
def test_rounds_are_one_loop_without_memory_in_between(function, shape):
    compiled = tj.compile(function, strict=True)
    z = tj.randn(*shape, dtype=tj.complex64)
    for _ in range(3):
        found = compiled(z)
    tj.testing.assert_close(found, function(z), rtol=1e-4, atol=1e-4)
    assert not host_ops(compiled)
    assert [len(found) for found in loops(compiled)] == [1]


@pytest.mark.parametrize("function", [newton, oscillate])
def test_gradients_of_rounds(function):
    z = tj.randn(9, 5, dtype=tj.complex128)
    compiled = tj.compile(function, strict=True)
    gradients = []
    for f in (function, compiled, compiled, compiled):
        start = z.clone().requires_grad_()
        (f(start).abs() ** 2).sum().backward()
        gradients.append(start.grad)
    for found in gradients[1:]:
        tj.testing.assert_close(found, gradients[0])


MATRICES = [
    ((2, 2), (2, 70)),
    ((1, 9), (9, 1)),
    ((5, 4), (4, 33)),
    ((6, 4), (4, 4)),
    ((30, 40), (40, 50)),
    ((7, 3, 5), (7, 5, 4)),
    ((2, 2), (8, 2, 3)),
    ((3, 0), (0, 2)),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [tj.complex64, tj.complex128], ids=str)
@pytest.mark.parametrize(("left", "right"), MATRICES)
def test_matrix_products(dtype, left, right):
    def f(a, b):
        return a @ b, (a * 2).conj() @ (b + 1)

    compiled = tj.compile(f, strict=True)
    a, b = tj.randn(*left, dtype=dtype), tj.randn(*right, dtype=dtype)
    starts = [[x.clone().requires_grad_() for x in (a, b)] for _ in range(3)]
    found = [g(*x) for g, x in zip((f, compiled, compiled), starts, strict=True)]
    for results in found:
        sum((y.abs() ** 2).sum() for y in results).backward()
    for results, x in zip(found[1:], starts[1:], strict=True):
        tj.testing.assert_close(results, found[0], rtol=1e-5, atol=1e-5)
        tj.testing.assert_close(
            [y.grad for y in x], [y.grad for y in starts[0]], rtol=1e-4, atol=1e-4
        )
    if all((*left, *right)):
        assert not host_ops(compiled)


@pytest.mark.parametrize(
    ("left", "right"), [((4, 2), (2, 5)), ((4, 3), (3, 20)), ((30, 20), (20, 9))]
)
def test_products_of_special_numbers_are_no_numbers_where_a_library_s_are(left, right):
    compiled = tj.compile(lambda a, b: a @ b, strict=True)
    for seed in range(10):
        make = _numbers(tj.complex64, seed)
        a, b = make(*left), make(*right)
        for _ in range(2):
            found = compiled(a, b)
        sides = [tj.view_as_real(x).numpy() for x in (found, a @ b)]
        for kind in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(*map(kind, sides))


def test_gates_on_a_state():
    """A 2 x 2 matrix on one dimension of a state after the other, as quantum circuits are simulated."""

    def f(state, gate, phase):
        for _ in range(3):
            for q in range(6):
                state = gate @ state.reshape(2**q, 2, -1)
            state = state.reshape(-1) * phase
        return state.abs() ** 2

    compiled = tj.compile(f, strict=True)
    state, phase = tj.randn(64, dtype=tj.complex64), tj.exp(1j * tj.randn(64))
    gate = tj.tensor([[1, 1], [1, -1]], dtype=tj.complex64) / 2**0.5
    for _ in range(3):
        found = compiled(state, gate, phase)
    tj.testing.assert_close(found, f(state, gate, phase), rtol=1e-4, atol=1e-5)
    assert not host_ops(compiled)


MOVES = {
    "cat": lambda z, w: tj.cat([z, w + 1]),
    "stack": lambda z, w: tj.stack([z * w, w], 1),
    "roll": lambda z, w: z.roll(3, 0) + w,
    "pad": lambda z, w: tj.nn.functional.pad(z, (2, 3), value=2.5),
    "pad with a number": lambda z, w: tj.nn.functional.pad(z * w, (1, 1), value=1.5),
    "on zeros": lambda z, w: tj.slice_scatter(tj.zeros_like(z), w[:4], 0, 1, 5) + 1,
    "flip": lambda z, w: z.flip(0) * 2,
    "written": lambda z, w: z.clone().index_put_((tj.tensor([1, 2]),), w[:2]) if z.ndim == 1 else z,
    "part": lambda z, w: tj.slice_scatter(z * 2, w[:4] * 3, 0, 1, 5),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("shape", [(9,), (9, 5)])
def test_numbers_that_are_moved(name, shape):
    compiled = tj.compile(MOVES[name], strict=True)
    z, w = tj.randn(*shape, dtype=tj.complex64), tj.randn(*shape, dtype=tj.complex64)
    for _ in range(3):
        found = compiled(z, w)
    assert_same_bits(*(tj.view_as_real(x).numpy() for x in (found, MOVES[name](z, w))))


def test_sizes_that_come_later():
    def f(z, w):
        return (z[:, None] * w / (z[:, None] - w + 2)).abs().sum(1), tj.exp(z) * len(z)

    compiled = tj.compile(f, strict=True)
    for n, m in ((5, 6), (8, 6), (20, 31), (1, 1)):
        z, w = tj.randn(n, dtype=tj.complex64), tj.randn(m, dtype=tj.complex64)
        tj.testing.assert_close(compiled(z, w), f(z, w))


def test_empty_tensors():
    def f(a, b):
        return a * b.conj()

    compiled = tj.compile(f, strict=True)
    a = tj.zeros(0, 3, dtype=tj.complex64)
    for _ in range(2):
        assert compiled(a, a).spec == f(a, a).spec


@pytest.mark.parametrize("threads", [1, 3])
def test_filters_do_not_depend_on_threads(threads):
    def f(x, h):
        return tj.fft.irfft(tj.fft.rfft(x) * tj.fft.rfft(h), n=x.shape[-1])

    x, h = tj.randn(70, 1001), tj.randn(1001)
    before = get_num_threads()
    set_num_threads(threads)
    try:
        compiled = tj.compile(f, strict=True)
        for _ in range(2):
            found = compiled(x, h)
    finally:
        set_num_threads(before)
    assert_same_bits(found.numpy(), f(x, h).numpy())


@pytest.mark.sampled(16)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((4, 6), (1,)), ((4, 7), (0,)), ((3, 4, 5), (2, 0)), ((2, 1), (1,)), ((2, 2), (1,))],
)
def test_gradients_of_half_spectra(shape, dims, norm):
    x = tj.randn(*shape, dtype=tj.float64, requires_grad=True)
    sizes = [shape[d] for d in dims]

    def there(x):
        return tj.view_as_real(tj.fft.rfftn(x, dim=dims, norm=norm))

    def back(parts):
        spectrum = tj.view_as_complex(parts)
        return tj.fft.irfftn(spectrum, s=sizes, dim=dims, norm=norm)

    parts = there(x).detach().requires_grad_()
    assert tj.autograd.gradcheck(there, (x,))
    assert tj.autograd.gradgradcheck(there, (x,))
    assert tj.autograd.gradcheck(back, (parts,))
