"""Kernels whose operands lie across each other, or whose rows are short: every element, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracejit as tj
from tracejit.ir import parse
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program

DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}
SIZES = st.sampled_from([1, 2, 3, 5, 15, 16, 17, 33, 70])


def program_of(text):
    graph = parse(text)
    return Program(make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs]))


def numbers(shape, short):
    return np.random.default_rng(1).integers(0, 2, shape).astype(DTYPES[short])


def listed(values):
    return ", ".join(map(str, values))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(SIZES, min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
    short=st.sampled_from(sorted(DTYPES)),
)
def test_permuted_copies(sizes, order, short):
    dims = list(range(len(sizes)))
    order.shuffle(dims)
    shape = [sizes[d] for d in dims]
    run = program_of(f"""graph f(x: {short}[{listed(sizes)}]) {{
        %0: {short}[{listed(shape)}] = permute(x, dims=({listed(dims)}))
        %1: {short}[{listed(shape)}] = clone(%0)
        return %1
    }}""").run
    array = numbers(sizes, short)
    (block,) = run(tj.from_numpy(array))
    assert np.array_equal(np.ndarray(shape, array.dtype, block.array), array.transpose(dims))


ACROSS = ("float32", "float64", "float16", "bfloat16", "int64", "int8", "bool")


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 7, 63, 64, 65, 130]), min_size=2, max_size=3),
    order=st.randoms(use_true_random=False),
    dtypes=st.tuples(st.sampled_from(ACROSS), st.sampled_from(ACROSS)),
    threads=st.sampled_from([1, 2]),
)
def test_computations_on_operands_that_lie_across(sizes, order, dtypes, threads):
    """Also operands that lie backwards, and some that are one number along a dimension."""
    dims = list(range(len(sizes)))
    order.shuffle(dims)
    shape = [sizes[d] for d in dims]

    def f(x, y, z):
        x = x.permute(dims)
        return tj.where(y > 0, x, z.flip(-1)) + y * x, x.flip(0, -1) == z

    def tensor(shape, short):
        return tj.from_numpy(numbers(shape, "i64") * 3 - 1).to(getattr(tj, short))

    x, y, z = (tensor(s, d) for s, d in ((sizes, dtypes[0]), (shape, dtypes[1]), (shape, "int64")))
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        compiled = tj.compile(f, strict=True)
        for given_y in (y, y.transpose(0, 1).contiguous().transpose(0, 1), y[..., :1]):
            for _ in range(2):
                found = compiled(x, given_y, z)
            for a, b in zip(found, f(x, given_y, z), strict=True):
                assert a.spec == b.spec
                assert np.array_equal(a.double().numpy(), b.double().numpy())
    finally:
        tj.set_num_threads(before)


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 7, 64, 70]), min_size=2, max_size=3),
    order=st.randoms(use_true_random=False),
)
def test_gradients_of_operands_that_lie_across(sizes, order):
    """What backward writes lies as the operands do, across what it reads."""
    dims = list(range(len(sizes)))
    order.shuffle(dims)

    def f(x, y):
        return ((x.permute(dims) * y).square() * y).sum()

    compiled = tj.compile(f, strict=True)
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-3, 4, s).astype(np.float32) for s in (sizes, [sizes[d] for d in dims])]
    for _ in range(2):
        sides = []
        for function in (f, compiled):
            x, y = (tj.tensor(a, requires_grad=True) for a in arrays)
            function(x, y).backward()
            sides.append((x.grad, y.grad))
    for a, b in zip(*sides, strict=True):
        assert a.spec == b.spec
        assert np.array_equal(a.numpy(), b.numpy())


@settings(max_examples=25, deadline=None)
@given(
    counts=st.tuples(SIZES, SIZES, SIZES),
    steps=st.tuples(*(st.integers(1, 5),) * 3),
    starts=st.tuples(*(st.integers(0, 2),) * 3),
    short=st.sampled_from(["f32", "f64", "i64", "u8"]),
)
def test_slices_with_steps_side_by_side(counts, steps, starts, short):
    """Neighbouring slices share a pointer where steps are small."""
    size = [a + (n - 1) * s + 2 for a, n, s in zip(starts, counts, steps, strict=True)]
    shape = listed(counts)
    slices = "".join(
        f"%{k}: {short}[{shape}] = slice(x, starts=({starts[0]}, {starts[1]}, {starts[2] + k}), "
        f"counts=({shape}), steps=({listed(steps)}))\n"
        for k in range(2)
    )
    run = program_of(f"""graph f(x: {short}[{listed(size)}]) {{
        {slices}
        %2: {short}[{shape}] = add(%0, %1)
        %3: {short}[{shape}] = mul(%2, %1)
        return %3
    }}""").run
    array = numbers(size, short)
    a, b = (
        array[
            tuple(
                slice(o + k * (d == 2), None, s)
                for d, (o, s) in enumerate(zip(starts, steps, strict=True))
            )
        ]
        for k in range(2)
    )
    a, b = (v[tuple(slice(n) for n in counts)] for v in (a, b))
    (block,) = run(tj.from_numpy(array))
    assert np.array_equal(np.ndarray(counts, array.dtype, block.array), (a + b) * b)


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_runs_on_several_threads(threads):
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        x = tj.arange(40.0 * 130 * 70).reshape(40, 130, 70)
        compiled = tj.compile(
            lambda x: (x.permute(1, 0, 2)[1:, 1:, 1:] * 2.0, x.permute(2, 0, 1) + 1.0)
        )
        for _ in range(2):
            first, second = compiled(x)
            assert np.array_equal(first.numpy(), x.numpy().transpose(1, 0, 2)[1:, 1:, 1:] * 2)
            assert np.array_equal(second.numpy(), x.numpy().transpose(2, 0, 1) + 1)
    finally:
        tj.set_num_threads(before)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 63, 257])
@pytest.mark.parametrize("columns", [1, 3, 17, 1030])
def test_columns_are_folded_several_rows_at_a_time(rows, columns):
    x = tj.from_numpy(
        np.random.default_rng(0).integers(-9, 9, (rows, columns)).clip(-2, 2).astype(np.float32)
    )
    x[rows // 2, columns // 2] = float("nan")
    compiled = tj.compile(lambda x: (x.sum(0), x.amax(0), (x[:9] * 2).prod(0), x.int().sum(0)))
    array = x.numpy()
    for _ in range(2):
        total, most, product, whole = (t.numpy() for t in compiled(x))
        assert np.array_equal(total, array.sum(0), equal_nan=True)
        assert np.array_equal(most, array.max(0), equal_nan=True)
        np.testing.assert_allclose(product, (array[:9] * 2).astype(np.float64).prod(0), 1e-4)
        assert np.array_equal(whole, x.int().numpy().sum(0))
