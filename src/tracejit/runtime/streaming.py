"""Results larger than the caches are written past them.

Before a processor writes to a line of memory that it does not have it reads it, though all of it is written. Stores
past the caches spare that: a third of the time of a sum of two large arrays. What reads such a result next finds it in
memory, where most of it would be anyway. So a kernel without reductions comes in two forms, and the size of what it
writes decides which of them a program calls; the second is compiled for the first program that is so large.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..codegen.kernel import Function, KernelCode, Pointer
from ..ir.graph import Value
from ..sizes import call
from .machine_code.kernels import address_of, identity, stands_for
from .plan.records import Slot

__all__ = ["STREAMED_BYTES", "Streaming", "function_address"]

#: Bytes of a result from which on it is worth it even where it is read again at once (measured: 1 to 128 MiB tried).
STREAMED_BYTES = 1 << 25
_PARAMETER = re.compile(r'^    (\w+): "(\w+\*)",$', re.MULTILINE)


def function_address(code: KernelCode, address: Any, slots: Mapping[Value, Slot]) -> Any:
    """The address of a function of a kernel: where there are two forms, of one of them, as sizes will say.

    ``slots`` tell where the values lie that it reads and writes.

    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> from tracejit.runtime.machine_code.promised import settled
    >>> plan = make_plan(parse("graph f(x: f32[8]) { %0: f32[8] = exp(x) return %0 }"), [(1,)])
    >>> settled(plan.items[0].fn_address) == plan.kernels[0].addresses[0]
    True
    """
    if code.group is None or code.group.reduced or len(code.functions) != 1:
        return address
    function = code.functions[0]
    written = _only_written(function, slots)
    if not written:
        return address

    streamed = _streamed(function, written.keys())
    choose = Streaming(address, streamed.name, identity(streamed.source))
    return call(choose, next(iter(written.values())).spec.nbytes)[0]


@dataclass(frozen=True)
class Streaming:
    """Chooses by the bytes of a result: the function at ``address``, or the one called ``name`` with this text.

    The text is without its comments, which quote the lines of the program that it is compiled from.
    """

    address: int
    name: str
    source: str

    def __call__(self, nbytes: int) -> tuple[int]:
        """The address, for a result of so many bytes."""
        return (self.streaming if nbytes >= STREAMED_BYTES else self.address,)

    @cached_property
    def streaming(self) -> int:
        """The address of the function that writes past the caches; it is compiled when first asked for."""
        return stands_for(address_of(Function(self.name, self.source, (), 1, 1)), self.address)


def _only_written(function: Function, slots: Mapping[Value, Slot]) -> dict[str, Value]:
    """What a function writes to memory that it does not read, by the names of the parameters."""

    def memory(pointer: Pointer) -> tuple[str, int]:
        slot = slots[pointer.value]
        return slot.kind, slot.index

    parameters = function.named_parameters.items()
    pointers = {name: p for name, p in parameters if isinstance(p, Pointer)}
    read = {memory(pointer) for pointer in pointers.values() if not pointer.written}
    return {
        name: pointer.value
        for name, pointer in pointers.items()
        if pointer.written and memory(pointer) not in read
    }


def _streamed(function: Function, names: Collection[str]) -> Function:
    """The same, writing past the caches.

    >>> text = 'def f(\\n    x: "f32*",\\n    y: "f32*",\\n) -> "i32":\\n    return 0\\n'
    >>> print(_streamed(Function("f", text, (), 1, 1), {"y"}).source)
    def f(
        x: "f32*",
        y: "streamed f32*",
    ) -> "i32":
        return 0
    <BLANKLINE>
    """

    def spelled(found: re.Match[str]) -> str:
        name, type_ = found.groups()
        return f'    {name}: "streamed {type_}",' if name in names else found[0]

    return replace(function, source=_PARAMETER.sub(spelled, function.source))
