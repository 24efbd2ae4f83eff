"""Hooks on tensors, leaves and nodes; saved-tensor hooks; anomaly detection."""

from __future__ import annotations

import pytest

import tracejit as tj


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


def test_hook_sees_and_replaces_the_gradient():
    x = leaf(1, 2)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    (y * 3).sum().backward()
    assert seen == [[3, 3]]
    assert x.grad.tolist() == [60, 60]


def test_hook_on_a_leaf_sees_the_sum():
    x = leaf(1, 2)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [[5, 5]]


def test_hook_on_a_leaf_outlives_graphs():
    x = leaf(1)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    for factor in (2, 3):
        (x * factor).sum().backward()
    assert seen == [2, 3]


def test_handle_as_context_manager():
    x = leaf(1)
    seen = []
    with x.register_hook(lambda g: seen.append(g.item())):
        (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [2]


def test_retained_gradient_is_the_one_after_hooks():
    x = leaf(1)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10]


def test_hooks_run_in_order_of_registration():
    x = leaf(1)
    order = []
    x.register_hook(lambda g: order.append("a"))
    x.register_hook(lambda g: order.append("b"))
    x.sum().backward()
    assert order == ["a", "b"]


def test_hook_runs_for_grad_too():
    x = leaf(1)
    x.register_hook(lambda g: g * 5)
    assert tj.autograd.grad((x * 2).sum(), x)[0].tolist() == [10]


def test_wrong_hook_results():
    x = leaf(1, 2)
    y = x * 2
    y.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        y.sum().backward()
    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        tj.tensor([1.0]).register_hook(lambda g: None)


def test_post_accumulate_hook():
    x = leaf(1, 2)
    seen = []

    def hook(tensor):
        seen.append(tensor.grad.tolist())
        tensor.grad = None

    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[2, 2], [3, 3]]
    assert x.grad is None
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(hook)


def test_step_inside_backward_does_not_disturb_other_gradients():
    x, w = leaf(1, 2), leaf(3, 4)

    def step(tensor):
        tensor.grad.zero_()

    for t in (x, w):
        t.register_post_accumulate_grad_hook(step)
    h = x + w
    seen = []
    h.register_hook(lambda g: seen.append(g))
    (h * 2).sum().backward()
    assert x.grad.tolist() == w.grad.tolist() == [0, 0]
    assert seen[0].tolist() == [2, 2]


def test_node_hooks():
    x = leaf(1, 2)
    y = x * 2
    calls = []
    y.grad_fn.register_prehook(lambda outs: (outs[0] * 10,))
    y.grad_fn.register_hook(lambda ins, outs: calls.append((ins[0].tolist(), outs[0].tolist())))
    y.sum().backward()
    assert calls == [([20, 20], [10, 10])]
    assert x.grad.tolist() == [20, 20]


def test_node_hook_replaces_input_gradients():
    x = leaf(1, 2)
    y = x * 2
    y.grad_fn.register_hook(lambda ins, outs: (ins[0] * 100, *ins[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [200, 200]


def test_node_metadata_and_saved_values():
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * w
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    (y * 1).sum().backward()
    with pytest.raises(AttributeError):
        y.grad_fn.no_such_attribute  # noqa: B018


def test_saved_tensors_hooks():
    x = leaf(1, 2)
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t.tolist()

    with tj.autograd.graph.saved_tensors_hooks(pack, lambda values: tj.tensor(values)):
        y = x.exp() * x
    assert len(packed) == 3
    y.sum().backward()
    expected = tj.tensor([1.0, 2.0])
    expected = expected.exp() * expected + expected.exp()
    assert (x.grad - expected).abs().sum().item() < 1e-5


def test_saved_tensors_hooks_keep_higher_derivatives():
    x = leaf(2)
    with tj.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * x * x
        (g,) = tj.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = tj.autograd.grad(g.sum(), x)
    assert h.tolist() == [12]


def test_anomaly_mode_names_the_operation():
    x = leaf(0)
    with tj.autograd.detect_anomaly(check_nan=True):
        y = (x / x) * 2
        with (
            pytest.warns(UserWarning, match="Error detected in DivBackward0"),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            y.sum().backward()


@pytest.mark.parametrize("alive", [True, False], ids=["an older graph lives", "no older graph"])
def test_what_a_failed_pass_leaves_in_leaves(alive: bool) -> None:
    """As in PyTorch: leaves that nothing left to run leads to have theirs, however long their nodes have lived."""
    x, y, seen = tj.ones(3, requires_grad=True), tj.ones(3, requires_grad=True), []
    older = x * 2 if alive else None
    h = tj.tanh(y)
    k = tj.sin(h)
    loss = (x * 3 / k).sum()
    also = loss + (y * x).sum()
    h.detach().add_(1)  # sin kept it: the pass fails there
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inplace"):
            loss.backward(retain_graph=True)
    slope = 3 / k.detach()
    assert tj.equal(x.grad, slope * 2)
    assert y.grad is None
    assert len(seen) == 2
    assert x.grad._version == 1
    with pytest.raises(RuntimeError, match="inplace"):
        also.backward(retain_graph=True)
    assert tj.equal(x.grad, slope * 3 + 1)
    assert y.grad is None
    with pytest.raises(RuntimeError, match="inplace"):
        tj.autograd.grad(loss, [x, y], retain_graph=True)
    assert len(seen) == 3
    del older


def test_tensor_hooks_of_leaves_run_before_those_of_their_nodes():
    x = leaf(1)
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda found: (found[0] / 5,))
    x.register_hook(lambda g: g - 2)
    x.register_post_accumulate_grad_hook(lambda t: t.grad.add_(0.5) and None)
    seen = []
    node.register_hook(lambda into, out: seen.append((into, out[0].item())))
    (x * 1).sum().backward()
    assert x.grad.item() == pytest.approx(0.3)
    assert seen == [((), pytest.approx(0.3))]  # the memory that became ``.grad``
    (x * 1).sum().backward()
    assert seen[1] == ((), pytest.approx(-0.2))  # what was added to it


def test_hooks_of_a_node_where_a_pass_ends():
    x = leaf(1)
    y = x * 2
    z = y * 2
    counts = {"tensor": 0, "pre": 0, "post": 0}

    def counting(name):
        def hook(*_):
            counts[name] += 1

        return hook

    y.register_hook(counting("tensor"))
    y.grad_fn.register_prehook(counting("pre"))
    y.grad_fn.register_hook(counting("post"))
    y.retain_grad()
    tj.autograd.grad(z, y, retain_graph=True)
    assert counts == {"tensor": 1, "pre": 0, "post": 0}
    tj.autograd.grad(z, (x, y), retain_graph=True)
    assert counts == {"tensor": 2, "pre": 1, "post": 1}
    y.grad = None
    y.grad_fn.register_prehook(lambda found: (found[0] * 7,))
    z.backward()
    assert (y.grad.item(), x.grad.item()) == (2, 28)


def test_grad_runs_no_hooks_of_the_nodes_of_leaves():
    x = leaf(1)
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    called = []
    node.register_prehook(called.append)
    node.register_hook(lambda *_: called.append(1))
    tj.autograd.grad(y, x)
    assert called == []


def test_post_accumulate_hooks_return_nothing():
    x = leaf(1)
    x.register_post_accumulate_grad_hook(lambda t: t)
    with pytest.raises(RuntimeError, match="should return None"):
        (x * 2).sum().backward()


def test_hook_on_several_gradients():
    a, b = leaf(1, 2), leaf(3, 4)
    c = a * b
    d = a * b
    seen = []
    handle = tj.autograd.graph.register_multi_grad_hook(
        (a, b, c, d), lambda found: seen.append([g is not None for g in found])
    )
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    tj.autograd.grad((c + d).sum(), b, retain_graph=True)
    handle.remove()
    c.sum().backward()
    assert seen == [
        [True, True, True, False],
        [True, False, True, False],
        [False, True, True, True],
    ]


def test_hook_on_the_first_of_several_gradients():
    a, b = leaf(1), leaf(3)
    seen = []
    with tj.autograd.graph.register_multi_grad_hook(
        (a, b), lambda g: seen.append(g.item()), mode="any"
    ):
        (a * b).sum().backward()
        b.grad = None
        (b * 5).sum().backward()
    assert seen in ([1, 5], [3, 5])
    with pytest.raises(ValueError, match="Expects mode"):
        tj.autograd.graph.register_multi_grad_hook((a,), print, mode="some")
    with pytest.raises(RuntimeError):
        tj.autograd.graph.register_multi_grad_hook((a.detach(),), print)


def test_hook_on_several_gradients_of_compiled_code():
    a, b = leaf(1), leaf(3)
    seen = []
    tj.autograd.graph.register_multi_grad_hook((a, b), lambda found: seen.append(len(found)))
    f = tj.compile(lambda a, b: (a * b).sum())
    g = tj.compile(lambda a, b: (a * b).sum().backward())
    for _ in range(3):
        f(a, b).backward()
        g(a, b)
    assert seen == [2] * 6


@pytest.mark.parametrize("count", [0, 1, 3])
def test_hooks_of_nodes_return_as_many_gradients(count):
    x = leaf(1)
    y = x * (x + 1)
    y.grad_fn.register_hook(lambda found, _: (found[0],) * count)
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        y.sum().backward()
