"""The same cases as JAX users write them: pure functions of explicit parameters under ``jax.jit``.

JAX answers before the result is there, so every call waits for it, as a program that uses the result would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workloads
from workloads import BETA1, BETA2, DIGITS, EPSILON, LEARNING_RATE, TINY, Call


def forward_call(function: Any, arrays: Any) -> Call:
    import jax
    import jax.numpy as jnp

    compiled, args = jax.jit(function), [jnp.asarray(x) for x in arrays]
    return lambda: [jax.block_until_ready(compiled(*args))]


def gradient_call(function: Any, wrt: tuple[int, ...], arrays: Any) -> Call:
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(jax.value_and_grad(function, argnums=wrt))
    args = [jnp.asarray(x) for x in arrays]

    def call() -> list[Any]:
        value, gradients = jax.block_until_ready(compiled(*args))
        return [value, *gradients]

    return call


def _normal_cdf(x: Any) -> Any:
    from jax.scipy.special import erf

    return 0.5 * (1.0 + erf(x * 0.5**0.5))


def call_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    import jax.numpy as jnp

    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    discount = jnp.exp(-rate * years)
    return spot * _normal_cdf(d1) - strike * discount * _normal_cdf(d1 - spread)


def black_scholes(size: int) -> Call:
    return forward_call(call_price, workloads.market(size))


def black_scholes_grad(size: int) -> Call:
    def value(*args: Any) -> Any:
        return call_price(*args).sum()

    return gradient_call(value, (0, 1, 2, 3, 4), workloads.market(size))


def softmax(size: int) -> Call:
    import jax

    return forward_call(jax.nn.softmax, [workloads.uniform(-4.0, 4.0, size, 768)])


def layer_norm(size: int) -> Call:
    import jax.numpy as jnp
    from jax import lax

    def function(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred * lax.rsqrt(variance + 1e-5) * weight + bias

    arrays = (
        workloads.uniform(-4.0, 4.0, size, 768),
        workloads.uniform(0.5, 1.5, 768, seed=1),
        workloads.uniform(-0.5, 0.5, 768, seed=2),
    )
    return forward_call(function, arrays)


def loss(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """Cross entropy of Linear, ReLU, Linear."""
    import jax
    import jax.numpy as jnp

    logits = jax.nn.relu(x @ w1.T + b1) @ w2.T + b2
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=-1)
    return -chosen.mean()


def _classifier_arrays(widths: tuple[int, ...], size: int) -> list[Any]:
    x = workloads.uniform(-1.0, 1.0, size, widths[0])
    labels = workloads.classes(widths[-1], size).astype("int32")
    return [x, labels, *workloads.parameters(widths)]


def tiny_mlp(size: int) -> Call:
    return forward_call(loss, _classifier_arrays(TINY, size))


def tiny_mlp_grad(size: int) -> Call:
    return gradient_call(loss, (2, 3, 4, 5), _classifier_arrays(TINY, size))


def adam(p: Any, g: Any, m: Any, v: Any, t: Any) -> tuple[Any, Any, Any]:
    """Kingma and Ba (2015), algorithm 1: a parameter and its two moments after step ``t``."""
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    scale = LEARNING_RATE / (1 - BETA1**t)
    return p - scale * m / ((v / (1 - BETA2**t)) ** 0.5 + EPSILON), m, v


def digits_step(size: int) -> Call:
    """The whole step is one jitted function from state to state."""
    import jax
    import jax.numpy as jnp

    x, labels, *weights = [jnp.asarray(a) for a in _classifier_arrays(DIGITS, size)]

    @jax.jit  # type: ignore[untyped-decorator]
    def step(weights: Any, first: Any, second: Any, t: Any, x: Any, labels: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda w: loss(x, labels, *w))(weights)
        t = t + 1.0
        moved = [adam(*one, t) for one in zip(weights, gradients, first, second, strict=True)]
        return value, *([m[i] for m in moved] for i in range(3)), t

    zeros = [jnp.zeros_like(w) for w in weights]
    state: list[Any] = [weights, zeros, zeros, jnp.asarray(0.0)]

    def call() -> list[Any]:
        value, *state[:] = jax.block_until_ready(step(*state, x, labels))
        return [value, *state[0]]

    return call


def branch(size: int) -> Call:
    """A condition on data has to be written as ``lax.cond``."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def function(x: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda x: jnp.tanh(x) * 2.0, lambda x: jax.nn.sigmoid(x) - 1.0, x)
        return (y * y + x).sum()

    return gradient_call(function, (0,), [workloads.uniform(-0.5, 1.0, size)])


MAKERS: dict[str, Callable[[int], Call]] = {
    make.__name__: make
    for make in (
        black_scholes,
        black_scholes_grad,
        softmax,
        layer_norm,
        tiny_mlp,
        tiny_mlp_grad,
        branch,
        digits_step,
    )
}
