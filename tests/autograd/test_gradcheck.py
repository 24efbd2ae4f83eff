"""What gradcheck compares besides real gradients: complex numbers, forward derivatives, several gradients at once."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.autograd import GradcheckError, gradcheck, gradgradcheck

REAL = {"dtype": tj.float64, "requires_grad": True}
COMPLEX = {"dtype": tj.complex128, "requires_grad": True}


class Scaled(tj.autograd.Function):
    """Twice its argument, with a gradient that is ``slope`` times what comes."""

    slope = 2.0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * Scaled.slope


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.conj(),
        lambda x: x.exp(),
        lambda x: x.abs(),
        lambda x: (x.real * 2, x.imag.sin(), x.real > 0),
        lambda x: x @ x,
    ],
)
def test_complex_numbers(function, fast):
    x = tj.tensor([0.3 + 0.4j, -1.2 + 0.1j, 0.5 - 2j], **COMPLEX)
    assert gradcheck(function, x, fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(function, x, fast_mode=fast, check_fwd_over_rev=True)


def test_complex_results_of_real_numbers():
    x = tj.tensor([0.3, -1.2], **REAL)
    assert gradcheck(lambda x: tj.complex(x, x * x), x, check_batched_grad=True)
    assert gradcheck(lambda x: (x * 1j).exp(), x, check_grad_dtypes=True)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", [REAL, COMPLEX])
def test_wrong_gradients_are_found(kind, fast, monkeypatch):
    x = tj.tensor([0.3, -1.2], **kind)
    assert gradcheck(Scaled.apply, x, fast_mode=fast)
    monkeypatch.setattr(Scaled, "slope", 2.5)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Scaled.apply, x, fast_mode=fast)
    assert not gradcheck(Scaled.apply, x, fast_mode=fast, raise_exception=False)
    monkeypatch.setattr(Scaled, "slope", 2 + 1j)
    if kind is COMPLEX:
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            gradcheck(Scaled.apply, x, fast_mode=fast)


def test_forward_derivatives_alone():
    x = tj.tensor([0.3, 1.2], **REAL)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(lambda x: x.log(), x, **options, check_batched_forward_grad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x * x.detach(), x, **options)


def test_what_is_asked_for_must_make_sense():
    x = tj.tensor([0.3], **REAL)
    for options in (
        {"check_backward_ad": False},
        {"check_batched_forward_grad": True},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
    ):
        with pytest.raises(ValueError, match="check_"):
            gradcheck(lambda x: x, x, **options)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x, tj.ones(1, dtype=tj.float64).expand(3).requires_grad_())


def test_results_without_gradients_must_not_depend_on_inputs():
    x = tj.tensor([0.3, 1.2], **REAL)
    assert gradcheck(lambda x: (x * 2, x.detach() * 0), x)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: (x * 2, x.detach()), x)


def test_functions_get_along_without_gradients_of_their_results():
    class Bad(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = tj.tensor([0.3], **REAL)
    assert gradcheck(Bad.apply, x, check_undefined_grad=False)
    with pytest.raises(GradcheckError, match="undefined output grads"):
        gradcheck(Bad.apply, x)


def test_passes_that_differ_are_found():
    class Drifting(tj.autograd.Function):
        passes = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Drifting.passes += 1
            return g * (2 + 1e-8 * Drifting.passes)

    x = tj.tensor([0.3 + 1j], **COMPLEX)
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Drifting.apply, x)
    assert gradcheck(Drifting.apply, x, nondet_tol=1e-5)


def test_gradients_of_compiled_functions():
    f = tj.compile(lambda x: (x * x.conj()).sum().real + x.exp().imag)
    x = tj.tensor([0.3 + 0.4j, -1.2 + 0.1j], **COMPLEX)
    for fast in (False, True, True):
        assert gradcheck(f, x, fast_mode=fast, check_batched_grad=True)


@pytest.mark.parametrize("fast", [False, True])
def test_inputs_without_elements(fast):
    x, w = tj.ones(0, 3, **REAL), tj.tensor([[0.5, 1.0, -2.0]], **REAL)
    assert gradcheck(tj.nn.functional.linear, (x, w), fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(tj.nn.functional.linear, (x, w), fast_mode=fast)
