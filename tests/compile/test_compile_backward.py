"""compile(): the backward pass of compiled code is one ordinary node."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import tracejit as tj

nn = tj.nn


def warm(function, *shapes, **options):
    """A compiled function that has been recorded for float32 inputs of these shapes that require grad."""
    f = tj.compile(function, **options)
    f(*(tj.ones(*shape, requires_grad=True) for shape in shapes))
    return f


def leaf(*values):
    return tj.tensor(values, requires_grad=True)


def test_one_named_node() -> None:
    f = warm(lambda x: (x * x).sum(), (2,))
    x = leaf(1.0, 2.0)
    y = f(x)
    assert y.grad_fn.name() == "Compiled_<lambda>_Backward"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert not y.is_leaf
    assert f.stats.compiled_calls == 1


def test_retain_graph_accumulation_and_the_second_backward() -> None:
    f = warm(lambda x: (x * x).sum(), (2,))
    eager = leaf(1.0, 2.0)
    z = (eager * eager).sum()
    z.backward()
    with pytest.raises(RuntimeError) as expected:
        z.backward()
    x = leaf(1.0, 2.0)
    y = f(x)
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [2, 4]
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(type(expected.value)) as found:
        y.backward()
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
    assert "test_compile_backward.py" in str(found.value)


def test_partial_requires_grad() -> None:
    f = tj.compile(lambda a, b, c: (a * b + c).sum())
    for wants in ((1, 0, 0), (0, 1, 1), (1, 1, 1), (0, 0, 0)):
        for _ in range(2):
            given = [tj.full((2,), k + 2.0, requires_grad=bool(w)) for k, w in enumerate(wants)]
            y = f(*given)
            assert y.requires_grad == any(wants)
            if any(wants):
                y.backward()
            for x, want, grad in zip(given, wants, ([3, 3], [2, 2], [1, 1]), strict=True):
                assert (x.grad.tolist() if want else x.grad) == (grad if want else None)


def test_unused_and_repeated_outputs() -> None:
    f = warm(lambda x, y: (x * 2, y * 3, x * y, x.argmax(), x > 1), (2,), (2,))
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    a, b, c, index, mask = f(x, y)
    assert (index.dtype, mask.dtype, index.requires_grad) == (tj.int64, tj.bool, False)
    (a + a * a + c).sum().backward()
    assert x.grad.tolist() == [2 + 8 + 3, 2 + 16 + 4]
    assert y.grad.tolist() == [1, 2]
    assert b.requires_grad


def test_an_input_that_the_outputs_do_not_reach() -> None:
    f = warm(lambda x, y: (x * 2, y.detach() * 3), (2,), (2,))
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    a, b = f(x, y)
    assert (a.requires_grad, b.requires_grad) == (True, False)
    a.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert y.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        tj.autograd.grad(f(x, y)[0].sum(), [x, y])
    gx, gy = tj.autograd.grad(f(x, y)[0].sum(), [x, y], allow_unused=True)
    assert gx.tolist() == [2, 2]
    assert gy is None


def test_grad_of_subsets_and_of_intermediate_tensors() -> None:
    f = warm(lambda x, y: (x * y).exp(), (2,), (2,))
    x, y = leaf(1.0, 0.5), leaf(0.5, 2.0)
    inner = x * 2
    out = f(inner, y)
    (g,) = tj.autograd.grad(out.sum(), [inner], retain_graph=True)
    assert np.allclose(g.tolist(), (y * out).tolist())
    (g,) = tj.autograd.grad(out.sum(), [y])
    assert np.allclose(g.tolist(), (inner * out).tolist())
    assert x.grad is None


def test_higher_derivatives() -> None:
    f = warm(lambda x: (x**4).sum() + x.exp().sum(), (2,))
    x = leaf(1.0, 2.0)
    (g1,) = tj.autograd.grad(f(x), x, create_graph=True)
    (g2,) = tj.autograd.grad(g1.sum(), x, create_graph=True)
    (g3,) = tj.autograd.grad(g2.sum(), x)
    e = np.exp([1.0, 2.0])
    assert np.allclose(g1.tolist(), np.array([4, 32]) + e)
    assert np.allclose(g2.tolist(), np.array([12, 48]) + e)
    assert np.allclose(g3.tolist(), np.array([24, 48]) + e)
    assert f.stats.compiled_calls == 1


def test_gradcheck_and_gradgradcheck() -> None:
    def f(x, w):
        h = (x @ w).tanh()
        return h.softmax(-1) if h.sum() > 0 else (h * h).sum(0)

    g = tj.compile(f)
    tj.manual_seed(3)
    for sign in (1, -1):
        x = (sign * tj.rand(3, 4, dtype=tj.float64)).requires_grad_()
        w = tj.rand(4, 2, dtype=tj.float64, requires_grad=True)
        assert tj.autograd.gradcheck(g, (x, w))
        assert tj.autograd.gradgradcheck(g, (x, w))
    assert g.stats.compiled_calls > 20


def test_hooks() -> None:
    seen = []
    f = warm(lambda x: x * x, (1,))
    x = leaf(3.0)
    inner = x * 1
    inner.register_hook(lambda g: seen.append(("inner", g.item())))
    inner.retain_grad()
    y = f(inner)
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    handle = y.grad_fn.register_hook(lambda gi, go: seen.append(("node", go[0].item())))
    x.register_hook(lambda g: seen.append(("leaf", g.item())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("after", t.grad.item())))
    y.backward()
    assert seen == [("node", 10), ("inner", 60), ("leaf", 60), ("after", 60)]
    assert (inner.grad.item(), y.grad.item(), x.grad.item()) == (60, 10, 60)
    handle.remove()


def test_hooks_inside_run_eagerly_and_gradients_inside_do_not() -> None:
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.item()))
        return y

    def g(x):
        (grad,) = tj.autograd.grad((x * x).sum(), x)
        return grad * 2

    f, g = tj.compile(f), tj.compile(g)
    for k in range(1, 5):
        x = leaf(float(k))
        f(x).backward()
        assert len(seen) == k
        assert g(x).item() == 4 * k
    assert f.reasons
    assert g.stats.compiled_calls == 3


def test_stale_gradients_are_not_baked_in() -> None:
    w = leaf(1.0)

    def step():
        with tj.no_grad():
            w.sub_(w.grad)
        return w * 1

    f = tj.compile(step)
    value = 1.0
    for k in range(5):
        w.grad = tj.tensor([float(k)])
        f()
        value -= k
        assert w.item() == value


def test_a_changed_saved_value_is_the_eager_error() -> None:
    def f(x, w):
        return (x * w).exp()

    g = tj.compile(f)
    for change in ("x", "out"):
        for k in range(3):
            messages = []
            for function in (f, g):
                x, w = tj.ones(2) * 2, leaf(1.0, 2.0)
                y = function(x, w)
                with tj.no_grad():
                    (x if change == "x" else y).add_(1)
                with pytest.raises(RuntimeError) as found:
                    y.sum().backward()
                messages.append(
                    (type(found.value), str(found.value).split(" is at ")[0].split(", which")[0])
                )
            assert messages[0] == messages[1], (change, k)


def test_an_unsaved_value_may_change() -> None:
    f = warm(lambda x, w: x + w * 2, (2,), (2,))
    x, w = tj.ones(2), leaf(1.0, 2.0)
    f(tj.ones(2), w)
    y = f(x, w)
    x.add_(1)
    with tj.no_grad():
        y.add_(1)
    y.sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_differentiating_again_after_an_input_changed_is_an_error() -> None:
    f = tj.compile(lambda b, w: (w + b).exp().sum())
    w = leaf(1.0, 2.0)
    for _ in range(2):
        b = tj.ones(2)
        y = f(b, w)
    b.add_(1)
    with pytest.raises(RuntimeError, match="create_graph"):
        tj.autograd.grad(y, w, create_graph=True)
    y = f(b, w)
    b.add_(1)
    (g,) = tj.autograd.grad(y, w)
    assert np.allclose(g.tolist(), np.exp([3.0, 4.0]))


def test_regions_without_gradients_inside() -> None:
    def f(x):
        with tj.no_grad():
            a = x * 3
            v = x[1:]
        return a * x + x.detach() * x + (v * x[:1]).sum()

    for _ in range(2):
        x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
        g = warm(f, (2,))
        g(x).sum().backward()
        f(y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()


def test_under_no_grad_nothing_is_built() -> None:
    f = tj.compile(lambda x: (x * x).exp())
    x = leaf(1.0, 2.0)
    with tj.no_grad():
        for _ in range(3):
            y = f(x)
            assert y.grad_fn is None
            assert not y.requires_grad
    assert len(f.graphs) == 1


def test_gradient_of_wrong_shape_or_missing() -> None:
    function = lambda x: x * 2  # noqa: E731
    f = warm(function, (2,))
    for seed in (None, tj.ones(3)):
        messages = []
        for g in (function, f):
            with pytest.raises(RuntimeError) as found:
                g(leaf(1.0, 2.0)).backward(seed)
            messages.append((type(found.value), str(found.value).splitlines()[0]))
        assert messages[0] == messages[1]


def test_custom_functions_inside() -> None:
    class Double(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 5

    f = tj.compile(lambda x: Double.apply(x) + 1)
    for _ in range(3):
        x = leaf(1.0)
        f(x).backward()
        assert x.grad.item() == 5


def test_memory_without_the_collector() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    f = tj.compile(lambda x: (model(x) ** 2).mean() if x.sum() > 0 else model(x).mean())
    x = tj.rand(8, 16)

    def step(x):
        f(x).backward()
        for p in model.parameters():
            p.grad = None

    for sign in (1, -1, 1, -1):
        step(x * sign)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(500):
            step(x)
            step(-x)
            f(x)
        after = len(gc.get_objects())
    finally:
        gc.enable()
    assert after - before < 200


def test_leaves_can_be_reconfigured() -> None:
    w = leaf(2.0)
    f = tj.compile(lambda x: x * w)
    for _ in range(3):
        f(tj.ones(1)).backward()
    assert w.grad.item() == 3
    w.requires_grad_(False)
    for _ in range(3):
        assert not f(tj.ones(1)).requires_grad
    w.requires_grad_(True)
    w.grad = None
    f(tj.ones(1)).backward()
    assert w.grad.item() == 1


def test_reading_grad_of_an_output_warns_as_in_eager() -> None:
    f = warm(lambda x: x * 2, (1,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert f(leaf(1.0)).grad is None
    assert "not a leaf" in str(caught[0].message)


def test_gradients_enabled_inside_no_grad() -> None:
    def f(x):
        a = x * 3
        with tj.enable_grad():
            return x * a

    g = tj.compile(f)
    with tj.no_grad():
        for _ in range(3):
            x = leaf(2.0)
            y = g(x)
            assert y.requires_grad
            y.backward()
            assert x.grad.item() == 6
    assert g.stats.compiled_calls == 2


def test_tensors_overwritten_with_constants_keep_their_history() -> None:
    f = tj.compile(lambda x: (x * 2).fill_(3.0))
    for _ in range(3):
        x = leaf(2.0)
        f(x).backward()
        assert x.grad.item() == 0


def test_views_of_one_result_share_history() -> None:
    def f(x):
        y = x * 2
        return y[0], y[1], y

    g = tj.compile(f)
    for _ in range(3):
        x = tj.ones(2, 2, requires_grad=True)
        first, _, whole = g(x)
        first.mul_(3)
        whole.sum().backward()
        assert x.grad.tolist() == [[6, 6], [2, 2]]
