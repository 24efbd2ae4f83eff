"""Arithmetic of complex numbers runs in kernels, with the bits of eager execution."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
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


@pytest.mark.parametrize("dtype", [tj.complex64, tj.complex128], ids=str)
@pytest.mark.parametrize("name", OPS)
def test_every_layout_has_the_bits_of_eager_execution(name, dtype):
    function = OPS[name]
    compiled = tj.compile(function, strict=True)
    for seed, layout in enumerate(LAYOUTS.values()):
        a, b = layout(_numbers(dtype, seed))
        if name == "cast" and not b.is_complex():
            continue
        for _ in range(2):
            found = compiled(a, b)
        expected = function(a, b)
        assert found.spec == expected.spec
        # Which NaN comes out, and with which sign, is not said.
        sides = [tj.view_as_real(x) if x.is_complex() else x for x in (found, expected)]
        assert_same_bits(*(np.where(np.isnan(x.numpy()), np.nan, x.numpy()) for x in sides))
    assert not host_ops(compiled)


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
