"""The programs of `workloads` in JAX, measured as its users would run them: one jitted function, results awaited."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from .workloads import Workload

__all__ = ["program"]


def _functions(jax: Any) -> dict[str, Callable[..., Any]]:
    """What each workload computes, by name."""
    jnp, nn = jax.numpy, jax.nn

    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + jax.lax.erf(x * math.sqrt(0.5)))

    def price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        spread = volatility * jnp.sqrt(years)
        d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
        return spot * cdf(d1) - strike * jnp.exp(-rate * years) * cdf(d1 - spread)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * weight + bias

    def loss(x: Any, labels: Any, *parameters: Any) -> Any:
        for weight, bias in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
            x = nn.relu(x @ weight + bias)
        logs = nn.log_softmax(x @ parameters[-2] + parameters[-1], -1)
        return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

    def branch(x: Any) -> Any:
        y = jax.lax.cond(x.sum() > 0, lambda t: jnp.tanh(t) * 2.0, lambda t: nn.sigmoid(t) - 1.0, x)
        return (y * y + x).sum()

    return {
        "black_scholes": price,
        "black_scholes_grad": lambda *market: price(*market).sum(),
        "softmax": partial(nn.softmax, axis=-1),
        "layer_norm": layer_norm,
        "mlp_step": loss,
        "tiny_mlp": loss,
        "tiny_mlp_grad": loss,
        "branch": branch,
    }


def program(jax: Any, workload: Workload, size: int) -> Callable[[], Any]:
    """A call of what `workloads.runner` runs, jitted, on JAX's own device; it returns when the result is there.

    >>> program.__name__
    'program'
    """
    import tracejit

    _, arguments = workload.make(tracejit, size)
    leaves = tuple(i for i, x in enumerate(arguments) if x.requires_grad)
    given = [jax.numpy.asarray(x.detach().numpy()) for x in arguments]
    function = _functions(jax)[workload.name]
    if workload.mode != "forward":
        both = jax.value_and_grad(function, argnums=leaves)
        function = both if workload.mode == "backward" else _step(jax, both, leaves)
    jitted = jax.jit(function)
    return lambda: jax.block_until_ready(jitted(*given))


def _step(jax: Any, both: Callable[..., Any], leaves: tuple[int, ...]) -> Callable[..., Any]:
    """A step of gradient descent: the loss and the new parameters."""

    def step(*arguments: Any) -> Any:
        loss, grads = both(*arguments)
        return loss, [arguments[i] - 1e-3 * g for i, g in zip(leaves, grads, strict=True)]

    return step
