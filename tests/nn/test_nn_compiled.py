"""Convolutional, recurrent and attention models compiled: outputs, gradients and statistics as in eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

RNG = np.random.default_rng(23)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def close(a: Any, b: Any, message: str) -> None:
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=3e-4, atol=3e-5, err_msg=message
    )


def same_steps(make: Callable[[], Any], arrays: list[tuple[Any, ...]], calls: int = 2) -> Any:
    """Training steps of an eager and a compiled copy on the same data agree all the way."""
    if len(arrays) > 2:
        steps_of(make, arrays, calls)
    compiled = steps_of(make, arrays, calls, dynamic=False)
    assert compiled.stats.compiled_calls >= len(arrays) * (calls - 1), compiled.reasons
    return compiled


def steps_of(
    make: Callable[[], Any],
    arrays: list[tuple[Any, ...]],
    calls: int,
    dynamic: bool | None = None,
) -> Any:
    """The same, with extents that vary or are recorded one by one."""
    eager = make()
    twin = copy.deepcopy(eager)

    def loss_of(model: Any, *inputs: Any) -> Any:
        out = model(*inputs)
        return (out * out).mean()

    compiled = tj.compile(lambda *inputs: loss_of(twin, *inputs), strict=True, dynamic=dynamic)
    for position, given in enumerate(arrays * calls):
        sides = []
        for run, model in ((lambda *x: loss_of(eager, *x), eager), (compiled, twin)):
            model.zero_grad()
            inputs = [tj.tensor(x) for x in given]
            inputs[0].requires_grad_()
            loss = run(*inputs)
            loss.backward()
            sides.append([loss, inputs[0].grad, *[p.grad for p in model.parameters()]])
        for a, b in zip(*sides, strict=True):
            close(a, b, f"call {position}")
        for (name, a), (_, b) in zip(
            eager.state_dict().items(), twin.state_dict().items(), strict=True
        ):
            close(a, b, name)
    assert compiled.stats.compiled_calls > 0, compiled.reasons
    return compiled


def small_net() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8, stride=2, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AvgPool2d(3, 1, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def test_convolutional_net() -> None:
    same_steps(small_net, [(normal(4, 3, 8, 8),)], calls=3)


def test_other_sizes() -> None:
    sizes = [(4, 8, 8), (3, 8, 8), (5, 12, 10), (2, 9, 16)]
    same_steps(small_net, [(normal(n, 3, h, w),) for n, h, w in sizes])


def test_upsampling_net() -> None:
    def make() -> Any:
        return nn.Sequential(
            nn.Conv2d(2, 4, 4, 2, 1),
            nn.InstanceNorm2d(4, affine=True),
            nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(4, 8, 4, 2, 1, output_padding=1),
            nn.PixelShuffle(2),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.ReflectionPad2d(1),
            nn.Upsample(scale_factor=2),
        )

    sizes = [(2, 6, 6), (3, 6, 6), (2, 8, 6), (1, 6, 10)]
    same_steps(make, [(normal(n, 2, h, w),) for n, h, w in sizes])


def test_pooling_to_a_size() -> None:
    def make() -> Any:
        return nn.Sequential(
            nn.Conv1d(2, 3, 3, padding="same"),
            nn.AdaptiveAvgPool1d(4),
            nn.Softplus(),
            nn.AdaptiveMaxPool1d(3),
            nn.LPPool1d(2, 2, 1),
        )

    same_steps(make, [(normal(n, 2, length),) for n, length in ((2, 9), (3, 9), (2, 7), (2, 8))])


def test_in_evaluation() -> None:
    model = small_net().eval()
    compiled = tj.compile(model, strict=True)
    for size in ((4, 3, 8, 8), (4, 3, 8, 8), (2, 3, 10, 8)):
        x = tj.tensor(normal(*size))
        with tj.no_grad():
            close(compiled(x), model(x), str(size))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent(kind: str) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0])

    same_steps(Tagger, [(normal(2, 5, 3),), (normal(4, 5, 3),), (normal(2, 3, 3),)])


def test_transformer() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))

        def forward(self, x: Any, mask: Any) -> Any:
            return self.layers(x, mask=mask)

    mask = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
    same_steps(Encoder, [(normal(2, 5, 8), mask), (normal(3, 5, 8), mask)])


def test_dropout_draws_the_same() -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.Dropout1d(0.5), nn.AlphaDropout(0.2))
    compiled = tj.compile(model)
    x = tj.tensor(normal(3, 2, 9))
    for _ in range(3):
        state = tj.get_rng_state()
        expected = model(x)
        tj.set_rng_state(state)
        close(compiled(x), expected, "dropout")


def test_positions_of_maxima() -> None:
    def function(x: Any) -> Any:
        values, where = tj.max_pool2d(tj.relu(x), 3, 2, 1, return_indices=True)
        return tj.max_unpool2d(values, where, 3, 2, 1, output_size=x.shape[2:]), where

    compiled = tj.compile(function, strict=True)
    for size in ((2, 3, 8, 8), (2, 3, 8, 8), (1, 3, 9, 7)):
        x = tj.tensor(normal(*size))
        for a, b in zip(function(x), compiled(x), strict=True):
            close(a, b, str(size))


def test_second_derivatives() -> None:
    weight = tj.tensor(normal(4, 2, 3, 3), requires_grad=True)

    def penalty(x: Any) -> Any:
        out = tj.max_pool2d(tj.tanh(tj.conv2d(x, weight, stride=2, padding=1)), 2)
        (slope,) = tj.autograd.grad((out * out).sum(), x, create_graph=True)
        return (slope * slope).sum()

    compiled = tj.compile(penalty)
    for _ in range(2):
        grads = []
        for run in (penalty, compiled):
            weight.grad = None
            x = tj.tensor(normal(2, 2, 8, 8) if not grads else grads[0][2], requires_grad=True)
            value = run(x)
            value.backward()
            grads.append((value, weight.grad, x.detach().numpy()))
        close(grads[0][0], grads[1][0], "value")
        close(grads[0][1], grads[1][1], "gradient")
