"""Gradients that there are not, or that are NaN, and writes of tensors to themselves: values told by PyTorch."""

import math

import pytest

import tracejit as tj

nan, inf = math.nan, math.inf


def leaf(*values):
    return tj.tensor(values, requires_grad=True)


def both(function, *values):
    """The gradient, or the error, in eager code and in compiled code."""
    found = []
    for f in (function, tj.compile(function)):
        for _ in range(2):
            x = leaf(*values)
            try:
                f(x).sum().backward()
                found.append(str(x.grad.tolist()))
            except RuntimeError as error:
                found.append(str(error).split("\n")[0])
    assert found[1:] == found[:-1]
    return found[0]


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_floor_division_has_no_gradient():
    missing = "derivative for aten::floor_divide is not implemented"
    assert both(lambda x: x // 2, 1.0, 5.0) == missing
    assert both(lambda x: (x * 1).floor_divide_(2), 1.0, 5.0) == missing
    assert both(lambda x: tj.floor_divide(3.0, x), 1.0, 5.0) == missing
    assert both(lambda x: tj.div(x, 2, rounding_mode="floor"), 1.0, 5.0) == "[0.0, 0.0]"
    assert both(lambda x: (x // 2).detach() * x, 1.0, 5.0) == "[0.0, 2.0]"
    assert both(lambda x: tj.remainder(x[:1] + 5, x), 2.0, 5.0) == "[-1.0, -1.0]"


def test_an_operand_that_was_overwritten_is_missed():
    def written(name):
        def function(x):
            v = x * 2
            getattr(v, name)(v)
            return v

        return function

    for name in ("mul_", "div_", "atan2_"):
        assert "modified by an inplace operation" in both(written(name), 1.0, 3.0)
    assert both(written("add_"), 1.0, 3.0) == "[4.0, 4.0]"
    assert both(written("sub_"), 1.0, 3.0) == "[0.0, 0.0]"


def test_no_element_is_equal_to_an_extreme_that_is_nan():
    assert both(lambda x: x.amax(), 1.0, nan) == "[nan, nan]"
    assert both(lambda x: x.reshape(2, 2).amin(1), 1.0, nan, 3.0, 3.0) == "[nan, nan, 0.5, 0.5]"
    assert both(lambda x: x.max(), 1.0, nan, nan) == "[0.0, 0.5, 0.5]"
    assert both(lambda x: x.norm(math.inf), 1.0, nan) == "[0.0, 0.0]"
    assert both(lambda x: x.median(), 1.0, nan, nan) == "[0.0, 0.5, 0.5]"


def test_quantiles_and_log_odds_that_are_nan():
    assert both(lambda x: x.quantile(0.5), 1.0, nan, 2.0, nan) == "[0.0, 0.0, 0.0, 1.0]"
    assert both(lambda x: x.quantile(0.5, interpolation="lower"), 1.0, nan) == "[0.0, 1.0]"
    assert both(lambda x: x.quantile(0.5), 1.0, 3.0, 2.0) == "[0.0, 0.0, 1.0]"
    assert both(lambda x: x.logit(0.25), 0.5, nan, 0.1, 1.0) == "[4.0, nan, 0.0, 0.0]"


def test_variances_below_the_least_have_the_slope_of_the_least():
    def loss(x):
        return tj.nn.functional.gaussian_nll_loss(tj.zeros(3), tj.zeros(3), x, eps=0.5, full=True)

    assert both(lambda x: loss(x) * 3, 0.0, 0.25, 1.0) == "[1.0, 1.0, 0.5]"


def test_margins_that_overflow():
    loss = lambda x: tj.soft_margin_loss(x, tj.ones(3), reduction="none")  # noqa: E731
    assert loss(tj.tensor([-100.0, 200.0, nan])).tolist()[:2] == [inf, 0.0]
    assert both(loss, -100.0, 200.0, nan) == "[nan, -0.0, nan]"


def test_absolute_values_below_zero_are_followed_backwards():
    turned = both(lambda x: tj.polar(x, tj.zeros(3)).real, -2.0, 0.0, 3.0)
    assert turned == "[-1.0, 0.0, 1.0]"


def test_reduced_extremes_that_are_nan():
    def reduced(x):
        index = tj.tensor([0, 0, 1, 1])
        return tj.tensor([3.0, 3.0]).scatter_reduce(0, index, x, "amax")

    assert both(reduced, nan, 1.0, 2.0, 4.0) == "[nan, nan, 0.0, 1.0]"
    assert both(reduced, 3.0, 3.0, 2.0, 3.0) == "[0.3333333432674408, 0.3333333432674408, 0.0, 0.5]"


def test_second_slopes_of_products_where_both_factors_are_zero():
    x, values = leaf(0.0, 3.0), leaf(0.0, 4.0)
    product = x.scatter_reduce(0, tj.tensor([0, 0]), values, "prod")
    total = (product * product).sum() + product[0] * 2
    (slope,) = tj.autograd.grad(total, values, create_graph=True)
    assert slope.tolist() == [0.0, 0.0]
    assert tj.autograd.grad(slope.sum(), x)[0].tolist() == [8.0, 0.0]


def test_writes_of_a_tensor_to_itself():
    x = tj.arange(4.0)
    for source in (x[2:], x[:2]):
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            x.put_(tj.tensor([0, 1]), source)
    repeated = tj.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        repeated.put_(tj.tensor([0]), tj.ones(1))
    assert repeated.copy_(repeated) is repeated
    repeated[...] = repeated
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        repeated.copy_(tj.ones(3))
    weight = tj.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        weight.copy_(weight)
