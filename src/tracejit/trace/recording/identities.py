"""Which tensors an argument is, beside those that the function can reach in other ways, and what hangs on that.

``x is self.last``, ``x in seen`` and ``table.get(x)`` compare an argument with tensors from elsewhere. A recording is
right for arguments that are the very tensors they were, where the code knows these from outside, and for others
as long as they are none of those. Where the code asks for ``id(x)``, it is right for ``x`` alone.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...layout import layout_of
from ...modes import MODES
from ...tensor import Tensor
from ..state.checks import Item
from ..state.state import StateGuard
from ..state.values import MISSING
from .outside import known_objects

__all__ = ["Identities"]

_ASKING = ("id", "hash")


@dataclass(frozen=True, slots=True)
class Itself:
    """An argument is this tensor."""

    tensor: weakref.ref[Tensor]

    def broken(self, names: dict[str, Any]) -> list[str]:
        """Python conditions under which ``t`` is not as expected; adds what they refer to to ``names``."""
        name = f"itself{len(names)}"
        names[name] = self.tensor
        return [f"t is not {name}()"]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """An argument is none of some tensors that a guard keeps."""

    tensors: tuple[Tensor, ...]

    def broken(self, names: dict[str, Any]) -> list[str]:
        """Python conditions under which ``t`` is not as expected; adds what they refer to to ``names``."""
        name = f"others{len(names)}"
        names[name] = frozenset(map(id, self.tensors))
        return [f"id(t) in {name}"]


class Identities:
    """The part of a recorder that knows of which arguments the identity counts."""

    positions: dict[int, int]
    started: dict[int, Tensor]

    def __init__(self) -> None:
        self.asked: set[int] = set()  # positions of arguments

    def asks_identity(self, x: Any) -> None:
        """The code sees a number that hangs on which object this is."""
        if isinstance(x, Tensor) and id(x) in self.positions:
            self.asked.add(self.positions[id(x)])

    @contextmanager
    def told_identities(self, guard: StateGuard) -> Iterator[None]:
        """While a function is recorded, ``id`` and ``hash`` in its code say of which arguments they were asked."""
        replaced: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for check in guard.checks:
                if (
                    type(check) is not Item
                    or type(check.key) is not str
                    or check.key not in _ASKING
                ):
                    continue
                namespace = check.holder
                if type(namespace) is dict and check.expected is MISSING is check.current():
                    asking = _asking(getattr(builtins, check.key), self)
                    replaced.append((namespace, check.key, asking))
                    namespace[check.key] = asking
            yield
        finally:
            for namespace, name, asking in replaced:
                if namespace.get(name) is asking:
                    del namespace[name]

    def pinned_arguments(
        self, guard: StateGuard, tensors: Sequence[Tensor]
    ) -> Iterator[tuple[int, Any]]:
        """What must be true of which tensors the arguments are, by position.

        Of the tensors that the code can reach, those are no matter that no call with the same signature can bring.
        """
        known = known_objects(guard) if tensors else ()
        reachable = {id(x): x for x in known if issubclass(type(x), Tensor)}
        for position, tensor in enumerate(tensors):
            if id(tensor) in reachable:
                yield position, tensor
                continue
            if position in self.asked:
                yield position, Itself(weakref.ref(tensor))
            facts = layout_of(tensor), tensor.requires_grad and id(tensor) not in self.started
            alike = [x for x in reachable.values() if (layout_of(x), x.requires_grad) == facts]
            if alike:
                yield position, NoneOf(tuple(alike))


def _asking(function: Callable[[Any], int], recorder: Identities) -> Callable[[Any], int]:
    """``function``, which tells the recorder of this thread what it was asked of."""

    def asked(x: Any) -> int:
        listening = MODES.recorder  # perhaps what has the recorder's place
        if listening is recorder or getattr(listening, "recorder", None) is recorder:
            recorder.asks_identity(x)
        return function(x)

    return asked
