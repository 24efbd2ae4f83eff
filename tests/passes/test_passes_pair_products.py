"""Products of bfloat16 keep their operands where the machine multiplies pairs of them."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import documented
from tracejit import ir
from tracejit.codegen.products.vector_machine import multiplies_pairs
from tracejit.ops.contraction import matmul
from tracejit.passes.products import pair_products as module
from tracejit.passes.products.pair_products import pair_products
from tracejit.runtime.products import product_module


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies_pairs", lambda: True)


@pytest.mark.usefixtures("pairs")
def test_the_documented_example() -> None:
    found = pair_products(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


def test_machines_without_pairs_multiply_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies_pairs", lambda: False)
    graph = documented(module, "Before")
    assert pair_products(graph) is graph


@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize(("old", "new"), [("y: bf16", "y: f16"), ("x: bf16", "x: f16")])
def test_both_operands_must_be_bfloat16(old: str, new: str) -> None:
    graph = ir.parse(str(documented(module, "Before")).replace(old, new))
    assert pair_products(graph) is graph


@pytest.mark.usefixtures("pairs")
def test_what_others_read_stays_converted() -> None:
    graph = ir.parse("""graph f(x: bf16[4, 4]) {
        %0: f32[4, 4] = cast(x, dtype=f32)
        %1: f32[4, 4] = matmul(%0, %0)
        %2: f32[4, 4] = add(%1, %0)
        return %2
    }""")
    names = [v.op.name for v in ir.verify(pair_products(graph)).values if v.op is not None]
    assert names == ["cast", "matmul", "add"]


def test_code_is_there_where_the_machine_has_pairs() -> None:
    assert (product_module("bf16") is not None) == multiplies_pairs()


def test_the_op_refuses_other_dtypes() -> None:
    x = ir.parse("graph f(x: f32[2, 2]) { %0: f32[2, 2] = matmul(x, x) return %0 }").inputs[0].spec
    with pytest.raises(tj.errors.DtypeError, match="only products of half precision"):
        matmul.infer([x, x], {"dtype": tj.float32})


def layer(x: Any, w: Any, b: Any) -> Any:
    return tj.nn.functional.gelu(tj.nn.functional.linear(x, w, b))


def batched(x: Any, w: Any, b: Any) -> Any:
    scores = x.transpose(-1, -2) @ x / 4
    return tj.softmax(scores, -1) @ (w.t() * b)


@pytest.mark.sampled(3)
@pytest.mark.skipif(not multiplies_pairs(), reason="no instructions for pairs of bfloat16")
@pytest.mark.parametrize("function", [layer, batched])
@pytest.mark.parametrize("shape", [(9, 12), (3, 5, 12), (2, 3, 17, 12)], ids=str)
def test_compiled_is_eager(function: Any, shape: tuple[int, ...]) -> None:
    """The sums are those of float32, of numbers that are exactly those of bfloat16."""
    made = [tj.randn(s).bfloat16().requires_grad_() for s in (shape, (14, 12), (14,))]
    compiled = tj.compile(function, strict=True)
    for _ in range(3):
        results = []
        for each in (function, compiled):
            out = each(*made)
            results.append([out, *tj.autograd.grad(out.float().square().sum(), made)])
        for want, have in zip(*results, strict=True):
            assert have.dtype is tj.bfloat16
            bound = 2**-6 * float(want.abs().max()) + 1e-3  # roundings of the steps in between
            assert float((want.float() - have.float()).abs().max()) <= bound
    assert "matmul" not in host_ops(compiled)


@pytest.mark.skipif(not multiplies_pairs(), reason="no instructions for pairs of bfloat16")
def test_operands_are_not_converted_in_memory() -> None:
    """One kernel beside the product: the sums become bfloat16."""
    f = tj.compile(lambda x, w: x @ w.t(), strict=True)
    x, w = tj.randn(24, 40).bfloat16(), tj.randn(30, 40).bfloat16()
    with tj.no_grad():
        for _ in range(3):
            found = f(x, w)
    exact = x.double() @ w.double().t()
    assert tj.allclose(found.double(), exact, atol=1e-5, rtol=2**-8)  # one rounding
    assert len(f.kernels) == 1
