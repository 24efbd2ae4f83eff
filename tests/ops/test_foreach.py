"""Functions of lists of tensors against the methods they stand for, eager and compiled."""

from __future__ import annotations

import math

import pytest

import tracejit as tj

ONE = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"""
UNARY = ONE.split()
BINARY = ["add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub"]


def lists(count: int = 3) -> list[tj.Tensor]:
    tj.manual_seed(0)
    sizes = [(2, 3), (0,), (), (5,)]
    return [tj.rand(*size) + 0.25 for size in sizes[:count]]


def same(found, wanted) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype is y.dtype
        assert x.shape == y.shape
        assert tj.equal(x.nan_to_num(7.0), y.nan_to_num(7.0))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    x = lists()
    wanted = [getattr(t, name)() for t in x]
    found = getattr(tj, f"_foreach_{name}")(x)
    assert type(found) is tuple
    same(found, wanted)
    changed = getattr(tj, f"_foreach_{name}_")(x)
    assert type(changed) is list
    assert all(a is b for a, b in zip(changed, x, strict=True))
    same(x, wanted)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", ["number", "numbers", "tensors", "tensor"])
def test_binary(name: str, kind: str) -> None:
    x = lists()
    other = {
        "number": 0.5,
        "numbers": [0.5, 2.0, -1.0],
        "tensors": [t * 2 - 0.5 for t in lists()],
        "tensor": tj.tensor(0.5),
    }[kind]
    each = other if isinstance(other, list) else [other] * 3
    of_two = {"clamp_max": tj.minimum, "clamp_min": tj.maximum}.get(name) or getattr(tj, name)
    wanted = [of_two(t, tj.as_tensor(y)) for t, y in zip(x, each, strict=True)]
    same(getattr(tj, f"_foreach_{name}")(x, other), wanted)
    getattr(tj, f"_foreach_{name}_")(x, other)
    same(x, wanted)


def test_scaled_and_mixed() -> None:
    x, y, z = lists(), [t + 1 for t in lists()], [t + 2 for t in lists()]
    same(tj._foreach_add(x, y, alpha=3), [a.add(b, alpha=3) for a, b in zip(x, y, strict=True)])
    same(tj._foreach_sub(x, y, alpha=3), [a.sub(b, alpha=3) for a, b in zip(x, y, strict=True)])
    for value in (0.5, [0.5, 1.0, 2.0], tj.tensor([0.5, 1.0, 2.0])):
        each = [0.5] * 3 if isinstance(value, float) else [0.5, 1.0, 2.0]
        rows = list(zip(x, y, z, each, strict=True))
        same(tj._foreach_addcmul(x, y, z, value), [a.addcmul(b, c, value=v) for a, b, c, v in rows])
        same(tj._foreach_addcdiv(x, y, z, value), [a.addcdiv(b, c, value=v) for a, b, c, v in rows])
    for weight in (0.25, y):
        each = weight if isinstance(weight, list) else [weight] * 3
        rows = list(zip(x, y, each, strict=True))
        same(tj._foreach_lerp(x, y, weight=weight), [a.lerp(b, w) for a, b, w in rows])
    same(tj._foreach_pow(2.0, x), [2.0**a for a in x])


def test_the_others() -> None:
    x = [tj.tensor([3.0, -4.0]), tj.tensor(2.0)]
    assert [float(n) for n in tj._foreach_norm(x)] == [5.0, 2.0]
    assert [float(n) for n in tj._foreach_norm(x, math.inf)] == [4.0, 2.0]
    assert [float(n) for n in tj._foreach_max(x)] == [3.0, 2.0]
    copies = tj._foreach_clone(x)
    assert not any(a is b for a, b in zip(copies, x, strict=True))
    tj._foreach_zero_(x)
    assert [float(t.abs().sum()) for t in x] == [0.0, 0.0]
    tj._foreach_copy_(x, copies, non_blocking=True)
    same(x, copies)


def test_whole_numbers_become_floats() -> None:
    (found,) = tj._foreach_sqrt([tj.tensor([4])])
    assert found.dtype is tj.float32
    assert float(found) == 2.0


def test_errors() -> None:
    one = [tj.ones(2)]
    for name, rest in (("_foreach_add", (1,)), ("_foreach_abs", ()), ("_foreach_zero_", ())):
        with pytest.raises(RuntimeError, match="must have at least one tensor"):
            getattr(tj, name)([], *rest)
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        tj._foreach_add(one, one * 2)
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        tj._foreach_add(one, [1.0, 2.0])
    for name in ("_foreach_nothing", "_foreach_", "_foreach"):
        with pytest.raises(AttributeError, match=name):
            getattr(tj, name)
    weight = tj.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError):
        tj._foreach_mul_([weight], 2)


def test_operands_by_name() -> None:
    x, many = lists(), [0.5, 2.0, -1.0]
    same(tj._foreach_mul(x, scalar=2.0), tj._foreach_mul(x, 2.0))
    same(tj._foreach_add(x, other=x, alpha=2), tj._foreach_add(x, x, alpha=2))
    same(tj._foreach_sub(x, scalars=many), tj._foreach_sub(x, many))
    same(tj._foreach_pow(x, exponent=many), tj._foreach_pow(x, many))
    same(tj._foreach_lerp(x, x, weights=x), tj._foreach_lerp(x, x, x))
    for name in ("addcmul", "addcdiv"):
        function = getattr(tj, f"_foreach_{name}")
        same(function(x, x, x, scalars=many), function(x, x, x, many))
    for wrong in ({}, {"value": 2.0}, {"scalar": 1.0, "other": x}):
        with pytest.raises(TypeError, match="invalid combination"):
            tj._foreach_mul(x, **wrong)


def test_products_and_sums_of_powers() -> None:
    x = [tj.tensor([[1.0, -2.0], [3.0, 4.0]]), tj.eye(2)]
    same(tj._foreach_mm(x, x), [t @ t for t in x])
    same(tj._foreach_powsum(x, 3), [tj.tensor(100.0), tj.tensor(2.0)])
    same(tj._foreach_powsum(x), [tj.tensor(30.0), tj.tensor(2.0)])
    same(tj._foreach_powsum(x, 0, tj.float64), [tj.tensor(4.0).double(), tj.tensor(2.0).double()])
    same(tj._foreach_powsum(x, math.inf), [tj.tensor(4.0), tj.tensor(1.0)])


def test_gradients_flow() -> None:
    x = [t.requires_grad_() for t in lists()]
    sum(t.sum() for t in tj._foreach_mul(x, [2.0, 3.0, 4.0])).backward()
    assert [float(t.grad.mean().nan_to_num(3.0)) for t in x] == [2.0, 3.0, 4.0]


def test_an_optimizer_step_is_compiled() -> None:
    def step(params, grads, momentum, rate):
        tj._foreach_mul_(momentum, 0.9)
        tj._foreach_add_(momentum, grads, alpha=0.1)
        tj._foreach_addcdiv_(params, momentum, tj._foreach_add(tj._foreach_norm(grads), 1e-6), rate)
        return tj._foreach_norm(params)

    compiled = tj.compile(step)
    states = []
    for run in (step, compiled):
        tj.manual_seed(1)
        params, momentum = [tj.rand(3, 2), tj.rand(4)], [tj.zeros(3, 2), tj.zeros(4)]
        with tj.no_grad():
            for _ in range(5):
                norms = run(params, [p * 0.5 + 0.1 for p in params], momentum, -0.1)
        states.append([*params, *momentum, *norms])
    for a, b in zip(*states, strict=True):
        tj.testing.assert_close(a, b)
    assert compiled.stats.compiled_calls >= 3
