"""Random numbers that a recorded run draws, and states of generators that it saves and puts back.

A call counts its draws from where the stream stands then: a draw is the key of the call and a number. So a state is the
key and how many draws there were, and putting one back that the run has read means counting from that number again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.grad_mode import no_grad
from ...dtypes import uint8
from ...ir.graph import Value
from ...ops import elementwise
from ...tensor import Tensor
from ...tensor_make import written_down

#: Why a call that gives a generator a state of its own cannot be compiled.
GIVEN = "the random generator is given a state inside a compiled function"


class DrawsInside:
    """The part of a recorder that knows the streams that the run draws from."""

    failure: str | None
    signature: Any
    adopt: Callable[[Tensor, Value], Value]
    careful: Callable[[str], Any]
    not_in_rounds: Callable[[], None]
    stop_trial: Callable[[str], None]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]

    def __init__(self) -> None:
        self.keys: dict[int, tuple[Any, Tensor, Value, list[int]]] = {}
        self.random_calls: dict[Value, int] = {}
        #: The states that the run has read: of which stream, after how many draws.
        self.states: dict[Value, tuple[Value, int]] = {}

    def random_key(self, generator: Any) -> tuple[Tensor, int]:
        """The key tensor and call number of the next random op."""
        self.stop_trial("draws random numbers")
        found = self._stream(generator)
        if found is None:
            generator.skip(1)
            return generator.key, generator.count - 1
        key, value, index = found
        self.random_calls[value] = index + 1
        generator.skip(1)
        return key, index

    def _stream(self, generator: Any) -> tuple[Tensor, Value, int] | None:
        """The key of a generator, and how many draws the run has made; None if something else has moved it."""
        found = self.keys.get(id(generator))
        state = generator.rebase().array.tolist()
        if found is None:
            key = generator.rebase()
            value = self.adopt(key, self.signature.random_key(generator, key))
            found = self.keys[id(generator)] = (generator, key, value, state)
        _, key, value, (seed, count) = found
        index = self.random_calls.get(value, 0)
        if state == [seed, count + index]:
            return key, value, index
        self.unsupported(GIVEN)
        del self.keys[id(generator)]
        return None

    def state_read(self, generator: Any) -> Tensor | None:
        """The state of a generator as something that every call computes, if that can be followed."""
        self.stop_trial("reads the state of a random generator")
        found = None if self.failure is not None else self._stream(generator)
        if found is None:
            return None
        key, value, index = found
        state: Tensor | None = None
        with self.careful("the state of a random generator"), no_grad():
            self.not_in_rounds()
            numbers = elementwise.add(key, written_down(np.array([0, index])))
            places = written_down(np.arange(0, 64, 8))
            state = ((numbers.view(2, 1) >> places) & 255).to(uint8).view(-1)  # its bytes
            self.states[self.value_of(state)] = value, index
        return state

    def state_given(self, generator: Any, state: Any) -> bool:
        """A generator is given back a state that the run has read of it; False for any other."""
        self.stop_trial("gives a random generator a state")
        known = isinstance(state, Tensor) and self.failure is None
        found = self._stream(generator) if known else None
        saved = None
        if found is not None:
            with self.careful(GIVEN):
                self.not_in_rounds()
                saved = self.states.get(self.value_of(state))
        if found is None or saved is None or saved[0] is not found[1]:
            self.unsupported(GIVEN)
            return False
        _, value, index = found
        self.random_calls[value] = saved[1]
        generator.skip(saved[1] - index)
        return True
