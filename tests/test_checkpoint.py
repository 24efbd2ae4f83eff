"""Checkpoints: the gradients of the plain call, nothing kept between forward and backward."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.utils.checkpoint import checkpoint, checkpoint_sequential


def model():
    tj.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3), nn.Sigmoid())


def gradients(net, call):
    x = tj.linspace(-1, 1, 8).reshape(2, 4).requires_grad_()
    tj.manual_seed(7)
    call(x).square().sum().backward()
    found = [x.grad, *(p.grad for p in net.parameters())]
    net.zero_grad()
    return found


def assert_same(a, b):
    assert all(tj.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("reentrant", [False, True, None])
def test_gradients_are_those_of_the_plain_call_random_masks_included(reentrant):
    net = model()
    plain = gradients(net, net)
    assert_same(plain, gradients(net, lambda x: checkpoint(net, x, use_reentrant=reentrant)))


def test_the_random_state_after_backward_is_where_it_was():
    net = model()
    x = tj.ones(1, 4, requires_grad=True)
    tj.manual_seed(1)
    loss = checkpoint(net, x).sum()
    after = tj.get_rng_state()
    loss.backward()
    assert tj.equal(after, tj.get_rng_state())


def test_the_function_runs_again_in_backward_and_keeps_nothing_before():
    runs = []

    def part(x, scale=1.0):
        runs.append(1)
        return (x.exp() * scale).sin()

    x = tj.ones(3, requires_grad=True)
    y = checkpoint(part, x, scale=2.0).sum()
    assert len(runs) == 1
    y.backward(retain_graph=True)
    assert len(runs) == 2
    first = x.grad.clone()
    y.backward()
    assert len(runs) == 3
    assert tj.equal(x.grad, 2 * first)


def test_without_gradients_it_is_the_plain_call():
    with tj.no_grad():
        assert not checkpoint(tj.exp, tj.ones(2, requires_grad=True)).requires_grad


def test_nested_and_in_sequence():
    net = model()
    plain = gradients(net, net)
    nested = gradients(net, lambda x: checkpoint(lambda t: checkpoint(net[2:], net[:2](t)), x))
    assert_same(plain, nested)
    assert_same(plain, gradients(net, lambda x: checkpoint_sequential(net, 3, x)))


def test_twice_differentiated():
    x = tj.tensor([0.3, 0.7], requires_grad=True)
    for call in (lambda t: t.sin().exp(), lambda t: checkpoint(lambda u: u.sin().exp(), t)):
        (first,) = tj.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = tj.autograd.grad(first.sum(), x)
        expected = (x.cos() ** 2 - x.sin()) * x.sin().exp()
        assert tj.allclose(second, expected.detach())


def test_a_second_computation_that_differs_is_refused():
    shapes = iter([2, 3])

    def part(x):
        return x[: next(shapes)].exp().sum()

    loss = checkpoint(part, tj.ones(4, requires_grad=True))
    with pytest.raises(RuntimeError, match="second computation differs"):
        loss.backward()


def test_inside_a_compiled_step():
    net = model().eval()
    plain = gradients(net, net)

    @tj.compile(strict=True)
    def call(x):
        return checkpoint(net, x, use_reentrant=False)

    for _ in range(3):
        assert all(tj.allclose(a, b) for a, b in zip(plain, gradients(net, call), strict=True))


def test_a_part_that_writes_does_so_twice_in_compiled_code_too():
    def make():
        tj.manual_seed(5)
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3))

    eager, compiled = make(), make()

    def parts(model, x):
        return checkpoint(model[2], checkpoint(model[:2], x), use_reentrant=False).sum()

    call = tj.compile(lambda x: parts(compiled, x))
    for i in range(4):
        x = tj.arange(15.0).reshape(5, 3) * (i + 1)
        parts(eager, x).backward()
        call(x).backward()
    for one, other in zip(compiled[1:], eager[1:], strict=True):
        assert one.num_batches_tracked.item() == other.num_batches_tracked.item() == 8
        assert tj.allclose(one.running_mean, other.running_mean)
    assert "checkpointed part" in str(call.explain())
    for module in (eager, compiled):
        module.eval()
    frozen = tj.compile(lambda x: checkpoint(compiled, x).sum(), strict=True)
    expected = checkpoint(eager, x).sum().item()
    assert [frozen(x).item() for _ in range(3)] == pytest.approx([expected] * 3, rel=1e-5)


def test_devices_have_no_generators_of_their_own() -> None:
    from tracejit.utils.checkpoint import get_device_states, set_device_states

    assert get_device_states(tj.ones(1), None) == ([], [])
    set_device_states(*get_device_states())
    with pytest.raises(ValueError, match="no random generators"):
        set_device_states([0], [tj.ones(1)])
