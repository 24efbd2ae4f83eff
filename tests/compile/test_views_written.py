"""Writing through views that repeat nothing: expand to the same sizes, pooled and flattened results."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.nn import functional as F


def scaled(x):
    y = x * 1
    y.expand(1, *y.shape).mul_(2)
    return y + x


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
def test_an_expanded_view_without_repeats_can_be_written(wrap):
    call = wrap(scaled)
    for _ in range(3):
        x = tj.tensor([1.0, 2.0], requires_grad=True)
        y = call(x)
        y.sum().backward()
        assert y.tolist() == [3.0, 6.0]
        assert x.grad.tolist() == [3.0, 3.0]


def test_one_that_repeats_cannot():
    with pytest.raises(RuntimeError, match="single memory location"):
        tj.ones(2, 1).expand(2, 3).add_(1)


def head(x):
    y = tj.flatten(F.adaptive_avg_pool2d(x, 1), 1)
    return F.dropout(F.relu_(y), 0.0, True).sin()


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
def test_pooled_and_flattened_results_can_be_overwritten(wrap):
    call = wrap(head)
    for _ in range(3):
        x = tj.linspace(-1, 2, 24).reshape(2, 3, 2, 2).requires_grad_()
        y = call(x)
        y.sum().backward()
        mean = x.detach().mean((2, 3))
        assert tj.allclose(y, mean.relu().sin())
        expected = (mean.cos() * (mean > 0) / 4)[..., None, None].expand(2, 3, 2, 2)
        assert tj.allclose(x.grad, expected)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tj.compile(f, strict=True)])
@pytest.mark.parametrize("index", [..., (), None])
def test_the_whole_of_a_number_is_a_view(wrap, index):
    def function(x):
        y = x * 2
        y[index].add_(1)
        x[1][index] = 5.0
        return y, x[0][index]

    call = wrap(function)
    for _ in range(3):
        x = tj.tensor([1.0, 2.0])
        y, z = call(x)
        assert y.tolist() == [3.0, 5.0]
        z.zero_()
        assert x.tolist() == [0.0, 5.0]
        one = tj.tensor(3.0)
        one[index].mul_(2)
        assert one.item() == 6.0


def filled(x):
    t = x * 2
    t.fill_(0.5)
    return t, t.abs()


def filled_through_a_view(x):
    t = x * 2
    t.view(3, 1).t().fill_(0.5)
    return t, t * x


def copied_over(x):
    t = x * 2
    u = t + x
    t.copy_(tj.ones(3))
    return t, t * 2, u


def filled_in_a_loop(x):
    t = x * 2
    for i in range(4):
        t = t * x
        t.unsqueeze(0).fill_(i)
    return t, t.sum()


def differentiated_inside(x):
    t = x * 2
    t.view(-1).zero_()
    (g,) = tj.autograd.grad((t * x).sum(), x, retain_graph=True)
    return t + g, g


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "function",
    [filled, filled_through_a_view, copied_over, filled_in_a_loop, differentiated_inside],
)
def test_what_is_overwritten_with_constants_requires_grad(function, grad):
    if not grad and function is differentiated_inside:
        return
    compiled = tj.compile(function)
    for _ in range(3):
        found = []
        for call in (function, compiled):
            x = tj.tensor([1.0, -2.0, 3.0], requires_grad=grad)
            results = call(x)
            if grad:
                assert results[0].requires_grad
                sum(r.sum() for r in results if r.requires_grad).backward()
            found.append([(r.tolist(), r.requires_grad, r.is_leaf) for r in results])
            found[-1].append(x.grad.tolist() if grad else None)
        assert found[0] == found[1]
    if function is not differentiated_inside:
        assert compiled.stats.compiled_calls == 2


@pytest.mark.parametrize("function", [filled, filled_through_a_view, copied_over])
def test_gradients_through_what_was_overwritten_take_no_part_in_autograd(function):
    compiled = tj.compile(lambda x: function(x)[0].abs())
    for _ in range(3):
        x = tj.tensor([1.0, -2.0, 3.0], requires_grad=True)
        for call in (lambda x: function(x)[0].abs(), compiled):
            (g,) = tj.autograd.grad(call(x).sum(), x, create_graph=True)
            assert not g.requires_grad


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", [tj.no_grad, tj.inference_mode])
@pytest.mark.parametrize(
    "view",
    [
        lambda y: y[...],
        lambda y: y[1:],
        lambda y: y.view(-1),
        lambda y: y.T,
        lambda y: y.T[1:],
        lambda y: y.detach(),
        lambda y: y.detach()[1:],
    ],
)
@pytest.mark.parametrize("source", ["made", "given", "returned too"])
def test_a_view_made_without_gradients_is_a_result(mode, view, source) -> None:
    """It may not be written to where gradients are recorded; what .detach() gave may be."""

    def f(x):
        y = x if source == "given" else x * 2
        with mode():
            part = view(y)
        return (part, y) if source == "returned too" else (part, x)

    def outcome(call):
        x = tj.arange(6.0).reshape(3, 2).requires_grad_() * 1.0
        part, _ = call(x)
        facts = [part.requires_grad, part.is_leaf, part._base is not None, part._version]
        try:
            part.add_(0.5)
        except RuntimeError as error:
            facts.append(str(error).splitlines()[0])
        with tj.no_grad():
            part.mul_(2.0)
        return [*facts, part._version, part.tolist(), x.tolist(), x._version]

    g = tj.compile(f)
    for _ in range(4):
        assert outcome(g) == outcome(f)
    assert g.stats.compiled_calls == 3, g.explain()


def seen_before(x):
    part = x[0]
    x.relu_()
    return part


def written_through(x):
    part = x[:2]
    part[:1].mul_(2)
    return part, x[1:]


def of_a_result(x):
    y = x * 2
    part = y.view(3, 1)
    y.add_(1)
    return y, part, y[1:]


@pytest.mark.parametrize("f", [seen_before, written_through, of_a_result])
def test_views_of_what_was_written_to_since_show_a_base_that_starts_to_require_grad(f):
    def outcome(call):
        x = tj.tensor([1.0, -2.0, 3.0])
        results = call(x)
        results = results if isinstance(results, tuple) else (results,)
        (results[0] if f is of_a_result else x).requires_grad_()
        return [(y.requires_grad, y.is_leaf, y.grad_fn is None) for y in results]

    g = tj.compile(f)
    for _ in range(4):
        assert outcome(g) == outcome(f)
    assert any(not leaf for _, leaf, _ in outcome(g))
    assert g.stats.compiled_calls >= 3, g.explain()
