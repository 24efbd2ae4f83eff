"""What a benchmark program is made of: a case, the space it is written in, data, and how one measurement runs.

A :class:`Case` is written once against PyTorch's names. ``case.make(space)`` builds its functions and state and
returns ``at``: ``at(size)`` draws data of a size and gives a call without arguments, the thing that is measured.
Calls of several sizes share the compiled functions, as a program that meets another size does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Call = Callable[[], Any]
Wrap = Callable[[Any], Any]
Size = tuple[int, ...]
At = Callable[[Size], Call]

#: Results may differ by this much relative to their largest element: a few hundred float32 roundings.
TOLERANCE = 2e-4


def eager(function: Any) -> Any:
    """The ``wrap`` of code that is not compiled."""
    return function


@dataclass(frozen=True)
class Space:
    """Where a case runs: the namespace, what compiles a function, what compiles a whole step, and the float type.

    ``fused`` asks optimizers for their fused form. ``dtype`` is ``float32``, or ``float64`` for the reference; tensors
    lie on ``device``.
    """

    tj: Any
    function: Wrap = eager
    step: Wrap = eager
    fused: bool = False
    dtype: str = "float32"
    device: str = "cpu"

    def placed(self, array: np.ndarray) -> Any:
        """A tensor on drawn data as it is."""
        made = self.tj.from_numpy(np.ascontiguousarray(array))
        return made if self.device == "cpu" else made.to(self.device)

    def tensor(self, array: np.ndarray) -> Any:
        """A tensor on drawn data; floats in the type of this space, integers as they are."""
        kind = self.dtype if array.dtype.kind == "f" else array.dtype
        return self.placed(array.astype(kind))

    def leaf(self, array: np.ndarray) -> Any:
        """A tensor that wants its gradient."""
        return self.tensor(array).requires_grad_()

    def fill(self, module: Any, arrays: list[np.ndarray]) -> Any:
        """A module in this space's float type, with these parameters."""
        if self.dtype == "float64":
            module = module.double()
        if self.device != "cpu":
            module = module.to(self.device)
        with self.tj.no_grad():
            for parameter, array in zip(module.parameters(), arrays, strict=True):
                parameter.copy_(self.tensor(array))
        return module

    @property
    def whole(self) -> bool:
        """Are whole steps compiled?"""
        return self.step is not eager


@dataclass(frozen=True)
class Case:
    """A program to measure; a call returns its results and gradients.

    ``main`` is the size all figures are taken at, ``new`` the one that comes after it, ``small`` that of a quick
    run, ``sweep`` further sizes. ``traffic`` and ``flops`` give the least bytes and operations a size needs.
    ``step`` says that a call is more than one function: compiled whole, it is another program. ``float64``: the program
    computes in double precision. ``precision`` is the tolerance of its results.
    """

    name: str
    make: Callable[[Space], At]
    main: Size
    new: Size
    small: Size
    traffic: Callable[[Size], float]
    flops: Callable[[Size], float]
    step: bool = False
    sweep: tuple[Size, ...] = ()
    precision: float = TOLERANCE
    float64: bool = False
    memory: Callable[[Size], float] | None = field(default=None, compare=False)

    def bytes_held(self, size: Size) -> float:
        """About how much memory an eager run of a size takes at its worst."""
        return self.memory(size) if self.memory is not None else 4.0 * self.traffic(size)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Every size of a full run, each once."""
        return tuple(dict.fromkeys((self.main, *self.sweep)))


def label(size: Size) -> str:
    """A size as text.

    >>> label((4096, 768)), label((1_000_000,))
    ('4,096 x 768', '1,000,000')
    """
    return " x ".join(f"{extent:,}" for extent in size)


# --- data: NumPy draws it, so that every namespace gets the same ---------------------------------


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Float32 draws."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def normal(scale: float, *shape: int, seed: int = 0) -> np.ndarray:
    """Float32 draws of a normal distribution."""
    draws = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return draws * np.float32(scale)


def classes(count: int, *shape: int) -> np.ndarray:
    """Labels below ``count``."""
    return np.random.default_rng(1).integers(0, count, shape)


# --- what one measurement is ----------------------------------------------------------------------


def forward_call(space: Space, function: Any, args: tuple[Any, ...]) -> Call:
    """The function under ``no_grad``; its results in a list."""

    def call() -> list[Any]:
        with space.tj.no_grad():
            result = function(*args)
        return [*result] if isinstance(result, tuple) else [result]

    return call


def gradient_at(space: Space, function: Any, draw: Callable[[Size], tuple[Any, Any]]) -> At:
    """Calls of a function and of ``backward()`` of its result into cleared gradients.

    ``draw(size)`` gives the arguments and the leaves among them or behind the function. Compiled whole, clearing,
    forward and backward are one program.
    """
    compiled = space.function(function)

    def run(args: Any, leaves: Any) -> Any:
        for leaf in leaves:
            leaf.grad = None
        result = compiled(*args)
        result.backward()
        return result

    whole = space.step(run)

    def at(size: Size) -> Call:
        args, leaves = draw(size)

        def call() -> list[Any]:
            return [whole(args, leaves).detach(), *(leaf.grad for leaf in leaves)]

        return call

    return at


def training_at(
    space: Space,
    loss: Any,
    parameters: list[Any],
    optimizer: Any,
    draw: Callable[[Size], tuple[Any, ...]],
) -> At:
    """Calls of a training step: clear, forward, backward, update."""
    compiled = space.function(loss)

    def run(*batch: Any) -> Any:
        optimizer.zero_grad()
        value = compiled(*batch)
        value.backward()
        optimizer.step()
        return value.detach()

    whole = space.step(run)

    def at(size: Size) -> Call:
        batch = draw(size)

        def call() -> list[Any]:
            return [whole(*batch), *parameters]

        return call

    return at
