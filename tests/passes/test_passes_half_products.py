"""Products of half precision are computed in float32 and rounded once, in kernels and one call of a library each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import documented
from tracejit import ir
from tracejit.passes.products import half_products as module
from tracejit.passes.products.half_products import half_products


def test_the_documented_example() -> None:
    found = half_products(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


def test_other_products_stay() -> None:
    graph = ir.parse(str(documented(module, "Before")).replace("bf16", "f32"))
    assert half_products(graph) is graph


def test_an_operand_of_several_products_is_converted_once() -> None:
    graph = ir.parse("""graph f(x: bf16[4, 4], y: bf16[4, 4]) {
        %0: bf16[4, 4] = permute(x, dims=(1, 0))
        %1: bf16[4, 4] = matmul(x, y)
        %2: bf16[4, 4] = matmul(y, %0)
        return %1, %2
    }""")
    found = ir.verify(half_products(graph))
    names = [v.op.name for v in found.values if v.op is not None]
    assert names.count("cast") == 4  # two operands, two results


def test_a_product_asked_for_in_float32_is_not_rounded() -> None:
    graph = ir.parse("""graph f(x: bf16[2, 3], y: bf16[3, 4]) {
        %0: f32[2, 4] = matmul(x, y, dtype=f32)
        return %0
    }""")
    found = ir.verify(half_products(graph))
    assert [v.op.name for v in found.values if v.op is not None] == ["cast", "cast", "matmul"]
    assert "matmul(%0, %1)" in str(found)


def projected(x: Any, w: Any) -> Any:
    return tj.nn.functional.gelu(x @ w.t() + 1) @ w


def attended(x: Any, w: Any) -> Any:
    q = (x @ w).view(3, 8, 2, 6).transpose(1, 2)
    return tj.nn.functional.scaled_dot_product_attention(q, q * 0.5, q, is_causal=True)


def convolved(x: Any, w: Any) -> Any:
    return tj.nn.functional.conv1d(x.transpose(1, 2), w[:, :, None], padding=1).relu()


def recurrent(x: Any, w: Any) -> Any:
    h = tj.zeros(x.shape[0], w.shape[0], dtype=x.dtype)
    for t in range(x.shape[1]):
        h = tj.tanh(x[:, t] + h @ w)
    return h


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [tj.bfloat16, tj.float16], ids=str)
@pytest.mark.parametrize("function", [projected, attended, convolved, recurrent])
def test_compiled_is_eager(function: Any, dtype: tj.dtype) -> None:
    rng = np.random.default_rng(3)

    def made(*shape: int) -> tj.Tensor:
        return tj.from_numpy(rng.standard_normal(shape).astype("f") * 0.3).to(dtype)

    x, w = made(3, 8, 12).requires_grad_(), made(12, 12).requires_grad_()
    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        results = []
        for each in (function, compiled):
            out = each(x, w)
            results.append([out, *tj.autograd.grad(out.float().square().sum(), (x, w))])
        for want, have in zip(*results, strict=True):
            assert have.dtype is dtype
            bound = 2**-6 * float(want.abs().max()) + 1e-3  # roundings of the steps in between
            assert float((want.float() - have.float()).abs().max()) <= bound
    assert host_ops(compiled).isdisjoint({"matmul", "convolution"})
