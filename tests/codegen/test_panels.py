"""Rows whose elements are far apart in memory are turned round a few at a time: every element, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lower import kernel, three_ways

import tracejit as tj

F = tj.nn.functional
SIZES = st.sampled_from([1, 2, 11, 15, 16, 17, 33, 50])

PROGRAMS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "over_two": lambda x: x - x.mean((-2, -1), keepdim=True) if x.ndim > 2 else x.softmax(-1),
    "back_there": lambda x: (x.transpose(0, -1) * 2 + x.softmax(-1).transpose(0, -1), x.sum(-1)),
    "shifted": lambda x: x[..., x.shape[-1] // 2 :] - x.amax(-1, keepdim=True),
    "picked": lambda x: (
        x.log_softmax(-1).gather(-1, x.argmin(-1, keepdim=True)).squeeze(-1) * x.sum(-1)
    ),
    "centred": lambda x: (x - x.mean(-1, keepdim=True)).clone(),
}


def lying(sizes, order, short, seed=0):
    """A tensor of this shape, its dimensions in memory in this order."""
    rng = np.random.default_rng(seed)
    x = tj.from_numpy(rng.standard_normal([sizes[d] for d in order]) * 3)
    return x.to(getattr(tj, short)).permute(*sorted(order, key=order.__getitem__))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(SIZES, min_size=2, max_size=3),
    order=st.randoms(use_true_random=False),
    short=st.sampled_from(["float32", "float32", "float64", "bfloat16", "float16"]),
    threads=st.sampled_from([1, 2]),
)
def test_rows_that_lie_across(name, sizes, order, short, threads):
    dims = list(range(len(sizes)))
    order.shuffle(dims)
    function = PROGRAMS[name]
    compiled = tj.compile(function)
    x = lying(sizes, dims, short)
    bound = {"float64": 1e-12, "float32": 3e-5}.get(short, 0.1)
    before = tj.get_num_threads()
    tj.set_num_threads(threads)
    try:
        for _ in range(3):
            found, expected = compiled(x), function(x)
        pairs = (
            [(found, expected)]
            if isinstance(found, tj.Tensor)
            else zip(found, expected, strict=True)
        )
        for a, b in pairs:
            assert a.spec == b.spec
            assert [s for s, n in zip(a.stride(), a.shape, strict=True) if n > 1] == [
                s for s, n in zip(b.stride(), b.shape, strict=True) if n > 1
            ]
            np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), bound, bound)
    finally:
        tj.set_num_threads(before)


@settings(max_examples=20, deadline=None)
@given(rows=SIZES, columns=SIZES, others=st.booleans())
def test_gradients_of_rows_that_lie_across(rows, columns, others):
    """The gradient of an operand lies as that does: it goes back through a panel."""

    def f(x, w):
        return (F.layer_norm(x.t(), (x.shape[0],)).softmax(-1) * w).sum()

    compiled = tj.compile(f)
    x = lying((rows, columns), (0, 1), "float64")
    w = lying((columns, rows), (1, 0) if others else (0, 1), "float64", 1)
    found = []
    for function in (f, compiled, compiled, compiled):
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        function(a, b).backward()
        found.append((a.grad.numpy(), b.grad.numpy()))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-9)


def test_one_number_that_is_none_stays_in_its_row():
    def f(x):
        return F.softmax(x.t(), -1)

    compiled = tj.compile(f)
    x = lying((40, 37), (0, 1), "float32")
    x[3, 5], x[7, 6], x[:, 8] = float("nan"), float("inf"), float("-inf")
    for _ in range(3):
        found = compiled(x).numpy()
    assert np.array_equal(np.isnan(found), np.isnan(f(x).numpy()))
    assert np.flatnonzero(np.isnan(found).any(1)).tolist() == [5, 6, 8]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("side", [8, 16])
@pytest.mark.parametrize("element", ["f32", "f64", "u8", "u16", "i64", "i32"])
def test_squares_are_turned_round(side, element):
    text = kernel(
        f'x: "{element}*", out: "{element}*", wide: "i64", high: "i64"',
        "for i in range(lo, hi):\n"
        f"    turned = turn_{side}(out, i * {side} + 1, high, x, i * {side} * wide + 2, wide)\n"
        "return 0",
    )
    dtype = {"u8": "u1", "u16": "u2", "i64": "i8", "i32": "i4", "f32": "f4", "f64": "f8"}[element]
    wide, high = side + 5, 2 * side + 3
    x = np.random.default_rng(0).integers(0, 200, (2 * side, wide)).astype(dtype)
    expected = np.zeros((wide, high), dtype)
    expected[:side, 1 : 1 + 2 * side] = x[:, 2 : 2 + side].T
    for run in three_ways(text):
        out = np.zeros((wide, high), dtype)
        assert run(x.ravel(), out.ravel(), wide, high, 0, 2, 0) == 0
        assert np.array_equal(out, expected)
