"""Half precision and Python numbers: what is rounded, and how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

F = tj.nn.functional
HALVES = [tj.bfloat16, tj.float16]

#: What is computed of halves, and the same of float32, where a number is what it is.
CASES: dict[str, Callable[[Any], Any]] = {
    "times": lambda x: x * 1.3333,
    "number first": lambda x: 0.1 * x,
    "large whole number": lambda x: x * 1001,
    "in place": lambda x: x.clone().mul_(0.9),
    "over": lambda x: x / 3.3,
    "number over": lambda x: 1.3 / (x.abs() + 1),
    "0-d of float32": lambda x: x * tj.tensor(1.3333),
    "over, rounded down": lambda x: x // 0.3,
    "over, rounded to zero": lambda x: tj.div(x, 0.7, rounding_mode="trunc"),
    "lerp": lambda x: tj.lerp(x, x.flip(0), 0.3),
    "lerp from the end": lambda x: tj.lerp(x, x.flip(0), 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.03),
    "elu": lambda x: F.elu(x, 1.3),
    "celu": lambda x: F.celu(x, 1.3),
    "selu": F.selu,
    "softplus": lambda x: F.softplus(x, 1.3),
}


def numbers(dtype: Any) -> Any:
    return tj.linspace(-3, 3, 1001).to(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_results_are_rounded_once(name: str, dtype: Any) -> None:
    x = numbers(dtype)
    function = CASES[name]
    wide = numbers(dtype).float()
    if name == "number over":  # the denominator is a half
        wide, function = (x.abs() + 1).float(), lambda x: 1.3 / x
        expected, function = function(wide).to(dtype), CASES[name]
    else:
        expected = function(wide).to(dtype)
    compiled = tj.compile(function, strict=True)
    for found in (function(x), *(compiled(x) for _ in range(3))):
        assert found.dtype is dtype
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("single", [False, True], ids=["many", "0-d"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_that_vary_too(dtype: Any, single: bool) -> None:
    function = tj.compile(lambda x, c: (x * c, x / c, tj.add(x, x, alpha=c)), strict=True)
    x = numbers(dtype)[700] if single else numbers(dtype)
    for c in (0.1, 0.3, 1.3333, 0.77, 1001.0):
        expected = x * c, x / c, tj.add(x, x, alpha=c)
        for a, b in zip(function(x, c), expected, strict=True):
            assert a.tolist() == b.tolist()
    assert function.stats.compiled_calls >= 2


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_quotients_of_halves_are_rounded_before_they_are_cut(dtype: Any) -> None:
    x = numbers(dtype) * 30
    y = numbers(dtype).flip(0) * 0.1 + 0.77
    function = tj.compile(lambda x, y: tj.div(x, y, rounding_mode="trunc"), strict=True)
    for many in (x, x[5]):
        expected = (many / y).trunc()
        assert expected.tolist() != (many.float() / y.float()).trunc().to(dtype).tolist()
        assert tj.div(many, y, rounding_mode="trunc").tolist() == expected.tolist()
        for _ in range(3):
            assert function(many, y).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("op", [tj.add, tj.sub], ids=["add", "sub"])
def test_alpha_is_rounded_and_the_sum_once(op: Any, dtype: Any) -> None:
    x, y = numbers(dtype), numbers(dtype).flip(0)
    alpha = tj.tensor(0.37).to(dtype).float().item()
    expected = op(x.float(), y.float(), alpha=alpha).to(dtype)
    compiled = tj.compile(lambda x, y: op(x, y, alpha=0.37), strict=True)
    for found in (op(x, y, alpha=0.37), compiled(x, y), compiled(x, y)):
        assert found.dtype is dtype
        assert found.tolist() == expected.tolist()
    assert op(x, 2, alpha=0.5).tolist() == op(x, 1.0).tolist()


def test_gradients_have_the_dtype_of_their_tensors() -> None:
    x = numbers(tj.bfloat16).requires_grad_()
    c = tj.tensor(1.3333, requires_grad=True)
    (x * c).float().sum().backward()
    assert x.grad.dtype is tj.bfloat16
    assert x.grad.tolist() == [tj.tensor(1.3333).bfloat16().item()] * 1001
    assert c.grad.dtype is tj.float32
    assert (x.detach() * 2).dtype is tj.bfloat16
    assert (tj.tensor(2.0).bfloat16() * 1.5).dtype is tj.bfloat16


UNARY = (
    *(
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "cos",
        "cosh",
        "deg2rad",
        "digamma",
    ),
    *(
        "erf",
        "erfc",
        "erfinv",
        "exp",
        "exp2",
        "expm1",
        "frac",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "logit",
    ),
    *(
        "nan_to_num",
        "neg",
        "rad2deg",
        "reciprocal",
        "relu",
        "round",
        "rsqrt",
        "selu",
        "sigmoid",
        "sign",
        "sin",
    ),
    *("sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "celu", "i0", "positive"),
)


ACTIVATIONS = (
    *(
        "elu",
        "gelu",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "logsigmoid",
        "mish",
        "silu",
        "softplus",
    ),
    *("softsign", "tanhshrink", "hardsigmoid", "relu6", "softshrink", "hardshrink"),
)


@pytest.mark.parametrize("dtype", [*HALVES, tj.float64], ids=str)
def test_results_have_the_dtype_of_what_they_are_computed_of(dtype: Any) -> None:
    x = tj.tensor([0.25, 0.5, 0.75], dtype=dtype)
    functions = {name: getattr(tj, name) for name in UNARY}
    functions |= {name: getattr(F, name) for name in ACTIVATIONS}
    found = {name: function(x).dtype for name, function in functions.items()}
    assert {name: kind for name, kind in found.items() if kind is not dtype} == {}
