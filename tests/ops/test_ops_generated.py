"""Tests generated from the op table: types, gradients of first and second order, special values, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import dtypes
from tracejit.dtypes import from_numpy
from tracejit.ops.table import Elementwise, Movement, Op, all_ops
from tracejit.testing import samples
from tracejit.testing.samples import Case
from tracejit.types import TensorType

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
CASES = list(samples.every_case())
SMOOTH = [c for c in CASES if c.differentiable]
INVALID = [case for op in all_ops() for case in samples.invalid(op)]
ELEMENTWISE = [op for op in all_ops() if isinstance(op, Elementwise)]
names = [op.name for op in all_ops()]


def tensors(case: Case) -> list[Any]:
    return [tj.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in case.operands]


def types(case: Case) -> list[Any]:
    return [
        TensorType(x.shape, from_numpy(x.dtype)) if isinstance(x, np.ndarray) else x
        for x in case.operands
    ]


def parts(x: Any) -> Any:
    """Complex numbers as pairs of real ones; other tensors as they are."""
    return tj.view_as_real(x) if x.dtype.is_complex else x


def run(case: Case, operands: list[Any] | None = None) -> Any:
    return case.op(*(tensors(case) if operands is None else operands), **case.attributes)


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, NaN equal to NaN."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    nan = (a != a) & (b != b)
    signs = np.signbit(a) == np.signbit(b) if a.dtype.kind == "f" else True
    return bool(np.all(nan | ((a == b) & signs)))


@pytest.mark.parametrize("op", all_ops(), ids=names)
def test_op_has_cases_and_words(op: Op) -> None:
    assert any(True for _ in samples.cases(op))
    assert len(op.doc.split()) >= 2


@pytest.mark.parametrize("op", all_ops(), ids=names)
def test_result_has_the_inferred_type(op: Op) -> None:
    for dtype in FLOATS:
        for case in samples.cases(op, dtype):
            result = run(case)
            inferred = op.infer(types(case), case.attributes)
            if op.dynamic:  # None for an extent that depends on values
                shape = zip(result.spec.shape, inferred.shape, strict=True)
                inferred = TensorType(
                    tuple(n if known is None else known for n, known in shape), inferred.dtype
                )
            assert result.spec == inferred, case
            if not (isinstance(op, Movement) and op.is_view):
                assert result.array.flags.c_contiguous, case


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_dtype_has_a_type_or_an_error(op: Elementwise) -> None:
    for dtype in dtypes.ALL:
        kind = [dtypes.bool_ if n == "condition" else dtype for n in op.operands]
        operands = [TensorType((2,), d) for d in kind]
        attributes = samples.special(op).attributes
        arrays = [np.ones(2, d.np) for d in kind]
        try:
            inferred = op.infer(operands, attributes)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                op(*map(tj.from_numpy, arrays), **attributes)
        else:
            assert op(*map(tj.from_numpy, arrays), **attributes).spec == inferred


@pytest.mark.parametrize("case", INVALID, ids=str)
def test_invalid_input_raises(case: Case) -> None:
    assert case.error is not None
    with pytest.raises(case.error, match=case.match):
        run(case)


@pytest.mark.parametrize("op", all_ops(), ids=names)
def test_layout_of_operands_does_not_matter(op: Op) -> None:
    for case in samples.cases(op, dtypes.float32):
        plain = parts(run(case)).array
        strided = [_strided(x) if isinstance(x, np.ndarray) else x for x in case.operands]
        readonly = [_readonly(x) if isinstance(x, np.ndarray) else x for x in case.operands]
        for operands in (strided, readonly):
            wrapped = [tj.Tensor._wrap(x) if isinstance(x, np.ndarray) else x for x in operands]
            np.testing.assert_allclose(
                np.asarray(parts(run(case, wrapped)).array, np.float64),
                np.asarray(plain, np.float64),
                rtol=1e-5,
                atol=1e-6,
                err_msg=str(case),
            )


def _strided(x: Any) -> Any:
    if not x.ndim:
        return x
    wide = np.repeat(x, 2, axis=-1)
    return np.asfortranarray(wide)[..., ::2]


def _readonly(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("op", all_ops(), ids=names)
def test_operands_are_left_alone(op: Op) -> None:
    for case in samples.cases(op, dtypes.float32):
        operands = tensors(case)
        result = run(case, operands)
        view = isinstance(op, Movement) and op.is_view
        arrays = [x.array for x in operands if isinstance(x, tj.Tensor)]
        assert view or not any(np.shares_memory(result.array, a) for a in arrays), case
        for before, after in zip(case.operands, operands, strict=True):
            if isinstance(before, np.ndarray):
                assert same(before, after.array), case


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values_agree_across_layouts(op: Elementwise) -> None:
    """Elements do not depend on their neighbours: one at a time gives what all at once gives."""
    case = samples.special(op)
    whole = run(case).array.reshape(-1)
    picks = range(0, whole.size, max(whole.size // 40, 1))
    for i in picks:
        one = [tj.from_numpy(x.reshape(-1)[i : i + 1].copy()) for x in case.operands]
        alone = op(*one, **case.attributes).array
        np.testing.assert_allclose(
            np.float64(alone[0]), np.float64(whole[i]), rtol=3e-6, err_msg=f"{op.name} {one}"
        )


# --- gradients ----------------------------------------------------------------------------------


def scalar_function(case: Case) -> Any:
    """The case as a function of its differentiable operands, projected to a scalar."""

    def function(*inputs: Any) -> Any:
        operands = tensors(case)
        for position, x in zip(case.differentiable, inputs, strict=True):
            operands[position] = x
        out = parts(run(case, operands))
        if not out.dtype.is_floating_point:
            return None
        weights = np.cos(np.arange(out.spec.numel) + 1.0).reshape(out.spec.shape)
        return (out * tj.from_numpy(weights)).sum()

    return function


def numeric_gradients(function: Any, arrays: list[Any]) -> list[Any]:
    step = 1e-6
    gradients = []
    for position, x in enumerate(arrays):
        gradient = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                ends = []
                for sign in (unit, -unit):
                    moved = [a.copy() for a in arrays]
                    moved[position][i] += sign * step
                    ends.append(float(function(*map(tj.from_numpy, moved)).array))
                gradient[i] += unit * (ends[0] - ends[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def analytic_gradients(function: Any, arrays: list[Any], **options: Any) -> tuple[Any, list[Any]]:
    inputs = [tj.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out = function(*inputs)
    return inputs, list(tj.autograd.grad(out, inputs, allow_unused=True, **options))


def small(case: Case) -> bool:
    return sum(x.size for x in case.operands if isinstance(x, np.ndarray)) <= 40


@pytest.mark.parametrize("case", [c for c in SMOOTH if small(c)], ids=str)
def test_gradient_is_the_slope(case: Case) -> None:
    function = scalar_function(case)
    arrays = [case.operands[p] for p in case.differentiable]
    out = function(*[tj.from_numpy(a.copy()).requires_grad_() for a in arrays])
    if out is None or not out.requires_grad:
        assert case.op.name in ("cast",) or not out.requires_grad
        return
    _, found = analytic_gradients(function, arrays)
    expected = numeric_gradients(function, arrays)
    for position, a, b in zip(case.differentiable, found, expected, strict=True):
        assert a is not None
        assert a.spec == TensorType(b.shape, from_numpy(b.dtype))
        np.testing.assert_allclose(a.array, b, rtol=2e-5, atol=2e-6, err_msg=f"{case} {position}")


@pytest.mark.parametrize("op", all_ops(), ids=names)
def test_second_gradient_is_the_slope_of_the_first(op: Op) -> None:
    if op.name in _FLAT or all(rule.refuses for rule in op.grads.values()):
        assert op.name in _FLAT or not any(c.differentiable for c in samples.cases(op))
        return
    case = next(c for c in samples.cases(op) if c.differentiable and 0 < _size(c) <= 40)
    arrays = [case.operands[p] for p in case.differentiable]
    function = scalar_function(case)

    def slope(*inputs: Any) -> Any:
        leaves = [x if x.requires_grad else x.requires_grad_() for x in inputs]
        grads = tj.autograd.grad(function(*leaves), leaves, create_graph=True)
        terms = [
            (g * tj.from_numpy(np.sin(np.arange(g.spec.numel) + 2.0).reshape(g.spec.shape))).sum()
            for g in map(parts, grads)
        ]
        return sum(terms[1:], terms[0])

    expected = numeric_gradients(lambda *xs: slope(*xs).detach(), arrays)
    inputs = [tj.from_numpy(a.copy()).requires_grad_() for a in arrays]
    total = slope(*inputs)
    if not total.requires_grad:
        assert all(np.allclose(e, 0, atol=1e-5) for e in expected)
        return
    found = tj.autograd.grad(total, inputs, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        actual = np.zeros_like(b) if a is None else a.array
        np.testing.assert_allclose(actual, b, rtol=1e-4, atol=1e-4, err_msg=op.name)


_FLAT = ("cast",)  # the sample casts to integers, which carry no gradient


def _size(case: Case) -> int:
    return sum(x.size for x in case.operands if isinstance(x, np.ndarray))
