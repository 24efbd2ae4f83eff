"""Checkpoints: the gradients of the plain call, nothing kept between forward and backward."""

from __future__ import annotations

import functools

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


def gradients_of(call, make):
    """What three calls and backward passes leave in the leaf, each from new tensors."""
    found = []
    for i in range(3):
        leaf = (tj.arange(1.0, 4.0) + i).requires_grad_()
        arguments = make(leaf)
        outputs = call(*arguments)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        outputs[0].sum().backward()
        found.append(leaf.grad)
    return found


def changes_its_input(x):
    result = checkpoint(lambda v: v.sin() * v, x)
    x.fill_(0.5)
    return result


def changes_a_buffer(x, buffer):
    result = checkpoint(lambda v: (v * buffer).exp(), x)
    buffer.mul_(2)
    return result


def changes_a_view_of_what_it_made(x):
    y = x * 2
    result = checkpoint(lambda v: v.sin() * v, y)
    y[1:].zero_()
    return result


def changes_what_an_inner_part_read(x):
    def outer(v):
        y = v * 2
        result = checkpoint(lambda u: u.sin() * u, y)
        y.mul_(2)
        return result * y

    return checkpoint(outer, x)


@pytest.mark.parametrize(
    ("program", "make"),
    [
        (changes_its_input, lambda leaf: (leaf.clone(),)),
        (changes_a_buffer, lambda leaf: (leaf, tj.full((3,), 0.5))),
        (changes_a_view_of_what_it_made, lambda leaf: (leaf,)),
        (changes_what_an_inner_part_read, lambda leaf: (leaf,)),
    ],
)
def test_what_a_part_reads_and_the_function_changes_is_read_as_it_is_in_backward(program, make):
    compiled = tj.compile(program)
    assert_same(gradients_of(program, make), gradients_of(compiled, make))
    assert compiled.stats.compiled_calls == 0
    assert "in-place change of a tensor" in str(compiled.explain())


def whole_step(program):
    """The forward pass and the backward pass in one function, which returns the gradient."""

    def step(x, *others):
        program(x * 1, *others).sum().backward()
        found, x.grad = x.grad, None
        return found

    return step


@pytest.mark.parametrize(
    "program", [changes_its_input, changes_a_view_of_what_it_made, changes_what_an_inner_part_read]
)
def test_the_second_computation_is_compiled_with_a_whole_step(program):
    step = whole_step(program)
    compiled = tj.compile(step, strict=True)
    for i in range(4):
        x = (tj.arange(1.0, 4.0) + i).requires_grad_()
        assert tj.allclose(step(x), compiled(x))


def test_running_statistics_are_written_twice_by_a_compiled_step_too():
    def make():
        tj.manual_seed(5)
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh())

    models = make(), make()

    def step(model, x):
        model.zero_grad()
        checkpoint(model, x, use_reentrant=False).square().sum().backward()

    compiled = tj.compile(lambda x: step(models[0], x), strict=True)
    for i in range(4):
        x = tj.arange(15.0).reshape(5, 3).sin() * (i + 1)
        compiled(x)
        step(models[1], x)
    one, other = (m.state_dict() for m in models)
    assert one["1.num_batches_tracked"].item() == 8
    assert all(tj.allclose(one[k], other[k]) for k in one)
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert tj.allclose(a.grad, b.grad, atol=1e-6)


def test_what_a_part_returned_may_change():
    def program(x):
        result = checkpoint(lambda v: v.exp(), x)
        result += x
        return result.mul_(2)

    def step(x):
        program(x).sum().backward()
        (found,), x.grad = (x.grad,), None
        return found

    compiled, whole = tj.compile(program, strict=True), tj.compile(step, strict=True)
    eager = gradients_of(program, lambda x: (x,))
    for a, b in zip(eager, gradients_of(compiled, lambda x: (x,)), strict=True):
        assert tj.allclose(a, b)
    x = tj.tensor([0.5, 1.0], requires_grad=True)
    for _ in range(3):
        assert tj.allclose(whole(x), 2 * x.detach().exp() + 2)


def test_a_change_between_a_compiled_call_and_its_backward_pass_is_refused():
    @tj.compile(strict=True)
    def program(x, buffer):
        y = x * 2
        return checkpoint(lambda v: (v * buffer).exp(), y), y

    x = tj.tensor([0.5, 1.0], requires_grad=True)
    program(x, tj.ones(2))
    for change in ("buffer", "y", None):
        buffer = tj.tensor([1.0, 2.0])
        result, y = program(x, buffer)
        if change is None:
            result.sum().backward()
            assert tj.allclose(x.grad, 2 * buffer * (x * 2 * buffer).exp().detach())
            continue
        with tj.no_grad():
            (buffer if change == "buffer" else y).mul_(2)
        with pytest.raises(RuntimeError, match="a tensor that a checkpointed part reads"):
            result.sum().backward()


def test_the_recorded_run_itself_computes_again_in_backward():
    runs = []

    def part(v):
        runs.append(None)
        return v.sin().exp()

    call = tj.compile(lambda x: checkpoint(part, x).sum())
    loss = call(tj.tensor([0.5, 1.0], requires_grad=True))
    before = len(runs)
    loss.backward()
    assert len(runs) == before + 1


def test_devices_have_no_generators_of_their_own() -> None:
    from tracejit.utils.checkpoint import get_device_states, set_device_states

    assert get_device_states(tj.ones(1), None) == ([], [])
    set_device_states(*get_device_states())
    with pytest.raises(ValueError, match="no random generators"):
        set_device_states([0], [tj.ones(1)])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_parts_run_again_in_the_precision_of_the_call(reentrant: bool, inside: bool) -> None:
    weight = tj.ones(4, 4, requires_grad=True)
    dtypes = []

    def part(x: tj.Tensor) -> tj.Tensor:
        y = x @ weight
        dtypes.append(y.dtype)
        return y.tanh()

    for precision in (tj.bfloat16, None):
        dtypes.clear()
        x = tj.ones(2, 4, requires_grad=True)
        with tj.autocast("cpu", precision, enabled=precision is not None):
            out = checkpoint(part, x, use_reentrant=reentrant)
        with tj.autocast("cpu", tj.bfloat16, enabled=inside):
            out.float().sum().backward()
        assert dtypes == [precision or tj.float32] * 2
        assert x.grad is not None
        assert x.grad.dtype is tj.float32


def _over_weights(x):
    for w in [tj.full((2,), k) for k in (0.5, 0.9, -0.7)]:
        x = checkpoint(lambda v: (v * w).tanh(), x)  # noqa: B023  (all read the last one in backward)
    return x


def _over_its_own_input(x):
    y = x
    y = checkpoint(lambda v: v.sin() * y.detach(), y)
    return (y + 1).tanh()


def _over_a_number(x):
    k = 2.0
    y = checkpoint(functools.partial(lambda v: (v * k).tanh()), x)
    k = 5.0
    return y * k


def _over_a_function(x):
    def scale(v):
        return v * k

    k = x.detach().mean()
    y = checkpoint(lambda v: scale(v).tanh(), x)
    k = k * 3
    return y


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize(
    "program", [_over_weights, _over_its_own_input, _over_a_number, _over_a_function]
)
def test_parts_that_read_variables_that_hold_something_else_in_backward(program, inside):
    def step(x):
        out = program(x)
        if inside:
            out.sum().backward()
        return out.detach() if inside else out

    compiled = tj.compile(step)
    for scale in (1.0, 2.0, 0.5):
        found = []
        for call in (step, compiled):
            x = (tj.tensor([0.1, 0.3]) * scale).requires_grad_()
            out = call(x)
            if not inside:
                out.sum().backward()
            found.append((out.detach(), x.grad))
        assert all(tj.allclose(a, b) for a, b in zip(*found, strict=True))
    assert (compiled.stats.compiled_calls > 0) is inside


def test_variables_that_stay_are_no_reason_to_run_eagerly():
    @tj.compile(strict=True)
    def program(x, n):
        return sum(checkpoint(lambda v, i=i: (v * n + i).sin(), x) for i in range(n))

    for _ in range(3):
        x = tj.tensor([0.1, 0.3], requires_grad=True)
        program(x, 3).sum().backward()
        assert tj.allclose(x.grad, sum(3 * (x.detach() * 3 + i).cos() for i in range(3)))
    assert program.stats.compiled_calls == 2
