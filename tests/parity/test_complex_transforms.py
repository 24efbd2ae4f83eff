"""Transforms of functions of complex numbers, against PyTorch: values, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import array, torch

import tracejit as tj

pytestmark = [
    pytest.mark.filterwarnings("ignore:Casting complex values"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # while it imports
]
rng = np.random.default_rng(2)
Z, V = (rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2)) for _ in range(2))
FUNCTIONS = {
    "squares": "z * z",
    "moduli": "z.abs()",
    "conjugates": "z.conj() * z.exp()",
    "imaginary parts": "z.imag * 2",
    "products": "z @ z.mH",
    "inverses": "t.linalg.inv(z)",
    "transforms": "t.fft.fft2(z)",
    "mixed": "t.complex(z.real, z.abs()).sin()",
    "solutions": "t.linalg.solve(z + 2, z)",
}
CALLS = {
    "jvp": "t.func.jvp(f, (z,), (v,))",
    "vjp": "(lambda out, pull: (out, pull(v.to(out.dtype))[0]))(*t.func.vjp(f, z))",
    # PyTorch's own would turn off, for good, that distributions check their arguments
    "linearize": "(t.func.linearize(f, z)[1](v) if t is tj else t.func.jvp(f, (z,), (v,))[1],)",
    "grad": "(t.func.grad(lambda z: f(z).abs().sum())(z),)",
    "grad_and_value": "t.func.grad_and_value(lambda z: f(z).abs().sum())(z)",
    "vmap": "(t.func.vmap(t.func.grad(lambda z: f(z).abs().sum()))(t.stack([z, v])),)",
    "jvp of grad": "t.func.jvp(t.func.grad(lambda z: f(z).abs().square().sum()), (z,), (v,))",
}


def run(t: Any, call: str, body: str) -> Any:
    names = {"t": t, "tj": tj, "z": t.tensor(Z), "v": t.tensor(V)}
    names["f"] = lambda z: eval(body, {"t": t, "z": z})
    return eval(call, names)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", FUNCTIONS)
def test_transforms(body: str, call: str) -> None:
    theirs, ours = (run(t, CALLS[call], FUNCTIONS[body]) for t in (torch, tj))
    for found, expected in zip(ours, theirs, strict=True):
        assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
        np.testing.assert_allclose(
            array(found), array(expected.resolve_conj()), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    "call",
    [
        "t.func.grad(lambda z: (z * z).sum())(z)",
        "t.func.grad(lambda x: t.complex(x, x).sum())(z.real)",
        "t.func.jacrev(lambda z: z * z)(z)",
        "t.func.jacrev(lambda x: t.complex(x, x))(z.real)",
        "t.func.jacfwd(lambda z: z * z)(z)",
        "t.func.hessian(lambda z: z.abs().sum())(z)",
        "t.autograd.functional.jacobian(lambda z: z * z, z)",
        "t.autograd.functional.hessian(lambda z: z.abs().sum(), z)",
        "t.func.jvp(lambda x: x * 2, (z.real.long(),), (z.real.long(),))",
        "t.func.grad(lambda x: x.sum())(z.real.long())",
    ],
)
def test_refused(call: str) -> None:
    with pytest.raises(Exception) as theirs:
        run(torch, call, "z")
    with pytest.raises(theirs.type):
        run(tj, call, "z")
