"""Groups that are printed alike: of one plan, each kernel is written once and serves all groups like the first.

The layers of a network and the tensors of an optimizer give the same kernel many times over, at other addresses. What a
printer looks at (the values of a group, their axes, how operands and results lie) is compared as one key; a group with
a known key gets the known text, and parameters that point to its own memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..extents import Extent
from ..ir.builder import attribute_key, attribute_keys
from ..ir.graph import Value
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
    >>> one.source is other.source, one.parameters == other.parameters
    (True, False)
    """

    def __init__(
        self, write: Write, layout_of: Callable[[Value], Layout], overwrites: Mapping[Value, Value]
    ) -> None:
        self.print = write
        self.layout_of = layout_of
        self.overwrites = overwrites
        self.taken = frozenset(overwrites.values())
        self.known: dict[Any, tuple[KernelCode, tuple[Value, ...]]] = {}

    def write(self, group: Group, outputs: Sequence[Value]) -> KernelCode:
        """The kernel of ``group``, which stores ``outputs``."""
        described = _Description(self, group, outputs) if _is_plain(group) else None
        found = self.known.get(described.key) if described is not None else None
        if described is not None and found is not None:
            code, theirs = found
            ours = dict(zip(theirs, described.roots, strict=True))
            functions = tuple([_pointing(f, ours) for f in code.functions])
            return KernelCode(code.name, functions, group, tuple(outputs))
        code = self.print(group, outputs, self.layout_of, kernel_name(group), self.overwrites)
        if described is not None:
            self.known[described.key] = code, tuple(described.roots)
        return code


class _Description:
    """All that a printer looks at, in numbers that do not depend on which values these are."""

    def __init__(self, known: EqualGroups, group: Group, outputs: Sequence[Value]) -> None:
        self.group = group
        self.layout_of, self.taken = known.layout_of, known.taken
        self.roots: dict[Value, int] = {}  # what has memory
        self.numbers: dict[Value, int] = {}
        parts: list[Any] = [_sizes(group.domain), group.reduced, len(group.externals)]
        for x, dims in group.externals.items():
            self.numbers[x] = len(self.numbers)
            parts += (dims, x.spec.dtype, _sizes(x.spec.shape), *self.lies(x), _source(x))
        for value in group.values:
            parts += self.made(value)
        for value in outputs:
            given = known.overwrites.get(value)
            place = None if given is None else self.numbers.get(given)
            parts += (self.numbers[value], *self.lies(value), given is None, place)
        self.key = tuple(parts)

    def lies(self, value: Value) -> tuple[Any, ...]:
        """Where a value lies."""
        layout = self.layout_of(value)
        where, offset = layout.root, layout.offset
        number = self.roots.setdefault(where, len(self.roots))
        return number, where in self.taken, where.spec.dtype, _size(offset), _sizes(layout.strides)

    def made(self, value: Value) -> tuple[Any, ...]:
        """How a value is computed."""
        group, numbers = self.group, self.numbers
        operands = tuple([self.operand(x) for x in value.operands])
        numbers[value] = len(numbers)
        kind = value.spec.dtype, _sizes(value.spec.shape), value.line
        return value.op, _options(value), operands, group.dims[value], group.level[value], kind

    def operand(self, x: Any) -> Any:
        """What an operation takes: something from outside, what the group made, through views, or a number."""
        if x.__class__ is not Value:
            return ("extent", x.terms) if type(x) is Extent else attribute_key(x)
        number = self.numbers.get(x)
        if number is not None:
            return number
        if x.op is None:
            return "value", id(x)
        return x.op, _options(x), _sizes(x.spec.shape), *map(self.operand, x.operands)


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


def _source(x: Value) -> Any:
    """What an operand from outside is made of, where no memory holds it."""
    origin = root(x)
    return None if origin.op is None or origin.operands else (origin.op, _options(origin))


def _options(value: Value) -> Any:
    """The attributes of an operation, symbols for sizes by what they are."""
    attributes = value.attributes
    if not attributes:
        return ()
    if any(
        type(x) is Extent or (type(x) is tuple and _has_extents(x)) for x in attributes.values()
    ):
        return tuple([(name, _any(x)) for name, x in sorted(attributes.items())])
    return attribute_keys(value)


def _has_extents(values: tuple[Any, ...]) -> bool:
    return Extent in map(type, values)


def _any(x: Any) -> Any:
    if type(x) is tuple:
        return tuple(map(_any, x))
    return ("extent", x.terms) if type(x) is Extent else attribute_key(x)


def _size(x: Any) -> Any:
    """A size as it is compared here: by what it is made of, so that nothing is decided about it."""
    return x.terms if type(x) is Extent else x


def _sizes(sizes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([x.terms if type(x) is Extent else x for x in sizes])
