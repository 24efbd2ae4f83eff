"""Custom functions."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.autograd import Function


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Multiply(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx = grad * y if ctx.needs_input_grad[0] else None
        gy = grad * x if ctx.needs_input_grad[1] else None
        return gx, gy


def test_forward_and_backward():
    x = leaf(1, 2)
    y = Scale.apply(x, 3.0)
    assert y.tolist() == [3, 6]
    assert y.requires_grad
    assert "ScaleBackward" in repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_saved_tensors_and_needs_input_grad():
    x, w = leaf(1, 2), tj.tensor([5.0, 6.0])
    y = Multiply.apply(x, w)
    assert y.grad_fn.needs_input_grad == (True, False)
    y.sum().backward()
    assert x.grad.tolist() == [5, 6]


def test_nothing_is_recorded_without_need():
    assert not Scale.apply(tj.tensor([1.0]), 2.0).requires_grad
    with tj.no_grad():
        assert not Scale.apply(leaf(1), 2.0).requires_grad


def test_double_backward():
    x, w = leaf(2), leaf(3)
    y = Multiply.apply(x, Multiply.apply(x, w))
    (g,) = tj.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [12]
    (h,) = tj.autograd.grad(g.sum(), x)
    assert h.tolist() == [6]


def test_freed_and_modified():
    x, w = leaf(1), leaf(2)
    y = Multiply.apply(x, w).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    h = x * 1
    z = Multiply.apply(h, w)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_output_makes_no_cycle_and_differentiates():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            (result,) = ctx.saved_tensors
            return grad * result

    x = leaf(0)
    y = Exp.apply(x)
    (g,) = tj.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = tj.autograd.grad(g.sum(), x)
    assert h.tolist() == [1]


def test_setup_context():
    class Cube(Function):
        @staticmethod
        def forward(x):
            return x * x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

    x = leaf(2)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [12]


def test_several_outputs_are_materialized():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            assert second.tolist() == [0, 0]
            return first * 2 + second * 3

    x = leaf(1, 2)
    first, _ = Two.apply(x)
    first.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_unmaterialized_gradients():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            assert first is None
            return second * 3

    x = leaf(1)
    Two.apply(x)[1].sum().backward()
    assert x.grad.tolist() == [3]


def test_non_differentiable_output():
    class Parts(Function):
        @staticmethod
        def forward(ctx, x):
            sign = x * 0
            ctx.mark_non_differentiable(sign)
            return x * 2, sign

        @staticmethod
        def backward(ctx, grad, _):
            return grad * 2

    x = leaf(1)
    y, sign = Parts.apply(x)
    assert y.requires_grad
    assert not sign.requires_grad


def test_dirty_input():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = leaf(1, 2)
    y = x * 1
    z = AddOne.apply(y)
    assert z is y
    assert y.tolist() == [2, 3]
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_returned_input_becomes_another_tensor():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf(1)
    y = Same.apply(x)
    assert y is not x
    assert not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [5]


def test_wrong_number_of_gradients():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(
        RuntimeError, match=r"returned an incorrect number of gradients \(expected 2, got 1\)"
    ):
        Bad.apply(leaf(1), leaf(2)).sum().backward()


def test_gradient_of_wrong_shape():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return tj.tensor([1.0, 2.0, 3.0])

    with pytest.raises(
        RuntimeError,
        match=r"returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with \[2\]",
    ):
        Bad.apply(leaf(1, 2)).sum().backward()


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @tj.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1)
    y = Once.apply(x * x)
    (g,) = tj.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [4]
    seed = tj.tensor([1.0], requires_grad=True)
    (g,) = tj.autograd.grad(Once.apply(x), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_missing_methods():
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError):
        Nothing.apply(leaf(1))


def test_arguments_that_are_no_tensors():
    class Pick(Function):
        @staticmethod
        def forward(ctx, mode, x, options):
            return x * options["factor"] if mode == "scale" else x

        @staticmethod
        def backward(ctx, grad):
            return None, grad * 4, None

    x = leaf(1)
    Pick.apply("scale", x, {"factor": 4}).sum().backward()
    assert x.grad.tolist() == [4]


def test_only_tensors_can_be_saved():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Bad.apply(leaf(1))


def function_of(**methods):
    return type("Made", (Function,), {name: staticmethod(f) for name, f in methods.items()})


def doubled(ctx, x, *rest):
    return x * 2


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda ctx, g: (g, g), r"incorrect number of gradients \(expected 1, got 2\)"),
        (lambda ctx, g: g.sum().reshape(1, 1, 1), r"got \[1, 1, 1\] but expected shape compatible"),
        (lambda ctx, g: [g], r"expected Variable or None \(got list\)"),
        (lambda ctx, g: 3.0, r"expected Variable or None \(got float\)"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore::tracejit.errors.CompileWarning")
def test_what_backward_returns_is_checked(backward, message, compiled):
    made = function_of(forward=doubled, backward=backward)

    def run(x):
        return made.apply(x)

    call = tj.compile(run) if compiled else run
    for _ in range(3):
        with pytest.raises(RuntimeError, match=message):
            call(leaf(1, 2)).sum().backward()


def test_results_without_a_gradient_have_zeros_for_one():
    seen = []

    def forward(ctx, x):
        whole, other = (x * 2).long(), x * 3
        ctx.mark_non_differentiable(other)
        return x * 2, whole, other

    def backward(ctx, *grads):
        seen.extend((g.dtype, g.tolist()) for g in grads)
        return grads[0]

    function_of(forward=forward, backward=backward).apply(leaf(1))[0].sum().backward()
    assert seen == [(tj.float32, [1.0]), (tj.int64, [0]), (tj.float32, [0.0])]


def test_vjp_is_another_name_for_backward():
    x = leaf(1)
    function_of(forward=doubled, vjp=lambda ctx, g: g * 3).apply(x).sum().backward()
    assert x.grad.tolist() == [3]
    both = function_of(forward=doubled, vjp=lambda ctx, g: g, backward=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        both.apply(leaf(1)).sum().backward()
    with pytest.raises(RuntimeError, match="static forward"):
        both()(leaf(1))


def test_functions_that_define_tangents_as_well() -> None:
    class Double(tj.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        jvp = tj.autograd.Function.jvp

    x = tj.tensor([1.0], requires_grad=True)
    assert tj.autograd.grad(Double.apply(x).sum(), x)[0].tolist() == [2.0]
    with pytest.raises(NotImplementedError, match="jvp"):
        Double.jvp(None)
