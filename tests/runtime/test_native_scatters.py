"""Writing and adding at computed positions runs in kernels: values, gradients, order, errors, dtypes, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import (
    assert_same_error,
    host_ops,
    pool_of,
    positions_among_rows,
    with_gradients,
)
from ir_graphs import assert_same_bits
from tracejit.ir import interpreter, parse
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program


def written(x, i, y):
    z = x * 2
    z[i] = y
    return z * x


def written_into_an_argument_of_others(x, i, y):
    z = x * 2
    w = z.index_add(0, i, y)
    return w * z


def accumulated(x, i, y):
    z = tj.zeros(*x.shape)
    z = z.index_add(0, i, y).index_add(0, i, y * y, alpha=0.5)
    return z.tanh() + x


def from_itself(x, i, y):
    return x.index_add(0, i, x[: len(i)] * 2).scatter_add(0, i[:, None], x[: len(i), :1])


def read_between(x, i, y):
    z = x.exp() + 0.5
    total = z.sum(1, keepdim=True)
    z[i] = y * total[: len(i)]
    return z / total


def joined(x, i, y):
    return tj.cat([x.index_add(0, i, y), x * 3, tj.zeros(*x.shape).index_add(0, i, y)], 1)


def in_a_loop(x, i, y):
    for t in range(12):
        x = x.index_add(0, i, y * x[: len(i)]).tanh() * (0.5 + y.sum() * 0.01) + float(t > -1)
    return x


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index_add": lambda x, i, y: x.index_add(0, i, y),
    "index_add_columns": lambda x, i, y: x.T.index_add(1, i, y.T * 2),
    "index_add_middle": lambda x, i, y: (
        x[None].expand(3, *x.shape).index_add(1, i, y[None].expand(3, *y.shape))
    ),
    "negative_positions": lambda x, i, y: x.index_put((-1 - i,), y),
    "index_put_adding": lambda x, i, y: x.index_put((i,), y.exp(), accumulate=True).sin(),
    "elements": lambda x, i, y: x.index_put((i, i % x.shape[1]), y[:, 0], accumulate=True),
    "one_value": lambda x, i, y: x.index_put((i,), x.sum() * 2),
    "scatter_rows": lambda x, i, y: x.scatter(0, i[:, None].expand(len(i), 2), y[:, :2]),
    "scatter_columns": lambda x, i, y: x.scatter(1, (i % x.shape[1])[:, None], y[:, :1]),
    "scatter_add_rows": lambda x, i, y: x.scatter_add(0, i[:, None].expand(*y.shape), y),
    "scatter_add_columns": lambda x, i, y: x.scatter_add(1, i[None] % x.shape[1], y.T[:1]),
    "small_positions": lambda x, i, y: x.index_add(0, i.to(tj.int32), y),
    "gradient_of_rows": lambda x, i, y: x[i] * y,
    "gradient_of_columns": lambda x, i, y: x[:, i % x.shape[1]].square(),
    "written": written,
    "written_into_an_argument_of_others": written_into_an_argument_of_others,
    "accumulated": accumulated,
    "from_itself": from_itself,
    "read_between": read_between,
    "joined": joined,
    "in_a_loop": in_a_loop,
}


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("error::tracejit.errors.CompileWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_scatters_are_native_and_agree_with_eager(name):
    function = PROGRAMS[name]
    compiled = tj.compile(function, strict=True)
    for sizes in ((7, 11, 5), (8, 9, 6), (40, 60, 33), (3, 4, 3), (5, 6, 2)):
        for _ in range(2):
            expected = with_gradients(function, positions_among_rows(*sizes))
            found = with_gradients(compiled, positions_among_rows(*sizes))
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 3e-5, 3e-5)
    assert host_ops(compiled) <= {"remainder"}


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "bool"]
)
def test_dtypes_and_the_order_of_writing(dtype):
    """The last of several writes to one place stays; sums are rounded as eager execution rounds them."""
    rng = np.random.default_rng(1)
    kind = getattr(tj, dtype)
    x, y = (tj.from_numpy(rng.standard_normal((n, 3)) * 9).to(kind) for n in (5, 64))
    i = tj.from_numpy(rng.integers(0, 5, 64))

    def f(x, i, y):
        z = x.clone()
        z[i] = y
        if dtype == "bool":
            return z, x.scatter(0, i[:, None].expand(64, 3), y)
        return z, x.scatter(0, i[:, None].expand(64, 3), y), x.index_add(0, i, y)

    compiled = tj.compile(f, strict=True)
    for _ in range(2):
        for a, b in zip(compiled(x, i, y), f(x, i, y), strict=True):
            assert a.spec == b.spec
            assert_same_bits(a.numpy(), b.numpy())


@pytest.mark.parametrize("bad", [4, -5, 1 << 40])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_position_out_of_range_is_the_eager_error(bad, dim):
    def put(t, i):
        return (t * 2).index_put((*[slice(None)] * dim, i), t.sum())

    def scatter(t, i):
        index = i[:, None] if dim == 0 else i[None]
        return (t * 2).scatter_add(dim, index, (index * 2).float())

    for function in (scatter,) if dim else (put, scatter):
        assert_same_error(function, tj.ones(4, 4), tj.tensor([0, 3]), tj.tensor([0, bad]))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (4, 3)])
def test_nothing_to_write(shape):
    compiled = tj.compile(lambda x, i, y: x.index_add(0, i, y) + 1, strict=True)
    x, i, y = tj.ones(*shape), tj.zeros(0, dtype=tj.int64), tj.ones(0, shape[1])
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x, i, y).numpy(), np.full(shape, 2, np.float32))


def test_the_result_does_not_depend_on_the_number_of_threads():
    graph = parse(
        """graph f(x: f32[3000, 64], i: i64[20000], y: f32[20000, 64], j: i64[64, 20000], z: f32[64, 20000]) {
            %0: f32[3000, 64] = put(x, i, y, dim=0, accumulate=True)
            %1: f32[64, 3000] = permute(x, dims=(1, 0))
            %2: f32[64, 3000] = scatter_add(%1, j, z, dim=1)
            return %0, %2
        }"""
    )
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 3000, v.spec.shape)
        if v.spec.dtype is tj.int64
        else rng.standard_normal(v.spec.shape).astype(np.float32)
        for v in graph.inputs
    ]
    expected = interpreter.run(graph, arrays)
    for count in (1, 2, 3):
        with pool_of(count):
            plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
            blocks = Program(plan).run(*map(tj.from_numpy, arrays))
            for block, value, want in zip(blocks, graph.outputs, expected, strict=True):
                found = np.ndarray(value.spec.shape, value.spec.dtype.np, block.array)
                assert_same_bits(found, want)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_single_elements_are_added_in_the_order_of_positions(dtype):
    """Whatever the number of threads, and wherever positions count from."""
    rng = np.random.default_rng(3)
    kind = getattr(tj, dtype)
    x = tj.from_numpy(rng.standard_normal(70_000) * 1e4).to(kind)
    functions = {
        "scatter_add": lambda x, i, n: tj.zeros(n, dtype=kind).scatter_add(0, i % n, x),
        "index_add": lambda x, i, n: tj.ones(n, dtype=kind).index_add(0, i % n, x),
        "index_put": lambda x, i, n: tj.zeros(n, dtype=kind).index_put((i,), x, accumulate=True),
        "bincount": lambda x, i, n: tj.bincount(i % n, x, n + 1),
    }
    for threads in (1, 2, 3):
        with pool_of(threads):
            for name, f in functions.items():
                compiled = tj.compile(f, strict=True)
                for places in (1, 10, 1000):
                    i = tj.from_numpy(rng.integers(-places, places, len(x)))
                    expected = f(x, i, places)
                    for _ in range(2):
                        found = compiled(x, i, places)
                        assert found.spec == expected.spec, name
                        assert_same_bits(found.numpy(), expected.numpy())


@pytest.mark.parametrize("bad", [5, -6, -1, 1 << 40, -(1 << 63), (1 << 63) - 1])
def test_a_position_of_a_single_element_out_of_range_is_the_eager_error(bad):
    def put(t, i):
        return (t * 2).index_put((i,), (i * 2).float(), accumulate=True)

    def scatter(t, i):
        return (t * 2).scatter_add(0, i, (i * 2).float())

    for function in (scatter,) if bad == -1 else (put, scatter):
        assert_same_error(function, tj.ones(5), tj.tensor([0, 3, 4]), tj.tensor([0, bad, 1]))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_are_as_many_as_the_largest_element_says(dtype, weighted):
    def count(x, w):
        return tj.bincount(x[::2], w if weighted else None)

    compiled = tj.compile(count, strict=True)
    w = tj.tensor([0.5, 2.0, 4.0])
    for elements in ([3, 9, 0, 9, 3, 9], [127, 0, 1, 0, 2, 0]):
        x = tj.tensor(elements, dtype=getattr(tj, dtype))
        want = np.bincount(elements[::2], w.numpy() if weighted else None)
        for found in (count(x, w), compiled(x, w), compiled(x, w)):
            assert found.dtype is (tj.float32 if weighted else tj.int64)
            np.testing.assert_array_equal(found.numpy(), want)
    if dtype != "uint8":
        for f in (count, compiled):
            with pytest.raises(RuntimeError, match="only supports 1-d non-negative integral inp"):
                f(tj.tensor([1, 0, -1, 0, 2, 0], dtype=x.dtype), w)
    else:
        assert len(count(tj.full((6,), 200, dtype=tj.uint8), w)) == 201


@pytest.mark.parametrize("weights", [None, tj.zeros(0)])
def test_bins_of_nothing(weights):
    empty = tj.zeros(0, dtype=tj.int64)
    for length in (0, 3):
        found = tj.bincount(empty, weights, length)
        np.testing.assert_array_equal(found.numpy(), np.zeros(length))
    with pytest.raises(RuntimeError, match="minlength should be >= 0"):
        tj.bincount(empty, weights, -1)


def test_too_many_bins_are_not_called_negative():
    x = tj.tensor([1 << 62])
    for weights in (None, tj.zeros(1)):
        with pytest.raises((ValueError, MemoryError)) as found:
            tj.bincount(x, weights)
        assert "non-negative" not in str(found.value)


def test_what_is_changed_is_copied_only_if_others_read_it():
    text = """graph f(x: f32[64, 8], i: i64[4], y: f32[4, 8]) {
            %0: f32[64, 8] = exp(x)
            %1: f32[64, 8] = put(%0, i, y, dim=0, accumulate=True)
            %2: f32[64, 8] = mul(%1, LATER)
            return %2
        }"""
    names = []
    for later in ("2.0", "%0"):
        graph = parse(text.replace("LATER", later))
        plan = make_plan(graph, [v.spec.contiguous_strides() for v in graph.inputs])
        names.append([kernel.name for kernel in plan.kernels])
        arrays = [np.ones(v.spec.shape, v.spec.dtype.np) for v in graph.inputs]
        (want,) = interpreter.run(graph, arrays)
        for found in (
            interpreter.run(plan.graph, arrays)[0],
            Program(plan).run(*map(tj.from_numpy, arrays))[0].array.view(np.float32),
        ):
            np.testing.assert_allclose(np.ravel(found)[:512], want.ravel(), 1e-6)
    assert names == [["k_exp", "k_put", "k_mul"], ["k_exp_clone", "k_put", "k_mul"]]


def test_kernels_serve_every_size():
    compiled = tj.compile(lambda x, i, y: x.index_add(0, i, y), strict=True)
    with tj.no_grad():
        for sizes in ((3, 5, 7), (30, 50, 70), (6, 6, 6)):
            for _ in range(2):
                compiled(*positions_among_rows(*sizes))
    assert len(compiled.kernels) == 2
