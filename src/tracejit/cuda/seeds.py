"""Seeds of GPUs under PyTorch's names.

Draws on a GPU continue those of the host, until the GPU is given a seed or a state of its own; ``tracejit.manual_seed``
seeds all together again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arrays import MODULES, current_index
from .devices import Where, number_of
from .driver import device_count

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _missing(index: int) -> Any:
    raise RuntimeError("tracejit.random is not loaded")


_generator: Callable[[int], Any] = _missing


def set_generators(function: Callable[[int], Any]) -> None:
    """Install the function from the number of a GPU to the generator of its draws."""
    global _generator
    _generator = function


def default_generators() -> tuple[Any, ...]:
    """The generator of each GPU's draws, ``cuda.default_generators``: none where there is no GPU.

    >>> import tracejit as tj
    >>> len(tj.cuda.default_generators) == tj.cuda.device_count()
    True
    """
    return tuple(_generator(index) for index in range(device_count()))


def manual_seed(seed: int) -> None:
    """Let the current GPU draw from a seed of its own; without effect where there is none.

    >>> import tracejit as tj
    >>> tj.cuda.manual_seed(0)
    """
    if device_count():
        _generator(current_index() if MODULES else 0).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Let every GPU draw from a seed of its own; without effect where there is none.

    >>> import tracejit as tj
    >>> tj.cuda.manual_seed_all(0)
    """
    for index in range(device_count()):
        _generator(index).manual_seed(seed)


def seed() -> None:
    """Let the current GPU draw from a seed of the operating system; without effect where there is none.

    >>> import tracejit as tj
    >>> tj.cuda.seed()
    """
    if device_count():
        _generator(current_index() if MODULES else 0).seed()


def seed_all() -> None:
    """Let every GPU draw from a seed of the operating system, the same for all; without effect where there is none.

    >>> import tracejit as tj
    >>> tj.cuda.seed_all()
    """
    if device_count():
        manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """The seed the current GPU draws from; `DeviceError` without one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.manual_seed(7)
    ...     assert tj.cuda.initial_seed() == 7
    """
    return int(_generator(current_index()).initial_seed())


def get_rng_state(device: Where = "cuda") -> Any:
    """The state of the draws on a GPU, an int64 tensor of the host; `DeviceError` without one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     assert tj.cuda.get_rng_state().shape == (16,)
    """
    return _generator(number_of(device)).get_state()


def get_rng_state_all() -> list[Any]:
    """The states of the draws on every GPU.

    >>> import tracejit as tj
    >>> len(tj.cuda.get_rng_state_all()) == tj.cuda.device_count()
    True
    """
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: Where = "cuda") -> None:
    """Continue the draws on a GPU from a state, apart from those of the host; `DeviceError` without one.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     tj.cuda.set_rng_state(tj.cuda.get_rng_state())
    """
    _generator(number_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Continue the draws on every GPU from its state.

    >>> import tracejit as tj
    >>> tj.cuda.set_rng_state_all(tj.cuda.get_rng_state_all())
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
