"""Every op of the table, compiled against eager: all samples, dtypes, layouts, special values, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import CLOSE, assert_close, assert_same, backward, bundle, is_exact, operands
from tracejit import dtypes
from tracejit.ops.table import Elementwise, Op, all_ops
from tracejit.testing import samples
from tracejit.testing.samples import Case

OPS = [op for op in all_ops() if not op.dynamic and op.kind != "randomsource"]
ELEMENTWISE = [op for op in OPS if isinstance(op, Elementwise)]
INVALID = [case for op in all_ops() for case in samples.invalid(op)]
INTEGERS = (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
#: Values at which rounding decides: integer operands may raise (division by zero), so those run one by one.
MAY_RAISE = {"floor_divide", "remainder", "fmod", "pow"}


def tolerance(case: Case, tensor: Any) -> float:
    return 0.0 if is_exact(case) else CLOSE.get(tensor.dtype.short, 0.0)


def check(cases: list[Case], lay: Any = np.copy, grads: bool = False) -> Any:
    """Run a bundle eagerly and twice compiled; every result and gradient agrees each time."""
    if not cases:
        return None
    function = bundle(cases)
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        inputs, others = operands(cases, lay, grads), operands(cases, lay, grads)
        with np.errstate(all="ignore"):
            eager, found = function(*inputs), compiled(*others)
            for case, a, b in zip(cases, eager, found, strict=True):
                assert_same(a, b, str(case), tolerance(case, a))
            if grads:
                backward(eager)
                backward(found)
        _same_gradients(cases, inputs, others)
    assert compiled.stats.compiled_calls == 1, compiled.reasons
    return compiled


def _same_gradients(cases: list[Case], inputs: list[Any], others: list[Any]) -> None:
    labels = [str(c) for c in cases for x in c.operands if isinstance(x, np.ndarray)]
    for label, a, b in zip(labels, inputs, others, strict=True):
        assert (a.grad is None) == (b.grad is None), label
        if a.grad is not None:
            limit = 100 * CLOSE[a.dtype.short] if a.dtype.itemsize > 2 else 4 * CLOSE[a.dtype.short]
            assert_close(a.grad.numpy(), b.grad.numpy(), f"gradient of {label}", limit)


def reversed_strides(x: Any) -> Any:
    """Every dimension walked backwards, the last one in steps of two."""
    if not x.ndim:
        return x.copy()
    wide = np.repeat(x, 2, axis=-1)[..., ::2]
    back = tuple(slice(None, None, -1) for _ in range(x.ndim))
    return wide[back].copy(order="F")[back]


def readonly(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.sampled(72)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_values_and_gradients(op: Op) -> None:
    check(list(samples.cases(op, dtypes.float32)), grads=True)
    check(list(samples.cases(op, dtypes.float64))[:3], grads=True)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("lay", [reversed_strides, readonly], ids=["reversed", "readonly"])
def test_layouts(op: Op, lay: Any) -> None:
    if lay is readonly and "value" in op.operands:
        pytest.skip("overwrites a copy of its operand")
    check(list(samples.cases(op, dtypes.float32))[:4], lay)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_half_precision(op: Op, dtype: Any) -> None:
    check(list(samples.cases(op, dtype))[:2])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values(op: Elementwise) -> None:
    check([samples.special(op, dtypes.float32), samples.special(op, dtypes.float64)])


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "op", [o for o in ELEMENTWISE if o.name not in MAY_RAISE], ids=lambda op: op.name
)
def test_integers(op: Elementwise) -> None:
    """Values at both ends of every integer dtype, where the op takes it."""
    cases = [c for d in INTEGERS if (c := _integer_case(op, d)) is not None]
    check(cases)


def _integer_case(op: Elementwise, dtype: Any) -> Case | None:
    info = np.iinfo(dtype.np) if dtype is not dtypes.bool_ else None
    edges = [0, 1, 2, 5, 7] if info is None else [info.min, info.max, 0, 1, 3]
    points = np.array(edges).astype(dtype.np)
    if "shift" in op.name:
        points = np.arange(5).astype(dtype.np)
    grids = np.meshgrid(*[points] * len(op.operands), indexing="ij")
    found = [np.ascontiguousarray(g) for g in grids]
    if "condition" in op.operands:
        found[0] = found[0] > 0
    case = Case(op, tuple(found), samples.special(op).attributes, str(dtype))
    try:
        with np.errstate(all="ignore"):
            op(*operands([case]), **case.attributes)
    except (RuntimeError, ValueError):
        return None
    return case


@pytest.mark.parametrize("case", INVALID, ids=str)
def test_invalid_input_raises_the_same_error(case: Case) -> None:
    function = bundle([case])
    compiled = tj.compile(function)
    messages = []
    for call in (function, compiled, compiled):
        with pytest.raises(case.error or Exception) as caught:
            call(*operands([case]))
        messages.append((type(caught.value), str(caught.value).split("\n")[0]))
    assert messages[0] == messages[1] == messages[2]
