"""Cases without layers: pointwise chains, rows, reductions, loops in time, a stencil."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cases import At, Call, Case, Size, Space, classes, forward_call, gradient_at, normal, uniform

#: Operations on floats that elementary functions take, in single precision: those of tracejit's polynomials.
EXP, LOG, ERF = 22, 31, 34
#: Of an option's price: twenty by themselves, a root, a logarithm, an exponential and two error functions.
PRICE = 21 + LOG + EXP + 2 * ERF

# --- pointwise ----------------------------------------------------------------------------------------


def market(size: int) -> list[np.ndarray]:
    """Spot, strike, years, rate and volatility of ``size`` options."""
    ranges = ((80.0, 120.0), (90.0, 110.0), (0.2, 2.0), (0.01, 0.05), (0.1, 0.5))
    return [uniform(*ends, size, seed=k) for k, ends in enumerate(ranges)]


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1.0 + (x * math.sqrt(0.5)).erf())


def call_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Black and Scholes (1973): the price of a European call option."""
    spread = volatility * years.sqrt()
    d1 = ((spot / strike).log() + (rate + 0.5 * volatility * volatility) * years) / spread
    discount = (-rate * years).exp()
    return spot * _normal_cdf(d1) - strike * discount * _normal_cdf(d1 - spread)


def black_scholes(space: Space) -> At:
    compiled = space.function(call_price)
    return lambda size: forward_call(space, compiled, tuple(map(space.tensor, market(*size))))


def black_scholes_grad(space: Space) -> At:
    def value(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
        return call_price(spot, strike, years, rate, volatility).sum()

    def draw(size: Size) -> tuple[Any, Any]:
        args = [space.leaf(x) for x in market(*size)]
        return args, args

    return gradient_at(space, value, draw)


def branch(space: Space) -> At:
    def function(x: Any) -> Any:
        y = x.tanh() * 2.0 if x.sum() > 0 else x.sigmoid() - 1.0
        return (y * y + x).sum()

    def draw(size: Size) -> tuple[Any, Any]:
        x = space.leaf(uniform(-0.5, 1.0, *size))
        return [x], [x]

    return gradient_at(space, function, draw)


# --- rows and reductions ------------------------------------------------------------------------------


def norm_softmax(space: Space) -> At:
    """Layer norm, softmax, sum over the rows."""
    functional = space.tj.nn.functional

    def function(x: Any, weight: Any, bias: Any) -> Any:
        y = functional.layer_norm(x, (x.shape[-1],), weight, bias)
        return functional.softmax(y, dim=-1).sum(0)

    compiled = space.function(function)
    return lambda size: forward_call(space, compiled, tuple(map(space.tensor, rows(size))))


def norm_softmax_grad(space: Space) -> At:
    """The same, weighted, with the gradients of all three inputs."""
    functional = space.tj.nn.functional

    def function(x: Any, weight: Any, bias: Any) -> Any:
        y = functional.layer_norm(x, (x.shape[-1],), weight, bias)
        return (functional.softmax(y, dim=-1).sum(0) * weight).sum()

    def draw(size: Size) -> tuple[Any, Any]:
        args = [space.leaf(x) for x in rows(size)]
        return args, args

    return gradient_at(space, function, draw)


def rows(size: Size) -> list[np.ndarray]:
    """A matrix, and a weight and a bias for its rows."""
    weight, bias = uniform(0.5, 1.5, size[1], seed=1), uniform(-0.5, 0.5, size[1], seed=2)
    return [uniform(-4.0, 4.0, *size), weight, bias]


def reduce_axis(space: Space, axis: int) -> At:
    """Sum and maximum over one axis of three."""

    def function(x: Any) -> Any:
        return x.sum(axis), x.amax(axis)

    compiled = space.function(function)
    return lambda size: forward_call(space, compiled, (space.tensor(uniform(-1, 1, *size)),))


def cross_entropy_grad(space: Space) -> At:
    """Rows of many classes: the loss and the gradient of the logits."""
    functional = space.tj.nn.functional

    def draw(size: Size) -> tuple[Any, Any]:
        logits = space.leaf(normal(2.0, *size))
        return [logits, space.tensor(classes(size[1], size[0]))], [logits]

    return gradient_at(space, lambda x, y: functional.cross_entropy(x, y), draw)


# --- loops in time ------------------------------------------------------------------------------------

LEAPFROGS, RUNGE_KUTTAS, BODY_STEPS, HEAT_STEPS, ITERATIONS = 10, 20, 10, 50, 60


def regression(size: Size) -> list[np.ndarray]:
    """Examples, signs, a position and a momentum, in double precision."""
    count, width = size
    x = normal(1.0, count, width).astype(np.float64)
    signs = np.where(x @ normal(1.0, width, seed=1) > 0, 1.0, -1.0)
    return [x, signs, 0.1 * normal(1.0, width, seed=2), normal(1.0, width, seed=3)]


def leapfrog(space: Space) -> At:
    """Hamiltonian Monte Carlo's trajectory on the posterior of a logistic regression, by hand-written gradient."""

    def slope(x: Any, signs: Any, position: Any) -> Any:
        return ((-signs * (x @ position)).sigmoid() * -signs) @ x + position

    def function(x: Any, signs: Any, position: Any, momentum: Any) -> Any:
        rate = 0.003
        for _ in range(LEAPFROGS):
            momentum = momentum - 0.5 * rate * slope(x, signs, position)
            position = position + rate * momentum
            momentum = momentum - 0.5 * rate * slope(x, signs, position)
        return position, momentum

    def at(size: Size) -> Call:
        args = [space.placed(a.astype(np.float64)) for a in regression(size)]
        return forward_call(space, compiled, tuple(args))

    compiled = space.function(function)
    return at


def ode(space: Space) -> At:
    """The classical Runge-Kutta method on many van der Pol oscillators."""

    def slopes(x: Any, v: Any) -> Any:
        return v, 1.5 * (1.0 - x * x) * v - x

    def function(x: Any, v: Any) -> Any:
        h = 0.02
        for _ in range(RUNGE_KUTTAS):
            a, b = slopes(x, v)
            c, d = slopes(x + 0.5 * h * a, v + 0.5 * h * b)
            e, f = slopes(x + 0.5 * h * c, v + 0.5 * h * d)
            p, q = slopes(x + h * e, v + h * f)
            x = x + h / 6.0 * (a + 2.0 * c + 2.0 * e + p)
            v = v + h / 6.0 * (b + 2.0 * d + 2.0 * f + q)
        return x, v

    compiled = space.function(function)

    def at(size: Size) -> Call:
        start = (uniform(-2, 2, *size, seed=1), uniform(-2, 2, *size, seed=2))
        return forward_call(space, compiled, tuple(map(space.tensor, start)))

    return at


def nbody(space: Space) -> At:
    """Bodies that attract each other, moved by the symplectic Euler method."""

    def function(place: Any, speed: Any, mass: Any) -> Any:
        for _ in range(BODY_STEPS):
            apart = place.unsqueeze(0) - place.unsqueeze(1)
            square = (apart * apart).sum(-1) + 0.05
            pull = mass / (square * square.sqrt())
            speed = speed + 0.01 * (apart * pull.unsqueeze(-1)).sum(1)
            place = place + 0.01 * speed
        return place, speed

    compiled = space.function(function)
    return lambda size: forward_call(space, compiled, tuple(map(space.tensor, bodies(size))))


def bodies(size: Size) -> list[np.ndarray]:
    """Places, speeds and masses."""
    places, speeds = normal(1.0, *size, 3, seed=1), normal(0.3, *size, 3, seed=2)
    return [places, speeds, uniform(0.1, 1.0, *size, seed=3)]


def mandelbrot(space: Space) -> At:
    """Mean escape time of every line; the loop ends when all points have escaped, or after a fixed number of rounds."""
    where = space.tj.where

    def function(cx: Any, cy: Any) -> Any:
        x, y, count = cx * 0.0, cy * 0.0, cx * 0.0
        rounds = 0
        alive = x * x + y * y <= 4.0
        while rounds < ITERATIONS and alive.any():
            u = x * x - y * y + cx
            v = 2.0 * x * y + cy
            x, y = where(alive, u, x), where(alive, v, y)
            count = count + where(alive, 1.0, 0.0)
            alive = x * x + y * y <= 4.0
            rounds += 1
        return count.mean(-1)

    compiled = space.function(function)
    return lambda size: forward_call(space, compiled, tuple(map(space.tensor, plane(size))))


def plane(size: Size) -> list[np.ndarray]:
    """Points of the complex plane, off the grid on which roundings decide."""
    x, y = np.linspace(-2.0, 0.6, size[1]), np.linspace(-1.2, 1.2, size[0])
    return [a.astype(np.float32).copy() for a in np.meshgrid(x + 1e-3, y + 1e-3)]


def heat(space: Space) -> At:
    """The heat equation on a plate with fixed edges: an explicit five-point stencil, written with slices."""
    pad = space.tj.nn.functional.pad

    def function(u: Any) -> Any:
        edge = u - pad(u[1:-1, 1:-1], (1, 1, 1, 1))
        for _ in range(HEAT_STEPS):
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u = edge + pad(u[1:-1, 1:-1] + 0.2 * (near - 4.0 * u[1:-1, 1:-1]), (1, 1, 1, 1))
        return u

    compiled = space.function(function)
    return lambda size: forward_call(space, compiled, (space.tensor(uniform(0, 1, *size)),))


def _numel(size: Size) -> float:
    return float(math.prod(size))


def _powers(first: int, last: int) -> tuple[Size, ...]:
    return tuple((10**k,) for k in range(first, last + 1))


CASES: tuple[Case, ...] = (
    Case(
        "black_scholes",
        black_scholes,
        (1_000_000,),
        (900_001,),
        (16,),
        lambda s: 24 * _numel(s),
        lambda s: PRICE * _numel(s),
        sweep=_powers(1, 8),
        memory=lambda s: 72 * _numel(s),
    ),
    Case(
        "black_scholes_grad",
        black_scholes_grad,
        (1_000_000,),
        (900_001,),
        (16,),
        lambda s: 40 * _numel(s),
        lambda s: (PRICE + 48 + 2 * EXP) * _numel(s),
        step=True,
        sweep=_powers(1, 8),
        memory=lambda s: 160 * _numel(s),
    ),
    Case(
        "branch",
        branch,
        (8,),
        (11,),
        (8,),
        lambda s: 8 * _numel(s),
        lambda s: 12 * _numel(s),
        step=True,
        sweep=((1_000,), (1_000_000,)),
    ),
    Case(
        "norm_softmax",
        norm_softmax,
        (4096, 768),
        (3000, 700),
        (4, 24),
        lambda s: 4 * _numel(s),
        lambda s: (11 + EXP) * _numel(s),
        sweep=((1_000_000, 8), (8, 1_000_000), (65_536, 64), (512, 8192)),
        memory=lambda s: 24 * _numel(s),
    ),
    Case(
        "norm_softmax_grad",
        norm_softmax_grad,
        (4096, 768),
        (3000, 700),
        (4, 24),
        lambda s: 8 * _numel(s),
        lambda s: (29 + EXP) * _numel(s),
        step=True,
        sweep=((1_000_000, 8), (8, 1_000_000)),
        precision=1e-3,
        memory=lambda s: 48 * _numel(s),
    ),
    *(
        Case(
            f"reduce_axis{axis}",
            lambda space, axis=axis: reduce_axis(space, axis),
            (128, 256, 128),
            (100, 200, 120),
            (3, 4, 5),
            lambda s: 4 * _numel(s),
            lambda s: 2 * _numel(s),
        )
        for axis in range(3)
    ),
    Case(
        "cross_entropy_grad",
        cross_entropy_grad,
        (256, 50_000),
        (200, 50_000),
        (4, 50),
        lambda s: 12 * _numel(s),
        lambda s: (7 + EXP) * _numel(s),
        step=True,
        memory=lambda s: 24 * _numel(s),
    ),
    Case(
        "leapfrog",
        leapfrog,
        (2000, 30),
        (1500, 25),
        (20, 3),
        lambda s: 8 * _numel(s),
        lambda s: 8 * LEAPFROGS * _numel(s),
        precision=1e-9,
        float64=True,
    ),
    Case(
        "ode",
        ode,
        (10_000,),
        (9_000,),
        (16,),
        lambda s: 16 * _numel(s),
        lambda s: 50 * RUNGE_KUTTAS * _numel(s),
        sweep=((100,), (1_000_000,)),
    ),
    Case(
        "nbody",
        nbody,
        (256,),
        (200,),
        (8,),
        lambda s: 52 * _numel(s),
        lambda s: 18 * BODY_STEPS * _numel(s) ** 2,
        precision=1e-3,
    ),
    Case(
        "mandelbrot",
        mandelbrot,
        (256, 256),
        (200, 220),
        (8, 8),
        lambda s: 12 * _numel(s),
        lambda s: 12 * ITERATIONS * _numel(s),
        precision=1e-2,  # near the border a rounding decides when a point escapes
    ),
    Case(
        "heat",
        heat,
        (512, 512),
        (400, 450),
        (6, 7),
        lambda s: 8 * _numel(s),
        lambda s: 8 * HEAT_STEPS * _numel(s),
        sweep=((64, 64), (2048, 2048)),
    ),
)
