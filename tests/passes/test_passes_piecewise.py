"""Elementwise work on joined and padded values is done on their pieces, bit by bit the same, where that saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import SPECIAL, assert_same_bits
from tracejit.ir import parse, run, verify
from tracejit.ir.graph import Graph
from tracejit.passes.pipeline import run_passes
from tracejit.passes.simplify.piecewise import MOST_PIECES, piecewise

CAT = "%0: f32[8, 96] = cat(a, b, dim=1)"
INPUTS = "a: f32[8, 64], b: f32[8, 32], c: f32[8, 96]"


def names(graph: Graph) -> list[str]:
    return [v.op.name for v in graph.values if v.op is not None]


def rewritten(text: str, seed: int = 0) -> Graph:
    """The graph after the pass, which computes the same bits from special values."""
    graph = parse(text)
    found = piecewise(graph)
    verify(found)
    rng = np.random.default_rng(seed)
    arrays = [rng.choice(SPECIAL, v.spec.shape).astype(v.spec.dtype.np) for v in graph.inputs]
    with np.errstate(all="ignore"):
        for a, b in zip(run(found, arrays), run(graph, arrays), strict=True):
            assert_same_bits(a, b)
    return found


def test_the_other_operands_are_read_in_slices() -> None:
    found = rewritten(
        f"""graph f({INPUTS}, d: f32[8, 1], e: f32[96]) {{
            {CAT}
            %1: f32[8, 96] = mul(%0, c)
            %2: f32[8, 96] = add(%1, d)
            %3: f32[8, 96] = sub(%2, e)
            %4: f32[8, 96] = maximum(%3, 0.5)
            return %4
        }}"""
    )
    work = ["slice", "mul", "add", "slice", "sub", "maximum"]
    assert names(found) == ["slice", "mul", "slice", "mul", "add", "add", *names(found)[6:]]
    assert sorted(names(found)) == sorted([*work, *work, "cat"])


def test_padding_becomes_work_on_constants() -> None:
    found = rewritten(
        """graph f(x: f32[30, 30], y: f32[32, 32]) {
            %0: f32[32, 32] = pad(x, widths=((1, 1), (1, 1)), value=-0.0)
            %1: f32[32, 32] = add(y, %0)
            return %1
        }"""
    )
    assert names(found).count("add") == 5
    assert names(found).count("cat") == 2
    assert "pad" not in names(found)


def test_padding_on_one_side() -> None:
    found = rewritten(
        """graph f(x: f32[3, 30, 30], y: f32[31, 32]) {
            %0: f32[3, 31, 32] = pad(x, widths=((0, 0), (1, 0), (0, 2)), value=2.5)
            %1: f32[3, 31, 32] = mul(%0, y)
            %2: f32[3, 31, 32] = exp(%1)
            return %2
        }"""
    )
    assert names(found).count("exp") == 3


def test_two_joined_alike_meet_piece_by_piece() -> None:
    found = rewritten(
        """graph f(a: f32[4, 64], b: f32[4, 32], c: f32[4, 64], d: f32[4, 32]) {
            %0: f32[4, 96] = cat(a, b, dim=1)
            %1: f32[4, 96] = cat(c, d, dim=1)
            %2: f32[4, 96] = mul(%0, %1)
            return %2
        }"""
    )
    assert names(found) == ["mul", "mul", "cat"]


@pytest.mark.parametrize("dim", [0, 1])
def test_two_joined_at_other_places(dim: int) -> None:
    shapes = ("f32[32, 96]", "f32[64, 96]") if dim == 0 else ("f32[96, 32]", "f32[96, 64]")
    found = rewritten(
        f"""graph f(a: f32[96, 64], b: f32[96, 32], c: {shapes[0]}, d: {shapes[1]}) {{
            %0: f32[96, 96] = cat(a, b, dim=1)
            %1: f32[96, 96] = cat(c, d, dim={dim})
            %2: f32[96, 96] = mul(%0, %1)
            return %2
        }}"""
    )
    assert names(found).count("mul") == 2


def test_what_meets_itself_and_rounds_of_it() -> None:
    found = rewritten(
        f"""graph f({INPUTS}) {{
            {CAT}
            %1: f32[8, 96] = mul(%0, %0)
            %2: f32[8, 96] = add(%1, %0)
            %3: bool[8, 96] = gt(%2, c)
            %4: f32[8, 96] = where(%3, %2, 0.0)
            return %4, %3
        }}"""
    )
    assert names(found).count("mul") == names(found).count("where") == 2
    assert names(found).count("cat") == 2  # each result


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"graph f({INPUTS}) {{ {CAT} %1: f32[8, 96] = mul(%0, c) return %1, %0 }}",
            id="a result itself",
        ),
        pytest.param(
            f"""graph f({INPUTS}) {{ {CAT} %1: f32[8, 96] = mul(%0, c)
            %2: f32[8] = sum(%0, dims=(1,), keepdim=False) return %1, %2 }}""",
            id="read by a reduction",
        ),
        pytest.param(
            f"""graph f({INPUTS}) {{ {CAT} %1: f64[8, 96] = cast(%0, dtype=f64)
            %2: f64[8] = sum(%1, dims=(1,), keepdim=False) return %2 }}""",
            id="more to write",
        ),
        pytest.param(
            f"""graph f({INPUTS}) {{ {CAT} %1: f32[8, 96] = exp(%0) %2: f32[8, 96] = sin(%0)
            %3: f32[8] = sum(%1, dims=(1,), keepdim=False)
            %4: f32[96] = sum(%2, dims=(0,), keepdim=False) return %3, %4 }}""",
            id="two to write",
        ),
        pytest.param(
            f"""graph f({INPUTS}) {{ {CAT} %1: f32[8, 96] = mul(%0, c)
            %2: f32[8] = amax(%1, dims=(1,), keepdim=False) return %2 }}""",
            id="as much to write",
        ),
        pytest.param(
            f"""graph f({INPUTS}, key: i64[2]) {{ {CAT}
            %1: f32[8, 96] = random_uniform(key, index=0, shape=(8, 96), dtype=f32)
            %2: f32[8, 96] = mul(%0, %1) return %2 }}""",
            id="drawn beside it",
        ),
        pytest.param(
            """graph f(a: f32[64, 2], b: f32[64, 2]) { %0: f32[64, 4] = cat(a, b, dim=1)
            %1: f32[64, 4] = exp(%0) return %1 }""",
            id="short rows",
        ),
        pytest.param(
            """graph f(a: f32[2, 64], c: f32[3, 4, 64]) { %0: f32[4, 64] = cat(a, a, dim=0)
            %1: f32[3, 4, 64] = mul(%0, c) return %1 }""",
            id="read again and again",
        ),
        pytest.param(
            """graph f(a: f32[64], b: f32[0]) { %0: f32[64] = cat(a, b, dim=0)
            %1: f32[64] = exp(%0) return %1 }""",
            id="nothing in one",
        ),
        pytest.param(
            "graph f(a: f32[64]) { %0: f32[1088] = cat("
            + ", ".join(["a"] * (MOST_PIECES + 1))
            + ", dim=0) %1: f32[1088] = exp(%0) return %1 }",
            id="many pieces",
        ),
        pytest.param(
            """graph f(a: c64[64]) { %0: c64[128] = cat(a, a, dim=0)
            %1: c64[128] = exp(%0) return %1 }""",
            id="complex",
        ),
    ],
)
def test_left_alone(text: str) -> None:
    graph = parse(text)
    assert names(piecewise(graph)) == names(graph)


def test_work_that_only_meets_pieces_is_done_on_them() -> None:
    found = rewritten(
        f"""graph f({INPUTS}, d: f32[8, 96]) {{
            {CAT}
            %1: f32[8, 96] = sin(c)
            %2: f32[8, 96] = add(%1, d)
            %3: f32[8, 96] = mul(%0, %2)
            %4: f32[8, 96] = sub(%3, %1)
            return %4
        }}"""
    )
    piece = ["slice", "sin", "slice", "add", "mul", "sub"]
    assert sorted(names(found)) == sorted([*piece, *piece, "cat"])


def test_work_that_something_else_reads_is_done_once() -> None:
    found = rewritten(
        f"""graph f({INPUTS}) {{
            {CAT}
            %1: f32[8, 96] = sin(c)
            %2: f32[8, 96] = exp(%1)
            %3: f32[8, 96] = mul(%0, c)
            %4: f32[8, 96] = add(%3, %2)
            return %4, %1
        }}"""
    )
    assert names(found).count("exp") == 1
    assert names(found).count("sin") == 1


def test_work_beside_padding_in_two_dimensions() -> None:
    found = rewritten(
        """graph f(x: f32[30, 30], y: f32[32, 32], z: f32[1, 32]) {
            %0: f32[32, 32] = pad(x, widths=((1, 1), (1, 1)), value=0.5)
            %1: f32[32, 32] = mul(y, z)
            %2: f32[32, 32] = exp(%1)
            %3: f32[32, 32] = add(%2, %0)
            return %3
        }"""
    )
    assert names(found).count("exp") == names(found).count("mul") == 5


def plans(f: Any) -> list[Any]:
    return [program.plan for entry in f._all() for program in entry.programs()]


def test_in_loops_and_at_other_sizes() -> None:
    def heat(u: tj.Tensor) -> tj.Tensor:
        edge = u - tj.nn.functional.pad(u[1:-1, 1:-1], (1, 1, 1, 1))
        for _ in range(8):
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            inner = u[1:-1, 1:-1] + 0.2 * (near - 4.0 * u[1:-1, 1:-1])
            u = edge + tj.nn.functional.pad(inner, (1, 1, 1, 1))
        return u

    f = tj.compile(heat, dynamic=False, strict=True)
    for rows, columns in ((40, 50), (41, 47), (40, 50), (60, 33), (3, 40), (40, 3), (3, 3)):
        u = tj.randn(rows, columns)
        assert tj.equal(f(u), heat(u))
    assert len(f.kernels) < 12
    assert all("cat(" in str(plan.graph) for plan in plans(f))


def rotary(x: tj.Tensor, c: tj.Tensor, s: tj.Tensor) -> tj.Tensor:
    half = x.shape[-1] // 2
    return x * c + tj.cat([-x[..., half:], x[..., :half]], -1) * s


def test_rotary_embedding_is_one_kernel_without_a_copy() -> None:
    f = tj.compile(rotary)
    x, c, s = tj.randn(2, 3, 20, 64), tj.randn(20, 64), tj.randn(20, 64)
    with tj.no_grad():
        for _ in range(3):
            assert tj.equal(f(x, c, s), rotary(x, c, s))
    assert [plan.launches for plan in plans(f)] == [1]


def test_gradients_through_what_was_taken_apart() -> None:
    f = tj.compile(rotary)
    c, s = tj.randn(20, 64), tj.randn(20, 64)
    for _ in range(3):
        x = tj.randn(2, 3, 20, 64, requires_grad=True)
        (expected,) = tj.autograd.grad((rotary(x, c, s) ** 2).sum(), x)
        (found,) = tj.autograd.grad((f(x, c, s) ** 2).sum(), x)
        tj.testing.assert_close(found, expected)


OPS = ("add({}, {})", "mul({}, {})", "maximum({}, {})", "sub({}, {})", "exp({})", "abs({})")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    """Joined, padded and plain values of one shape in random elementwise work, some read by reductions."""
    rng = np.random.default_rng(seed)
    rows, cut = 24, int(rng.integers(16, 33))
    lines = [
        f"%0: f32[{rows}, 48] = cat(a, b, dim=1)",
        f"%1: f32[{rows}, 48] = cat(c, d, dim=0)",
        f"%2: f32[{rows}, 48] = pad(e, widths=((1, 2), (0, 1)), value={rng.choice(['0', '-0.0', '1.5'])})",
    ]
    values = ["%0", "%1", "%2", "x"]
    for _ in range(int(rng.integers(3, 12))):
        pattern = str(rng.choice(OPS))
        chosen = [str(rng.choice(values)), str(rng.choice([*values, "y"]))]
        name = f"%{len(lines)}"
        lines.append(f"{name}: f32[{rows}, 48] = {pattern.format(*chosen)}")
        values.append(name)
    total = f"%{len(lines)}"
    lines.append(f"{total}: f32[48] = amax({rng.choice(values[3:])}, dims=(0,), keepdim=False)")
    body = "\n".join(lines)
    results = ", ".join([total, *(str(v) for v in rng.choice(values, 2))])
    text = f"""graph f(a: f32[{rows}, {cut}], b: f32[{rows}, {48 - cut}], c: f32[8, 48], d: f32[16, 48],
        e: f32[21, 47], x: f32[{rows}, 48], y: f32[48]) {{
            {body}
            return {results}
        }}"""
    rewritten(text, seed)
    run_passes(parse(text), check=verify)
