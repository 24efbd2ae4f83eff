"""Products of one row and one column are sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import host_ops
from ir_graphs import documented
from tracejit import ir
from tracejit.ir import run
from tracejit.passes.products import dots as module
from tracejit.passes.products.dots import dots


def test_the_documented_example() -> None:
    found = dots(documented(module, "Before"))
    ir.verify(found)
    assert found == documented(module, "After")


@pytest.mark.parametrize(
    ("x", "y", "out"),
    [
        ("f32[2, 9]", "f32[9, 3]", "f32[2, 3]"),
        ("f32[1, 9]", "f32[9, 1]", "f32[1, 1]"),  # by chance
        ("f16[1, 9]", "f16[9, 1]", "f16[1, 1]"),
        ("i64[1, 9]", "i64[9, 1]", "i64[1, 1]"),
    ],
)
def test_other_products_stay(x: str, y: str, out: str) -> None:
    graph = ir.parse(f"graph f(x: {x}, y: {y}) {{ %0: {out} = matmul(x, y) return %0 }}")
    assert dots(graph) is graph


def test_a_matrix_that_several_rows_share_stays() -> None:
    graph = ir.parse("""graph f(x: f32[5, 9], w: f32[9, 2]) {
        %0: f32[5, 1, 9] = unsqueeze(x, dims=(1,))
        %1: f32[5, 1, 2] = matmul(%0, w)
        return %1
    }""")
    assert dots(graph) is graph


FORMS = {
    "rows": (("f32[4, 9]", "f32[9]", "x", "v1", "f32[4, 1]"), ["permute", "mul", "sum"]),
    "columns": (("f32[9, 4]", "f32[9]", "v0", "x", "f32[1, 4]"), ["permute", "mul", "sum"]),
    "outer": (("f64[9]", "f64[9]", "x1", "v0", "f64[9, 9]"), ["mul", "add"]),
    "inner": (("f64[9]", "f64[9]", "x0", "v1", "f64[1, 1]"), ["permute", "mul", "sum"]),
    "batch": (("f32[5, 4, 9]", "f32[9]", "x", "v1", "f32[5, 4, 1]"), ["permute", "mul", "sum"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    (x, v, left, right, out), ops = FORMS[name]
    lines, sides = [], []
    for side in (left, right):
        if side[1:]:
            one = (x if side[0] == "x" else v).split("[")
            shape = f"[1, {one[1]}" if side[1] == "0" else f"[{one[1][:-1]}, 1]"
            lines.append(
                f"%{len(lines)}: {one[0]}{shape} = unsqueeze({side[0]}, dims=({side[1]},))"
            )
        sides.append(f"%{len(lines) - 1}" if side[1:] else side)
    lines.append(f"%{len(lines)}: {out} = matmul({sides[0]}, {sides[1]})")
    text = f"graph f(x: {x}, v: {v}) {{ {' '.join(lines)} return %{len(lines) - 1} }}"
    graph = ir.verify(ir.parse(text))
    found = ir.verify(dots(graph))
    assert [v.op.name for v in found.values if v.op is not None][-len(ops) :] == ops
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.spec.shape).astype(v.spec.dtype.np) for v in graph.inputs]
    arrays[0][0] = -0.0
    for want, have in zip(run(graph, arrays), run(found, arrays), strict=True):
        np.testing.assert_allclose(have, want, 1e-5, 1e-6)
        assert np.array_equal(np.signbit(have), np.signbit(want))


def test_one_side_tells_that_a_product_is_one_of_a_column_and_a_row() -> None:
    graph = ir.parse("""graph f(g: f32[1, 1], v: f32[9]) {
        %0: f32[1, 9] = unsqueeze(v, dims=(0,))
        %1: f32[1, 9] = matmul(g, %0)
        return %1
    }""")
    assert [v.op.name for v in ir.verify(dots(graph)).values if v.op] == ["unsqueeze", "mul", "add"]


def test_one_sum_is_shared_among_threads() -> None:
    compiled = tj.compile(lambda x, y: x @ y, strict=True)
    x, y = tj.randn(1 << 20), tj.randn(1 << 20)
    for _ in range(3):
        found = compiled(x, y)
    np.testing.assert_allclose(
        found.item(), np.dot(x.double().numpy(), y.double().numpy()), rtol=1e-4, atol=1e-2
    )
    assert "combine" in compiled.source()  # partial sums of pieces


def test_transposes_of_transposes_are_not_written() -> None:
    graph = ir.parse("""graph f(v: f32[9], w: f32[4, 9]) {
        %0: f32[1, 9] = unsqueeze(v, dims=(0,))
        %1: f32[9, 4] = permute(w, dims=(1, 0))
        %2: f32[1, 4] = matmul(%0, %1)
        return %2
    }""")
    names = [v.op.name for v in dots(graph).values if v.op is not None]
    assert names == ["unsqueeze", "permute", "permute", "mul", "sum"]


def test_a_matrix_that_has_one_row_by_chance_needs_no_kernel_of_its_own() -> None:
    layer = tj.nn.Linear(6, 5)
    compiled = tj.compile(lambda x: layer(x).relu(), strict=True)
    keys = []
    for size in (4, 1, 2):
        for _ in range(2):
            compiled(tj.ones(size, 6))
        keys.append({key for kernel in compiled.kernels for key in kernel.keys})
    assert keys[0] == keys[1] == keys[2]


def test_products_of_all_rounds_stay_one_product() -> None:
    """What rounds only read leaves the loop as a product; what is left there becomes sums."""

    def f(xs: Any, w: Any, u: Any) -> Any:
        h = tj.zeros(w.shape[1])
        for x in xs:
            h = tj.tanh(x @ w + h @ u)
        return h

    rng = np.random.default_rng(2)
    args = [
        tj.from_numpy(rng.standard_normal(s).astype("f") * 0.2) for s in ((9, 7), (7, 8), (8, 8))
    ]
    compiled = tj.compile(f, strict=True)
    for _ in range(3):
        np.testing.assert_allclose(compiled(*args).numpy(), f(*args).numpy(), 1e-5, 1e-6)
    kinds = [(k.name, k.kind) for k in compiled.profile(*args).kernels]
    assert sum("matmul" in name for name, _ in kinds) == 1
    assert not any("matmul" in name for name, _ in kinds if name.startswith("loop"))


def slope(x: Any, signs: Any, position: Any) -> Any:
    return ((-signs * (x @ position)).sigmoid() * -signs) @ x + position


def test_a_function_of_each_of_many_rows_is_computed_for_all_of_them() -> None:
    rng = np.random.default_rng(3)
    args = [tj.from_numpy(rng.standard_normal(s)) for s in ((2000, 30), (2000,), (30,))]
    compiled = tj.compile(slope, strict=True)
    for _ in range(3):
        np.testing.assert_allclose(compiled(*args).numpy(), slope(*args).numpy(), 1e-9, 1e-9)
    names = [k.name for k in compiled.kernels]
    assert [("sum" in n, "sigmoid" in n) for n in names if "combine" not in n] == [
        (True, False),
        (False, True),
        (True, False),
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64], ids=str)
@pytest.mark.parametrize(
    ("left", "right"),
    [((n,), (n,)) for n in (0, 1, 2, 17, 100_003)]
    + [((3, 1, 33), (3, 33, 1)), ((1, 5), (4, 5, 1)), ((2, 1, 1, 9), (3, 9, 1)), ((1, 0), (0, 1))]
    + [
        ((5, 40), (40,)),
        ((40,), (40, 5)),
        ((3, 1, 40), (3, 40, 7)),
        ((6, 1), (1, 5)),
        ((5, 0), (0,)),
    ]
    + [((4, 1, 30), (30, 6)), ((2, 3, 1, 8), (2, 1, 8, 33)), ((1, 300), (300, 200))],
)
def test_values_and_gradients(left: Any, right: Any, dtype: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x @ y).tanh() * 2

    compiled = tj.compile(f, strict=True)
    values = [np.random.default_rng(s).standard_normal(n) / 30 for s, n in ((0, left), (1, right))]
    for _ in range(2):
        sides = []
        for function in (f, compiled):
            x, y = (tj.from_numpy(v).to(dtype).requires_grad_() for v in values)
            result = function(x, y)
            result.sum().backward()
            sides.append((result.detach(), x.grad, y.grad))
        for a, b in zip(*sides, strict=True):
            assert a.spec == b.spec
            np.testing.assert_allclose(b.numpy(), a.numpy(), 2e-5, 2e-6)
    assert not host_ops(compiled)


def test_what_is_not_finite_comes_through() -> None:
    compiled = tj.compile(tj.dot, strict=True)
    ones = tj.ones(40)
    for number, found in ((np.inf, np.inf), (np.nan, np.nan), (-np.inf, -np.inf)):
        x = tj.ones(40)
        x[7] = number
        for _ in range(2):
            assert np.array_equal(compiled(x, ones).numpy(), np.float32(found), equal_nan=True)
