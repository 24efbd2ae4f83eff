"""Random numbers of Python and NumPy, and arrays of these: ``random.random() < ratio`` is drawn anew at every call.

While a function is recorded, the names by which its code reaches generators lead to functions that draw as ever and
hand out a number that varies. A call draws where it computes its numbers, in the order of the recorded run. One that is
not served puts the generators back, because it is run in Python then.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from operator import index
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...extents import Extent
from ...modes import MODES
from ...varying import is_varying, plain
from ..state.picked_items import picks
from ..state.purity import words
from .clocks import clock_like
from .numbers import Number

#: What draws a number, or an array, from numbers that it is given.
_DRAWING = words(
    """
    beta betavariate binomial binomialvariate chisquare choice exponential expovariate gamma gammavariate gauss
    geometric getrandbits gumbel integers laplace logistic lognormal lognormvariate normal normalvariate pareto
    paretovariate permutation poisson rand randint randn random random_sample randrange ranf rayleigh sample
    standard_exponential standard_gamma standard_normal triangular uniform vonmises vonmisesvariate weibull
    weibullvariate
    """
)
#: Names of NumPy for what takes a seed.
_OF_SEEDS = words("MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence default_rng seed")


#: The classes of what decides between two ways.
BOOLS = (bool, np.bool_)


class Drawing:
    """Stands for a generator, or for a module with functions that draw."""

    def __init__(self, shown: Any) -> None:
        object.__setattr__(self, "_shown", shown)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of what it stands for, for ``isinstance``."""
        return type(self._shown)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._shown, name)
        return drawing_like(found) or found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shown, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._shown, name)


class Seeded(Drawing):
    """Stands for a class of generators, or a function that makes or seeds one: all of them want true numbers.

    They are written in C. Some refuse what is no ``int`` of Python's own, others take its hash for it.
    """

    def __call__(self, *given: Any, **named: Any) -> Any:
        """What it does, with true numbers for those that vary.

        Nobody watches what is called from here: without a seed that tells all it would take entropy from the system.
        """
        if MODES.recorder is not None and getattr(self._shown, "__name__", "") == "seed":
            MODES.recorder.unsupported("seed() sets a random generator")
        seeds = [x for x in (*given, *named.values()) if x is not None]
        if not seeds or not all(map(_tells_all, seeds)):
            name = getattr(self._shown, "__name__", type(self._shown).__name__)
            MODES.recorder.unsupported(f"{name}() takes a seed that nothing tells")
        return self._shown(*map(_true, given), **{name: _true(x) for name, x in named.items()})

    def __instancecheck__(self, found: Any) -> bool:
        return isinstance(found, self._shown)

    def __subclasscheck__(self, found: Any) -> bool:
        return issubclass(found, self._shown)

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return (self._shown,)

    def __eq__(self, other: object) -> bool:
        return bool(self._shown == other)

    def __hash__(self) -> int:
        return hash(self._shown)


def _tells_all(seed: Any) -> bool:
    """Is this a seed that gives the same numbers wherever it is given?"""
    kind = type(seed)
    if kind in (list, tuple):
        return all(map(_tells_all, seed))
    if kind in (int, float, bool, str, bytes, bytearray, np.ndarray, Extent) or is_varying(seed):
        return True
    return issubclass(kind, np.generic)


def _true(seed: Any) -> Any:
    """A seed with plain numbers in it, which are constants of the recording from here on."""
    if type(seed) in (list, tuple):
        return type(seed)(map(_true, seed))
    if type(seed) is Extent:
        return index(seed)
    if isinstance(seed, Drawing):
        return seed._shown
    return seed._forced() if is_varying(seed) else seed


def drawing_like(value: Any) -> Any:
    """What stands for ``value`` while a function is recorded; None for what draws no numbers.

    >>> drawing_like(random.random).func is drawn, drawing_like(random.shuffle)
    (True, None)
    """
    kind = type(value)  # nothing else of it is asked: it may be anything
    if kind in _kinds() or (kind is ModuleType and _is_drawing(value)):
        return Drawing(value)
    if any(value is x for x in _seeded(sys.modules.get("numpy.random"))):
        return Seeded(value)
    generator = value.__self__ if kind in (MethodType, BuiltinMethodType) else None
    if type(generator) not in _kinds():
        return None
    name = value.__name__
    if name == "seed":
        return Seeded(value)
    if name == "choice" and type(generator) is random.Random and value == generator.choice:
        return partial(chosen, generator)
    return partial(drawn, value) if name in _DRAWING and value == getattr(generator, name) else None


def _kinds() -> tuple[type, ...]:
    """The classes of generators whose state can be put back."""
    found = sys.modules.get("numpy.random")
    return (
        (random.Random,) if found is None else (random.Random, found.RandomState, found.Generator)
    )


@cache  # asked about every name that a function reads
def _seeded(module: ModuleType | None) -> tuple[Any, ...]:
    """What makes generators of a seed, besides methods of those that there are; ``module`` is ``numpy.random``."""
    names = () if module is None else _OF_SEEDS
    return (random.Random, *(getattr(module, name) for name in names))


def _is_drawing(module: ModuleType) -> bool:
    return any(module is x for x in (random, np, sys.modules.get("numpy.random")))


def drawn(method: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a method of a generator draws, as a number that varies where a run is recorded.

    >>> 0 <= drawn(random.random) < 1
    True
    """
    recorder = MODES.recorder
    if recorder is None or recorder.failure is not None:
        return method(*map(plain, given), **{name: plain(x) for name, x in named.items()})
    if not named and picks(method, given, sys._getframe(1)):
        return recorder.item_picked(method, given)
    return recorder.number_drawn(method, given, named)


def chosen(generator: random.Random, seq: Any) -> Any:
    """``generator.choice(seq)``: which one it is decides, as any index of a sequence does."""
    if not len(seq):
        return generator.choice(seq)
    return seq[drawn(generator._randbelow, len(seq))]  # type: ignore[attr-defined]


def choices(method: Callable[..., Any], given: Sequence[Any]) -> float:
    """From how many numbers a method of a generator draws one.

    >>> choices(random.randint, (1, 6)), choices(random.random, ())
    (6, inf)
    """
    name, python = method.__name__, type(method.__self__) is random.Random  # type: ignore[attr-defined]
    if name.startswith("_randbelow"):
        return float(given[0])
    if name in ("randint", "randrange") and all(type(x) is int for x in given):
        among = range(given[0], given[1] + 1) if name == "randint" and python else range(*given)
        return len(among)
    return math.inf


def outcomes(number: Number, drawn: Mapping[Number, float]) -> float:
    """How many values a number can have, for all that is known of those that were ``drawn``; 1 for all others."""
    found, seen, waiting = 1.0, {number}, [number]
    while waiting:
        at = waiting.pop()
        found *= drawn.get(at, 1.0)
        fresh = {x for x in at.operands if isinstance(x, Number)} - seen
        seen |= fresh
        waiting.extend(fresh)
    return found


def ways(number: Number, drawn: Mapping[Number, float]) -> float:
    """Among how many paths a number decides, for all that is known of those that were ``drawn``."""
    found = outcomes(number, drawn) if drawn else 1.0
    if number.kind in BOOLS:  # whole numbers are in a range, or are seen as well
        return 2.0 if found == math.inf else 1.0
    return found


def follow_draws(recorder: Any, guard: Any) -> None:
    """What a run draws varies, and so do times, if the state that ``guard`` is about leads to generators or clocks."""
    values = (getattr(check, "expected", None) for check in guard.checks)
    if recorder.follow is not None and any(
        clock_like(x) is not None
        or (drawing_like(x) is not None and (x is not np or "random" in guard.names))
        for x in values
    ):
        recorder.follow_numbers()


class Rewinding:
    """Serves calls that draw; one that ends otherwise leaves the generators as it found them."""

    def __init__(self, serve: Callable[..., Any], generators: Iterable[Any]) -> None:
        self.serve = serve
        self.generators = tuple(generators)

    def __call__(self, *given: Any) -> Any:
        """Serve a call."""
        before = [put_back_later(generator) for generator in self.generators]
        try:
            return self.serve(*given)
        except BaseException:
            for put_back in before:
                put_back()
            raise


def put_back_later(generator: Any) -> Callable[[], None]:
    """A function that takes a generator back to the state in which it is now.

    >>> again = put_back_later(random)
    >>> first = random.random()
    >>> again(), random.random() == first
    (None, True)
    """
    if hasattr(generator, "getstate"):
        return partial(generator.setstate, generator.getstate())
    if hasattr(generator, "get_state"):
        return partial(generator.set_state, generator.get_state(legacy=False))
    bits = generator.bit_generator
    return partial(setattr, bits, "state", bits.state)
