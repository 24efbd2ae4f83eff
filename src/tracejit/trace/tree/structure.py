"""The structure of a recorded tree: what stays the same when only sizes change, and the sizes themselves.

Two recordings of equal structure differ in nothing but numbers: the extents of inputs (those above one: zero and one
are structure, because broadcasting treats them differently), strides that follow from no extent, sizes among the
attributes of ops, and whole numbers used in arithmetic (the count in a mean; not large powers of two that divide
whole numbers). The shapes of computed values follow from these by the ops' own type rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...dtypes import get_default_dtype
from ...extents import Extent, Extents
from ...ir.builder import attribute_key
from ...ir.divisors import is_power_divisor
from ...ir.graph import Graph, Value
from ...ir.loops import body_of, is_loop, loop_value
from ...symbols import SMALLEST
from ...types import Shape, TensorType
from ..numbers.numbers import NumberGuard
from ..recording.inputs import Signature, Source
from ..sizes.found_sizes import Registry, has_extents, plain
from ..sizes.told_sizes import Mapped, Told
from .tree import Finding, Leaf, Segment

#: Attributes of ops that are sizes: they may change from call to call like the extents of inputs.
SIZES = frozenset({"shape", "start", "starts", "count", "counts", "widths", "size"})

Pattern = tuple[Any, ...]


@dataclass
class Sizes:
    """The sizes met so far, and names for those that runs tell."""

    told: Told
    met: list[int]
    marks: list[bool]  # of all numbers in order: is it one of these?
    given: Iterator[bool] | None  # the marks of another structure, whose sizes are sizes here too
    shapes: dict[Shape, int] = field(default_factory=dict)  # of state, by the first that has each


@dataclass
class Structure:
    """A tree's structure as a key, its sizes, and its values in the order in which the sizes were met."""

    key: Any = ()
    sizes: list[int] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    told: tuple[int, ...] = ()  # the sizes that runs tell, in the order in which they are found
    marks: list[bool] = field(default_factory=list)  # of all numbers, in order: is it a size?


def structure_of(
    root: Segment,
    signature: Signature,
    strides: Mapping[Value, Shape],
    wants: Sequence[bool],
    marks: Sequence[bool] | None = None,
) -> Structure:
    """The structure of everything recorded so far; ``wants`` tells which inputs want gradients.

    With the ``marks`` of another structure, what is a size there is one here, be it zero or one.
    """
    found = Structure()
    numbers: dict[Value, int] = {}
    told = Told(signature.sizes)
    sizes = Sizes(told, found.sizes, found.marks, None if marks is None else iter(marks))
    # What comes of integers and Python numbers has the default dtype.
    parts: list[Any] = [tuple(wants), signature.device, get_default_dtype().short]
    if signature.extents is not None:  # known before the inputs that have them
        for number in signature.sizes.found[signature.extents]:
            told.number(number)
    for source in signature.sources:
        numbers[source.value] = len(numbers)
        parts.append(_source_key(source, strides.get(source.value), sizes))
    for segment in root.segments():
        for statement in segment.statements:
            if statement in numbers:  # computed on another branch too
                parts.append(numbers[statement])
                continue
            parts.append(_statement_key(statement, numbers, sizes))
            numbers[statement] = len(numbers)
        parts.append(_end_key(segment, numbers, sizes))
    found.key = tuple(parts)
    found.values = list(numbers)
    found.told = tuple(told.order)
    return found


def form_key(inputs: Sequence[Value], statements: Sequence[Value], results: Sequence[Value]) -> Any:
    """What statements have in common with others that differ from them in sizes only."""
    numbers = {v: number for number, v in enumerate(inputs)}
    sizes = Sizes(Told(Registry()), [], [], None)
    parts: list[Any] = [(v.spec.dtype.short, _sizes_key(v.spec.shape, sizes)) for v in inputs]
    for value in statements:
        parts.append(_statement_key(value, numbers, sizes))
        numbers[value] = len(numbers)
    return (*parts, *map(numbers.get, results))


def _source_key(source: Source, strides: Shape | None, sizes: Sizes) -> Any:
    kind = source.value.spec
    extents = _shape_key(source, sizes)
    lie = None if strides is None else stride_pattern(plain(kind.shape), strides)
    if lie is not None and lie[0] == "free":
        sizes.met.extend(s for s in strides or () if s >= SMALLEST)
    return source.kind, source.position, source.value.name, kind.dtype.short, extents, lie


def _shape_key(source: Source, sizes: Sizes) -> Any:
    """The extents of an input, or which earlier one has the same."""
    shape = source.value.spec.shape
    if not is_shared(source):
        return _sizes_key(shape, sizes)
    if shape in sizes.shapes:
        return sizes.shapes[shape]
    sizes.shapes[shape] = len(sizes.shapes)
    return _sizes_key(shape, sizes)


def is_shared(source: Source) -> bool:
    """Is this state, which has the sizes of what is shaped alike, as long as that lasts?

    Weights of equal layers, their gradients and what an optimizer keeps of them do not come to differ one by one.
    Arguments do: a square matrix tells nothing about the next one.
    """
    shape = source.value.spec.shape
    return source.kind in ("captured", "gradient") and bool(shape) and not has_extents(shape)


def _statement_key(value: Value, numbers: dict[Value, int], sizes: Sizes) -> Any:
    assert value.op is not None
    if is_loop(value):
        return _loop_key(value, numbers, sizes)
    parts: list[Any] = [value.op.name]
    for x in value.operands:
        if isinstance(x, Value):
            parts.append(numbers[x])
        elif is_power_divisor(value, x):
            parts.append(("power", x))
        else:
            parts.append(_sizes_key(x, sizes))
    for name, x in value.attributes.items():
        is_sizes = name in SIZES or has_extents(x)
        parts.append(_sizes_key(x, sizes) if is_sizes else (name, attribute_key(x)))
    return tuple(parts)


def _loop_key(value: Value, numbers: dict[Value, int], sizes: Sizes) -> Any:
    """A loop with its body, whose values are numbered on."""
    graph = body_of(value)
    kinds = ("carried", "items", "until")
    parts: list[Any] = ["loop", *map(value.attributes.get, kinds)]
    parts += [numbers[x] for x in value.value_operands]
    for x in graph.inputs:
        numbers[x] = len(numbers)
    for x in graph.values:
        parts.append(_statement_key(x, numbers, sizes))
        numbers[x] = len(numbers)
    parts.append(tuple([numbers[x] for x in graph.outputs]))
    parts.append(_sizes_key(value.attributes["count"], sizes))  # numbered after its body
    return tuple(parts)


def _sizes_key(x: Any, sizes: Sizes) -> Any:
    """Numbers from two on are sizes, nested tuples are gone through."""
    if type(x) is Extent:
        return sizes.told.key(x, sizes.met)
    if type(x) is int:
        is_size = x >= SMALLEST if sizes.given is None else next(sizes.given, False)
        sizes.marks.append(is_size)
        if is_size:
            sizes.met.append(x)
            return "size"
    if isinstance(x, tuple):
        return tuple([_sizes_key(part, sizes) for part in x])
    return attribute_key(x)


def _end_key(segment: Segment, numbers: dict[Value, int], sizes: Sizes) -> Any:
    """A segment's guard with its outcomes, what it finds, or what its leaf returns and writes."""
    if isinstance(segment.guard, NumberGuard):
        return "number", tuple(segment.children)
    if segment.guard is not None:
        return "guard", numbers[segment.guard.value], tuple(segment.children)
    if segment.finding is not None:
        return _finding_key(segment.finding, numbers, sizes)
    if segment.choices is not None:
        told = sizes.told
        return "choice", tuple(
            frozenset((told.terms(terms), relation, outcome) for terms, relation, outcome in key)
            for key in segment.choices
        )
    leaf = segment.leaf
    return ("open",) if leaf is None else ("leaf", *_leaf_key(leaf, numbers))


def _finding_key(finding: Finding, numbers: dict[Value, int], sizes: Sizes) -> Any:
    """What is found, by which op, on what; the values found are numbered."""
    operands = [
        numbers[x] if isinstance(x, Value) else sizes.told.fixed(x) for x in finding.operands
    ]
    attributes = [(name, sizes.told.fixed(x)) for name, x in finding.attributes.items()]
    value = finding.value
    if value in numbers:  # found on another branch too
        return "found", finding.op.name, numbers[value]
    numbers[value] = len(numbers)
    for number in sizes.told.registry.found[value]:
        sizes.told.number(number)
        sizes.met.append(SMALLEST)  # a place for what calls tell
    return "found", finding.op.name, *operands, *attributes


def _leaf_key(leaf: Leaf, numbers: Mapping[Value, int]) -> tuple[Any, ...]:
    found = leaf.recording
    outputs = tuple([(r.kind, numbers[r.value], r.requires_grad) for r in found.outputs])
    writes = tuple([(numbers[old], numbers[new], n < 0) for old, new, n in found.writes])
    return outputs, writes, tuple([numbers[v] for v in found.holds])


# --- strides -----------------------------------------------------------------------------------------------------


def stride_pattern(shape: Shape, strides: Shape) -> Pattern:
    """How strides follow from extents, as far as they do.

    ``("dense", order)``: the dimensions in ``order``, innermost first, lie without gaps; those left out repeat (stride
    0). Everything else is ``("free", ...)``, with what is fixed about each stride.

    >>> stride_pattern((2, 3), (3, 1)), stride_pattern((2, 3), (1, 2)), stride_pattern((2, 3), (0, 1))
    (('dense', (1, 0)), ('dense', (0, 1)), ('dense', (1,)))
    >>> stride_pattern((2, 3), (6, 2))
    ('free', 'size', 'size')
    """
    natural = range(len(shape) - 1, -1, -1)
    if strides == _dense(shape, natural):
        return "dense", tuple(natural)
    walked = [d for d in natural if strides[d] != 0]
    order = tuple(sorted(walked, key=lambda d: (strides[d], shape[d] != 1)))
    if strides == _dense(shape, order):
        return "dense", order
    return ("free", *("size" if s >= SMALLEST else s for s in strides))


def _dense(shape: Shape, order: Sequence[int]) -> Shape:
    """Strides of the dimensions in ``order``, innermost first, without gaps; 0 for the others."""
    found: list[int] = [0] * len(shape)
    step = 1
    for d in order:
        found[d] = step
        step = step * (shape[d] if shape[d] > 1 else 1)
    return tuple(found)


def strides_of(pattern: Pattern, shape: Shape, free: Sequence[int] = ()) -> Shape:
    """The strides of a pattern for other (or symbolic) extents; ``free`` are those that follow from none.

    >>> strides_of(("dense", (0, 1)), (4, 5))
    (1, 4)
    """
    if pattern[0] == "dense":
        return _dense(shape, pattern[1])
    rest = iter(free)
    return tuple(next(rest) if s == "size" else s for s in pattern[1:])


# --- the same with symbols -----------------------------------------------------------------------------------------


class Symbols:
    """Replaces the sizes of recorded values by symbols, in the order in which :func:`structure_of` meets them."""

    def __init__(self, scope: Extents, registry: Registry) -> None:
        self.scope = scope
        self.mapping: dict[Value, Value] = {}  # from recorded values to symbolic ones
        self.made: dict[Value, tuple[int, ...]] = {}  # the symbols met at each recorded value
        self.strides: dict[Value, Shape] = {}
        self.told = Mapped(registry)
        self.shapes: dict[Shape, Shape] = {}  # of state

    def source(self, source: Source, strides: Shape | None) -> None:
        """An input, and how it lies."""
        value = source.value
        if value in self.mapping:
            return
        numbers: list[int] = []
        kind = value.spec
        shape = self.shapes.get(kind.shape) if is_shared(source) else None
        if shape is None:
            shape = self.replaced(kind.shape, numbers)
            if is_shared(source):
                self.shapes[kind.shape] = shape
        new = self.mapping[value] = Value(TensorType(shape, kind.dtype), name=value.name)
        if strides is not None:
            pattern = stride_pattern(plain(kind.shape), strides)
            walked = strides if pattern[0] == "free" else ()
            free = [self.size(s, numbers) for s in walked if s >= SMALLEST]
            self.strides[new] = strides_of(pattern, shape, free)
        self.made[value] = tuple(numbers)

    def statement(self, value: Value) -> Value:
        """A computed value on symbolic operands."""
        known = self.mapping.get(value)
        if known is not None:
            return known
        assert value.op is not None
        if is_loop(value):
            return self.loop(value)
        numbers: list[int] = []
        operands = tuple([self.operand(value, x, numbers) for x in value.operands])
        attributes = {
            name: self.replaced(x, numbers) if name in SIZES or has_extents(x) else x
            for name, x in value.attributes.items()
        }
        kind = value.op.infer([x.spec if isinstance(x, Value) else x for x in operands], attributes)
        new = Value(kind, value.op, operands, attributes, line=value.line)
        self.mapping[value] = new
        self.made[value] = tuple(numbers)
        return new

    def operand(self, value: Value, x: Any, numbers: list[int]) -> Any:
        """An operand of a computed value."""
        if isinstance(x, Value):
            return self.mapping[x]
        return x if is_power_divisor(value, x) else self.replaced(x, numbers)

    def late(self, value: Value) -> Value:
        """A value whose shape the run tells: given, like an input."""
        known = self.mapping.get(value)
        if known is not None:
            return known
        numbers: list[int] = []
        for number in self.told.registry.found[value]:
            self.told.given(number, self.found(SMALLEST, numbers))
        shape = tuple(
            [self.told.symbol(n.symbols[0]) if has_extents(n) else n for n in value.spec.shape]  # type: ignore[attr-defined]
        )
        name = f"found{sum(v.name.startswith('found') for v in self.mapping.values())}"
        new = self.mapping[value] = Value(TensorType(shape, value.spec.dtype), name=name)
        self.made[value] = tuple(numbers)
        return new

    def loop(self, value: Value) -> Value:
        """A loop: the inputs of its body take the types of the operands."""
        graph = body_of(value)
        numbers: list[int] = []
        operands = [self.mapping[x] for x in value.value_operands]
        count = self.replaced(value.attributes["count"], numbers)
        self.made[value] = tuple(numbers)
        first = len(operands) - value.attributes["items"]
        for position, (x, operand) in enumerate(zip(graph.inputs, operands, strict=True)):
            shape = operand.spec.shape[position >= first :]
            self.mapping[x] = Value(TensorType(shape, x.spec.dtype), name=x.name)
            self.made[x] = ()
        body = [self.statement(x) for x in graph.values]
        inputs = tuple(self.mapping[x] for x in graph.inputs)
        outputs = tuple(self.mapping[x] for x in graph.outputs)
        new = Graph(graph.name, inputs, tuple(body), outputs)
        carried = value.attributes["carried"]
        fixed = operands[carried:first]
        until = value.attributes.get("until")
        starts, stacks = operands[:carried], operands[first:]
        made = loop_value(starts, fixed, stacks, new, count, value.line, until)
        self.mapping[value] = made
        return made

    def replaced(self, x: Any, numbers: list[int]) -> Any:
        """``x`` with symbols for numbers from two on."""
        if type(x) is int and x >= SMALLEST:
            return self.size(x, numbers)
        if type(x) is Extent:
            return self.told.extent(x, lambda n: self.size(n, numbers))
        return tuple([self.replaced(part, numbers) for part in x]) if isinstance(x, tuple) else x

    def found(self, value: int, numbers: list[int]) -> Any:
        """A new symbol for a size that calls tell."""
        found = self.scope.told_symbol(value)
        numbers.append(found.symbols[0])
        return found

    def size(self, value: int, numbers: list[int]) -> Any:
        """A new symbol."""
        found = self.scope.symbol(value)
        numbers.append(found.symbols[0])
        return found
