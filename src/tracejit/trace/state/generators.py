"""Generators of random numbers of Python and NumPy: which objects they are, and the state that they are in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["is_generator", "readers"]


def readers(generators: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """For each generator a function that reads its state; those of the process come first.

    >>> import random
    >>> name, read = next(readers([]))
    >>> name, read() == random.getstate()
    ('module random', True)
    """
    random = sys.modules.get("random")
    if random is not None:
        yield "module random", random.getstate
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        yield "module numpy.random", _reader(numpy_random.mtrand._rand)
    for name, generator in generators:
        if not hasattr(generator, "getstate") or _has_state(generator):
            yield name, _reader(generator)


def _has_state(generator: Any) -> bool:
    """Does a generator of ``random`` have a state at all (one of the operating system has none)?"""
    return type(generator).getstate is not sys.modules["random"].SystemRandom.getstate


def _reader(generator: Any) -> Callable[[], Any]:
    if hasattr(generator, "getstate"):
        read: Callable[[], Any] = generator.getstate
        return read
    if hasattr(generator, "get_state"):
        return lambda: _plain(generator.get_state(legacy=False))
    bits = getattr(generator, "bit_generator", generator)
    return lambda: _plain(bits.state)


def _plain(state: Any) -> Any:
    """A nested state with arrays as bytes, to be compared."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def is_generator(value: Any) -> bool:
    """Is ``value`` a generator of random numbers of Python or NumPy?

    >>> import random
    >>> is_generator(random.Random(3)), is_generator(random)
    (True, False)
    """
    random, numpy_random = sys.modules.get("random"), sys.modules.get("numpy.random")
    kinds = [] if random is None else [random.Random]
    if numpy_random is not None:
        kinds += [numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator]
        kinds.append(numpy_random.SeedSequence)  # its state is how many others it has made
    return isinstance(value, tuple(kinds))
