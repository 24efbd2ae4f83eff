"""The stride rules of view ops against what NumPy's own views do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import tracejit as tj
from tracejit.ops import strides as rules
from tracejit.ops.table import Movement, all_ops
from tracejit.types import TensorType

VIEWS = [op for op in all_ops() if isinstance(op, Movement) and op.is_view]
CASES = [(op, sample) for op in VIEWS for sample in op.samples if sample.error is None]


def _walked(array):
    """Strides in elements; along extents that are not walked they do not matter."""
    return tuple(
        0 if e <= 1 else s // array.itemsize
        for e, s in zip(array.shape, array.strides, strict=True)
    )


def _compare(op, attributes, array):
    """The rule for ``array`` agrees with the op's body on it."""
    result = op.body(array, **attributes)
    found = op.strides(array.shape, _elements(array), result.shape, **attributes)
    shares = np.may_share_memory(result, array) if result.size else True
    assert (found is not None) == shares
    if found is None or not result.size:
        return
    offset, strides = found
    kind = op.infer([TensorType(array.shape, tj.int64)], attributes)
    assert kind.shape == result.shape
    assert tuple(0 if e == 1 else s for e, s in zip(result.shape, strides, strict=True)) == _walked(
        result
    )
    start = result.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    assert start == offset * array.itemsize


def _elements(array):
    return tuple(s // array.itemsize for s in array.strides)


@pytest.mark.parametrize(("op", "sample"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_rules_of_samples(op, sample):
    shape = sample.operands[0]
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    _compare(op, sample.attributes, array)


extents = st.integers(1, 4)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_reshape_of_any_layout(data):
    shape = tuple(data.draw(st.lists(extents, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    gaps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=4, max_size=4))
    base = np.zeros([shape[d] * gap for d, gap in zip(order, gaps, strict=False)], np.int64)
    array = base[(..., *(np.s_[::gap] for _, gap in zip(order, gaps, strict=False)))].transpose(
        np.argsort(order)
    )
    assert array.shape == shape
    count = array.size
    target = []
    while count > 1:
        divisor = data.draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        target.append(divisor)
        count //= divisor
        if len(target) > 4:
            target.append(count)
            break
    if count == 1 or int(np.prod(target)) == array.size:
        _compare(tj.ops.table.lookup("reshape"), {"shape": tuple(target)}, array)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_slices_and_diagonals_of_any_layout(data):
    array = np.arange(5 * 6 * 4).reshape(5, 6, 4).transpose(data.draw(st.permutations(range(3))))
    starts, counts, steps = [], [], []
    for extent in array.shape:
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        start = data.draw(st.integers(0, extent - 1))
        room = (extent - 1 - start) // step if step > 0 else start // -step
        starts.append(start)
        counts.append(data.draw(st.integers(0, room + 1)))
        steps.append(step)
    attributes = {"starts": tuple(starts), "counts": tuple(counts), "steps": tuple(steps)}
    _compare(tj.ops.table.lookup("slice"), attributes, array)
    offset = data.draw(st.integers(-7, 7))
    _compare(tj.ops.table.lookup("diagonal"), {"offset": offset, "dim1": 0, "dim2": 2}, array)


def test_a_reshape_of_a_broadcast_row():
    row = as_strided(np.zeros(3), (2, 3), (0, 8))
    assert rules.reshaped((2, 3), (0, 1), (6,)) is None
    assert rules.reshaped((2, 3), (0, 1), (2, 1, 3)) == (0, (0, 0, 1))
    assert row.reshape(2, 1, 3).strides[0] == 0
