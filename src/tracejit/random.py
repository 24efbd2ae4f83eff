"""The state of random numbers: a seed and a count of draws.

Numbers come from the sources in :mod:`tracejit.ops.random`: pure functions of the seed, the ordinal of the draw and an
element's position. A generator only counts draws, so compiled code can draw ahead and still agree with eager code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .cuda.seeds import set_generators
from .device import check_device, device_at
from .modes import MODES
from .ops.keys import making_device, set_key_source
from .tensor import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "next_key",
    "seed",
    "set_rng_state",
]

_BITS = (1 << 64) - 1
_STATE_BYTES = 16
_DEFAULT_SEED = 67280421310721


class Generator:
    """A stream of random numbers: a seed and how many draws were made.

    >>> import tracejit as tj
    >>> g = tj.Generator().manual_seed(3)
    >>> a = tj.rand(2, generator=g)
    >>> tj.equal(a, tj.rand(2, generator=g.manual_seed(3)))
    True
    """

    def __init__(self, device: Any = None) -> None:
        self.device = check_device(device)
        self._seed = _DEFAULT_SEED
        self.count = 0
        self._key: Tensor | None = None

    @property
    def key(self) -> Tensor:
        """The key tensor (seed, 0) of the draws of this generator."""
        if self._key is None:
            self._key = Tensor._wrap(_as_int64(self._seed, 0))
        return self._key

    def rebase(self) -> Tensor:
        """A fresh key tensor (seed, draws so far): what a compiled run counts its draws from."""
        return Tensor._wrap(_as_int64(self._seed, self.count))

    def skip(self, draws: int) -> None:
        """Count draws made elsewhere from a key of :meth:`rebase`."""
        self.count += draws

    def take(self, seen: int, draws: int) -> bool:
        """Count draws after ``seen`` ones, unless others were made since: then do nothing, and False.

        >>> g = Generator()
        >>> g.take(0, 2), g.take(0, 1), g.count
        (True, False, 2)
        """
        if self.count != seen:  # no other thread comes in between this and the next line
            return False
        self.count = seen + draws
        return True

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed`` (any 64-bit integer). Raises ``RuntimeError`` beyond 64 bits."""
        seed = seed.__index__()
        if not -(1 << 63) <= seed <= _BITS:
            raise RuntimeError("Overflow when unpacking long long: a seed has 64 bits")
        self._seed, self.count, self._key = seed & _BITS, 0, None
        return self

    def seed(self) -> int:
        """Start again from a seed of the operating system, and return it."""
        fresh = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """The seed of this generator."""
        return self._seed

    def get_state(self) -> Tensor:
        """The state as 16 bytes (uint8): the seed and the number of draws, 64 bits each."""
        found: Tensor | None = None
        if MODES.recorder is not None:
            found = MODES.recorder.state_read(self)
        if found is not None:
            return found
        return Tensor._wrap(_as_int64(self._seed, self.count).view(np.uint8))

    def set_state(self, state: Tensor) -> Generator:
        """Continue from a state of :meth:`get_state`, or from the two numbers of it. ``RuntimeError`` for others."""
        if MODES.recorder is not None and MODES.recorder.state_given(self, state):
            return self
        numbers = state.cpu().numpy().ravel()
        if numbers.dtype == np.uint8 and numbers.size == _STATE_BYTES:
            numbers = np.ascontiguousarray(numbers).view(np.int64)
        values = [int(v) for v in numbers]
        if len(values) != 2:
            raise RuntimeError(
                f"RNG state is wrong size: expected {_STATE_BYTES} bytes, got {len(values)}"
            )
        self._seed, self.count, self._key = values[0] & _BITS, values[1], None
        return self

    def clone_state(self) -> Generator:
        """Another generator in the state of this one.

        >>> g = Generator().manual_seed(3)
        >>> g.clone_state().initial_seed()
        3
        """
        made = Generator(self.device)
        made.set_state(self.get_state())
        return made

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, draws={self.count})"


def _as_int64(seed: int, count: int) -> Any:
    return np.array([seed, count], np.uint64).view(np.int64)


default_generator = Generator()


class DeviceGenerator(Generator):
    """What draws on one GPU: the default generator, until this one is given a seed or a state of its own.

    >>> g = DeviceGenerator(0)
    >>> g.manual_seed(3).initial_seed(), g.own is None
    (3, False)
    """

    def __init__(self, index: int) -> None:
        self.device = device_at(index)
        self.own: Generator | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``, apart from the default generator until that is seeded."""
        self.own = Generator().manual_seed(seed)
        return self

    def set_state(self, state: Tensor) -> Generator:
        """Continue from a state, apart from the default generator until that is seeded."""
        self.own = Generator().set_state(state)
        return self


def _delegated(name: str) -> property:
    def read(self: DeviceGenerator) -> Any:
        return getattr(self.own or default_generator, name)

    def write(self: DeviceGenerator, value: Any) -> None:
        setattr(self.own or default_generator, name, value)

    return property(read, write)


for _name in ("_seed", "count", "_key"):
    setattr(DeviceGenerator, _name, _delegated(_name))

_of_devices: dict[int, DeviceGenerator] = {}


def generator_of(index: int) -> Generator:
    """The generator of draws on the GPU of this number, the default one for the host (-1).

    >>> generator_of(-1) is default_generator, generator_of(0) is generator_of(0)
    (True, True)
    """
    if index < 0:
        return default_generator
    return _of_devices.setdefault(index, DeviceGenerator(index))


set_generators(generator_of)


def _join() -> None:
    """No generator of a GPU is apart any more."""
    for generator in _of_devices.values():
        generator.own = None


def next_key(generator: Generator | None = None) -> tuple[Tensor, int]:
    """The key tensor and the ordinal of the next draw.

    >>> next_key(Generator())[1]
    0
    """
    if MODES.draws is not None:
        same: tuple[Tensor, int] = MODES.draws(generator)
        return same
    generator = generator_of(making_device()) if generator is None else generator
    if MODES.recorder is not None:
        found: tuple[Tensor, int] = MODES.recorder.random_key(generator)
        return found
    index = generator.count
    generator.count += 1
    return generator.key, index


set_key_source(next_key)


def manual_seed(seed: int) -> Generator:
    """Start the default generator from ``seed``, and return it.

    >>> import tracejit as tj
    >>> _ = tj.manual_seed(0)
    >>> a = tj.rand(3)
    >>> _ = tj.manual_seed(0)
    >>> tj.equal(a, tj.rand(3))
    True
    """
    _join()
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator from a seed of the operating system, and return the seed.

    >>> import tracejit as tj
    >>> tj.seed() == tj.initial_seed()
    True
    """
    _join()
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    >>> import tracejit as tj
    >>> tj.manual_seed(5).initial_seed() == tj.initial_seed() == 5
    True
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator.

    >>> import tracejit as tj
    >>> _ = tj.manual_seed(5)
    >>> state = tj.get_rng_state()
    >>> state.dtype, state.view(tj.int64)
    (tracejit.uint8, tensor([5, 0]))
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from a state of :func:`get_rng_state`.

    >>> import tracejit as tj
    >>> state = tj.get_rng_state()
    >>> a = tj.rand(2)
    >>> tj.set_rng_state(state)
    >>> tj.equal(a, tj.rand(2))
    True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **_: Any) -> Iterator[None]:
    """Draw inside without effect on the draws after it: the default generator is put back, and those of GPUs.

    >>> import tracejit as tj
    >>> before = tj.get_rng_state()
    >>> with tj.random.fork_rng():
    ...     _ = tj.rand(2)
    >>> tj.equal(tj.get_rng_state(), before)
    True
    """
    state = get_rng_state()
    apart = {i: g.get_state() for i, g in _of_devices.items() if g.own is not None}
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
            _join()
            for index, own in apart.items():
                generator_of(index).set_state(own)
