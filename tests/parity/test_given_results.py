"""Results in tensors of the caller's (``out=``): shared memory, sizes and dtypes, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error, torch

import tracejit as tj

REFUSED = {
    "joined into itself": "t.cat([x[:2], x[2:]], out=x)",
    "picked into itself": "t.take(x, t.tensor([3, 2, 1, 0]), out=x)",
    "gathered into itself": "t.gather(x, 0, t.tensor([1, 0, 2, 2]), out=x)",
    "gathered into its beginning": "t.gather(x, 0, t.tensor([1, 0]), out=x[:2])",
    "selected into itself": "t.index_select(x, 0, t.tensor([1, 0, 3, 3]), out=x)",
    "masked into itself": "t.masked_select(x, x > 1, out=x)",
    "crossed into an operand": "t.cross(x[:3], x[1:], dim=0, out=x[:3])",
    "the largest into an element": "t.max(x, 0, out=(x[0], t.empty((), dtype=t.long)))",
    "running products moved by one": "t.cumprod(x, 0, out=x[1:])",
    "an outer product into a factor": "t.outer(x[:2], x[:2], out=x.view(2, 2))",
    "an element for several": "t.gather(x, 0, t.tensor([1, 0, 2]), out=t.ones(1).expand(3))",
    "a single tensor for two": "t.sort(x, out=x)",
    "one tensor for two": "t.sort(x, out=(x,))",
    "absolute values of another dtype": "t.abs(x, out=t.empty(4, dtype=t.float64))",
    "an inverse of another dtype": "t.linalg.inv(x.view(2, 2), out=t.empty(2, 2, dtype=t.float64))",
    "a range of another dtype": "t.arange(3, dtype=t.float32, out=t.empty(3, dtype=t.float64))",
    "a largest of another dtype": "t.amax(x, 0, out=t.empty((), dtype=t.float64))",
    "a triangle of another dtype": "t.tril(x.view(2, 2), out=t.empty(2, 2, dtype=t.float64))",
    "factors of another dtype": "t.linalg.qr(x.view(2, 2), out=(t.empty(2, 2, dtype=t.float64),) * 2)",
    "conjugates of another dtype": "t.conj_physical(x, out=t.empty(4, dtype=t.float64))",
    "a sum for a column": "c = x.view(4, 1); t.add(c, x, out=c)",
    "a sum for a row": "t.add(x.view(4, 1), x, out=x)",
    "a comparison for a column": "c = x.view(4, 1); t.eq(c, x, out=c)",
    "a choice for a column": "c = x.view(4, 1); t.where(c > 1, c, x, out=c)",
    "a fused product for one number": "c = x[:1]; t.addcmul(c, x, x, out=c)",
    "all as numbers": "t.all(x, out=t.empty(()))",
    "any as whole numbers": "t.any(x, 0, out=t.empty((), dtype=t.int32))",
    "a real transform as complex numbers": "t.fft.irfft(x, out=t.empty(6, dtype=t.complex64))",
    "joined as whole numbers": "t.cat([x, x], out=t.empty(8, dtype=t.int32))",
    "stacked as whole numbers": "t.stack([x, x], out=t.empty(2, 4, dtype=t.int32))",
    "a difference of order 0 of another dtype": "t.diff(x, n=0, out=t.empty(4, dtype=t.float64))",
    "weighted by a tensor, of another dtype": "t.lerp(x, x, x, out=t.empty(4, dtype=t.float64))",
    "a linear map of another dtype": "t.nn.functional.linear(x[None], x[None], out=t.empty(0).double())",
    "a smallest into what is searched": "t.kthvalue(x, 2, out=(x, t.empty((), dtype=t.long)))",
}
TAKEN = [
    "t.add(x, x, out=x)",
    "t.cumsum(x, 0, out=t.empty(4, dtype=t.int64))",
    "t.sum(x, 0, out=t.empty((), dtype=t.float64))",
    "t.max(x, x * 2, out=t.empty(4, dtype=t.float64))",
    "t.softmax(x, 0, out=x)",
    "t.sort(x, descending=True, out=(x, t.empty(4, dtype=t.long)))[0]",
    "t.linalg.norm(x, out=t.empty(()))",
    "t.all(x > 0, out=t.empty((), dtype=t.uint8))",
    "t.any(x.to(t.uint8), 0, out=t.empty((), dtype=t.bool))",
    "t.bernoulli(t.ones(4), out=t.empty(4, dtype=t.int32))",
    "t.exp(x[:0], out=t.empty(1).expand(2, 0))",
    "t.abs(t.complex(x, -x), out=t.empty(4, dtype=t.float64))",
    "t.diff(x, out=t.empty(3, dtype=t.float64))",
    "t.diff(x, 1, prepend=x[:1], out=t.empty(4, dtype=t.float16))",
    "t.diff(x > 1, dim=0, out=t.empty(3, dtype=t.int64))",
    "t.lerp(x, x * 2, 0.3, out=t.empty(4, dtype=t.float64))",
    "t.inner(x, x[0], out=t.empty(4, dtype=t.float64))",
    "t.nn.functional.linear(x.view(2, 2), x.view(2, 2), x[:2], out=t.empty(2, 2)).flatten()",
]


def _run(call: str, t: Any, x: Any) -> Any:
    *steps, last = call.split("; ")
    names = {"t": t, "x": x}
    exec("; ".join(steps), names)
    return eval(last, names)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("compiled", [False, True])
def test_refused(name: str, compiled: bool) -> None:
    def call(t: Any, f: Any) -> Any:
        def run(x: Any) -> Any:
            return _run(REFUSED[name], t, x)

        return (tj.compile(run) if compiled and t is tj else run)(t.tensor([1.0, 2.0, 3.0, 5.0]))

    same_error(call)


@pytest.mark.parametrize("call", TAKEN)
def test_taken(call: str) -> None:
    expected = _run(call, torch, torch.tensor([1.0, 2.0, 3.0, 5.0]))
    run = tj.compile(lambda x: _run(call, tj, x))
    for function in (lambda x: _run(call, tj, x), run, run):
        found = function(tj.tensor([1.0, 2.0, 3.0, 5.0]))
        assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
        assert found.tolist() == pytest.approx(expected.tolist())


def test_results_that_do_not_fit_are_resized_with_a_warning() -> None:
    for t in (torch, tj):
        out = t.empty(3)
        with pytest.warns(UserWarning, match="was resized"):
            t.add(t.ones(2), 1, out=out)
        assert out.tolist() == [2, 2]
        t.add(t.ones(4), 1, out=out.resize_(0))
        assert out.shape == (4,)


@pytest.mark.filterwarnings("ignore:An output with one or more elements:UserWarning")
def test_what_is_read_before_anything_is_written_may_be_resized() -> None:
    for t in (torch, tj):
        exponents = t.tensor([1.0, 2.0])
        t.ldexp(t.tensor([[1.0, 2.0], [3.0, 4.0]]), exponents, out=exponents)
        assert exponents.tolist() == [[2, 8], [6, 16]]


def test_weighted_losses() -> None:
    data = [[1.0, 2.0, 4.0], [0.5, 2.5, 0.0], [1.0, 2.0, 3.0]]
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        for how in ("mean", "sum", "none"):
            compare(
                lambda t, f, x, y, w, name=name, how=how: getattr(f, name)(
                    x, y, weight=w, reduction=how
                ),
                [np.array(row) for row in data],
            )
