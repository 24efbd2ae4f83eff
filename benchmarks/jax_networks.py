"""The cases with layers as JAX users write them: a whole training step is one jitted function from state to state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import networks
import transformer
from cases import At, Call, Size, classes, normal, uniform
from jax import lax
from jax_pointwise import cross_entropy, forward_at, gradient_at, layer_norm
from networks import BETA1, BETA2, DIGITS, EPSILON, EXAMPLES, HIDDEN, IMAGES, RATE, TINY

Update = Callable[[Any, Any, Any], tuple[Any, Any]]  # weights, gradients, state -> weights, state


def sgd(weights: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
    """Gradient descent."""
    return jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients), state


def adam(weights: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
    """Kingma and Ba (2015), algorithm 1."""
    first, second, t = state
    t = t + 1.0
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)

    def move(w: Any, m: Any, v: Any) -> Any:
        root = (v / (1 - BETA2**t)) ** 0.5
        return w - RATE / (1 - BETA1**t) * m / (root + EPSILON)

    return jax.tree.map(move, weights, first, second), (first, second, t)


def training_at(loss: Any, arrays: Any, update: Update, draw: Callable[[Size], Any]) -> At:
    """Calls of a jitted step; old state is given away to the new one."""
    weights = [jnp.asarray(a) for a in arrays]
    zeros = [jnp.zeros_like(w) for w in weights]
    state: Any = (zeros, [jnp.zeros_like(w) for w in weights], jnp.zeros(()))
    held: list[Any] = [weights, state]

    def run(weights: Any, state: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, *batch)
        return value, *update(weights, gradients, state)

    step = jax.jit(run, donate_argnums=(0, 1))

    def at(size: Size) -> Call:
        batch = [jnp.asarray(x) for x in draw(size)]

        def call() -> list[Any]:
            value, *held[:] = jax.block_until_ready(step(*held, *batch))
            return [value, *held[0]]

        return call

    return at


def mlp_loss(weights: Any, x: Any, labels: Any) -> Any:
    """Cross entropy of linear layers with ReLU between them."""
    for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = jax.nn.relu(x @ w.T + b)
    return cross_entropy(x @ weights[-2].T + weights[-1], labels)


def _batch(widths: tuple[int, ...], size: Size) -> list[Any]:
    labels = classes(widths[-1], *size).astype("int32")
    return [uniform(-1.0, 1.0, *size, widths[0]), labels]


def _flat_loss(x: Any, labels: Any, *weights: Any) -> Any:
    return mlp_loss(weights, x, labels)


def tiny_mlp() -> At:
    return forward_at(_flat_loss, lambda s: [*_batch(TINY, s), *networks.parameters(TINY)])


def tiny_mlp_grad() -> At:
    def draw(size: Size) -> list[Any]:
        return [*_batch(TINY, size), *networks.parameters(TINY)]

    return gradient_at(_flat_loss, (2, 3, 4, 5), draw)


def deep_mlp_grad() -> At:
    def at(size: Size) -> Call:
        weights = networks.parameters((32,) * (size[1] + 1))
        wrt = tuple(range(2, 2 + len(weights)))
        return gradient_at(_flat_loss, wrt, lambda s: [*_batch((32,), s[:1]), *weights])(size)

    return at


def mlp(widths: tuple[int, ...], update: Update) -> At:
    return training_at(mlp_loss, networks.parameters(widths), update, lambda s: _batch(widths, s))


# --- a transformer --------------------------------------------------------------------------------------


def gpt_loss(weights: Any, tokens: Any, targets: Any) -> Any:
    """The decoder of ``transformer.gpt_logits`` and its cross entropy."""
    count, context = tokens.shape
    width = weights[0].shape[1]
    heads = max(width // 32, 1)
    rest = iter(weights[2:])
    x = weights[0][tokens] + weights[1][:context]
    hidden = jnp.triu(jnp.ones((context, context), bool), 1)
    for _ in range(transformer.LAYERS):
        y = layer_norm(x, next(rest), next(rest)) @ next(rest).T
        split = y.reshape(count, context, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        query, key, value = split
        scores = query @ key.swapaxes(-1, -2) * (width // heads) ** -0.5
        scores = jnp.where(hidden, -jnp.inf, scores)
        y = jax.nn.softmax(scores, axis=-1) @ value
        y = y.transpose(0, 2, 1, 3).reshape(count, context, width)
        x = x + y @ next(rest).T
        y = layer_norm(x, next(rest), next(rest))
        x = x + jax.nn.gelu(y @ next(rest).T, approximate=True) @ next(rest).T
    x = layer_norm(x, next(rest), next(rest))
    return cross_entropy(x @ next(rest).T, targets)


def gpt(width: int) -> At:
    def draw(size: Size) -> Any:
        text = classes(transformer.VOCABULARY, size[0], size[1] + 1).astype("int32")
        return text[:, :-1], text[:, 1:]

    return training_at(gpt_loss, transformer.gpt_arrays(width, 256), adam, draw)


# --- a convolutional network ----------------------------------------------------------------------------


def conv_loss(weights: Any, x: Any, labels: Any) -> Any:
    """Twice convolution, ReLU and pooling, then a linear map."""
    for w, b in zip(weights[:4:2], weights[1:4:2], strict=True):
        x = lax.conv(x, w, (1, 1), "SAME") + b[:, None, None]
        x = jax.nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return cross_entropy(x.reshape(x.shape[0], -1) @ weights[4].T + weights[5], labels)


def conv_net() -> At:
    def draw(size: Size) -> Any:
        return uniform(-1, 1, *size, 3, 32, 32), classes(10, *size).astype("int32")

    return training_at(conv_loss, networks.conv_arrays(), sgd, draw)


# --- a recurrence ---------------------------------------------------------------------------------------


def lstm_loss(x: Any, w: Any, u: Any, b: Any, score: Any) -> Any:
    """The steps as ``lax.scan``."""

    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    zeros = jnp.zeros((EXAMPLES, HIDDEN))
    (h, _), _ = lax.scan(step, (zeros, zeros), x)
    return jnp.tanh(h @ score).mean()


def lstm_grad() -> At:
    def draw(size: Size) -> list[Any]:
        return [networks.lstm_inputs(*size), *networks.lstm_arrays()]

    return gradient_at(lstm_loss, (1, 2, 3, 4), draw)


def lstm_lengths() -> At:
    lstm = lstm_grad()

    def at(size: Size) -> Call:
        calls = [lstm((length + size[0],)) for length in networks.LENGTHS]
        return lambda: [x for one in calls for x in one()[:1]]

    return at


# --- an optimizer alone ---------------------------------------------------------------------------------


def adam_many() -> At:
    step = jax.jit(adam, donate_argnums=(0, 2))

    def at(size: Size) -> Call:
        count, side = size
        weights = [jnp.asarray(normal(1.0, side, side, seed=k)) for k in range(count)]
        gradients = [jnp.asarray(normal(1.0, side, side, seed=k + 1000)) for k in range(count)]
        moments = [[jnp.zeros_like(w) for w in weights] for _ in range(2)]
        held: list[Any] = [weights, (*moments, jnp.zeros(()))]

        def call() -> list[Any]:
            held[:] = jax.block_until_ready(step(held[0], gradients, held[1]))
            return list(held[0])

        return call

    return at


MAKERS: dict[str, Callable[[], At]] = {
    "tiny_mlp": tiny_mlp,
    "tiny_mlp_grad": tiny_mlp_grad,
    "mlp_sgd": lambda: mlp(IMAGES, sgd),
    "mlp_adam": lambda: mlp(IMAGES, adam),
    "digits_adam": lambda: mlp(DIGITS, adam),
    "gpt_128": lambda: gpt(128),
    "gpt_384": lambda: gpt(384),
    "conv_net": conv_net,
    "lstm": lstm_grad,
    "lstm_lengths": lstm_lengths,
    "adam_many": adam_many,
    "deep_mlp_grad": deep_mlp_grad,
}
