"""Python state that the backward of a custom function reads: what a call found there is what its gradient uses."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.errors import AutogradError

STATE = {"factor": 0.5}


class Setting:
    gain = 2.0


class ByDict(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * STATE["factor"]


class ByContext(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x, setting):
        ctx.setting = setting
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.setting.gain, None


def ready(apply):
    """A compiled function that has been called often enough to be compiled."""
    function = tj.compile(lambda x: (apply(x) * 2).sum())
    for _ in range(3):
        x = tj.ones(3, requires_grad=True)
        function(x).backward()
    assert function.stats.compiled_calls == 2
    assert not function.reasons
    return function


def test_an_item_that_changed_before_the_gradient_is_asked_for():
    function = ready(ByDict.apply)
    x = tj.ones(3, requires_grad=True)
    y = function(x)
    STATE["factor"] = 0.75
    try:
        with pytest.raises(
            AutogradError, match=r"backward of ByDict .* 'factor'.* was 0.5 and is 0.75"
        ):
            y.backward()
        assert x.grad is None
        function(x).backward()  # recorded anew
        assert x.grad.tolist() == [1.5] * 3
    finally:
        STATE["factor"] = 0.5


def test_an_attribute_of_what_the_context_holds():
    setting = Setting()
    setting.gain = 2.0
    function = ready(lambda x: ByContext.apply(x, setting))
    x = tj.ones(3, requires_grad=True)
    y, late = function(x), function(x)
    y.backward()
    assert x.grad.tolist() == [4.0] * 3
    setting.gain = 5.0
    with pytest.raises(AutogradError, match="reads Python state that has changed"):
        tj.autograd.grad(late, x)
    with pytest.raises(AutogradError, match="reads Python state that has changed"):
        tj.autograd.grad(late, x, create_graph=True)
    setting.gain = 2.0
    assert tj.autograd.grad(late, x)[0].tolist() == [4.0] * 3


def test_numbers_that_vary_are_read_when_the_gradient_is_asked_for():
    function = tj.compile(lambda x: ByDict.apply(x).sum())
    try:
        for i in range(8):
            STATE["factor"] = i / 4
            x = tj.ones(3, requires_grad=True)
            y = function(x)
            y.backward()
            assert x.grad.tolist() == [i / 4] * 3
    finally:
        STATE["factor"] = 0.5


def test_a_backward_that_is_another_function_by_then():
    class Tripled(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    function = ready(Tripled.apply)
    x = tj.ones(3, requires_grad=True)
    y = function(x)
    Tripled.backward = staticmethod(lambda ctx, g: g * 5)
    with pytest.raises(AutogradError, match=r"backward of Tripled .* Tripled.backward was"):
        y.backward()
    for _ in range(3):
        x.grad = None
        function(x).backward()
        assert x.grad.tolist() == [10.0] * 3


UPPER, INIT = str.upper, object.__init__


class ByDescriptors(tj.autograd.Function):
    """Its backward reaches methods as built-in classes have them."""

    @staticmethod
    def forward(ctx, x):
        return x * 3.0

    @staticmethod
    def backward(ctx, g):
        INIT(object())
        return g * 3.0 * len(UPPER("a"))


def test_a_backward_that_reaches_methods_of_built_in_classes():
    step = tj.compile(lambda x: ByDescriptors.apply(x).sum())
    for _ in range(3):
        x = tj.ones(2).requires_grad_()
        step(x).backward()
        assert x.grad.tolist() == [3.0, 3.0]
    assert step.stats.compiled_calls == 2
