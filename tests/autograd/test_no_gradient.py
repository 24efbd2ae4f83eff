"""Passes that go on without a gradient: custom functions behind one that gives None run all the same, with zeros."""

import pytest

import tracejit as tj

X = [1.0, 2.0, 3.0]


def summing(name, backward, outputs=1, materialize=True):
    """A custom function that sums its arguments."""

    def forward(ctx, *xs):
        ctx.shapes = [tuple(x.shape) for x in xs]
        if not materialize:
            ctx.set_materialize_grads(False)
        total = sum(x.sum() for x in xs[1:]) + xs[0].sum() * 2
        return total if outputs == 1 else tuple(total * (i + 1) for i in range(outputs))

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (tj.autograd.Function,), members)


def function(name, backward, outputs=1, materialize=True):
    """The same, and a list of what its backward is called with."""
    calls = []

    def noted(ctx, *grads):
        calls.append([None if g is None else g.tolist() for g in grads])
        return backward(ctx, *grads)

    return summing(name, noted, outputs, materialize), calls


def nothing(ctx, *grads):
    return (None,) * len(ctx.shapes)


def ones_more(ctx, *grads):
    """One more than arrives, so that zeros can be told from nothing."""
    added = sum(g for g in grads if g is not None)
    return tuple(None if grads[0] is None else tj.ones(s) + added for s in ctx.shapes)


def first_nothing(ctx, *grads):
    return (None, *(tj.ones(s) * grads[0] for s in ctx.shapes[1:]))


def leaf():
    return tj.tensor(X, requires_grad=True)


WAYS = {
    "straight on": lambda a: a,
    "elementwise": lambda a: (a * 2).exp() + 1,
    "several results": lambda a: a.reshape(1).unbind()[0],
    "decomposition": lambda a: tj.linalg.qr(a.reshape(1, 1))[0],
    "joined": lambda a: tj.cat([a.reshape(1), tj.ones(2)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_functions_behind_one_without_a_gradient_are_given_zeros(way):
    none, _ = function("Nothing", nothing)
    some, calls = function("Some", ones_more)
    x = leaf()
    none.apply(WAYS[way](some.apply(x))).backward()
    assert calls == [[0.0]]
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_function_may_ask_for_none_instead():
    none, _ = function("Nothing", nothing)
    some, calls = function("Some", ones_more, materialize=False)
    x = leaf()
    none.apply(some.apply(x)).backward()
    assert calls == [[None]]
    assert x.grad is None


def test_what_comes_another_way_comes_in_the_same_turn():
    none, _ = function("Nothing", nothing)
    some, calls = function("Some", ones_more, outputs=2)
    x = leaf()
    first, second = some.apply(x)
    (none.apply(first) + second).backward()
    assert calls == [[0.0, 1.0]]
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_gradients_asked_for():
    none, _ = function("Nothing", nothing)
    some, _ = function("Some", ones_more)
    x = leaf()
    (found,) = tj.autograd.grad(none.apply(some.apply(x)), x)
    assert found.tolist() == [1.0, 1.0, 1.0]
    middle = some.apply(x)
    assert tj.autograd.grad(none.apply(middle), middle, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        tj.autograd.grad(none.apply(x * 2), x)


def test_hooks_are_told_that_there_is_no_gradient():
    none, _ = function("Nothing", nothing)
    seen = []
    x = leaf()
    x.register_hook(lambda g: seen.append(("leaf", g)))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("after", t.grad)))
    middle = x * 2
    middle.register_hook(lambda g: seen.append(("middle", g)))
    middle.grad_fn.register_prehook(lambda g: seen.append(("before the node", g)))
    middle.grad_fn.register_hook(lambda i, o: seen.append(("after the node", o)))
    none.apply(middle).backward()
    assert seen == [
        ("middle", None),
        ("before the node", (None,)),
        ("after the node", (None,)),
        ("leaf", None),
        ("after", None),
    ]
    assert x.grad is None


def test_hooks_of_results_that_nothing_used():
    some, _ = function("Some", ones_more, outputs=2)
    seen = []
    first, second = some.apply(leaf())
    second.register_hook(seen.append)
    first.backward()
    assert seen == [None]


@pytest.mark.parametrize("where", ["tensor", "leaf", "before", "after"])
def test_hooks_make_no_gradient_where_there_is_none(where):
    none, _ = function("Nothing", nothing)
    x = leaf()
    middle = x * 2
    ones = tj.ones(3)
    if where == "tensor":
        middle.register_hook(lambda g: ones)
    elif where == "leaf":
        x.register_hook(lambda g: ones)
    elif where == "before":
        middle.grad_fn.register_prehook(lambda g: (ones,))
    else:
        middle.grad_fn.register_hook(lambda i, o: (ones, *i[1:]))
    y = none.apply(middle)
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        y.backward()


def test_what_is_saved_on_the_way_is_checked_and_freed():
    none, _ = function("Nothing", nothing)
    y = none.apply(leaf().exp())
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    middle = leaf().exp()
    y = none.apply(middle)
    middle.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_hooks_of_modules():
    none, _ = function("Nothing", nothing)
    layer, x = tj.nn.Linear(3, 3), leaf()
    seen = []
    layer.register_full_backward_hook(lambda module, i, o: seen.append((i[0].tolist(), o)))
    none.apply(layer(x)).backward()
    assert seen == [([0.0, 0.0, 0.0], (None,))]
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    assert layer.weight.grad is None


def inside_and_outside():
    """Functions to compile, what is done to their arguments before, and to their result afterwards."""
    none, first = summing("Nothing", nothing), summing("First", first_nothing)
    some, pair = summing("Some", ones_more), summing("Pair", ones_more, outputs=2)
    own = summing("Own", lambda ctx, g: g + tj.ones(3))
    inside = [
        lambda x, z: none.apply(some.apply(x)),
        lambda x, z: first.apply(some.apply(x), z.sum()),
        lambda x, z: first.apply(x.abs().max(), (x * z).sum()),
        lambda x, z: first.apply(x, z.sum()),
        lambda x, z: first.apply((some.apply(x) * z).exp(), z.sum()),
        lambda x, z: none.apply(pair.apply(x)[0]) + pair.apply(z)[1],
    ]
    before = [lambda x: x, lambda x: x * 2, lambda x: own.apply(x) * tj.ones(3)]
    after = [lambda y: y + 1, none.apply]
    return inside, before, after


def outcome(f, before, after):
    """What passes through ``f`` leave."""
    x, z = leaf(), leaf()
    seen = []
    x.register_hook(lambda g: seen.append(None if g is None else g.tolist()))
    after(f(before(x), before(z))).backward()
    y = after(f(before(x), before(z)))
    found = tj.autograd.grad(y, [x, z], allow_unused=True)
    try:
        y.backward()
    except RuntimeError as error:
        seen.append(str(error)[:40])
    return [None if g is None else g.tolist() for g in (x.grad, z.grad, *found)], seen


@pytest.mark.parametrize("number", range(6))
def test_compiled_code_goes_on_without_a_gradient_like_eager_code(number):
    inside, befores, afters = inside_and_outside()
    function = inside[number]
    for before in befores:
        for after in afters:
            compiled = tj.compile(function)
            expected = outcome(function, before, after)
            found = [outcome(compiled, before, after) for _ in range(4)]
            assert found == [expected] * 4


def test_functions_that_need_not_run_stay_compiled():
    inside, _, _ = inside_and_outside()
    compiled = tj.compile(inside[2], strict=True)
    x, z = leaf(), leaf()
    for _ in range(3):
        compiled(x, z).backward()
    assert z.grad.tolist() == [3 * v for v in X]
