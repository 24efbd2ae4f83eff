"""Copying movement ops made native: memory that kernels write parts of.

Before::

    graph f(x: f32[2, 3], y: f32[2, 4]) {
        %0: f32[2, 3] = exp(x)
        %1: f32[2, 7] = cat(%0, y, dim=1)
        return %1
    }

After::

    graph f(x: f32[2, 3], y: f32[2, 4]) {
        %0: f32[2, 3] = exp(x)
        %1: f32[2, 4] = clone(y)
        %2: f32[2, 7] = assemble(%0, %1, places=...)
        return %2
    }

An *assembly* computes nothing: its pieces lie in its memory from the start. What is made by a kernel or a product, and
has no memory of its own to be in, is such a piece itself; everything else is copied by a kernel. A scatter into values
that nobody reads later is written over them; such *late* pieces run after all that wrote or read the memory before.
Memory with many short rows is filled whole before what it is padded with is written over that *ground*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ...codegen.cpu.scatter import scatters
from ...codegen.nest import Layout
from ...codegen.scalar import has_complex, printable
from ...ir.builder import mapped
from ...ir.graph import Graph, Value
from ...ir.loops import is_loop, split_operands
from ...ops import movement
from ...ops.elementwise import clone
from ...ops.source import full
from ...ops.table import Contraction, Movement
from ...passes.fusion.groups import is_constant, is_view, looks_up, picks_from_row, root
from ...passes.gradient.recompute import Order
from ...passes.simplify.liveness import live_part
from ...types import Shape
from ..assembly import Placed, assemble
from .in_place import Changes, is_change
from .pieces import Piece, Place, is_move, on_ground, over_base, pieces_of
from .records import Products
from .taps import is_taps, is_written
from .views import Layouts, contiguous, matrix_layout, strided_view


def is_fusible(value: Value) -> bool:
    """Can a kernel for this machine compute a value?"""
    return printable(value) or (looks_up(value) and not has_complex(value))


def place_moves(
    legal: Graph,
    layouts: Layouts,
    products: Products,
    after: Order | None = None,
    inside: Mapping[Value, Value] = MappingProxyType({}),
) -> Placed:
    """Make every copying movement op of a graph with legal views an assembly.

    ``after`` says what must be complete before some values. ``products`` are those that a library writes where it is
    told to. ``inside`` maps outputs to inputs in whose memory they may lie, if they are changes of these.

    Scatters stay, but what they change lies where their result does already.
    """
    if not any(is_move(v) or scatters(v) or _lays_out_anew(v, products) for v in legal.values):
        return Placed(legal, layouts, {}, after or {})
    homes = _Homes(legal, products, layouts, {*inside.values()})
    homes.decide(inside)
    strides = {v: layouts(v).strides for v in legal.inputs}
    return _Rewriting(legal, homes, strides).run(after or {})


@dataclass
class _Assembly:
    """An assembly: its pieces, those of them that are operands themselves, and what reads the base of a scatter."""

    pieces: list[Piece]
    direct: set[int] = field(default_factory=set)
    readers: tuple[Value, ...] = ()
    waits: tuple[
        Value, ...
    ] = ()  # those that a late piece waits for which is computed where it belongs


class _Homes:
    """Decides which values are computed right where a movement op would copy them.

    Movement ops are visited last to first, so that pieces of pieces are placed in the outermost memory at once.
    """

    def __init__(self, graph: Graph, products: Products, shown: Layouts, given: set[Value]) -> None:
        self.graph = graph
        self.products = products
        self.layouts: dict[Value, Layout] = {}  # of values in other memory than their own
        self.assemblies: dict[Value, _Assembly] = {}
        self.shared: set[Value] = set()  # assemblies whose memory is written over later
        self.own = set(graph.outputs)
        self.carried: set[Value] = set()  # memory that loops write over
        self.position: dict[Value, int] = {}
        self.views: dict[Value, list[Value]] = {}
        self.readers: dict[Value, list[Value]] = {}
        for value in graph.values:
            self.position[value] = len(self.position)
            if is_view(value):
                self.views.setdefault(root(value), []).append(value)
                continue
            if is_loop(value):
                self.carried.update(split_operands(value)[0])
                self.own |= self.carried
            for x in dict.fromkeys(map(root, value.value_operands)):
                self.readers.setdefault(x, []).append(value)
        self.changes = Changes(self.position, self.readers, shown.find, is_fusible, given)

    def decide(self, inside: Mapping[Value, Value]) -> None:
        """Find the pieces of every assembly."""
        for value, source in inside.items():
            if self.changes.leads_to(value, source, self.own - {value}):
                self.layouts[value] = contiguous(source)
        for value in reversed(list(self.graph.values)):
            if _lays_out_anew(value, self.products):
                self.copy(value)
            if not is_move(value) and not scatters(value):
                continue
            lie = self.layouts.get(value) or contiguous(value)
            found = self.assemblies[value] = self.over_base(value, lie)
            if scatters(value) or any(piece.late for piece in found.pieces):
                self.write_at_once(value, found, lie)
                continue  # late pieces may be needed for what runs before them, others may be read after them
            for number, piece in enumerate(found.pieces):
                if piece.operand is None or piece.part.op is not None:
                    continue
                operand = value.value_operands[piece.operand]
                if self.place(value, operand, piece.place.layout(lie, value.spec)):
                    found.direct.add(number)

    def copy(self, value: Value) -> None:
        """What is only laid out anew is written that way at once."""
        lie = self.layouts.get(value) or contiguous(value)
        if value not in self.carried and self.place(value, value.value_operands[0], lie):
            self.assemblies[value] = _Assembly([Piece(Place(), 0)], {0})

    def over_base(self, value: Value, lie: Layout) -> _Assembly:
        """A scatter is written over its base if that is a temporary nobody reads later."""
        pieces = over_base(value)
        if pieces is None:
            return _Assembly(self.ground_of(value) or pieces_of(value))
        base = root(value.value_operands[0])
        readers = self.changes.waits[value] if is_change(value) else self.all_before(value, base)
        again = any(root(x) is base for x in value.value_operands[1:])
        if readers is None or again:
            return _Assembly(pieces_of(value))
        if lie.root is not base and not self.place(value, value.value_operands[0], lie, True):
            return _Assembly(pieces_of(value))  # and that is no input whose memory may be changed
        self.shared.add(base)
        return _Assembly(pieces, {0}, readers)

    def all_before(self, value: Value, base: Value) -> tuple[Value, ...] | None:
        """What else reads what a scatter changes, all of it before that; None where something does later."""
        others = tuple(r for r in self.readers[base] if r is not value)
        last = max(map(self.position.__getitem__, others), default=-1)
        return None if last > self.position[value] else others

    def write_at_once(self, value: Value, found: _Assembly, lie: Layout) -> None:
        """Let new values be computed in the memory that a change of a part changes, where that may be."""
        late = [n for n, piece in enumerate(found.pieces) if piece.late and n not in found.direct]
        if not is_change(value) or len(late) != 1 or 0 not in found.direct:
            return
        made, place = value.value_operands[1], found.pieces[late[0]].place.layout(lie, value.spec)
        while is_view(made):
            inner = _before_view(made, place)
            if inner is None:
                return
            place, made = inner, made.value_operands[0]
        waits = self.changes.waits_to_be_computed(value, made, place, found.readers)
        if waits is not None and self.place(value, made, place):
            found.direct.add(late[0])
            found.waits = waits

    def ground_of(self, value: Value) -> list[Piece] | None:
        """What is padded and its ground, unless it is put together from pieces, which would all have to wait."""
        pieces = on_ground(value)
        if pieces is None:
            return None
        inside = root(value.value_operands[0])
        from_pieces = is_move(inside) or scatters(inside) or _lays_out_anew(inside, self.products)
        return None if from_pieces else pieces

    def place(
        self, assembly: Value, operand: Value, lie: Layout, read_before: bool = False
    ) -> bool:
        """Let the value that ``operand`` shows whole be computed where ``operand`` would lie like ``lie``.

        ``read_before`` promises that others read it before anything is written over it.
        """
        value = operand
        while is_view(value):
            inner = _before_view(value, lie)
            if inner is None:
                return False
            lie, value = inner, value.value_operands[0]
        others = [r for r in self.readers.get(value, ()) if r is not assembly]
        if value in self.own or value in self.layouts:
            return False
        if assembly in self.shared and others and not read_before:
            return False
        if not self.is_computed(value, lie) or not self.is_readable(value, lie, others):
            return False
        self.layouts[value] = lie
        if assembly in self.shared:
            self.shared.add(value)
        return True

    def is_readable(self, value: Value, lie: Layout, readers: Sequence[Value]) -> bool:
        """Can all views of a value show it, and BLAS read it, where it lies like ``lie``?"""
        if not readers:
            return True
        found: dict[Value, Layout] = {value: lie}
        for view in self.views.get(value, ()):
            source = view.value_operands[0]
            assert isinstance(view.op, Movement)
            shape = source.spec.shape
            new = strided_view(view.op, view.attributes, found[source], shape, view.spec.shape)
            if new is None:
                return False
            found[view] = new
        return all(
            self.matrix(x, found[x], reader.spec.shape[:-2]) is not None
            for reader in readers
            if _is_product(reader, self.products)
            for x in reader.value_operands
            if x in found
        )

    def matrix(self, value: Value, lie: Layout, batch: Shape) -> tuple[int, bool, Any] | None:
        """How a library reads or writes a value that lies like ``lie``, None where it cannot."""
        return matrix_layout(value.spec.shape, lie.strides, batch, self.products.levels)

    def is_computed(self, value: Value, lie: Layout) -> bool:
        """Does a kernel, a product or other pieces write a value, and can they write it where it lies like ``lie``?"""
        if _is_product(value, self.products):
            found = self.matrix(value, lie, value.spec.shape[:-2])
            return found is not None and not found[1] and self.products.find() is not None
        if is_taps(value):
            return is_written(value, lie.strides)
        if is_move(value) or scatters(value):
            return True
        if value.op is None or is_constant(value) or picks_from_row(value):
            return False
        return is_fusible(value)


def _before_view(view: Value, lie: Layout) -> Layout | None:
    """How the operand of a view lies where all of it shows in a view that lies like ``lie``; None for other views."""
    x, shape, dims = view.value_operands[0], view.spec.shape, view.attributes.get("dims")
    if view.op is movement.unsqueeze:
        return _seen(movement.squeeze, {"dims": dims}, lie, shape, x.spec.shape)
    if view.op is movement.squeeze:
        return _seen(movement.unsqueeze, {"dims": dims}, lie, shape, x.spec.shape)
    if view.op is movement.permute:
        back = tuple(sorted(range(len(shape)), key=view.attributes["dims"].__getitem__))
        return _seen(movement.permute, {"dims": back}, lie, shape, x.spec.shape)
    if view.op is movement.reshape:
        return _seen(movement.reshape, {"shape": x.spec.shape}, lie, shape, x.spec.shape)
    return None


def _seen(
    op: Any, attributes: dict[str, Any], lie: Layout, shape: Shape, result: Shape
) -> Layout | None:
    """What a view of a value that lies like ``lie`` lies like."""
    assert isinstance(op, Movement)
    return strided_view(op, attributes, lie, shape, result)


def _is_product(value: Value, products: Products) -> bool:
    """Is this a product that a library computes?"""
    is_product = isinstance(value.op, Contraction) and value.op.name == "matmul"
    return is_product and value.spec.dtype.short in products.dtypes


def _lays_out_anew(value: Value, products: Products) -> bool:
    """Is this a copy of a view of a product, or of what is put together from pieces?"""
    if value.op is not clone or not is_view(value.value_operands[0]):
        return False
    source = root(value.value_operands[0])
    return _is_product(source, products) or is_move(source)


class _Rewriting:
    """Writes the graph with assemblies in place of copying movement ops."""

    def __init__(self, graph: Graph, homes: _Homes, strides: Mapping[Value, Shape]) -> None:
        self.graph = graph
        self.homes = homes
        self.strides = strides
        self.body: list[Value] = []
        self.mapping: dict[Value, Value] = {v: v for v in graph.inputs}
        self.copies: dict[Value, Layout] = {}
        self.before: dict[Value, tuple[Value, ...]] = {}
        self.grounds: dict[Value, Value] = {}
        # What is computed where it lies on a ground, and the assemblies that these are.
        self.on_ground = {
            root(v.value_operands[0]): v
            for v, found in homes.assemblies.items()
            if found.pieces and found.pieces[0].ground and 1 in found.direct
        }

    def run(self, after: Order) -> Placed:
        """The graph, and the layouts of what lies in other memory than its own."""
        for value in self.graph.values:
            if value in self.homes.assemblies:
                self.mapping[value] = self.assembly(value, self.homes.assemblies[value])
                continue
            ground = self.ground(self.on_ground[value]) if value in self.on_ground else None
            self.mapping[value] = self.add(mapped(value, self.mapping))
            if ground is not None:
                self.before[self.mapping[value]] = (ground,)
        outputs = tuple(self.mapping[v] for v in self.graph.outputs)
        graph = live_part(Graph(self.graph.name, self.graph.inputs, tuple(self.body), outputs))
        layouts = Layouts(dict(self.strides))
        placed = {self.mapping[v]: lie for v, lie in self.homes.layouts.items()}
        for value, lie in (*placed.items(), *self.copies.items()):
            layouts.found[value] = Layout(self.mapping[lie.root], lie.offset, lie.strides)
        later = {self.mapping[v]: tuple(self.mapping[x] for x in xs) for v, xs in after.items()}
        return Placed(graph, layouts, self.before, later)

    def add(self, value: Value) -> Value:
        self.body.append(value)
        return value

    def assembly(self, value: Value, found: _Assembly) -> Value:
        """The assembly of ``value`` with the copies it needs."""
        lie = self.homes.layouts.get(value) or contiguous(value)
        operands: list[Value] = []
        for number, piece in enumerate(found.pieces):
            if piece.ground:
                operands.append(self.ground(value))
                continue
            source = self.source(value, piece)
            if number not in found.direct:
                source = self.copied(value, source, piece.place.layout(lie, value.spec))
                if found.pieces[0].ground:
                    self.before[source] = (operands[0],)
            if piece.late:
                waits = found.waits if number in found.direct else found.readers
                awaited = (*map(root, operands), *(self.mapping[r] for r in waits))
                self.before[root(source)] = tuple(x for x in awaited if x.op is not None)
            operands.append(source)
        if scatters(value):
            return self.scatter(value, operands[0], found.readers)
        attributes = {
            "shape": value.spec.shape,
            "dtype": value.spec.dtype,
            "places": tuple(piece.place for piece in found.pieces),
        }
        return self.add(Value(value.spec, assemble, tuple(operands), attributes, line=value.line))

    def ground(self, value: Value) -> Value:
        """The ground of an assembly, which whatever is written over it waits for."""
        if value not in self.grounds:
            source = self.source(value, self.homes.assemblies[value].pieces[0])
            lie = self.homes.layouts.get(value) or contiguous(value)
            self.grounds[value] = self.copied(value, source, lie)
        return self.grounds[value]

    def copied(self, value: Value, source: Value, lie: Layout) -> Value:
        """A copy of ``source``, made for the assembly of ``value``, that lies like ``lie``."""
        made = self.add(Value(source.spec, clone, (source,), {}, line=value.line))
        self.copies[made] = lie
        return made

    def scatter(self, value: Value, base: Value, readers: Sequence[Value]) -> Value:
        """A scatter into what lies in its memory, after others read that."""
        operands = (base, *(self.mapping[x] for x in value.value_operands[1:]))
        new = Value(value.spec, value.op, operands, value.attributes, line=value.line)
        if readers:
            self.before[new] = tuple(self.mapping[r] for r in readers)
        return self.add(new)

    def source(self, value: Value, piece: Piece) -> Value:
        """What is written as a piece."""
        kind = piece.place.kind(value.spec)
        if piece.operand is None:
            attributes = {"shape": kind.shape, "value": piece.number, "dtype": kind.dtype}
            return self.add(Value(kind, full, (), attributes, line=value.line))
        operand = self.mapping[value.value_operands[piece.operand]]
        if piece.part.op is None:
            return operand
        part = piece.part
        return self.add(Value(kind, part.op, (operand,), dict(part.attributes), line=value.line))
