"""The dynamic graph: recording, leaves, accumulation, lifetime, higher order."""

from __future__ import annotations

import warnings

import pytest

import tracejit as tj


def leaf(*values, dtype=None):
    return tj.tensor(list(values), dtype=dtype or tj.float32, requires_grad=True)


def scalar(value):
    return tj.tensor(float(value), requires_grad=True)


def test_polynomial():
    x = scalar(2)
    y = x * x + 3 * x + 1
    y.backward()
    assert y.item() == 11
    assert x.grad.item() == 7
    assert type(y.grad_fn).__name__ == "AddBackward0" or y.grad_fn.name() == "AddBackward0"
    assert "AddBackward0" in repr(y.grad_fn)
    assert repr(y) == "tensor(11., grad_fn=<AddBackward0>)"


def test_next_functions_walk_to_the_leaves():
    x = scalar(2)
    y = x * x + 3 * x
    (left, _), (right, _) = y.grad_fn.next_functions
    assert left.name() == right.name() == "MulBackward0"
    ends = {
        id(f.variable) for node in (left, right) for f, _ in node.next_functions if f is not None
    }
    assert ends == {id(x)}


def test_accumulates_on_leaves_only():
    x = leaf(1, 2)
    y = x * 3
    y.sum().backward()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None


def test_reading_grad_of_a_leaf_is_silent():
    x = leaf(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None


def test_accumulation_keeps_the_tensor():
    x = leaf(1, 2)
    (x * 2).sum().backward()
    held = x.grad
    (x * 3).sum().backward()
    assert x.grad is held
    assert held.tolist() == [5, 5]


def test_gradients_of_two_leaves_do_not_share_memory():
    x, y = leaf(1, 2), leaf(3, 4)
    (x + y).backward(tj.tensor([1.0, 1.0]))
    x.grad.mul_(10)
    assert y.grad.tolist() == [1, 1]


def test_the_given_gradient_is_not_taken_over():
    x = leaf(1, 2)
    seed = tj.tensor([1.0, 1.0])
    x.backward(seed)
    x.grad.mul_(10)
    assert seed.tolist() == [1, 1]
    assert x.grad is not seed


def test_retain_grad():
    x = leaf(1, 2)
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [6, 12]
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(
        RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"
    ):
        tj.tensor([1.0]).retain_grad()


@pytest.mark.parametrize(
    ("values", "result", "grad"), [([1, -1, 2], "mul", 2), ([-3, -2, -1], "sub", 1)]
)
def test_branch_is_rebuilt_every_forward(values, result, grad):
    x = leaf(*values)
    y = x * 2 if x.sum() > 0 else x - 2
    assert y.grad_fn.name() == {"mul": "MulBackward0", "sub": "SubBackward0"}[result]
    y.sum().backward()
    assert x.grad.tolist() == [grad] * 3


def test_loop_and_item_condition():
    x = scalar(1)
    y = x
    for _ in range(5):
        y = y * 2
    y.backward()
    assert x.grad.item() == 32
    z = scalar(-2)
    w = z if z.item() > 0 else z * z
    w.backward()
    assert z.grad.item() == -4


def test_vector_output_needs_a_gradient():
    x = leaf(1, 2)
    y = x * x
    with pytest.raises(
        RuntimeError, match="grad can be implicitly created only for scalar outputs"
    ):
        y.backward()
    y.backward(tj.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2, 40]


def test_backward_without_graph():
    with pytest.raises(
        RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ):
        tj.tensor(1.0).backward()


def test_gradient_of_wrong_shape():
    y = leaf(1, 2) * 2
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of"):
        y.backward(tj.tensor([1.0, 2.0, 3.0]))


def test_gradient_of_wrong_kind():
    x = tj.ones(2, requires_grad=True)
    for output, gradient in ((x * 2, tj.ones(2) * 1j), (x * 1j, tj.ones(2))):
        with pytest.raises(RuntimeError, match="For complex Tensors, both grad_output and output"):
            output.backward(gradient)


def test_graph_is_freed():
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_graph_that_saved_nothing_runs_again():
    x = leaf(1, 2)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2, 2]


def test_retain_graph_accumulates():
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]


def test_inputs_restrict_accumulation():
    x, w = leaf(1, 2), leaf(3, 4)
    h = x * w
    (h * h).sum().backward(inputs=[x])
    assert w.grad is None
    assert x.grad.tolist() == [18, 64]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).sum().backward(inputs=[])


def test_partial_requires_grad():
    x, w = leaf(1, 2), tj.tensor([3.0, 4.0])
    y = (x * w).sum()
    y.backward()
    assert x.grad.tolist() == [3, 4]
    assert w.grad is None


def test_diamond_and_reuse():
    x = leaf(2)
    a = x * 3
    b = a * a + a
    (b * a).sum().backward()
    assert x.grad.tolist() == [3 * (3 * 36 + 2 * 6)]


def test_grad_returns_and_leaves_grad_alone():
    x, w = leaf(1, 2), leaf(3, 4)
    gx, gw = tj.autograd.grad((x * w).sum(), [x, w])
    assert gx.tolist() == [3, 4]
    assert gw.tolist() == [1, 2]
    assert x.grad is None
    assert w.grad is None


@pytest.mark.parametrize(
    "use",
    [
        lambda x: tj.nn.functional.pad(x, (1, 1)) ** 2,
        lambda x: x.mean((1, 2)) ** 2,
        lambda x: x.cumsum(1) ** 2,
        lambda x: tj.cat([x, x], 1)[:, 1:] ** 2,
    ],
)
def test_grad_gives_what_view_takes(use):
    """Penalties on gradients call ``view`` on them, as PyTorch's have no gaps and repeat nothing."""
    x = tj.randn(2, 3, 4, requires_grad=True)
    (plain,) = tj.autograd.grad(use(x).sum(), x)
    (tracked,) = tj.autograd.grad(use(x).sum(), x, create_graph=True)
    compiled = tj.compile(lambda x: tj.autograd.grad(use(x).sum(), x)[0].view(2, -1))
    for found in (plain, tracked, *(compiled(x) for _ in range(3))):
        assert found.is_contiguous()
        tj.testing.assert_close(found.view(2, -1), plain.reshape(2, -1))
    tracked.view(2, -1).norm(2, dim=1).sum().backward()
    assert x.grad is not None


def test_grad_of_a_sum_is_one_element_many_times():
    x = tj.randn(2, 3, requires_grad=True)
    assert tj.autograd.grad(x.sum(), x)[0].stride() == (0, 0)


def test_grad_of_intermediate_stops_there():
    x = leaf(1, 2)
    h = x * x
    (g,) = tj.autograd.grad((h * h).sum(), h)
    assert g.tolist() == [2, 8]


def test_unused_input():
    x, w = leaf(1, 2), leaf(3, 4)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        tj.autograd.grad(x.sum(), [x, w])
    assert tj.autograd.grad(x.sum(), [w], allow_unused=True) == (None,)
    (zero,) = tj.autograd.grad(x.sum(), [w], materialize_grads=True)
    assert zero.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        tj.autograd.grad(x.sum(), [tj.tensor([1.0])])


def test_several_outputs():
    x = leaf(1, 2)
    tj.autograd.backward([x * 2, (x * x).sum()], [tj.tensor([1.0, 1.0]), None])
    assert x.grad.tolist() == [4, 6]


def test_derivatives_of_any_order():
    x = scalar(2)
    y = x * x * x * x
    found = []
    for _ in range(5):
        (y,) = tj.autograd.grad(y, x, create_graph=True, materialize_grads=True)
        found.append(y.item())
        if not y.requires_grad:
            break
    assert found[:4] == [32, 48, 48, 24]


def test_create_graph_in_backward():
    x = scalar(3)
    with pytest.warns(UserWarning, match="reference cycle"):
        (x * x * x).backward(create_graph=True)
    assert x.grad.item() == 27
    assert x.grad.requires_grad
    (second,) = tj.autograd.grad(x.grad, x)
    assert second.item() == 18


def test_backward_after_create_graph_frees_nothing_needed():
    x = leaf(1, 2)
    (g,) = tj.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert x.grad.tolist() == [36, 288]


def test_detach_shares_storage_and_version():
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    d = y.detach()
    assert not d.requires_grad
    assert d.data_ptr() == y.data_ptr()
    d.zero_()
    assert y.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_requires_grad_errors():
    with pytest.raises(RuntimeError, match=r"(?i)only Tensors of floating point"):
        tj.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"(?i)only Tensors of floating point"):
        tj.tensor([1, 2]).requires_grad_()
    y = leaf(1) * 2
    with pytest.raises(
        RuntimeError, match="you can only change requires_grad flags of leaf variables"
    ):
        y.requires_grad_(False)
    y.requires_grad_()


def test_grad_setter_checks():
    x = leaf(1, 2)
    x.grad = tj.tensor([5.0, 6.0])
    assert x.grad.tolist() == [5, 6]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="size"):
        x.grad = tj.tensor([1.0])
    with pytest.raises(RuntimeError, match="type"):
        x.grad = tj.tensor([1.0, 2.0], dtype=tj.float64)
    with pytest.raises(TypeError):
        x.grad = 3.0


def test_integer_results_carry_no_history():
    x = leaf(1.5, -2.5)
    assert not (x > 0).requires_grad
    assert not x.to(tj.int64).requires_grad


def test_broadcast_gradient_is_summed():
    x = tj.tensor([[1.0], [2.0]], requires_grad=True)
    w = leaf(1, 2, 3)
    (x * w).sum().backward()
    assert x.grad.tolist() == [[6], [6]]
    assert w.grad.tolist() == [3, 3, 3]


def test_gradient_has_the_dtype_of_its_tensor():
    x = leaf(1, 2)
    w = leaf(3, 4, dtype=tj.float64)
    (x * w).sum().backward()
    assert x.grad.dtype is tj.float32
    assert w.grad.dtype is tj.float64


def test_detach_underscore():
    x = leaf(1, 2)
    y = x * 2
    y.detach_()
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0].detach_()


def test_data_is_not_version_checked():
    x = leaf(1, 2)
    y = x * x
    x.data.mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [20, 40]
    x.data = tj.tensor([7.0, 8.0, 9.0])
    assert x.tolist() == [7, 8, 9]
    assert x.requires_grad
    assert x.is_leaf


def test_grad_fn_names():
    x = leaf(1, 2, 3)
    assert x.grad_fn is None
    assert (x - 1).grad_fn.name() == "SubBackward0"
    assert (x / 2).grad_fn.name() == "DivBackward0"
    assert (-x).grad_fn.name() == "NegBackward0"
    assert x.exp().grad_fn.name() == "ExpBackward0"
    assert x.sum().grad_fn.name() == "SumBackward0"
    assert x.reshape(3, 1).sum(0).grad_fn.name() == "SumBackward1"
    assert (x**2).grad_fn.name() == "PowBackward0"
    assert (x.reshape(1, 3) @ x.reshape(3, 1)).grad_fn.name() == "MmBackward0"
    assert x.relu().grad_fn.name() == "ReluBackward0"
