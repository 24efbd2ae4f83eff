"""Operands of several dtypes, complex and special numbers in one operation, against PyTorch: eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

INF, NAN = float("inf"), float("nan")
OPERANDS = {
    "h": ("float16", [1.3, 2.7, 0.5]),
    "x": ("float32", [1.3, -2.7, 0.5]),
    "d": ("float64", [0.3, 0.7, -1.5]),
    "one": ("float64", 1.5),
    "z": ("complex64", [0.3 + 1j, 0.7 - 2j, 1 + 0.5j]),
    "e": ("complex64", [complex(INF, 2), complex(-0.0, -0.0), complex(1, INF), -1 + 0j]),
    "u": ("float32", [1.0, INF]),
    "k": ("int64", [2, -3, 4]),
    "b": ("bool", [True, False, True]),
    "c": ("bool", [False, False, True]),
}
CASES = [
    # infinite parts times the other factor's zero are NaN
    "e * 1",
    "1 * e",
    "e * True",
    "e * t.ones(4)",
    "e + -0.0",
    "e ** 1",
    "e.detach() ** 0.5",
    # logarithms in the dtype of the power
    "h ** d",
    "x ** z",
    "x ** z.detach()",
    "(-2.0) ** z",
    # tensors without dimensions count, numbers are cut to whole ones
    "f.cosine_similarity(x, one, dim=0)",
    "f.cosine_similarity(x, k, dim=0)",
    "t.addcmul(k, k, k, value=1.5)",
    "k.clone().addcmul_(k, k, value=-2.7)",
    "t.addcmul(k, k, x, value=1.5)",
    "b.clamp(max=c)",
    "b.clamp(min=c)",
    # the sum without half of its ends
    "t.trapezoid(u)",
    "t.trapezoid(u[1:])",
    "t.trapezoid(x, dx=2)",
    "t.trapezoid(k)",
    "t.trapezoid(x.detach()[:0])",
    # positions and masks: one value is cast under a mask
    "t.index_put(x, (b,), one.detach())",
    # a second ellipsis steps over nothing that is asked for
    "x[..., ...] * 2",
    "x[None, ..., 1, ...] * 2",
    "x[0, ..., ..., None]",
]


def evaluate(t: Any, code: str, *tensors: Any) -> Any:
    return eval(code, {"t": t, "f": t.nn.functional, **dict(zip(OPERANDS, tensors, strict=True))})


def results(t: Any, function: Any) -> list[Any]:
    """The result and the gradients of all operands that have one."""
    given = [t.tensor(v, dtype=getattr(t, kind)) for kind, v in OPERANDS.values()]
    for x in given:
        x.requires_grad_(x.is_floating_point() or x.is_complex())
    found = function(*given)
    if found.requires_grad:
        found.backward(t.ones_like(found))
    return [found.detach(), *(x.grad for x in given)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CASES)
def test_as_pytorch(code: str) -> None:
    theirs = results(torch, lambda *x: evaluate(torch, code, *x))

    def function(*x: Any) -> Any:
        return evaluate(tj, code, *x)

    compiled = tj.compile(function)
    for run in (function, compiled, compiled, compiled):
        ours = results(tj, run)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            if b is None:
                continue
            assert a.dtype.name == str(b.dtype).removeprefix("torch.")
            a, b = a.numpy(), b.resolve_conj().numpy()
            pairs = [(a.real, b.real), (a.imag, b.imag)] if np.iscomplexobj(b) else [(a, b)]
            loose = 2e-3 if a.dtype == np.float16 else 1e-5
            for part, expected in pairs:
                np.testing.assert_allclose(part, expected, rtol=loose, atol=loose)


@pytest.mark.parametrize(
    "code", ["y = x / z", "y = 3.0 / z", "y = x.sigmoid().logit()", "y = x / x.sum()"]
)
@pytest.mark.parametrize("write", ["y.mul_(2)", "y[:1] = 7", "y += z", "y.clamp_(min=0.5)"])
def test_results_are_written_to_before_the_pass(code: str, write: str) -> None:
    found = []

    def slopes(t: Any, x: Any, z: Any) -> Any:
        scope = {"t": t, "x": x, "z": z}
        exec(f"{code}\n{write}", scope)
        return t.autograd.grad(scope["y"].sum(), (x, z), allow_unused=True)

    compiled = tj.compile(lambda x, z: slopes(tj, x, z))
    for t, run in ((torch, lambda *x: slopes(torch, *x)), (tj, lambda *x: slopes(tj, *x))) + (
        ((tj, compiled),) * 3
    ):
        given = [t.tensor(v, requires_grad=True) for v in ([1.5, -2.0, 3.0], [0.5, 4.0, -2.0])]
        found.append([None if g is None else g.numpy() for g in run(*given)])
    for ours in found[1:]:
        for a, b in zip(ours, found[0], strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
