"""Complex numbers inside compiled functions, between fused kernels, forward and backward."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

import tracejit as tj


def check(function, *tensors, calls=3):
    compiled = tj.compile(function, strict=True)
    for _ in range(calls):
        sides = []
        for f in (function, compiled):
            leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in tensors]
            result = f(*leaves)
            wanted = [x for x in leaves if x.requires_grad]
            parts = tj.view_as_real(result) if result.is_complex() else result
            gradients = tj.autograd.grad((parts * parts).sum(), wanted) if wanted else ()
            sides.append((result, *gradients))
        for a, b in zip(*sides, strict=True):
            assert a.spec == b.spec
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), 1e-5, 1e-5)
    assert compiled.stats.compiled_calls == calls - 1


def rotary(q, angles):
    turned = tj.polar(tj.ones_like(angles), angles)
    pairs = tj.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return tj.view_as_real(pairs * turned).flatten(2).type_as(q)


@pytest.mark.parametrize("size", [1, 3])
def test_rotary_embedding(size):
    check(rotary, tj.randn(2, size, 8, requires_grad=True), tj.randn(size, 4))


def test_filters_in_frequency_space():
    def mix(x, weights):
        spectrum = tj.fft.rfft2(x * 2, norm="ortho")
        out = tj.zeros_like(spectrum)
        out[..., :2, :2] = tj.einsum("bixy,ioxy->boxy", spectrum[..., :2, :2], weights)
        return tj.fft.irfft2(out, s=x.shape[-2:]) + x

    weights = tj.randn(3, 3, 2, 2, dtype=tj.cfloat).requires_grad_()
    check(mix, tj.randn(2, 3, 6, 8, requires_grad=True), weights)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sum(),
        lambda z: tj.cat([z, z * 2])[1:].mean(0),
        lambda z: (z * 1j + 2).exp().abs(),
        lambda z: z.index_select(0, tj.tensor([1, 0, 1])) @ z.mH,
        lambda z: tj.where(z.real > 0, z, -z),
        lambda z: z.clone().index_add_(0, tj.tensor([0]), z[:1] * z[1:2]),
        lambda z: tj.full((2,), 1 + 2j) * z[:2, 0],
        lambda z: tj.tensor([1j, 2.0]) * z[:2, 0],
    ],
)
def test_programs_of_complex_tensors(function):
    z = tj.randn(3, 4, dtype=tj.complex64).requires_grad_()
    check(function, z)


def test_loops_of_complex_rounds():
    def scan(z, decay):
        state = z[0] * 0
        for t in range(z.shape[0]):
            state = state * decay + z[t]
        return state

    check(scan, tj.randn(40, 3, dtype=tj.complex64).requires_grad_(), tj.randn(3) * 1j)


def test_numbers_read_from_complex_tensors():
    def f(z):
        return z * 2 if z.sum().item().real > 0 else z * 3

    compiled = tj.compile(f)
    for sign in (1, -1, 1):
        z = tj.tensor([1 + 1j]) * sign
        assert compiled(z).tolist() == f(z).tolist()
    assert "complex number read" in str(compiled.explain())


def test_complex_parameters_train():
    values = []
    for side in ("eager", "compiled"):
        tj.manual_seed(0)
        p = tj.nn.Parameter(tj.randn(4, dtype=tj.cfloat))
        opt = tj.optim.Adam([p], lr=0.1)

        def step(x, p=p, opt=opt):
            opt.zero_grad()
            loss = (p * x).abs().square().sum()
            loss.backward()
            opt.step()
            return loss.detach()

        run = tj.compile(step) if side == "compiled" else step
        values.append([run(tj.arange(4.0)).item() for _ in range(4)] + p.detach().real.tolist())
    np.testing.assert_allclose(values[0], values[1], 1e-5)
    assert values[0][3] < values[0][0]


def test_printing_saving_and_numpy():
    z = tj.tensor([1 + 2j, -0.5j])
    assert repr(z) == "tensor([1.+2.0000j, -0.-0.5000j])"
    assert repr(tj.tensor([1 + 2j])) == "tensor([1.+2.j])"
    assert z.dtype is tj.complex64
    assert z.numpy().dtype == np.complex64
    assert tj.from_numpy(np.array([1j])).dtype is tj.complex128
    assert pickle.loads(pickle.dumps(z)).tolist() == z.tolist()
    file = io.BytesIO()
    tj.save({"z": z}, file)
    file.seek(0)
    assert tj.equal(tj.load(file)["z"], z)
    assert z[1].item() == -0.5j
    assert tj.isreal(z).tolist() == [False, False]
    assert (z.is_complex(), z.real.is_complex(), tj.is_conj(z)) == (True, False, False)
