"""Complex numbers done as real and imaginary parts, wherever elementwise functions, sums and comparisons make them.

Before::

    graph f(x: c64[9], y: c64[9]) {
        %0: c64[9] = mul(x, y)
        %1: c64[9] = exp(%0)
        return %1
    }

After::

    graph f(x: c64[9], y: c64[9]) {
        %0: f32[9] = real_view(x)    (a view of the memory of x; so are the others)
        ...
        %4: f32[9] = real_part_of_product(%0, %1, %2, %3)
        ...
        %20: c64[9] = complex_join(%18, %19)    (its pieces are written where they belong)
        return %20
    }

Work on the parts is fused with what comes before and after. Other functions of complex numbers are calls of NumPy, and
results are NumPy's (`complex_rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dtypes import DType
from ...extents import hint, is_symbolic
from ...ir.graph import Graph, Value
from ...ops.complex_views import complex_join, imag_view, real_view
from ..rewrite import Rewriter
from ..simplify.dead_code import dead_code
from ..windows.strips import equal, uniform
from .complex_rules import OF_PARTS, TO_REAL, Operand, Parts, Reals, whole_power

__all__ = ["complex_parts", "is_done_by_parts"]

#: Ops that show parts of complex numbers where their operand does.
_VIEWS = frozenset({"reshape", "squeeze", "unsqueeze", "permute", "expand", "slice"})
#: Others, besides those of which there are rules.
_OTHERS = frozenset({"cast", "where", "full", "sum", "complex_of_parts", "matmul"})
#: Those that put elements of operands together.
_JOINS = frozenset({"cat", "pad", "slice_scatter", "diagonal_scatter"})
_WRITTEN_HERE = _VIEWS | _OTHERS | _JOINS
#: Matrix products of so few terms (half of them, unless there are many columns) are sums of these, which kernels add up
#: together with what comes before and after.
MOST_TERMS, MANY_COLUMNS = 4, 16
#: Those that do nothing: kernels copy what they give where nothing else is done to it.
_MOVES = frozenset({*_VIEWS, "full", "clone", "complex_of_parts"})


def complex_parts(graph: Graph) -> Graph:
    """``graph`` with parts in place of complex numbers, where that is done at all.

    >>> from tracejit.ir import parse
    >>> graph = parse('''graph f(x: c64[9]) {
    ...     %0: c64[9] = mul(x, x)
    ...     %1: f32[9] = magnitude(%0)
    ...     return %1
    ... }''')
    >>> [value.op.name for value in complex_parts(graph).values][:3]
    ['real_view', 'imag_view', 'real_part_of_product']
    """
    if not any(v.spec.dtype.is_complex for v in (*graph.inputs, *graph.values)):
        return graph
    split = _worth_while(graph)
    return dead_code(_Splitter(graph, split).run(graph)) if split else graph


def is_done_by_parts(value: Value) -> bool:
    """Is this an op on complex numbers that is done on their parts, on the host?

    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: c64[9]) { %0: c64[9] = exp(x) %1: c64[9] = log1p(%0) return %1 }")
    >>> [is_done_by_parts(value) for value in graph.values]
    [True, False]
    """
    if value.op is None:
        return False
    name, kind = value.op.name, value.spec.dtype
    given = [x.spec.dtype for x in value.value_operands]
    if not any(d.is_complex for d in given) and not kind.is_complex:
        return False
    if name in TO_REAL:
        real = next(d.to_real() for d in given if d.is_complex)
    elif name in OF_PARTS or name in _WRITTEN_HERE:
        real = kind.to_real()
        if not kind.is_complex:  # a cast to real numbers
            return False
    else:
        return False
    if name == "pow" and not whole_power(value.operands):
        return False
    if name in ("full", "pad") and is_symbolic(value.attributes["value"]):
        return False
    return real.short in ("f32", "f64") and all(
        d.to_real() is real or name == "cast" or (not d.is_floating_point and not d.is_complex)
        for d in given
    )


def _name(value: Value) -> str:
    return value.op.name if value.op is not None else ""


def _worth_while(graph: Graph) -> set[Value]:
    """What is split: connected ops on complex numbers of which some compute."""
    users: dict[Value, list[Value]] = {}
    for value in graph.values:
        for x in value.value_operands:
            users.setdefault(x, []).append(value)
    kept = {*graph.outputs, *(g.value for g in graph.guards)}
    found = {v for v in graph.values if is_done_by_parts(v)}
    # Views of what stays whole, or that somebody needs whole, stay whole, and so do numbers everywhere.
    for value in reversed(list(graph.values)):
        needed = value in kept or not found.issuperset(users.get(value, ()))
        if needed and _name(value) in (*_VIEWS, "full"):
            found.discard(value)
    for value in graph.values:
        if _name(value) in _VIEWS and value.value_operands[0] not in found:
            found.discard(value)
    parts = _connected(graph, found)
    return {v for part in parts if any(_name(v) not in _MOVES for v in part) for v in part}


def _connected(graph: Graph, found: set[Value]) -> list[list[Value]]:
    """The values in groups between which no complex numbers go."""
    group: dict[Value, list[Value]] = {}
    for value in graph.values:
        if value not in found:
            continue
        own = group[value] = [value]
        for x in value.value_operands:
            other = group.get(x)
            if other is None or other is own or not x.spec.dtype.is_complex:
                continue
            if len(other) > len(own):
                own, other = other, own
            own.extend(other)
            for v in other:
                group[v] = own
    return list({id(part): part for part in group.values()}.values())


class _Splitter(Rewriter):
    """Writes the graph again, complex numbers of ``split`` as two values."""

    def __init__(self, graph: Graph, split: set[Value]) -> None:
        super().__init__(graph.name, {})
        self.split = split
        self.parts: dict[Value, Parts] = {}
        kept = {*graph.outputs, *(g.value for g in graph.guards)}
        self.whole = {v for v in split if v in kept and v.spec.dtype.is_complex}
        for value in graph.values:
            if value not in split and _name(value) != "parts_of_complex":
                self.whole.update(
                    x for x in value.value_operands if x in split and x.spec.dtype.is_complex
                )

    def statement(self, statement: Value, mapping: Any) -> Value:
        """What is split and not needed whole has parts only; nobody asks for it itself."""
        x = statement.value_operands[0] if statement.value_operands else None
        if _name(statement) == "parts_of_complex" and x in self.parts:
            return self._side_by_side(statement, self.parts[x])
        if statement not in self.split:
            constant = _name(statement) == "full" and statement.spec.dtype.is_complex
            if constant and not is_symbolic(statement.attributes["value"]):
                return self._joined_constant(statement)
            return super().statement(statement, mapping)
        found = self._done(statement, mapping)
        if not statement.spec.dtype.is_complex:
            assert isinstance(found, Value)
            return found
        self.parts[statement] = found
        if statement in self.whole:
            full = self._of_shape(statement, found)
            return self.write(complex_join, full, statement.line)
        return next((p for p in found if isinstance(p, Value)), statement)

    def _joined_constant(self, statement: Value) -> Value:
        """A constant in memory: what shows a part of one that takes none would be taken for the number."""
        number = complex(statement.attributes["value"])
        full = self._of_shape(statement, (number.real, number.imag))
        return self.write(complex_join, full, statement.line)

    def _done(self, value: Value, mapping: Any) -> Any:
        """The parts of a value, or itself where it is no complex number."""
        assert value.op is not None
        name, line, attributes = value.op.name, value.line, value.attributes
        real = _real_of(value)
        r = Reals(self, line, real)
        if name == "complex_of_parts":
            return self._of_pairs(mapping[value.value_operands[0]], line)
        if name == "full":
            number = complex(attributes["value"])
            return number.real, number.imag
        if name == "where":
            condition, yes, no = value.operands
            (a, b), (c, d) = (self._operand(x, mapping, r) for x in (yes, no))
            chosen = mapping[condition] if isinstance(condition, Value) else condition
            return r.where(chosen, a, c), r.where(chosen, b, d)
        given = [self._operand(_settled(x, name), mapping, r) for x in value.operands]
        if name == "cast":
            return self._each(lambda x: self.write("cast", (x,), line, dtype=real), given[0])
        if name == "matmul":
            # A library multiplies by one at the end, so that parts spoil each other.
            return OF_PARTS["mul"](r, self._product(value, *given), (1.0, 0.0))
        if name in _JOINS:
            return self._joined(value, given)
        if name in _VIEWS or name == "sum":
            return self._each(lambda x: self._viewed(value, x, r), given[0])
        rule: Callable[..., Any] = OF_PARTS.get(name) or TO_REAL[name]
        return rule(r, *given)

    def _each(self, function: Callable[[Value], Value], x: Parts) -> Parts:
        """A function of both parts, numbers left as they are."""
        real, imaginary = (function(p) if isinstance(p, Value) else p for p in x)
        return real, imaginary

    def _joined(self, value: Value, given: list[Parts]) -> Parts:
        """What puts elements together, done with either part of them."""
        assert value.op is not None
        found = zip(value.value_operands, given, strict=True)
        parts = zip(*(self._of_shape(x, part) for x, part in found), strict=True)
        number = complex(value.attributes.get("value", 0))
        real, imaginary = (
            self.write(value.op, xs, value.line, **_around(value, around))
            for xs, around in zip(parts, (number.real, number.imag), strict=True)
        )
        return real, imaginary

    def _product(self, value: Value, x: Parts, y: Parts) -> Parts:
        """A matrix product: four of parts, or where it has few terms, those added up."""
        (a, b), (c, d) = (
            self._of_shape(whole, parts)
            for whole, parts in zip(value.value_operands, (x, y), strict=True)
        )

        terms, columns = value.value_operands[0].spec.shape[-1], hint(value.spec.shape[-1])
        most = MOST_TERMS if columns >= MANY_COLUMNS else MOST_TERMS // 2
        if 0 < hint(terms) <= most and equal(terms, hint(terms)):
            return self._sum_of_terms((a, b), (c, d), hint(terms), value.line)

        def combined(op: str, p: Value, q: Value, u: Value, v: Value) -> Value:
            products = [self.write("matmul", pair, value.line) for pair in ((p, q), (u, v))]
            return self.write(op, products, value.line)

        return combined("sub", a, c, b, d), combined("add", a, d, b, c)

    def _sum_of_terms(self, x: Parts, y: Parts, count: int, line: Any) -> Parts:
        """The products of columns of x and rows of y, added up in order."""
        r = Reals(self, line, x[0].spec.dtype)
        total: Parts | None = None
        for k in range(count):
            column, row = (
                (self._one(p, dim, k, line), self._one(q, dim, k, line))
                for (p, q), dim in ((x, -1), (y, -2))
            )
            term = OF_PARTS["mul"](r, column, row)
            total = term if total is None else OF_PARTS["add"](r, total, term)
        assert total is not None
        return total

    def _one(self, x: Value, dim: int, place: int, line: Any) -> Value:
        """One place along a dimension."""
        starts, counts = [0] * x.spec.ndim, list(x.spec.shape)
        starts[dim], counts[dim] = place, 1
        steps = (1,) * x.spec.ndim
        return self.write(
            "slice", (x,), line, starts=tuple(starts), counts=tuple(counts), steps=steps
        )

    def _viewed(self, value: Value, part: Operand, r: Reals) -> Operand:
        """A view or the sum of a part."""
        assert value.op is not None
        if not isinstance(part, Value):
            if value.op.name != "sum":
                return part
            part = r.filled((), part)
        part = self._expanded(part, value.value_operands[0].spec.shape, value.line)
        return self.write(value.op, (part,), value.line, **value.attributes)

    def _operand(self, x: Operand, mapping: Any, r: Reals) -> Parts:
        """The parts of an operand."""
        if not isinstance(x, Value):
            return (x, 0.0) if is_symbolic(x) else (complex(x).real, complex(x).imag)
        if x in self.parts:
            return self.parts[x]
        given = mapping[x]
        number = uniform(x) if x.spec.dtype.is_complex else None
        if number is not None:  # what shows a part of it would be taken for the number
            return self._operand(number, mapping, r)
        if x.spec.dtype.is_complex:
            return self.write(real_view, (given,), r.line), self.write(imag_view, (given,), r.line)
        if x.spec.dtype is not r.dtype and not x.spec.dtype.is_floating_point:
            given = self.write("cast", (given,), r.line, dtype=r.dtype)
        return given, 0.0

    def _of_shape(self, value: Value, parts: Parts) -> Parts:
        """Parts as values of the shape of what they are the parts of."""
        r, shape = Reals(self, value.line, _real_of(value)), value.spec.shape
        real, imaginary = (
            self._expanded(p if isinstance(p, Value) else r.filled((), p), shape, value.line)
            for p in parts
        )
        return real, imaginary

    def _expanded(self, part: Value, shape: Any, line: Any) -> Value:
        return (
            part if part.spec.shape == shape else self.write("expand", (part,), line, shape=shape)
        )

    def _side_by_side(self, statement: Value, parts: Parts) -> Value:
        last = (statement.spec.ndim - 1,)
        full = self._of_shape(statement.value_operands[0], parts)
        pieces = [self.write("unsqueeze", (part,), statement.line, dims=last) for part in full]
        return self.write("cat", pieces, statement.line, dim=last[0])

    def _of_pairs(self, pairs: Value, line: Any) -> Parts:
        """The parts that lie along the last dimension."""
        last = (pairs.spec.ndim - 1,)
        real, imaginary = (
            self.write("squeeze", (self._one(pairs, -1, which, line),), line, dims=last)
            for which in (0, 1)
        )
        return real, imaginary


def _around(value: Value, number: float) -> dict[str, Any]:
    """The attributes, with another number around what is padded."""
    found = dict(value.attributes)
    return {**found, "value": number} if "value" in found else found


def _settled(x: Operand, name: str) -> Operand:
    """A number that comes from a size, decided unless there are values in all that is done with it."""
    if isinstance(x, Value) or not is_symbolic(x) or name in ("add", "sub", "mul"):
        return x
    present = hint(x)
    return present if equal(x, present) else x


def _real_of(value: Value) -> DType:
    """What the parts are that an op works on."""
    kinds = (value.spec.dtype, *(x.spec.dtype for x in value.value_operands))
    return next(d.to_real() for d in kinds if d.is_complex)
