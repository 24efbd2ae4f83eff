"""Parts of PyTorch's first kind of checkpoint, which libraries build checkpoints of their own from."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit.utils.checkpoint import (
    CheckpointFunction,
    _get_autocast_kwargs,
    _get_device_module,
    _infer_device_type,
    check_backward_validity,
    detach_variable,
)


class Again(tj.autograd.Function):
    """A checkpoint as libraries write it."""

    @staticmethod
    def forward(ctx: Any, run: Any, preserve: bool, *arguments: Any) -> Any:
        check_backward_validity(arguments)
        ctx.run = run
        ctx.save_for_backward(*arguments)
        with tj.no_grad():
            return run(*arguments)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        arguments = detach_variable(ctx.saved_tensors)
        with tj.enable_grad():
            results = ctx.run(*arguments)
        tj.autograd.backward(results, grads)
        return (None, None, *(x.grad for x in arguments))


@pytest.mark.parametrize("function", [CheckpointFunction, Again])
def test_gradients_are_those_without_a_checkpoint(function: Any) -> None:
    layer = tj.nn.Linear(3, 3)

    def gradients(run: Any) -> list[Any]:
        x = tj.linspace(-1, 2, 6).reshape(2, 3).requires_grad_()
        layer.zero_grad()
        run(x).square().sum().backward()
        return [x.grad, *(p.grad for p in layer.parameters())]

    def part(x: Any) -> Any:
        return layer(x).tanh()

    expected = gradients(part)
    found = gradients(lambda x: function.apply(part, True, x))
    assert all(tj.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_without_an_argument_that_requires_grad_there_are_no_gradients_and_a_warning() -> None:
    layer = tj.nn.Linear(3, 3)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        result = CheckpointFunction.apply(layer, True, tj.ones(2, 3))
    assert not result.requires_grad


def test_detached_tensors_are_leaves_and_other_things_stay() -> None:
    x = tj.ones(2, requires_grad=True) * 2
    found = detach_variable((x, tj.ones(2), "text"))
    assert [found[0].is_leaf, found[0].requires_grad] == [True, True]
    assert not found[1].requires_grad
    assert found[2] == "text"
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        detach_variable([x])


def test_what_is_asked_of_devices_and_autocast() -> None:
    assert _infer_device_type(tj.ones(2), 3) == "cuda"
    assert _get_device_module("cuda") is tj.cuda
    with tj.autocast("cpu", dtype=tj.bfloat16):
        there, host = _get_autocast_kwargs("cuda")
    assert host == {"enabled": True, "dtype": tj.bfloat16, "cache_enabled": True}
    assert there["enabled"] is False
