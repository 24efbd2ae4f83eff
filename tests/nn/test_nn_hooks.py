"""Module hooks around forward and backward."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


class Double(nn.Module):
    def forward(self, x, shift=0.0):
        return x * 2 + shift


def ones(*shape: int, requires_grad: bool = False):
    return tj.tensor(np.ones(shape, np.float32), requires_grad=requires_grad)


def test_forward_hooks_see_and_replace():
    module, seen = Double(), []
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.register_forward_hook(lambda m, args, out: seen.append((m, args, out)))
    handle = module.register_forward_hook(lambda m, args, out: out * 10)
    assert module(ones(1)).tolist() == [40.0]
    ((owner, args, out),) = seen
    assert owner is module
    assert args[0].tolist() == [2.0]
    assert out.tolist() == [4.0]
    handle.remove()
    handle.remove()
    assert module(ones(1)).tolist() == [4.0]


def test_hooks_with_keyword_arguments():
    module, seen = Double(), []

    def before(m, args, kwargs):
        return args, {**kwargs, "shift": 5.0}

    def after(m, args, kwargs, out):
        seen.append(kwargs)
        return out + 1

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after, with_kwargs=True)
    assert module(ones(1), shift=1.0).tolist() == [8.0]
    assert seen == [{"shift": 5.0}]
    module.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    with pytest.raises(RuntimeError, match="tuple of \\(new_args, new_kwargs\\)"):
        module(ones(1))


def test_order_prepend_and_with_statement():
    module, order = Double(), []
    module.register_forward_hook(lambda *_: order.append("first"))
    with module.register_forward_hook(lambda *_: order.append("prepended"), prepend=True):
        module(ones(1))
    module(ones(1))
    assert order == ["prepended", "first", "first"]


def test_always_call_runs_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    module, seen = Fails(), []
    module.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append("never"))
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert seen == [None]


def test_full_backward_hooks_see_both_gradients():
    module, seen = Double(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    x = ones(2, requires_grad=True)
    (module(x) * 3).sum().backward()
    ((grad_input, grad_output),) = seen
    assert [g.tolist() for g in grad_input] == [[6.0, 6.0]]
    assert [g.tolist() for g in grad_output] == [[3.0, 3.0]]
    assert x.grad.tolist() == [6.0, 6.0]


def test_full_backward_hooks_replace():
    module = Double()
    module.register_full_backward_pre_hook(lambda m, go: (go[0] * 10,))
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1,))
    x = ones(1, requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [21.0]


def test_backward_hooks_are_those_of_the_call():
    module, seen = nn.Linear(2, 2), []

    def register(name):
        return (
            module.register_full_backward_pre_hook(lambda m, go: seen.append(f"{name} before")),
            module.register_full_backward_hook(lambda m, gi, go: seen.append(f"{name} after")),
        )

    handles = register("old")
    out = module(ones(1, 2, requires_grad=True))
    for handle in handles:
        handle.remove()
    register("new")
    out.sum().backward()
    assert seen == ["old before", "old after"]
    seen.clear()
    module(ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["new before", "new after"]


def test_full_backward_hook_when_no_input_needs_grad():
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(ones(1))

        def forward(self, x):
            return x * self.w

    module, seen = Scale(), []
    handle = module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        module(ones(1)).sum().backward()
    assert seen == [((None,), [1.0])]
    assert module.w.grad.tolist() == [1.0]
    handle.remove()
    module.register_full_backward_hook(lambda m, gi, go: (None, go[0]))
    with (
        pytest.warns(UserWarning, match="no inputs require gradients"),
        pytest.raises(RuntimeError, match="always return None"),
    ):
        module(ones(1)).sum().backward()


def test_backward_hooks_keep_tuples_and_second_order():
    class Pair(nn.Module):
        def forward(self, x):
            return x * x, 3

    module = Pair()
    module.register_full_backward_hook(lambda m, gi, go: None)
    x = ones(1, requires_grad=True)
    y, three = module(x)
    assert three == 3
    (g,) = tj.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = tj.autograd.grad(g.sum(), x)
    assert (g.tolist(), h.tolist()) == ([2.0], [2.0])


def test_wrong_number_of_gradients():
    module = Double()
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    x = ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        module(x).sum().backward()


def test_a_handle_keeps_nothing_alive():
    module = Double()
    handle = module.register_forward_hook(lambda *_: None)
    gone = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert gone() is None
    finally:
        gc.enable()
    handle.remove()


def test_hooks_at_the_last_operation():
    layer, seen = tj.nn.Conv2d(1, 2, 3), []
    handle = layer.register_backward_hook(lambda *given: seen.append(given))
    layer(tj.ones(1, 1, 5, 5)).sum().backward()
    (module, grad_input, grad_output), *more = seen
    assert (module, len(grad_output), more) == (layer, 1, [])
    assert grad_output[0].tolist() == tj.ones(1, 2, 3, 3).tolist()
    assert isinstance(grad_input, tuple)
    handle.remove()
    layer(tj.ones(1, 1, 5, 5)).sum().backward()
    assert len(seen) == 1
    layer.register_full_backward_hook(lambda *given: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        layer.register_backward_hook(lambda *given: None)


def test_hooks_at_the_last_operation_find_the_tensor_and_replace():
    class Pair(tj.nn.Module):
        def forward(self, x):
            return {"a": [x * 2, x * 3]}

    pair = Pair()
    pair.register_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10, None))
    x = tj.ones(2, requires_grad=True)
    pair(x)["a"][0].sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


class Mixed(nn.Module):
    def forward(self, number, x, y):
        return x * number, y * 2


def test_gradients_of_arguments_are_by_position():
    seen = []
    module = Mixed()
    module.register_full_backward_hook(lambda m, into, out: seen.append((into, out)))
    x, y = ones(2, requires_grad=True), ones(2)
    module(3, x, y)[0].sum().backward()
    ((into, out),) = seen
    assert (into[0], into[1].tolist(), into[2]) == (None, [3, 3], None)
    assert (out[0].tolist(), out[1]) == ([1, 1], None)


def test_backward_hooks_wait_for_the_results():
    """A second derivative comes to the arguments by another way: no hook is called."""
    seen = []
    module = nn.MSELoss()
    module.register_full_backward_hook(lambda *_: seen.append(1))
    x = ones(1, requires_grad=True)
    (g,) = tj.autograd.grad(module(x, ones(1) * 3), x, create_graph=True)
    assert seen == [1]
    assert tj.autograd.grad(g, x)[0].tolist() == [2]
    assert seen == [1]


def test_backward_hooks_where_no_argument_requires_grad():
    module = nn.Linear(2, 1)
    seen = []
    module.register_full_backward_hook(lambda m, into, out: seen.append(into) or into)
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        module(ones(3, 2)).sum().backward()
    assert seen == [(None,)]
    module.register_full_backward_hook(lambda m, into, out: out)
    with (
        pytest.warns(UserWarning, match="no inputs require gradients"),
        pytest.raises(RuntimeError, match="always return None"),
    ):
        module(ones(3, 2)).sum().backward()


@pytest.mark.parametrize("replace", [False, True])
def test_hooks_on_what_modules_get(replace):
    place = nn.modules.module
    seen = []

    def hook(module, name, value):
        seen.append((type(module).__name__, name))
        if replace and isinstance(value, nn.Parameter):
            return nn.Parameter(value.detach() * 0 + 7)
        if replace and isinstance(value, tj.Tensor):
            return value + 1
        return None

    with (
        place.register_module_parameter_registration_hook(hook),
        place.register_module_buffer_registration_hook(hook),
        place.register_module_module_registration_hook(hook),
    ):
        net = nn.Sequential(nn.Linear(1, 1))
        net.extra = nn.ReLU()
        net.register_buffer("table", tj.ones(1))
        net.table = tj.ones(1) * 2
        net.add_module("none", None)
        net.scale = nn.Parameter(tj.zeros(1))
    expected = ["weight", "bias", "0", "extra", "table", "table", "none", "scale"]
    assert [name for _, name in seen] == expected
    assert net.scale.item() == (7 if replace else 0)
    assert net.table.item() == (3 if replace else 2)
    nn.Linear(1, 1)
    assert len(seen) == 8


def test_older_hooks_of_all_modules():
    place, x = nn.modules.module, ones(1, requires_grad=True)
    with place.register_module_backward_hook(lambda m, into, out: (into[0] * 3,)):
        nn.Sequential(nn.ReLU())(x).backward()
        assert x.grad.tolist() == [9]  # of the last operation of both
        with pytest.raises(RuntimeError, match="both regular backward hooks and full"):
            place.register_module_full_backward_hook(print)
    with (
        place.register_module_full_backward_hook(lambda *_: None),
        pytest.raises(RuntimeError, match="both regular backward hooks and full"),
    ):
        place.register_module_backward_hook(print)
