"""Cases with layers: classifiers, a convolutional network, an LSTM by hand, an optimizer over many tensors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from cases import At, Call, Case, Size, Space, classes, forward_call, normal, training_at, uniform

TINY, DIGITS, IMAGES = (4, 8, 2), (64, 128, 10), (784, 256, 256, 10)
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


def parameters(widths: tuple[int, ...]) -> list[np.ndarray]:
    """Weight (out, in) and bias of every layer, in order."""
    found = []
    for seed, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        bound = 1.0 / math.sqrt(fan_in)
        found.append(uniform(-bound, bound, fan_out, fan_in, seed=2 * seed + 2))
        found.append(uniform(-bound, bound, fan_out, seed=2 * seed + 3))
    return found


def classifier(space: Space, widths: tuple[int, ...]) -> Any:
    """Linear layers with ReLU between them, with the parameters every namespace gets."""
    nn, layers = space.tj.nn, []
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return space.fill(nn.Sequential(*layers[:-1]), parameters(widths))


def loss_of(space: Space, model: Any) -> Any:
    """Cross entropy of a model's logits."""
    functional = space.tj.nn.functional

    def loss(x: Any, labels: Any) -> Any:
        return functional.cross_entropy(model(x), labels)

    return loss


def batch(space: Space, widths: tuple[int, ...], size: Size) -> tuple[Any, Any]:
    """Inputs and labels of a classifier."""
    x = uniform(-1.0, 1.0, *size, widths[0])
    return space.tensor(x), space.tensor(classes(widths[-1], *size))


def adam(space: Space, weights: list[Any]) -> Any:
    """Adam with the constants the JAX programs use."""
    return space.tj.optim.Adam(
        weights, lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=space.fused
    )


def tiny_mlp(space: Space) -> At:
    compiled = space.function(loss_of(space, classifier(space, TINY)))
    return lambda size: forward_call(space, compiled, batch(space, TINY, size))


def tiny_mlp_grad(space: Space) -> At:
    from cases import gradient_at

    model = classifier(space, TINY)
    weights = list(model.parameters())
    return gradient_at(
        space, loss_of(space, model), lambda size: (batch(space, TINY, size), weights)
    )


def mlp_sgd(space: Space) -> At:
    model = classifier(space, IMAGES)
    weights = list(model.parameters())
    optimizer = space.tj.optim.SGD(weights, lr=0.01)
    loss = loss_of(space, model)
    return training_at(space, loss, weights, optimizer, lambda s: batch(space, IMAGES, s))


def mlp_adam(space: Space) -> At:
    model = classifier(space, IMAGES)
    weights = list(model.parameters())
    loss, optimizer = loss_of(space, model), adam(space, weights)
    return training_at(space, loss, weights, optimizer, lambda s: batch(space, IMAGES, s))


def digits_adam(space: Space) -> At:
    model = classifier(space, DIGITS)
    weights = list(model.parameters())
    loss, optimizer = loss_of(space, model), adam(space, weights)
    return training_at(space, loss, weights, optimizer, lambda s: batch(space, DIGITS, s))


def deep_mlp_grad(space: Space) -> At:
    """Size is (batch, depth): what a layer costs when there is little in it."""
    from cases import gradient_at

    def stack(depth: int) -> Any:
        return classifier(space, (32,) * (depth + 1))

    def at(size: Size) -> Call:
        model = stack(size[1])
        weights = list(model.parameters())
        data = batch(space, (32,), size[:1])
        return gradient_at(space, loss_of(space, model), lambda _: (data, weights))(size)

    return at


# --- a convolutional network ----------------------------------------------------------------------------


def conv_arrays() -> list[np.ndarray]:
    """Two convolutions and a linear map, each with its bias."""
    shapes = ((16, 3, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 2048), (10,))
    return [normal(0.1, *s, seed=k) for k, s in enumerate(shapes)]


def conv_net(space: Space) -> At:
    """A training step on 32 x 32 images; size is (batch,)."""
    nn = space.tj.nn
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2048, 10)),
    )
    space.fill(model, conv_arrays())
    weights = list(model.parameters())
    optimizer = space.tj.optim.SGD(weights, lr=0.01)

    def draw(size: Size) -> tuple[Any, Any]:
        return space.tensor(uniform(-1, 1, *size, 3, 32, 32)), space.tensor(classes(10, *size))

    return training_at(space, loss_of(space, model), weights, optimizer, draw)


# --- a recurrence ---------------------------------------------------------------------------------------

INPUTS, HIDDEN, EXAMPLES = 24, 32, 16
LENGTHS = (30, 37, 41, 44, 50, 53, 58, 60)


def lstm_arrays() -> list[np.ndarray]:
    """Input and hidden weights, a bias, and the weights of the score."""
    return [
        normal(0.2, INPUTS, 4 * HIDDEN, seed=1),
        normal(0.2, HIDDEN, 4 * HIDDEN, seed=2),
        normal(0.1, 4 * HIDDEN, seed=3),
        normal(0.3, HIDDEN, seed=4),
    ]


def lstm_inputs(length: int) -> np.ndarray:
    """A batch of sequences, time first."""
    return normal(1.0, length, EXAMPLES, INPUTS, seed=length)


def lstm_loss(space: Space) -> Any:
    """Hochreiter and Schmidhuber (1997), a step after the other."""

    def loss(x: Any, w: Any, u: Any, b: Any, score: Any) -> Any:
        h = x.new_zeros(EXAMPLES, HIDDEN)
        c = x.new_zeros(EXAMPLES, HIDDEN)
        for t in range(x.shape[0]):
            i, f, g, o = (x[t] @ w + h @ u + b).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return (h @ score).tanh().mean()

    return loss


def lstm_grad(space: Space) -> At:
    """Size is (length,)."""
    from cases import gradient_at

    weights = [space.leaf(a) for a in lstm_arrays()]

    def draw(size: Size) -> tuple[Any, Any]:
        return [space.tensor(lstm_inputs(*size)), *weights], weights

    return gradient_at(space, lstm_loss(space), draw)


def lstm_lengths(space: Space) -> At:
    """A call meets the next of eight lengths; size is (shift,), added to each."""
    lstm = lstm_grad(space)

    def at(size: Size) -> Call:
        calls = [lstm((length + size[0],)) for length in LENGTHS]

        def call() -> list[Any]:
            return [x for one in calls for x in one()[:1]]

        return call

    return at


def lstm_flops(lengths: float) -> float:
    """Three times the products of forward."""
    return 3.0 * 2.0 * lengths * EXAMPLES * 4 * HIDDEN * (INPUTS + HIDDEN)


# --- an optimizer alone ---------------------------------------------------------------------------------


def adam_many(space: Space) -> At:
    """One Adam step over many tensors; size is (tensors, side of each)."""

    def at(size: Size) -> Call:
        count, side = size
        weights = [space.leaf(normal(1.0, side, side, seed=k)) for k in range(count)]
        for k, weight in enumerate(weights):
            weight.grad = space.tensor(normal(1.0, side, side, seed=k + 1000))
        optimizer = adam(space, weights)

        def update() -> None:
            optimizer.step()

        step = space.step(space.function(update))

        def call() -> list[Any]:
            step()
            return weights

        return call

    return at


def _tensors(widths: tuple[int, ...]) -> float:
    return float(sum(a.size for a in parameters(widths)))


def _mlp_flops(size: Size, widths: tuple[int, ...]) -> float:
    return 6.0 * size[0] * _tensors(widths)


CASES: tuple[Case, ...] = (
    Case(
        "tiny_mlp",
        tiny_mlp,
        (3,),
        (5,),
        (3,),
        lambda s: 400.0,
        lambda s: _mlp_flops(s, TINY) / 3,
    ),
    Case(
        "tiny_mlp_grad",
        tiny_mlp_grad,
        (3,),
        (5,),
        (3,),
        lambda s: 800.0,
        lambda s: _mlp_flops(s, TINY),
        step=True,
    ),
    Case(
        "mlp_sgd",
        mlp_sgd,
        (128,),
        (100,),
        (4,),
        lambda s: 12 * _tensors(IMAGES),
        lambda s: _mlp_flops(s, IMAGES),
        step=True,
    ),
    Case(
        "mlp_adam",
        mlp_adam,
        (128,),
        (100,),
        (4,),
        lambda s: 28 * _tensors(IMAGES),
        lambda s: _mlp_flops(s, IMAGES),
        step=True,
        precision=2e-2,
    ),
    Case(
        "digits_adam",
        digits_adam,
        (64,),
        (50,),
        (8,),
        lambda s: 28 * _tensors(DIGITS),
        lambda s: _mlp_flops(s, DIGITS),
        step=True,
        precision=2e-2,
    ),
    Case(
        "conv_net",
        conv_net,
        (32,),
        (24,),
        (2,),
        lambda s: 4 * 3 * 32 * 32 * s[0],
        lambda s: 6.0 * s[0] * (1024 * 27 * 16 + 256 * 144 * 32 + 20480),
        step=True,
    ),
    Case(
        "lstm",
        lstm_grad,
        (50,),
        (45,),
        (3,),
        lambda s: 8.0 * s[0] * EXAMPLES * INPUTS,
        lambda s: lstm_flops(s[0]),
        step=True,
        sweep=((10,), (100,), (1000,)),
    ),
    Case(
        "lstm_lengths",
        lstm_lengths,
        (0,),
        (1,),
        (-28,),
        lambda s: 8.0 * sum(LENGTHS) * EXAMPLES * INPUTS,
        lambda s: lstm_flops(sum(LENGTHS) + 8 * s[0]),
        step=True,
    ),
    Case(
        "adam_many",
        adam_many,
        (100, 64),
        (100, 60),
        (5, 3),
        lambda s: 28.0 * s[0] * s[1] ** 2,
        lambda s: 12.0 * s[0] * s[1] ** 2,
        step=True,
        precision=2e-3,
    ),
    Case(
        "deep_mlp_grad",
        deep_mlp_grad,
        (8, 8),
        (9, 8),
        (4, 2),
        lambda s: 12.0 * s[1] * 33 * 32,
        lambda s: 6.0 * s[0] * s[1] * 33 * 32,
        step=True,
        sweep=((8, 2), (8, 32), (8, 128)),
    ),
)
