"""The cases without layers as JAX users write them: pure functions under ``jax.jit``, ``lax`` for loops and branches.

JAX answers before the result is there, so every call waits for it, as a program that uses the result would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pointwise
from cases import At, Call, Size, classes, normal, uniform
from jax import lax
from jax.scipy.special import erf


def forward_at(function: Any, draw: Callable[[Size], Sequence[Any]]) -> At:
    """Calls of a jitted function; its results in a list."""
    compiled = jax.jit(function)

    def at(size: Size) -> Call:
        args = [jnp.asarray(x) for x in draw(size)]

        def call() -> list[Any]:
            result = jax.block_until_ready(compiled(*args))
            return [*result] if isinstance(result, tuple) else [result]

        return call

    return at


def gradient_at(function: Any, wrt: tuple[int, ...], draw: Callable[[Size], Sequence[Any]]) -> At:
    """Calls of a jitted function and its gradients."""
    compiled = jax.jit(jax.value_and_grad(function, argnums=wrt))

    def at(size: Size) -> Call:
        args = [jnp.asarray(x) for x in draw(size)]

        def call() -> list[Any]:
            value, gradients = jax.block_until_ready(compiled(*args))
            return [value, *gradients]

        return call

    return at


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1.0 + erf(x * 0.5**0.5))


def call_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Black and Scholes (1973): the price of a European call option."""
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    discount = jnp.exp(-rate * years)
    return spot * _normal_cdf(d1) - strike * discount * _normal_cdf(d1 - spread)


def black_scholes() -> At:
    return forward_at(call_price, lambda size: pointwise.market(*size))


def black_scholes_grad() -> At:
    def value(*args: Any) -> Any:
        return call_price(*args).sum()

    return gradient_at(value, (0, 1, 2, 3, 4), lambda size: pointwise.market(*size))


def branch() -> At:
    """A condition on data has to be written as ``lax.cond``."""

    def function(x: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda x: jnp.tanh(x) * 2.0, lambda x: jax.nn.sigmoid(x) - 1.0, x)
        return (y * y + x).sum()

    return gradient_at(function, (0,), lambda size: [uniform(-0.5, 1.0, *size)])


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    """Ba, Kiros and Hinton (2016), over the last axis."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * weight + bias


def norm_softmax() -> At:
    def function(x: Any, weight: Any, bias: Any) -> Any:
        return jax.nn.softmax(layer_norm(x, weight, bias), axis=-1).sum(0)

    return forward_at(function, pointwise.rows)


def norm_softmax_grad() -> At:
    def function(x: Any, weight: Any, bias: Any) -> Any:
        return (jax.nn.softmax(layer_norm(x, weight, bias), axis=-1).sum(0) * weight).sum()

    return gradient_at(function, (0, 1, 2), pointwise.rows)


def reduce_axis(axis: int) -> At:
    def function(x: Any) -> Any:
        return x.sum(axis), x.max(axis)

    return forward_at(function, lambda size: [uniform(-1, 1, *size)])


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over rows of minus the log probability of the label."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -chosen.mean()


def cross_entropy_grad() -> At:
    def draw(size: Size) -> list[Any]:
        return [normal(2.0, *size), classes(size[1], size[0]).astype("int32")]

    return gradient_at(cross_entropy, (0,), draw)


def leapfrog() -> At:
    """In double precision, as ``jax.enable_x64`` gives it."""
    jax.config.update("jax_enable_x64", True)
    rate = 0.003

    def function(x: Any, signs: Any, position: Any, momentum: Any) -> Any:
        def slope(position: Any) -> Any:
            return (jax.nn.sigmoid(-signs * (x @ position)) * -signs) @ x + position

        def step(_: Any, state: Any) -> Any:
            position, momentum = state
            momentum = momentum - 0.5 * rate * slope(position)
            position = position + rate * momentum
            return position, momentum - 0.5 * rate * slope(position)

        return lax.fori_loop(0, pointwise.LEAPFROGS, step, (position, momentum))

    return forward_at(
        function, lambda size: [a.astype("float64") for a in pointwise.regression(size)]
    )


def ode() -> At:
    h = 0.02

    def slopes(x: Any, v: Any) -> Any:
        return v, 1.5 * (1.0 - x * x) * v - x

    def step(_: Any, state: Any) -> Any:
        x, v = state
        a, b = slopes(x, v)
        c, d = slopes(x + 0.5 * h * a, v + 0.5 * h * b)
        e, f = slopes(x + 0.5 * h * c, v + 0.5 * h * d)
        p, q = slopes(x + h * e, v + h * f)
        x = x + h / 6.0 * (a + 2.0 * c + 2.0 * e + p)
        return x, v + h / 6.0 * (b + 2.0 * d + 2.0 * f + q)

    def function(x: Any, v: Any) -> Any:
        return lax.fori_loop(0, pointwise.RUNGE_KUTTAS, step, (x, v))

    def draw(size: Size) -> list[Any]:
        return [uniform(-2, 2, *size, seed=1), uniform(-2, 2, *size, seed=2)]

    return forward_at(function, draw)


def nbody() -> At:
    def function(place: Any, speed: Any, mass: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            place, speed = state
            apart = place[None] - place[:, None]
            square = (apart * apart).sum(-1) + 0.05
            pull = mass / (square * jnp.sqrt(square))
            speed = speed + 0.01 * (apart * pull[..., None]).sum(1)
            return place + 0.01 * speed, speed

        return lax.fori_loop(0, pointwise.BODY_STEPS, step, (place, speed))

    return forward_at(function, pointwise.bodies)


def mandelbrot() -> At:
    def function(cx: Any, cy: Any) -> Any:
        def go_on(state: Any) -> Any:
            return (state[0] < pointwise.ITERATIONS) & state[4].any()

        def step(state: Any) -> Any:
            rounds, x, y, count, alive = state
            u, v = x * x - y * y + cx, 2.0 * x * y + cy
            x, y = jnp.where(alive, u, x), jnp.where(alive, v, y)
            count = count + jnp.where(alive, 1.0, 0.0)
            return rounds + 1, x, y, count, x * x + y * y <= 4.0

        x, y, count = cx * 0.0, cy * 0.0, cx * 0.0
        alive = x * x + y * y <= 4.0
        return lax.while_loop(go_on, step, (0, x, y, count, alive))[3].mean(-1)

    return forward_at(function, pointwise.plane)


def heat() -> At:
    def step(_: Any, u: Any) -> Any:
        near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].add(0.2 * (near - 4.0 * u[1:-1, 1:-1]))

    def function(u: Any) -> Any:
        return lax.fori_loop(0, pointwise.HEAT_STEPS, step, u)

    return forward_at(function, lambda size: [uniform(0, 1, *size)])


MAKERS: dict[str, Callable[[], At]] = {
    "black_scholes": black_scholes,
    "black_scholes_grad": black_scholes_grad,
    "branch": branch,
    "norm_softmax": norm_softmax,
    "norm_softmax_grad": norm_softmax_grad,
    "reduce_axis0": lambda: reduce_axis(0),
    "reduce_axis1": lambda: reduce_axis(1),
    "reduce_axis2": lambda: reduce_axis(2),
    "cross_entropy_grad": cross_entropy_grad,
    "leapfrog": leapfrog,
    "ode": ode,
    "nbody": nbody,
    "mandelbrot": mandelbrot,
    "heat": heat,
}
