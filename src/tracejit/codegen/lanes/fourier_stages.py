"""Stages of Fourier transforms in Stockham's order, by radices of up to seven, on complex numbers in lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..products.vector_kind import Kind, inner
from .lanes import Lane, Lanes

__all__ = [
    "RADICES",
    "Complex",
    "Numbers",
    "Stages",
    "constant",
    "root",
    "run_stages",
    "stage_functions",
]

#: In which order a length is taken apart.
RADICES = (4, 2, 3, 5, 7)


@dataclass(frozen=True)
class Complex:
    """A complex number in every lane."""

    re: Lane
    im: Lane

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Complex) -> Complex:
        t = self.re.of
        return Complex(
            t.fused(self.re, other.re, -(self.im * other.im)),
            t.fused(self.re, other.im, self.im * other.re),
        )

    def plus(self, factor: Lane, other: Complex) -> Complex:
        """``self + factor * other``, for a real factor."""
        t = self.re.of
        return Complex(t.fused(factor, other.re, self.re), t.fused(factor, other.im, self.im))

    def plus_turned(self, factor: Lane, other: Complex) -> Complex:
        """``self + i * factor * other``, for a real factor."""
        t = self.re.of
        return Complex(t.fused(-factor, other.im, self.re), t.fused(factor, other.re, self.im))

    def times(self, factor: Lane) -> Complex:
        """``factor * self``, for a real factor."""
        return Complex(self.re * factor, self.im * factor)


class Numbers:
    """Complex numbers in memory: pairs of vectors."""

    def __init__(self, t: Lanes, place: str) -> None:
        self.t, self.place = t, place

    def __getitem__(self, index: str) -> Complex:
        at = self._at(index)
        vector, next_ = self.t.kind.vector, self.t.f.at(at, 1, self.t.kind.vector)
        return Complex(
            self.t.made(f"load {vector}, ptr {at}"), self.t.made(f"load {vector}, ptr {next_}")
        )

    def __setitem__(self, index: str, value: Complex) -> None:
        at, vector = self._at(index), self.t.kind.vector
        self.t.f.add(f"store {vector} {value.re.ref}, ptr {at}")
        self.t.f.add(f"store {vector} {value.im.ref}, ptr {self.t.f.at(at, 1, vector)}")

    def _at(self, index: str) -> str:
        return self.t.f.at(self.place, index, f"[2 x {self.t.kind.vector}]")


def constant(t: Lanes, constants: str, index: str | int) -> Lane:
    """A number of an array in every lane.

    >>> from ..products.vector_machine import Machine
    >>> kind = Kind("f64", Machine(64, 8, 3))
    >>> f = inner(kind, "void @f(ptr %x)")
    >>> constant(Lanes(f, kind), "%x", 2).of.f.lines[0]
    '  %t1 = getelementptr double, ptr %x, i64 2'
    """
    return Lane(t, t.kind.number(t.f, t.f.at(constants, index, t.kind.scalar)))


def root(t: Lanes, constants: str, index: str) -> Complex:
    """A pair of numbers of an array in every lane.

    >>> from ..products.vector_machine import Machine
    >>> kind = Kind("f64", Machine(64, 8, 3))
    >>> f = inner(kind, "void @f(ptr %x)")
    >>> root(Lanes(f, kind), "%x", "2").re.of.f.lines[0]
    '  %t1 = getelementptr [2 x double], ptr %x, i64 2'
    """
    at = t.f.at(constants, index, f"[2 x {t.kind.scalar}]")
    return Complex(constant(t, at, 0), constant(t, at, 1))


def _two(x: list[Complex], sign: Lane) -> list[Complex]:
    del sign
    return [x[0] + x[1], x[0] - x[1]]


def _three(x: list[Complex], sign: Lane) -> list[Complex]:
    t = sign.of
    total, apart = x[1] + x[2], x[1] - x[2]
    middle, turn = x[0].plus(t.number(-0.5), total), sign * t.number(math.sqrt(0.75))
    return [x[0] + total, middle.plus_turned(turn, apart), middle.plus_turned(-turn, apart)]


def _four(x: list[Complex], sign: Lane) -> list[Complex]:
    even, odd = x[0] + x[2], x[1] + x[3]
    first, second = x[0] - x[2], x[1] - x[3]
    return [
        even + odd,
        first.plus_turned(sign, second),
        even - odd,
        first.plus_turned(-sign, second),
    ]


def _odd(x: list[Complex], sign: Lane) -> list[Complex]:
    """An odd number of elements: those as far from the first one on both sides have one cosine, and opposite sines."""
    t, p = sign.of, len(x)
    half = range(1, p // 2 + 1)
    cosines = {k: t.number(math.cos(k * math.tau / p)) for k in half}
    sines = {k: sign * t.number(math.sin(k * math.tau / p)) for k in half}
    outer, across = [x[j] + x[p - j] for j in half], [x[j] - x[p - j] for j in half]
    total, unit = x[0], t.number(1.0)
    for pair in outer:
        total = total + pair
    upper, lower = list[Complex](), list[Complex]()
    for k in half:
        middle, turned = x[0], across[0].times(sines[k])
        for j, pair in zip(half, outer, strict=True):
            middle = middle.plus(cosines[min(j * k % p, -j * k % p)], pair)
        for j, apart in zip(half[1:], across[1:], strict=True):
            place = j * k % p
            sine = sines[place] if place < p - place else -sines[p - place]
            turned = turned.plus(sine, apart)
        upper.append(middle.plus_turned(unit, turned))
        lower.append(middle.plus_turned(-unit, turned))
    return [total, *upper, *reversed(lower)]


_SMALL: dict[int, Callable[[list[Complex], Lane], list[Complex]]] = {
    2: _two,
    3: _three,
    4: _four,
    5: _odd,
    7: _odd,
}


def stage_functions(kind: Kind) -> list[str]:
    """The functions that `run_stages` calls.

    >>> from ..products.vector_machine import Machine
    >>> len(stage_functions(Kind("f64", Machine(64, 8, 3)))) == len(RADICES)
    True
    """
    return [_stage(kind, radix) for radix in RADICES]


def _stage(kind: Kind, radix: int) -> str:
    """``steps`` transforms of ``radix`` elements each, for every one of ``stride`` sequences, times roots of unity."""
    given = "ptr noalias %x, ptr noalias %y, i64 %steps, i64 %stride, ptr %roots, ptr %constants"
    f = inner(kind, f"internal void @stage.{radix}({given})")
    t = Lanes(f, kind)
    sign, pair = constant(t, "%constants", 0), f"[2 x {kind.vector}]"
    apart = f.product("%steps", "%stride")
    with f.loop(0, "%steps") as p:
        at = f.at("%roots", f.product(p, radix - 1), f"[2 x {kind.scalar}]")
        roots = [root(t, at, str(k)) for k in range(radix - 1)]
        first, place = f.product(p, "%stride"), f.product(f.product(p, radix), "%stride")
        read = [
            Numbers(t, f.at("%x", f.sum(first, f.product(apart, j)), pair)) for j in range(radix)
        ]
        written = [
            Numbers(t, f.at("%y", f.sum(place, f.product("%stride", k)), pair))
            for k in range(radix)
        ]
        with f.loop(0, "%stride") as q:
            found = _SMALL[radix]([x[q] for x in read], sign)
            written[0][q] = found[0]
            for y, value, turn in zip(written[1:], found[1:], roots, strict=True):
                y[q] = value * turn
    f.add("ret void")
    return f.finish()


@dataclass(frozen=True)
class Stages:
    """Stages to be run: their words (radix, steps, stride of each), how many, and where their roots of unity are."""

    words: str
    count: str
    roots: str
    constants: str


def run_stages(t: Lanes, stages: Stages, first: str, second: str) -> tuple[str, str, str]:
    """All stages on what is at ``first``: where the result is, where other room is, and what is behind the roots.

    >>> from ..products.vector_machine import Machine
    >>> kind = Kind("f64", Machine(64, 8, 3))
    >>> f = inner(kind, "void @f(ptr %x, ptr %y, ptr %words, ptr %constants)")
    >>> stages = Stages("%words", "3", "%constants", "%constants")
    >>> found = run_stages(Lanes(f, kind), stages, "%x", "%y")
    >>> sum("call void @stage." in line for line in f.lines) == len(RADICES)
    True
    """
    f, scalar = t.f, t.kind.scalar
    x, y, roots = (f.variable("ptr", start) for start in (first, second, stages.roots))
    with f.loop(0, stages.count) as number:
        stage = f.at(stages.words, f.product(number, 3), "i64")
        radix, steps, stride = (f.word(stage, i) for i in range(3))
        a, b, w = x.get(), y.get(), roots.get()
        given = f"ptr {a}, ptr {b}, i64 {steps}, i64 {stride}, ptr {w}, ptr {stages.constants}"
        for one in RADICES:
            with f.when(f.compare("eq", radix, one)):
                f.add(f"call void @stage.{one}({given})")
        used = f.product(steps, f.difference(radix, 1))
        roots.set(f.at(w, used, f"[2 x {scalar}]"))
        x.set(b)
        y.set(a)
    return x.get(), y.get(), roots.get()
