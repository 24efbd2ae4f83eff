"""Groups that are printed alike: of one plan, each kernel is written once and serves all groups like the first.

The layers of a network and the tensors of an optimizer give the same kernel many times over, at other addresses. What a
printer looks at (the values of a group, their axes, how operands and results lie) is compared as one key; a group with
a known key gets the known text, and parameters that point to its own memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.graph import Value
from ..ir.likeness import Keys
from ..ops.table import Elementwise, Reduction
from ..passes.fusion.groups import Group, root
from .kernel import Function, KernelCode, Parameter, Pointer, kernel_name
from .nest import Layout

__all__ = ["EqualGroups"]

Write = Callable[
    [Group, Sequence[Value], Callable[[Value], Layout], str, Mapping[Value, Value]], KernelCode
]


class EqualGroups:
    """Prints the groups of one plan by ``write``, those that are alike once.

    >>> from tracejit.codegen.cpu.kernel import write_kernel
    >>> from tracejit.ir import parse
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> graph = parse('''graph f(x: f32[8, 8], y: f32[8, 8]) {
    ...     %0: f32[8, 8] = matmul(x, y)
    ...     %1: f32[8, 8] = exp(%0)
    ...     %2: f32[8, 8] = matmul(y, x)
    ...     %3: f32[8, 8] = exp(%2)
    ...     return %1, %3
    ... }''')
    >>> plan = make_plan(graph, [(8, 1), (8, 1)])
    >>> one, other = [kernel.code.functions[0] for kernel in plan.kernels]
    >>> one.source is other.source, one.parameters[0].value is other.parameters[0].value
    (True, False)
    """

    def __init__(
        self, write: Write, layout_of: Callable[[Value], Layout], overwrites: Mapping[Value, Value]
    ) -> None:
        self.print = write
        self.layout_of = layout_of
        self.overwrites = overwrites
        self.taken = frozenset(overwrites.values())
        self.known: dict[Any, tuple[KernelCode, _Description]] = {}

    def write(self, group: Group, outputs: Sequence[Value]) -> KernelCode:
        """The kernel of ``group``, which stores ``outputs``."""
        if not _is_plain(group):
            return self.printed(group, outputs)
        described = _Description(self, group, outputs)
        code, known = self.known.get(described.key, (None, described))
        if code is None or not described.agrees(known):
            code = self.printed(group, outputs)
            self.known[described.key] = code, described
            return code
        ours = dict(zip(known.roots, described.roots, strict=True))
        functions = tuple([_pointing(f, ours) for f in code.functions])
        return KernelCode(code.name, functions, group, tuple(outputs))

    def printed(self, group: Group, outputs: Sequence[Value]) -> KernelCode:
        """A kernel like no other."""
        return self.print(group, outputs, self.layout_of, kernel_name(group), self.overwrites)


class _Description(Keys):
    """All that a printer looks at, in numbers that do not depend on which values these are."""

    def __init__(self, known: EqualGroups, group: Group, outputs: Sequence[Value]) -> None:
        super().__init__()
        self.group = group
        self.layout_of, self.taken = known.layout_of, known.taken
        self.roots: dict[Value, int] = {}  # what has memory
        self.numbers: dict[Value, int] = {}
        parts: list[Any] = [self.sizes(group.domain), group.reduced, len(group.externals)]
        for x, dims in group.externals.items():
            self.numbers[x] = len(self.numbers)
            parts += (dims, x.spec.dtype, self.sizes(x.spec.shape), self.lies(x), self.source(x))
        parts += [self.made(value) for value in group.values]
        for value in outputs:
            given = known.overwrites.get(value)
            place = None if given is None else self.numbers.get(given)
            parts += (self.numbers[value], self.lies(value), given is None, place)
        self.key = tuple(parts)

    def lies(self, value: Value) -> tuple[Any, ...]:
        """Where a value lies."""
        layout = self.layout_of(value)
        where = layout.root
        number = self.roots.setdefault(where, len(self.roots))
        place = self.size(layout.offset), self.sizes(layout.strides)
        return number, where in self.taken, where.spec.dtype, *place

    def source(self, x: Value) -> Any:
        """What an operand from outside is made of, where no memory holds it."""
        origin = root(x)
        if origin.op is None or origin.operands:
            return None
        return origin.op, self.options(origin)

    def made(self, value: Value) -> tuple[Any, ...]:
        """How a value is computed."""
        group, numbers = self.group, self.numbers
        operands = tuple([self.operand(x, numbers) for x in value.operands])
        numbers[value] = len(numbers)
        kind = value.spec.dtype, self.sizes(value.spec.shape), value.line
        return value.op, self.options(value), operands, group.dims[value], group.level[value], kind


def _is_plain(group: Group) -> bool:
    """Are there only operations on operands at the same points, and reductions?"""
    return not group.tables and all(
        isinstance(v.op, (Elementwise, Reduction)) for v in group.values
    )


def _pointing(function: Function, ours: Mapping[Value, Value]) -> Function:
    """The function of another group, on our memory."""
    parameters: list[Parameter] = [
        Pointer(ours[p.value], p.offset, p.written) if isinstance(p, Pointer) else p
        for p in function.parameters
    ]
    return Function(
        function.name, function.source, tuple(parameters), function.extent, function.grain
    )
