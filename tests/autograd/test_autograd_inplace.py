"""In-place changes: leaves, version counters, views that alias, histories through bases."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


def test_leaf_that_requires_grad():
    x = leaf(1, 2)
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad is being used in an in-place operation",
    ):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0:1].add_(1)
    with tj.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]
    assert x.is_leaf


def test_changed_saved_value():
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"(?s)modified by an inplace operation.*version 1; expected version 0"
    ):
        z.sum().backward()


def test_changed_saved_result():
    x = leaf(1, 2)
    y = x.exp()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="output 0 of ExpBackward0"):
        y.sum().backward()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_not_saved_may_change(compiled):
    def written(operand, function):
        x = tj.tensor([0.25, 0.5], requires_grad=True)

        def run(x):
            y = x * 1
            out = function(y)
            (y if operand else out).detach().zero_()
            return out

        for _ in range(2):
            x.grad = None
            (tj.compile(run) if compiled else run)(x).sum().backward()
        return x.grad.tolist()

    assert written(True, tj.expm1) == pytest.approx([1.2840254, 1.6487213])
    assert written(False, tj.erfinv) == pytest.approx([0.9324298, 1.1125796], rel=1e-4)
    turned = [tj.cos(x).item() for x in (tj.tensor(0.25), tj.tensor(0.5))]
    assert written(True, lambda y: tj.polar(y, tj.zeros(2)).real) == [1.0, 1.0]
    assert written(True, lambda y: tj.polar(tj.ones(2), y).imag) == pytest.approx(turned)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        written(True, tj.erfinv)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        written(False, tj.expm1)


def test_changed_result_that_its_own_node_saved():
    x = leaf(1, 2)
    y = x.exp()
    y.mul_(3)
    with pytest.raises(RuntimeError, match="output 0 of ExpBackward0"):
        y.sum().backward()
    y = x.tanh()
    y[0] = 1.0
    with pytest.raises(RuntimeError, match="output 0 of TanhBackward0"):
        y.sum().backward()


def test_changed_value_that_another_operand_saved():
    x = leaf(1, 2)
    y = x * 2
    y.mul_(y.sin())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: x.copy_(v),
        lambda x, v: x.fill_(v[0]),
        lambda x, v: x.__setitem__(0, v[0]),
        lambda x, v: x.__setitem__(slice(None), v),
        lambda x, v: x.__setitem__(tj.tensor([0, 1]), v),
        lambda x, v: x.__setitem__(x > 0, v),
        lambda x, v: x.__setitem__(x > 0, v[0]),
    ],
)
def test_a_value_computed_from_what_is_overwritten(write):
    """The product saved x before; that it is what x is overwritten with makes no difference (PyTorch)."""
    w, x = leaf(3, 4), tj.tensor([1.0, 2.0])
    write(x, x * w)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*saved by MulBackward0"
    ):
        x.sum().backward()
    assert w.grad is None


def test_old_values_that_the_inplace_function_itself_needs():
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * 1
    y.mul_(w).sum().backward()
    assert w.grad.tolist() == [1, 2]
    y = x * 1
    y[:1].pow_(3)
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3, 1]


def test_change_of_a_value_that_was_not_saved():
    x = leaf(1, 2)
    y = x * 2
    z = y + 1
    y.mul_(5)
    (z.sum() + y.sum()).backward()
    assert x.grad.tolist() == [12, 12]


def test_chain_of_inplace_operations():
    x = leaf(1, 2)
    y = x * 1
    y.mul_(3)
    y.add_(x)
    assert y.tolist() == [4, 8]
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_factor_of_inplace_product_sees_the_old_value():
    y, w = tj.tensor([5.0, 6.0]), leaf(1, 2)
    y.mul_(w)
    assert y.requires_grad
    y.sum().backward()
    assert w.grad.tolist() == [5, 6]


def test_inplace_product_of_history_and_history():
    x, w = leaf(3, 4), leaf(1, 2)
    y = x * 2
    y.mul_(w)
    y.sum().backward()
    assert w.grad.tolist() == [6, 8]
    assert x.grad.tolist() == [2, 4]


def test_writing_history_into_a_view_reaches_the_base():
    base, w = tj.tensor([1.0, 2.0, 3.0]), leaf(10, 20)
    base[1:].mul_(w)
    assert base.requires_grad
    (base * base).sum().backward()
    assert w.grad.tolist() == [2 * 2 * 2 * 10, 2 * 3 * 3 * 20]


def test_setitem():
    x = leaf(1, 2, 3)
    y = x * 2
    y[1] = 7.0
    assert y.tolist() == [2, 7, 6]
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 2]


def test_setitem_with_history():
    x, v = leaf(1, 2, 3), leaf(5)
    y = x * 2
    y[0:1] = v * 3
    (y * y).sum().backward()
    assert v.grad.tolist() == [90]
    assert x.grad.tolist() == [0, 16, 24]


def test_view_sees_changes_of_its_base():
    x = leaf(1, 2, 3, 4)
    y = x * 1
    view = y[1:3]
    y.mul_(x)
    assert view.tolist() == [4, 9]
    view.sum().backward()
    assert x.grad.tolist() == [0, 4, 6, 0]


def test_view_of_a_base_that_gets_a_history_later():
    base, w = tj.tensor([1.0, 2.0, 3.0]), leaf(2, 2, 2)
    view = base[0:2]
    base.mul_(w)
    assert view.requires_grad
    (view * 10).sum().backward()
    assert w.grad.tolist() == [10, 20, 0]


def test_base_sees_changes_of_a_nested_view():
    x = tj.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    y[1][0:1].mul_(10)
    assert y.tolist() == [[1, 2], [30, 4]]
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1], [10, 1]]


def test_two_views_of_one_base():
    x = leaf(1, 2, 3)
    y = x * 1
    first, second = y[0:2], y[1:3]
    first.mul_(2)
    second.mul_(3)
    assert first.tolist() == [2, 12]
    first.sum().backward()
    assert x.grad.tolist() == [2, 6, 0]


def test_view_through_reshape_and_transpose():
    x = leaf(1, 2, 3, 4, 5, 6)
    y = x * 1
    y.view(2, 3)[1].mul_(10)
    (y * y).sum().backward()
    assert x.grad.tolist() == [2, 4, 6, 800, 1000, 1200]


def test_zero_cuts_the_gradient_but_stays_in_the_graph():
    x = leaf(1, 2)
    y = x * 3
    y.zero_()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is None or x.grad.tolist() == [0, 0]


def test_copy_takes_the_history_of_its_source():
    x = leaf(1, 2)
    y = tj.tensor([0.0, 0.0])
    y.copy_(x)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_result_type_and_shape_must_fit():
    with pytest.raises(
        RuntimeError, match="result type Float can't be cast to the desired output type Long"
    ):
        tj.tensor([1, 2]).add_(0.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tj.tensor([1.0, 2.0]).add_(tj.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_expanded_tensor_cannot_be_written():
    with pytest.raises(
        RuntimeError,
        match="more than one element of the written-to tensor refers to a single memory location",
    ):
        tj.tensor([1.0]).expand(3).add_(1)


def test_view_made_without_grad():
    x = leaf(1, 2)
    y = x * 2
    with tj.no_grad():
        view = y[0:1]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.mul_(2)


def test_failed_inplace_operation_changes_nothing():
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    with pytest.raises(RuntimeError):
        y.add_(tj.tensor([1.0, 2.0, 3.0]))
    assert y.tolist() == [2, 4]
    z.sum().backward()
    assert x.grad.tolist() == [8, 16]


def test_retain_grad_follows_inplace_changes():
    x = leaf(1, 2)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]
    assert x.grad.tolist() == [6, 6]


def test_hook_belongs_to_the_value_before_the_change():
    x = leaf(1, 2)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3)
    y.sum().backward()
    assert seen == [[3, 3]]


def test_double_backward_through_inplace():
    x, w = leaf(2, 3), leaf(4, 5)
    y = x * x
    y.mul_(w)
    (g,) = tj.autograd.grad(y.sum(), w, create_graph=True)
    assert g.tolist() == [4, 9]
    (gx,) = tj.autograd.grad(g.sum(), x)
    assert gx.tolist() == [4, 6]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (lambda x: x.expand(3, 4)[0], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: x.expand(3, 4)[:1], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: x.expand(3, 4)[1, 2:], [0.0, 0.0, 1.0, 1.0]),
        (lambda x: x.expand(2, 4)[1], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: x.unsqueeze(1).expand(4, 3)[:, 1], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: x.view(2, 2).T.expand(5, 2, 2)[4], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: x[::2].expand(3, 2)[0], [1.0, 0.0, 1.0, 0.0]),
        (lambda x: x.expand(3, 4)[0:0], [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_a_part_of_an_expanded_tensor_is_written_to(part, expected):
    for wrap in (lambda f: f, tj.compile):
        x = tj.zeros(4)
        f = wrap(lambda x: part(x).add_(1))
        f(x)
        assert x.tolist() == expected
        assert x._version == 1
        f(x)
        assert x.tolist() == [2 * v for v in expected]


def test_parts_of_expanded_tensors_that_cannot_be_written_to():
    with pytest.raises(RuntimeError, match="single memory location"):
        tj.zeros(4).expand(3, 4).T[1].add_(1)
    fixed = np.ones(4, np.float32)
    fixed.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        held = tj.from_numpy(fixed)
    with pytest.raises(RuntimeError, match="read-only"):
        held.expand(3, 4)[0].add_(1)
    assert fixed.tolist() == [1.0] * 4
    x = tj.ones(4, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="single memory location"):
        y.expand(3, 4)[:2].mul_(3)
    assert y.tolist() == [2.0] * 4
    y.expand(3, 4)[0].mul_(3)  # of which no element stands for two
    assert y.tolist() == [6.0] * 4
    y.sum().backward()
    assert x.grad.tolist() == [6.0] * 4


@pytest.mark.parametrize(
    "take", [lambda x: x, lambda x: x[0], lambda x: x.t(), lambda x: x.view(-1)]
)
def test_a_view_that_was_made_a_leaf_is_not_written_to(take) -> None:
    x = tj.arange(6.0).view(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        take(x).add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        take(x).zero_()
    with tj.no_grad():
        take(x).add_(1)
    assert x.is_leaf
    assert x.sum().item() > 15
