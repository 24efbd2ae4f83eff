"""Copies of transposed products become products of transposes."""

from __future__ import annotations

import numpy as np
import pytest

from tracejit import ir
from tracejit.passes.products.transposed_products import transposed_products

BEFORE = """
graph f(x: f32[2, 3], y: f32[3, 4]) {
    %0: f32[2, 4] = matmul(x, y)
    %1: f32[4, 2] = permute(%0, dims=(1, 0))
    %2: f32[4, 2] = clone(%1)
    return %2
}
"""
AFTER = """
graph f(x: f32[2, 3], y: f32[3, 4]) {
    %0: f32[4, 3] = permute(y, dims=(1, 0))
    %1: f32[3, 2] = permute(x, dims=(1, 0))
    %2: f32[4, 2] = matmul(%0, %1)
    return %2
}
"""


def test_a_transposed_copy_becomes_a_product_of_transposes() -> None:
    graph = transposed_products(ir.parse(BEFORE))
    ir.verify(graph)
    assert graph == ir.parse(AFTER)


def test_transposes_of_transposes_disappear() -> None:
    graph = ir.parse(
        "graph f(x: f32[3, 2], y: f32[3, 4]) { %0: f32[2, 3] = permute(x, dims=(1, 0)) %1: f32[2, 4] = matmul(%0, y) "
        "%2: f32[4, 2] = permute(%1, dims=(1, 0)) %3: f32[4, 2] = clone(%2) return %3 }"
    )
    product = transposed_products(graph).outputs[0]
    assert product.value_operands[1] is transposed_products(graph).inputs[0] or (
        product.value_operands[1].name == "x"
    )


@pytest.mark.parametrize(
    "text",
    [
        BEFORE.replace("return %2", "return %2, %0"),  # the product itself is wanted
        BEFORE.replace("dims=(1, 0)", "dims=(0, 1)").replace(
            "f32[4, 2]", "f32[2, 4]"
        ),  # not a transposition
    ],
)
def test_other_graphs_stay_as_they_are(text: str) -> None:
    graph = ir.parse(text)
    assert transposed_products(graph) == graph


def test_an_output_that_shows_a_product_needs_no_copy() -> None:
    text = BEFORE.replace("    %2: f32[4, 2] = clone(%1)\n", "").replace("return %2", "return %1")
    assert transposed_products(ir.parse(text)) == ir.parse(AFTER)


def test_batches_and_values() -> None:
    graph = ir.parse(
        "graph f(x: f64[5, 2, 3], y: f64[5, 3, 4]) { %0: f64[5, 2, 4] = matmul(x, y) "
        "%1: f64[5, 4, 2] = permute(%0, dims=(0, 2, 1)) %2: f64[5, 4, 2] = clone(%1) return %2 }"
    )
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 3, 4))]
    before, after = ir.run(graph, inputs), ir.run(transposed_products(graph), inputs)
    np.testing.assert_allclose(before[0], after[0], rtol=1e-14, atol=1e-14)
    assert [v.op.name for v in transposed_products(graph).values if v.op] == [
        "permute",
        "permute",
        "matmul",
    ]
