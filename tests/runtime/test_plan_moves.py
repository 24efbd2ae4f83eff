"""Moves in plans: what is written where, and that random graphs of moves keep every bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracejit as tj
from ir_graphs import assert_same_bits
from tracejit.ir import interpreter, parse, verify
from tracejit.passes.pipeline import run_passes
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program

SPECIAL = np.array([-0.0, 0.0, np.nan, -np.inf, np.inf, -1e-45, 1.0, -0.0], np.float32)


def planned(text, inputs=None):
    """The plan of a graph given as text; its program agrees with the interpreter, before and after planning."""
    graph = parse(text)
    rng = np.random.default_rng(0)
    arrays = inputs or [
        np.asarray(rng.standard_normal(v.spec.shape) * 3, v.spec.dtype.np) for v in graph.inputs
    ]
    plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
    expected = interpreter.run(graph, arrays)
    for a, b in zip(interpreter.run(plan.graph, arrays), expected, strict=True):
        assert_same_bits(a, b)
    blocks = Program(plan).run(*map(tj.from_numpy, arrays))
    for block, value, want in zip(blocks, graph.outputs, expected, strict=True):
        found = np.ndarray(value.spec.shape, value.spec.dtype.np, block.array)
        np.testing.assert_allclose(found, want, 1e-6, 1e-6)
    return plan


def test_what_is_computed_for_a_cat_is_computed_in_its_place():
    plan = planned(
        """graph f(x: f32[4, 3], y: f32[4, 5], w: f32[3, 6]) {
            %0: f32[4, 3] = exp(x)
            %1: f32[4, 5] = tanh(y)
            %2: f32[4, 6] = matmul(x, w)
            %3: f32[4, 14] = cat(%0, %1, %2, dim=1)
            %4: f32[4, 1, 14] = unsqueeze(%3, dims=(1,))
            %5: f32[4, 2, 14] = cat(%4, %4, dim=1)
            return %5
        }"""
    )
    assert plan.launches == 4  # two kernels and a product in place, and one copy of all
    assert plan.arena_bytes == 0


def test_what_others_read_through_a_reshape_is_copied():
    plan = planned(
        """graph f(x: f32[4, 3], y: f32[4, 5]) {
            %0: f32[4, 3] = exp(x)
            %1: f32[4, 8] = cat(%0, y, dim=1)
            %2: f32[12] = reshape(%0, shape=(12,))
            %3: f32[12] = mul(%2, 2.0)
            return %1, %3
        }"""
    )
    assert [k.name for k in plan.kernels] == ["k_exp_clone", "k_clone", "k_mul"]


def test_what_a_row_kernel_computes_is_reshaped_in_the_memory_of_the_result():
    plan = planned(
        """graph f(x: f32[6, 4, 5]) {
            %0: f32[6, 1, 1] = sum(x, dims=(1, 2), keepdim=True)
            %1: f32[6, 4, 5] = sub(x, %0)
            %2: f32[6, 20] = reshape(%1, shape=(6, 20))
            %3: f32[3, 2, 20] = reshape(%2, shape=(3, 2, 20))
            return %3
        }"""
    )
    assert [k.name for k in plan.kernels] == ["k_sum_sub"]
    assert plan.launches == 1


def test_an_output_has_memory_of_its_own():
    plan = planned(
        """graph f(x: f32[4], y: f32[5]) {
            %0: f32[4] = exp(x)
            %1: f32[9] = cat(%0, y, dim=0)
            %2: f32[18] = cat(%1, %1, dim=0)
            return %0, %2
        }"""
    )
    assert plan.launches == 3  # exp twice, y, the whole again


def test_a_scatter_is_written_over_a_temporary():
    text = """graph f(x: f32[64, 64], y: f32[2, 64]) {
            %0: f32[64, 64] = exp(x)
            %1: f32[] = sum(%0, dims=(0, 1), keepdim=False)
            %2: f32[2, 64] = mul(y, %1)
            %3: f32[64, 64] = slice_scatter(%0, %2, starts=(3, 0), counts=(2, 64), steps=(1, 1))
            %4: f32[64, 64] = mul(%3, LATER)
            %5: f32[64] = sum(%4, dims=(1,), keepdim=False)
            return %5
        }"""
    once = planned(text.replace("LATER", "2.0"))
    again = planned(text.replace("LATER", "%0"))
    assert once.arena_bytes < 64 * 64 * 4 + 2048
    assert again.arena_bytes > 2 * 64 * 64 * 4


def test_writing_waits_for_reading():
    """The first value is read by a kernel that something later could be fused with."""
    planned(
        """graph f(x: f32[8], y: f32[4]) {
            %0: f32[8] = exp(x)
            %1: f32[8] = mul(%0, 3.0)
            %2: f32[4] = slice(%1, starts=(2,), counts=(4,), steps=(1,))
            %3: f32[8] = slice_scatter(%0, %2, starts=(4,), counts=(4,), steps=(1,))
            %4: f32[8] = add(%3, %1)
            %5: f32[4] = slice(%4, starts=(0,), counts=(4,), steps=(2,))
            %6: f32[8] = slice_scatter(%3, %5, starts=(0,), counts=(4,), steps=(2,))
            %7: f32[8] = sub(%6, %4)
            return %7
        }"""
    )


def test_scatters_in_odd_steps_and_many_pieces():
    planned(
        """graph f(x: f32[6, 7, 8], y: f32[3, 2, 4], z: f32[6]) {
            %0: f32[6, 7, 8] = slice_scatter(x, y, starts=(5, 3, 1), counts=(3, 2, 4), steps=(-2, 2, 1))
            %1: f32[6, 7, 8] = slice_scatter(x, y, starts=(1, 3, 1), counts=(3, 2, 4), steps=(1, 1, 1))
            %2: f32[6, 7, 8] = add(%0, %1)
            %3: f32[6, 6] = full(shape=(6, 6), value=2.5, dtype=f32)
            %4: f32[6, 6] = diagonal_scatter(%3, z, offset=0, dim1=0, dim2=1)
            return %2, %4
        }"""
    )


def test_padding_is_written_once():
    plan = planned(
        """graph f(x: f32[3, 4, 90]) {
            %0: f32[3, 4, 90] = exp(x)
            %1: f32[3, 7, 91] = pad(%0, widths=((0, 0), (1, 2), (1, 0)), value=-0.5)
            return %1
        }"""
    )
    assert plan.launches == 4
    assert len({key for kernel in plan.kernels for key in kernel.keys}) <= 3


def test_short_rows_are_filled_before_what_they_are_padded_with_is_written():
    plan = planned(
        """graph f(x: f32[3, 4, 5], y: f32[3, 4, 5]) {
            %0: f32[3, 4, 5] = exp(x)
            %1: f32[3, 7, 6] = pad(%0, widths=((0, 0), (1, 2), (1, 0)), value=-0.5)
            %2: f32[3, 4, 5] = mul(%0, 2.0)
            %3: f32[3, 4, 6] = pad(y, widths=((0, 0), (0, 0), (0, 1)), value=1.0)
            return %1, %2, %3
        }"""
    )
    assert plan.launches == 4  # two grounds, and what is computed and copied over them


def test_no_ground_is_written_for_what_is_put_together_from_pieces():
    plan = planned(
        """graph f(x: f32[3, 2, 5], y: f32[3, 2, 5]) {
            %0: f32[3, 2, 5] = exp(x)
            %1: f32[3, 4, 5] = cat(%0, y, dim=1)
            %2: f32[3, 6, 7] = pad(%1, widths=((0, 0), (1, 1), (1, 1)), value=0.0)
            return %2
        }"""
    )
    assert plan.launches == 6  # above, below, left, right, and both pieces


@pytest.mark.sampled(6)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_moves(first):
    """Random graphs of moves and arithmetic: the rewritten and the planned graph give the same."""
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        text = random_graph(rng)
        planned(text)
        graph = parse(text)
        simple = run_passes(graph, check=verify)
        arrays = [rng.choice(SPECIAL, v.spec.shape) for v in graph.inputs]
        results = interpreter.run(simple, arrays), interpreter.run(graph, arrays)
        for a, b in zip(*results, strict=True):
            assert_same_bits(a, b)
        planned(str(simple))


def random_graph(rng):
    """Moves between values of a few shapes."""
    shapes = {f"x{i}": (4, 6) for i in range(2)}
    lines: list[str] = []

    def add(shape, text):
        name = f"%{len(lines)}"
        lines.append(f"{name}: f32[{', '.join(map(str, shape))}] = {text}")
        shapes[name] = shape
        return name

    def pick():
        return list(shapes)[max(int(rng.integers(-6, len(shapes))), 0)]

    for _ in range(14):
        x = pick()
        rows, columns = shapes[x]
        same = [v for v, shape in shapes.items() if shape == shapes[x]]
        kind = int(rng.integers(0, 8))
        if kind == 0:
            add(shapes[x], f"neg({x})" if rng.random() < 0.2 else f"mul({x}, 0.5)")
        elif kind == 1:
            add(shapes[x], f"add({x}, {same[int(rng.integers(len(same)))]})")
        elif kind == 2 and rows * columns < 200:
            other = same[int(rng.integers(len(same)))]
            add((2 * rows, columns), f"cat({x}, {other}, dim=0)")
        elif kind == 3 and rows * columns < 200:
            other = same[int(rng.integers(len(same)))]
            add((rows, 2 * columns), f"cat({other}, {x}, dim=1)")
        elif kind == 4 and rows * columns < 200:
            add((rows + 1, columns + 2), f"pad({x}, widths=((1, 0), (0, 2)), value=-0.0)")
        else:
            r, c = int(rng.integers(1, rows + 1)), int(rng.integers(1, columns + 1))
            a, b = int(rng.integers(0, rows - r + 1)), int(rng.integers(0, columns - c + 1))
            if rng.random() < 0.5:
                a, r = 0, rows
            at = f"starts=({a}, {b}), counts=({r}, {c}), steps=(1, 1)"
            part = add((r, c), f"slice({x}, {at})")
            if kind > 5:
                part = add((r, c), f"mul({part}, -0.5)")
                base = same[int(rng.integers(len(same)))]
                if rng.random() < 0.4:
                    zeros = f"full(shape=({rows}, {columns}), value=0, dtype=f32)"
                    base = add(shapes[x], zeros)
                add(shapes[x], f"slice_scatter({base}, {part}, {at})")
    outputs = ", ".join([*list(shapes)[-2:], pick()])
    body = "\n".join(lines)
    return f"graph f(x0: f32[4, 6], x1: f32[4, 6]) {{\n{body}\nreturn {outputs}\n}}"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_sums_of_slices(first):
    """Gradients of slices, added in any order: what is joined instead has the same bits."""
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        graph = parse(random_sum(rng))
        simple = run_passes(graph, check=verify)
        arrays = [rng.choice(SPECIAL, v.spec.shape) for v in graph.inputs]
        (a,), (b,) = interpreter.run(simple, arrays), interpreter.run(graph, arrays)
        assert_same_bits(a, b)
        if seed % 4 == 0:
            planned(str(simple))


def random_sum(rng):
    """A sum of slices written into zeros, some of them at equal places, and of other values."""
    cuts = [0, *sorted(rng.choice(np.arange(1, 12), 4, replace=False)), 12]
    lines = ["%0: f32[6, 12] = full(shape=(6, 12), value=0, dtype=f32)"]

    def add(shape, text):
        lines.append(f"%{len(lines)}: f32[{', '.join(map(str, shape))}] = {text}")
        return f"%{len(lines) - 1}"

    def scattered(row, rows, column, columns):
        at = f"counts=({rows}, {columns}), steps=(1, 1)"
        source = rng.integers(2)
        part = add((rows, columns), f"slice(x{source}, starts=(0, {column}), {at})")
        where = f"starts=({row}, {column}), {at}"
        return add((6, 12), f"slice_scatter(%0, {part}, {where})")

    terms = []
    for a, b in itertools.pairwise(cuts):
        if rng.random() < 0.4:
            terms += [scattered(0, 3, a, b - a), scattered(3, 2, a, b - a)]
        elif rng.random() < 0.9:
            terms.append(scattered(0, 6, a, b - a))
        if rng.random() < 0.2:
            terms.append(scattered(0, 6, a, b - a))
    if rng.random() < 0.5:
        terms.append("x0")
    while len(terms) > 1:
        x, y = (terms.pop(int(rng.integers(max(len(terms) - 2, 0), len(terms)))) for _ in "xy")
        terms.append(add((6, 12), f"add({x}, {y})"))
    body = "\n".join(lines)
    return f"graph f(x0: f32[6, 12], x1: f32[6, 12]) {{\n{body}\nreturn {terms[0]}\n}}"


def test_the_gradient_of_chunk_and_unbind_is_joined():
    rows = "starts=({0}, 0), counts=(1, 6), steps=(1, 1)"
    parts = "starts=(0, {0}), counts=(1, 3), steps=(1, 1)"
    graph = parse(
        f"""graph f(a: f32[1, 3], b: f32[1, 3], c: f32[1, 6], x: f32[2, 6]) {{
            %0: f32[2, 6] = full(shape=(2, 6), value=0, dtype=f32)
            %1: f32[1, 6] = full(shape=(1, 6), value=0, dtype=f32)
            %2: f32[1, 6] = slice_scatter(%1, b, {parts.format(3)})
            %3: f32[1, 6] = slice_scatter(%1, a, {parts.format(0)})
            %4: f32[1, 6] = add(%2, %3)
            %5: f32[2, 6] = slice_scatter(%0, c, {rows.format(1)})
            %6: f32[2, 6] = add(x, %5)
            %7: f32[2, 6] = slice_scatter(%0, %4, {rows.format(0)})
            %8: f32[2, 6] = add(%6, %7)
            return %8
        }}"""
    )
    assert run_passes(graph, check=verify) == parse(
        """graph f(a: f32[1, 3], b: f32[1, 3], c: f32[1, 6], x: f32[2, 6]) {
            %0: f32[1, 3] = add(a, 0.0)
            %1: f32[1, 3] = add(b, 0.0)
            %2: f32[1, 6] = cat(%0, %1, dim=1)
            %3: f32[1, 6] = add(c, 0.0)
            %4: f32[2, 6] = cat(%2, %3, dim=0)
            %5: f32[2, 6] = add(x, %4)
            return %5
        }"""
    )
