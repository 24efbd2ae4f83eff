"""The inputs of recorded graphs: where each comes from at a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..ir.builder import Builder
from ..ir.graph import Value
from ..tensor import Tensor


@dataclass(eq=False)
class Source:
    """Where a graph input comes from at a call: argument ``position``, a captured ``tensor``, or a random key."""

    kind: str  # "argument", "captured", "random"
    value: Value
    position: int = -1
    tensor: Tensor | None = None
    generator: Any = None


@dataclass(eq=False)
class Signature:
    """What all recordings of one signature share: the builder (equal prefixes become equal values) and the inputs."""

    builder: Builder
    sources: list[Source] = field(default_factory=list)
    captured: dict[int, Value] = field(default_factory=dict)

    def argument(self, position: int, name: str, tensor: Tensor) -> Value:
        """The input for an argument tensor."""
        for source in self.sources:
            if source.kind == "argument" and source.position == position:
                return source.value
        value = self.builder.input(name, tensor.type)
        self.sources.append(Source("argument", value, position))
        return value

    def capture(self, tensor: Tensor) -> Value:
        """The input for a tensor from outside the function; the tensor is kept alive, so its id stays its own."""
        known = self.captured.get(id(tensor))
        if known is not None:
            return known
        taken = {v.name for v in self.builder.inputs}
        name = next(n for n in _names(tensor) if n not in taken)
        value = self.builder.input(name, tensor.type)
        self.sources.append(Source("captured", value, tensor=tensor))
        self.captured[id(tensor)] = value
        return value

    def random_key(self, generator: Any, key: Tensor) -> Value:
        """The input for the state of a random generator."""
        for source in self.sources:
            if source.kind == "random" and source.generator is generator:
                return source.value
        value = self.builder.input(f"key{sum(s.kind == 'random' for s in self.sources)}", key.type)
        self.sources.append(Source("random", value, generator=generator))
        return value

    def rollback(self, count: int) -> None:
        """Forget the inputs after the first ``count``: the run that added them did not finish."""
        for source in self.sources[count:]:
            if source.tensor is not None:
                self.captured.pop(id(source.tensor), None)
        del self.sources[count:], self.builder.inputs[count:]  # one input per source


def _names(tensor: Tensor) -> Iterator[str]:
    given = getattr(tensor, "name", None)
    if isinstance(given, str) and given.isidentifier():
        yield given
    number = 0
    while True:
        yield f"c{number}"
        number += 1
