"""Random programs: functions of tensors as Python text, grown one statement at a time.

A statement is kept only if it runs eagerly on the program's own inputs and its result is finite, small and not too
large, so shapes and types need no model of their own and values stay well-conditioned. The text is ordinary code: a
failure is a file that runs by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .choices import Choices

#: Values beyond this size make tolerances meaningless.
LARGEST = 1e4
MOST_ELEMENTS = 100_000
FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Input:
    """An argument of a program: how to make its values, its layout, and whether it takes gradients."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    requires_grad: bool
    rounded: bool
    low: int = -4
    high: int = 5
    special: bool = False  # are there numbers that are none, or endless, or negative zeros?
    astray: bool = False  # is a position now and then outside of what it is a position in?

    def array(self, rng: np.random.Generator) -> np.ndarray:
        """Fresh values in this layout."""
        from .. import dtypes

        kind = getattr(dtypes, self.dtype if self.dtype != "bool" else "bool_").np
        values: np.ndarray
        if self.dtype == "bool":
            values = rng.random(self.shape) < 0.5
        elif self.dtype in INTEGERS:
            low = max(self.low, 0) if self.dtype == "uint8" else self.low
            values = np.asarray(rng.integers(low, self.high, self.shape))
            if self.astray and values.size and rng.random() < 0.3:
                values.flat[int(rng.integers(values.size))] = self.high * rng.choice([1, 3, -2])
        else:
            values = rng.standard_normal(self.shape)
            values = np.round(values) if self.rounded else values
            if self.special:
                odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], self.shape)
                values = np.where(rng.random(self.shape) < 0.1, odd, values)
        return _laid_out(np.asarray(values).astype(kind), self.layout)


def _laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The same values with other strides."""
    if layout == "transposed":
        return np.ascontiguousarray(values.T).T
    if layout == "strided" and values.ndim:
        wide = np.zeros((*values.shape[:-1], values.shape[-1] * 2), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "within" and values.ndim:
        wide = np.ones([n + 3 for n in values.shape], values.dtype)
        inner = wide[tuple(slice(1, n + 1) for n in values.shape)]
        inner[...] = values
        return inner
    if layout == "reversed" and values.ndim:
        return np.ascontiguousarray(values[..., ::-1])[..., ::-1]
    if layout == "expanded" and values.ndim:
        first = values[:1].copy()
        return (
            np.lib.stride_tricks.as_strided(first, values.shape, (0, *first.strides[1:]))
            if values.size
            else values
        )
    return values


@dataclass(frozen=True)
class Statement:
    """One or more lines; ``target`` is the name they define."""

    lines: tuple[str, ...]
    target: str


@dataclass
class Program:
    """A function's text with its inputs."""

    seed: int
    inputs: list[Input] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def returning_all(self) -> Program:
        """The same with every value that it computes among its outputs."""
        made = [s.target for s in self.statements]
        outputs = list(dict.fromkeys([*self.outputs, *made]))
        return Program(self.seed, self.inputs, self.statements, outputs)

    def source(self) -> str:
        """The function."""
        lines = [f"def program({', '.join(i.name for i in self.inputs)}):"]
        for statement in self.statements:
            lines += ["    " + line for line in statement.lines]
        returned = ", ".join(self.outputs)
        lines.append(f"    return ({returned}{',' if len(self.outputs) == 1 else ''})")
        return "\n".join(lines) + "\n"


class Grower(Choices):
    """Grows one program from a seed."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        super().__init__(seed)
        self.size = size if size is not None else int(self.rng.integers(3, 22))
        self.program = Program(seed)
        self.values: dict[str, Any] = {}
        self.owned: set[str] = set()  # names whose memory no input shows
        self.counter = itertools.count()
        self.extents = self._extents()
        self.grads = self.rng.random() < 0.75
        self.special = self.chance(0.06)

    # --- choices ---------------------------------------------------------------------------------------------------

    def _extents(self) -> list[int]:
        """A few extents, so that values meet; sometimes zero or one, sometimes long."""
        found = [self.pick([1, 2, 3, 3, 4, 5, 7, 8]) for _ in range(3)]
        if self.chance(0.06):
            found.append(0)
        if self.chance(0.3):
            found.append(1)
        if self.chance(0.15):
            found.append(self.pick([17, 33, 64, 257, 300, 1030]))
        return found

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A shape of the program's extents."""
        rank = self.pick([0, 1, 1, 2, 2, 2, 3, 3, 4]) if rank is None else rank
        found = tuple(self.pick(self.extents) for _ in range(rank))
        small = min(self.extents)
        while np.prod(found, dtype=np.int64) > MOST_ELEMENTS:
            longest = int(np.argmax(found))
            found = (*found[:longest], small, *found[longest + 1 :])
        return found

    def name(self) -> str:
        """A new variable name."""
        return f"v{next(self.counter)}"

    def names(self, test: Callable[[Any], bool] = lambda t: True) -> list[str]:
        """The values that pass ``test``."""
        return [n for n, t in self.values.items() if test(t)]

    def any(self, test: Callable[[Any], bool] = lambda t: True) -> str:
        """A value that passes ``test``, later ones more likely."""
        found = self.names(test)
        if not found:
            raise Unsuitable
        return found[-1 - min(int(self.rng.exponential(3.0)), len(found) - 1)]

    def real(self) -> str:
        """A floating-point value."""
        return self.any(lambda t: t.dtype.is_floating_point)

    def ranked(self, least: int = 1) -> str:
        """A value of at least this rank."""
        return self.any(lambda t: t.ndim >= least)

    # --- growing -----------------------------------------------------------------------------------------------------

    def run(self) -> Program:
        """The finished program."""
        from .fuzz_statements import KINDS

        for _ in range(self.whole(1, 4)):
            self.add_input()
        # Each program favours some kinds and leaves others out: unusual mixtures meet more often that way.
        weights = np.array([w * self.pick([0.0, 1.0, 1.0, 4.0]) for _, w in KINDS]) + 1e-3
        weights /= weights.sum()
        for _ in range(self.size * 4):
            if len(self.program.statements) >= self.size:
                break
            make = KINDS[int(self.rng.choice(len(KINDS), p=weights))][0]
            try:
                self.keep(make(self))
            except Unsuitable:
                continue
        self.choose_outputs()
        return self.program

    def add_input(
        self, shape: tuple[int, ...] | None = None, dtype: str | None = None, high: int = 5
    ) -> str:
        """A new argument; its name."""
        if dtype is None:
            dtype = self.pick(FLOATS if self.chance(0.8) or not self.program.inputs else INTEGERS)
        real = dtype not in INTEGERS
        given = Input(
            f"x{len(self.program.inputs)}",
            self.shape() if shape is None else shape,
            dtype,
            self.pick(
                ["contiguous"] * 6
                + ["transposed", "transposed", "strided", "reversed", "expanded", "within"]
            ),
            real and self.grads and self.chance(0.75),
            real and self.chance(0.1),
            0 if shape is not None else -4,
            max(high, 1),
            self.special and real,
            shape is not None and dtype == "int64" and self.chance(0.15),
        )
        self.program.inputs.append(given)
        self.values[given.name] = tensor_of(given, self.rng)
        return given.name

    def keep(self, statement: Statement) -> None:
        """Run a statement on the values so far; refuse it if its result would not do."""
        space = {"tj": _package(), "F": _functional(), **self.values}
        try:
            with np.errstate(all="ignore"):
                exec("\n".join(statement.lines), space)
        except Exception as error:
            raise Unsuitable from error
        found = space[statement.target]
        if not suitable(found, self.special):
            raise Unsuitable
        self.values[statement.target] = found
        self.program.statements.append(statement)

    def let(self, expression: str) -> Statement:
        """A statement that names an expression's value."""
        name = self.name()
        return Statement((f"{name} = {expression}",), name)

    def choose_outputs(self) -> None:
        """The last value and some others."""
        made = [s.target for s in self.program.statements] or [self.program.inputs[0].name]
        found = [made[-1]]
        found += [self.pick(list(self.values)) for _ in range(self.whole(0, 3))]
        self.program.outputs = list(dict.fromkeys(found)) if self.chance(0.95) else found


class Unsuitable(Exception):
    """This statement cannot stand here."""


def tensor_of(given: Input, rng: np.random.Generator) -> Any:
    """An input tensor."""
    return _package().from_numpy(given.array(rng)).requires_grad_(given.requires_grad)


def suitable(tensor: Any, special: bool) -> bool:
    """Small values in a tensor of moderate size, all of them finite unless they are ``special``."""
    if tensor.numel() > MOST_ELEMENTS:
        return False
    values = tensor.detach().numpy()
    if values.dtype.kind not in "biufc":
        values = values.astype(np.float64)
    finite = np.isfinite(values)
    return bool((special or finite.all()) and np.all(np.abs(values[finite]) < LARGEST))


def _package() -> Any:
    import tracejit

    return tracejit


def _functional() -> Any:
    from ..nn import functional

    return functional
