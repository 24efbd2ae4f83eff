"""`vmap` hands over the history of the batch, too: views, detached tensors, functions with gradients of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

F = tj.nn.functional


class Steep(tj.autograd.Function):
    """A sine whose gradient is ten times as large."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 10 * g * ctx.saved_tensors[0].cos()


class Batched(Steep):
    """The same, which says what it gives for a batch: one more for each sample."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Steep.apply(x) + info.batch_size, in_dims[0]


class Pair(tj.autograd.Function):
    """Two results, one along the last dimension of the batch, and one that is the same for all samples."""

    @staticmethod
    def forward(x: Any, scale: Any) -> Any:
        return x * scale, scale * 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g * ctx.scale, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, scale: Any) -> Any:
        assert in_dims == (0, None)
        assert info.randomness == "error"
        return (x.movedim(0, -1) * scale, scale * 1), (-1, None)


CALLS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(3, 1) * x,
    "view of a result": lambda x: (x * 2).view(3, 1).sin(),
    "view of joined rows": lambda x: tj.stack([x, x * 2]).view(-1),
    "view as another": lambda x: (x * 2).view_as(tj.ones(3, 1)),
    "view of a part": lambda x: (x * x)[1:].view(2, 1),
    "view of a convolution": lambda x: F.conv1d(x[None], tj.ones(2, 1, 2)).view(-1),
    "detached": lambda x: x.detach() * x,
    "detached result": lambda x: (x * 2).detach() * x + x.sin().data,
    "custom function": lambda x: Steep.apply(x * 2) * x,
    "custom function of all": lambda x: Steep.apply(x),
    "gradient of a custom function": lambda x: tj.func.grad(lambda z: Steep.apply(z).sum())(x) * x,
    "batches in batches": lambda x: tj.vmap(lambda z: Steep.apply(z) * z)(x),
}


def _start() -> Any:
    return (tj.arange(6.0).reshape(2, 3) * 0.7).requires_grad_()


def _found(call: Any) -> list[Any]:
    x = _start()
    out = call(x)
    return [out.detach(), *tj.autograd.grad((out * out).sum(), x)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_samples_have_the_gradients_of_single_calls(name: str, compiled: bool) -> None:
    one = CALLS[name]
    together = tj.compile(tj.vmap(one)) if compiled else tj.vmap(one)
    expected = _found(lambda x: tj.stack([one(row) for row in x]))
    for _ in range(2 + compiled):
        for a, b in zip(_found(together), expected, strict=True):
            assert tj.allclose(a, b, atol=1e-5)


def test_views_that_memory_does_not_allow_are_refused() -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        tj.vmap(lambda x: x.t().view(-1))(tj.ones(2, 3, 4))


def test_functions_say_what_they_give_for_a_batch() -> None:
    x = _start()
    out = tj.vmap(Batched.apply)(x)
    assert tj.allclose(out, x.sin() + 2)
    (slope,) = tj.autograd.grad(out.sum(), x)
    assert tj.allclose(slope, 10 * x.cos())
    first, second = tj.vmap(Pair.apply, in_dims=(0, None))(x, tj.tensor(3.0))
    assert tj.equal(first, x * 3)
    assert second.tolist() == [3.0, 3.0]


def test_a_result_of_samples_needs_a_dimension() -> None:
    x = _start().detach()
    with pytest.raises(ValueError, match="out_dims is None"):
        tj.vmap(lambda row: row * 2, out_dims=None)(x)
    assert tj.vmap(lambda row: (row, tj.ones(2)), out_dims=(0, None))(x)[1].shape == (2,)
