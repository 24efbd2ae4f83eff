"""Complex numbers, Fourier transforms and special functions against PyTorch: values, dtypes and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(2, 4, 6)), RNG.normal(size=(2, 4, 6))
PAIRS = RNG.normal(size=(3, 5, 2))

COMPLEX = """
z * w ; z / w ; z - 2j ; 1.5 * z + w ; z ** 2 ; z ** 3 ; -z ; z.exp() ; t.log(z) ; t.sqrt(z) ; t.sin(z) ; t.cosh(z) ; t.tanh(z) ; z.reciprocal()
z.abs() ; abs(z) ; z.angle() ; t.conj(z) * w ; z.real ; z.imag ; t.real(z) * t.imag(w) ; t.sgn(z) ; z.sum() ; z.mean(0) ; z.prod(1) ; z.cumsum(1)
z @ w.mT ; z.mH @ w ; t.einsum("ab,cb->ac", z, w) ; z.T.H ; z[0, 1:] ; t.cat([z, w]) ; t.stack([z, w], 1) ; z.reshape(-1) ; z.roll(1, 0)
t.where(z.real > 0, z, w) ; z * z.real ; z.real * 1j ; t.view_as_real(z * w) ; t.polar(z.abs(), z.angle()) ; t.complex(z.real, w.imag) ; z.norm()
z.to(t.complex64).to(t.complex128) ; t.exp(-1j * z.real) ; z.masked_fill(z.real > 0, 0) ; z.index_select(1, t.tensor([0, 2, 2])) ; z == w ; z.isfinite()
z.flatten().outer(w[0]) ; t.view_as_complex(t.stack([z.real, w.real], -1)) ; t.rsub(z, w) ; t.addcmul(z, w, w, value=2) ; z.conj().abs().square()
"""  # noqa: E501
FOURIER = """
t.fft.fft(x) ; t.fft.ifft(x, dim=1) ; t.fft.rfft(x) ; t.fft.rfft(x, 5) ; t.fft.rfft(x, 9, 1, "ortho") ; t.fft.fft2(x) ; t.fft.ifft2(x, norm="forward")
t.fft.fftn(x) ; t.fft.rfft2(x) ; t.fft.rfftn(x, dim=(0, 2)) ; t.fft.irfft(t.fft.rfft(x), 6) ; t.fft.irfft(t.fft.rfft(x, 5), 5) ; t.fft.irfft(c)
t.fft.irfft2(t.fft.rfft2(x) * c[:, :, :4]) ; t.fft.irfftn(c, (2, 4, 7), norm="ortho") ; t.fft.hfft(c) ; t.fft.ihfft(x) ; t.fft.fftshift(x, 1) ; t.fft.ifftshift(x)
t.fft.fft(c, 8, 1) ; t.fft.ifft(c, 3) ; t.fft.hfft2(c) ; t.fft.ihfftn(x) ; t.fft.fft(x).abs() ; t.fft.irfft(t.fft.rfft(x, 16) * t.fft.rfft(y, 16), 16)[..., :6]
t.stft(x.reshape(2, 24), 8, 3, return_complex=True) ; t.stft(x.flatten(), 8, window=t.hann_window(8, dtype=t.float64), return_complex=False)
t.istft(t.stft(x.reshape(2, 24), 8, return_complex=True), 8, length=24) ; t.stft(x.flatten(), 6, center=False, onesided=False, return_complex=True)
t.stft(x.flatten(), 8, 2, 6, t.ones(6, dtype=t.float64), normalized=True, return_complex=True)
"""  # noqa: E501
SPECIAL = """
t.i0(x) ; t.special.i0e(x) ; t.special.i1(x) ; t.special.i1e(x) ; t.special.erfcx(x) ; t.special.ndtr(x) ; t.special.ndtri(p) ; t.special.log_ndtr(x)
t.special.entr(p) ; t.special.xlog1py(x, p) ; t.special.multigammaln(p + 3, 2) ; t.mvlgamma(p + 3, 3) ; t.special.expit(x) ; t.special.gammaln(p)
t.special.zeta(t.tensor(2.5, dtype=t.float64), p) ; t.special.gammainc(t.tensor(1.5, dtype=t.float64), p) ; t.igammac(t.tensor(0.7, dtype=t.float64), p) ; t.logaddexp2(x, p)
t.special.psi(p) ; t.angle(x) ; t.sgn(x) ; t.gcd(k, k + 2) ; t.lcm(k, k + 2) ; t.special.softmax(x, 0) ; t.special.logit(p)
t.hann_window(7) ; t.hamming_window(6, False) ; t.blackman_window(5, dtype=t.float64) ; t.bartlett_window(6) ; t.kaiser_window(5, True, 8.0) ; t.hann_window(1)
t.fft.fftfreq(5) ; t.fft.rfftfreq(6, 0.5) ; t.fft.fftfreq(4, d=2.0, dtype=t.float64)
"""  # noqa: E501


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(";") if c.strip()]


@pytest.mark.parametrize("code", cases(COMPLEX))
def test_complex(code: str) -> None:
    def function(t: Any, f: Any, a: Any, b: Any) -> Any:
        result = eval(code, {"t": t, "z": t.view_as_complex(a), "w": t.view_as_complex(b)})
        return t.view_as_real(result.resolve_conj()) if result.is_complex() else result

    second = "prod" not in code and "angle" not in code
    smooth = code not in ("z == w", "z.isfinite()")
    compare(function, [PAIRS, PAIRS[::-1].copy() + 0.1], second=second, gradients=smooth)


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about windows that are not given
@pytest.mark.parametrize("code", cases(FOURIER))
def test_fourier(code: str) -> None:
    def function(t: Any, f: Any, x: Any, y: Any) -> Any:
        result = eval(code, {"t": t, "x": x, "y": y, "c": t.complex(x, y)})
        return t.view_as_real(result.resolve_conj()) if result.is_complex() else result

    compare(function, [X, Y], second=not any(word in code for word in ("hfft(", "hfft2(")))


@pytest.mark.parametrize("code", cases(SPECIAL))
def test_special(code: str) -> None:
    def function(t: Any, f: Any, x: Any, p: Any, k: Any) -> Any:
        return eval(code, {"t": t, "x": x, "p": p, "k": k})

    tolerance = 1e-6 if "window" in code or "freq" in code else 1e-9
    arrays = [X[0], RNG.uniform(0.1, 0.9, (4, 6)), np.arange(1, 9)]
    smooth = not any(word in code for word in ("window", "freq", "gcd", "lcm"))
    second = not any(word in code for word in ("zeta", "angle", "sgn"))
    compare(function, arrays, tolerance=tolerance, second=second, gradients=smooth)


ERRORS = """
t.view_as_complex(t.zeros(3)) ; t.view_as_real(t.zeros(3)) ; t.imag(t.zeros(3)) ; t.complex(t.zeros(2), t.zeros(2, dtype=t.float64)) ; t.complex(t.zeros(2), t.arange(2))
t.fft.rfft(t.zeros(3, dtype=t.complex64)) ; t.fft.fft(t.zeros(0)) ; t.fft.fft(t.zeros(3), 0) ; t.fft.fft(t.zeros(3), dim=2) ; t.fft.fft(t.zeros(3), norm="none")
t.fft.fftn(t.zeros(3), dim=(0, 0)) ; t.fft.fftn(t.zeros(3), (2, 2)) ; t.stft(t.zeros(8), 4) ; t.stft(t.zeros(8), 4, 0, return_complex=True) ; t.stft(t.zeros(2, 2, 2), 2, return_complex=True)
t.hann_window(-1) ; t.zeros(2, dtype=t.complex64) < 1 ; t.relu(t.zeros(2, dtype=t.complex64)) ; t.mvlgamma(t.ones(2), 0) ; float(t.tensor(1 + 2j))
"""  # noqa: E501


@pytest.mark.parametrize("code", cases(ERRORS))
def test_errors(code: str) -> None:
    same_error(lambda t, f: eval(code, {"t": t}))


def conjugated(x: Any) -> None:
    x.imag *= -1


def numbered(x: Any) -> None:
    x.real = 3


def replaced(x: Any) -> None:
    x.imag = x.real.sum(0)


def of_part(x: Any) -> None:
    x[1:].real = x.imag[1:]


@pytest.mark.parametrize("change", [conjugated, numbered, replaced, of_part])
def test_parts_are_assigned(change: Any) -> None:
    def run(t: Any, call: Any = change) -> list[Any]:
        x = t.tensor(X, requires_grad=True)
        z = t.complex(x, t.tensor(Y)) * 1
        call(z)
        (z.abs() * t.arange(6)).sum().backward()
        return [z.detach().numpy(), x.grad.numpy()]

    compiled = tj.compile(lambda x, y: (z := tj.complex(x, y), change(z))[0], strict=True)
    for _ in range(2):
        found = compiled(tj.tensor(X), tj.tensor(Y))
    for mine, theirs in zip(run(tj), run(torch), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-12, 1e-12)
    np.testing.assert_array_equal(found.numpy(), run(tj)[0])


def test_what_cannot_be_assigned_to_parts() -> None:
    for code in ("x.imag = x", "x.real = [1, 2]", "y.imag = 1.0", "y.imag = 'a'"):
        same_error(
            lambda t, f, code=code: exec(
                code, {"x": t.ones(2), "y": t.ones(2, dtype=t.complex64).requires_grad_()}
            )
        )


def test_promotion_with_complex_numbers() -> None:
    kinds = ["bool", "uint8", "int64", "float32", "float64", "complex64", "complex128"]
    for a in kinds:
        for b in kinds[-2:]:
            for shapes in (((2,), (2,)), ((2,), ()), ((), (2,))):
                found = []
                for t in (tj, torch):
                    x = t.ones(shapes[0], dtype=getattr(t, a))
                    y = t.ones(shapes[1], dtype=getattr(t, b))
                    found.append(str((x * y).dtype).split(".")[1])
                assert found[0] == found[1], (a, b, shapes)


def test_python_complex_numbers_keep_the_precision_of_tensors() -> None:
    for name in ("float32", "float64", "complex64", "complex128", "int64"):
        one = [t.ones(2, dtype=getattr(t, name)) * (0.1 + 0.2j) for t in (tj, torch)]
        assert str(one[0].dtype).split(".")[1] == str(one[1].dtype).split(".")[1]
        assert np.array_equal(one[0].numpy(), one[1].numpy())
