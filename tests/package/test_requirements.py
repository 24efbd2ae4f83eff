"""Conditions as functions: the kind of error each raises, and what they do in compiled code."""

from __future__ import annotations

import warnings

import pytest

import tracejit as tj

KINDS = {
    "_check": RuntimeError,
    "_check_index": IndexError,
    "_check_value": ValueError,
    "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}


@pytest.mark.parametrize("name", KINDS)
def test_each_raises_its_own_kind_of_error(name):
    check = getattr(tj, name)
    assert check(True) is None
    with pytest.raises(KINDS[name], match=r"^why$"):
        check(False, lambda: "why")
    with pytest.raises(KINDS[name], match="Expected cond to be True, but got False"):
        check(False)


def test_conditions_are_bools_and_messages_functions():
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        tj._check_with(ValueError, 1)
    with pytest.raises(TypeError, match="use _check_tensor_all"):
        tj._check(tj.tensor(True))
    with pytest.raises(TypeError, match="message must be a callable"):
        tj._check(False, "a text")
    with pytest.raises(AssertionError, match="not Warning"):
        tj._check_with(UserWarning, False)


def test_all_elements_of_a_tensor():
    assert tj._check_tensor_all(tj.tensor([True, True])) is None
    assert tj._check_tensor_all(tj.zeros(0, dtype=tj.bool)) is None
    with pytest.raises(RuntimeError, match=r"^3$"):
        tj._check_tensor_all(tj.tensor([True, False]), lambda: 3)
    with pytest.raises(TypeError, match="must have dtype bool"):
        tj._check_tensor_all(tj.ones(2))
    with pytest.raises(TypeError, match="cond must be a tensor"):
        tj._check_tensor_all_with(ValueError, True)


def test_extents():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tj._check_is_size(3, max=3)
    assert [w.category for w in said] == [FutureWarning]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="late"):
        tj._check_is_size(4, lambda: "late", max=3)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError):
        tj._check_is_size(-1)


def test_compiled_code_raises_where_eager_code_does():
    @tj.compile
    def f(x, n):
        tj._check_value(n > 1, lambda: "n is too small")
        tj._check(x.sum().item() > 0, lambda: "a negative sum")
        tj._check_tensor_all_with(IndexError, x < 9, lambda: "out of range")
        return x * n

    x = tj.ones(3)
    for n in (2, 2, 3, 4, 5):
        assert tj.equal(f(x + n, n), (x + n) * n) if n < 5 else tj.equal(f(x, n), x * n)
    assert f.stats.compiled_calls >= 2
    for _ in range(2):
        with pytest.raises(ValueError, match="too small"):
            f(x, 1)
        with pytest.raises(RuntimeError, match="negative sum"):
            f(-x, 2)
        with pytest.raises(IndexError, match="out of range"):
            f(9 * x, 2)
    assert tj.equal(f(x, 3), x * 3)
