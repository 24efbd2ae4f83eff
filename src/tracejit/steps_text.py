"""The steps of a composite function as the text of a plain function of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .autograd.op_node import OpNode
from .autograd.saved import SavedTensor
from .generated import define
from .ops.float_errors import ignore, restore
from .ops.op import Op
from .ops.prepared import prepared
from .ops.random import RandomSource
from .tensor import Tensor

__all__ = ["NOT_FOLLOWED", "Note", "written"]

#: What a written function returns that comes upon a view without a history.
NOT_FOLLOWED = object()
#: The most elements of a tensor in a call whose steps are written down: larger ones take long enough.
LARGEST = 1 << 13
_NUMBERS = (bool, int, float)
#: What a tensor may have been given besides what every tensor has.
_RARE = frozenset({"_steps", "_history", "_seen", "_piece"})


class Note(NamedTuple):
    """An op that ran."""

    op: Op
    operands: tuple[Any, ...]
    attributes: dict[str, Any]
    out: Tensor


def written(
    name: str, notes: Sequence[Note], tensors: Sequence[Tensor], result: Any
) -> Callable[..., Any] | None:
    """What ran between ``tensors`` and ``result`` as a function of other tensors of the same types and layouts.

    None where the notes do not say it all.

    >>> import tracejit as tj
    >>> x, y = tj.ones(2), tj.tensor([1.0, 2.0])
    >>> twice = tj.add(x, x)
    >>> written("twice", [Note(tj.ops.elementwise.add, (x, x), {}, twice)], [x], twice)(y)
    tensor([2., 4.])
    """
    met = {id(x) for note in notes for x in note.operands}
    if not all(map(_is_steady, notes)) or not all(id(x) in met for x in tensors):
        return None  # what no op takes was read by the function: an option that a tensor tells
    items, shape = _taken_apart(result)
    writer = _Writer(tensors, notes)
    if not shape or not all(id(x) in writer.names for x in items):
        return None
    whole = any(note.out._grad_fn is not None for note in notes) or any(
        x._base is not None and id(x) not in writer.given for x in items
    )
    before = ignore()
    try:
        complete = all(writer.step(number, whole) for number in range(len(notes)))
    finally:
        restore(before)
    return writer.function(name, items, shape, whole) if complete else None


def _is_steady(note: Note) -> bool:
    """Does an op do the same for all operands of these types, and does it concern nothing but its result?"""
    op, out = note.op, note.out
    if isinstance(op, RandomSource) or op.dynamic or op.tells_values:
        return False
    if not _RARE.issuperset(vars(out)):
        return False
    tensors = [x for x in (*note.operands, out) if isinstance(x, Tensor)]
    if op.is_view and len(tensors) > 2:  # of a part that one of them tells
        return False
    return all(x.array.size <= LARGEST for x in tensors) and (
        out._base is not None or not out._writes.value
    )


def _taken_apart(result: Any) -> tuple[Sequence[Any], str]:
    """The tensors of a result, and the text that makes a result of them; none for other results than tensors."""
    if isinstance(result, Tensor):
        return (result,), "{}"
    if not isinstance(result, tuple) or not result:
        return (), ""
    parts = f"({', '.join(['{}'] * len(result))},)"
    return result, parts if type(result) is tuple else f"make({parts})"


class _Writer:
    """Writes the lines: ``x3`` is a tensor, ``a3`` its array, ``n3`` its node, ``e3`` the edge that leads to it."""

    def __init__(self, tensors: Sequence[Tensor], notes: Sequence[Note]) -> None:
        self.notes = notes
        self.names: dict[int, int] = {}
        self.parameters = []
        self.lines: list[str] = []
        for number, x in enumerate(tensors):
            self.parameters.append(f"x{number}")
            self.names.setdefault(id(x), number)
        self.first = len(tensors)
        self.given = frozenset(self.names)
        for number, note in enumerate(notes, self.first):
            self.names[id(note.out)] = number
        self.used: set[str] = set()
        self.constants: dict[str, Any] = {
            "wrap": Tensor._wrap,
            "Saved": SavedTensor,
            "node": OpNode.made,
            "NOT_FOLLOWED": NOT_FOLLOWED,
            "ignore": ignore,
            "restore": restore,
        }

    def constant(self, letter: str, value: Any) -> str:
        """A name for something that is always the same."""
        name = f"{letter}_{len(self.constants)}"
        self.constants[name] = value
        return name

    def named(self, letter: str, x: Any) -> str:
        """How a tensor, its array or its node is called; a number is a constant."""
        if not isinstance(x, Tensor):
            return self.constant("c", x)
        number = self.names[id(x)]
        name = f"{letter}{number}"
        if number < self.first and name not in self.used:
            self.used.add(name)
            if letter == "a":
                self.lines.append(f"{name} = x{number}._array")
            elif letter == "e":
                self.lines.append(f"{name} = x{number}._edge()")
                self.lines.append(f"if {name} is None: return NOT_FOLLOWED")
        return name

    def step(self, number: int, whole: bool) -> bool:
        """Write an op down, with its tensor if the ``whole`` of them count; False where it takes an unknown tensor."""
        op, operands, attributes, out = self.notes[number]
        if not all(type(x) in _NUMBERS or id(x) in self.names for x in operands):
            return False
        arrays = [x.array if isinstance(x, Tensor) else x for x in operands]
        run = self.constant("run", prepared(op, arrays, attributes))
        array, tensor = self.named("a", out), self.named("x", out)
        given = ", ".join([self.named("a", x) for x in operands])
        self.lines.append(f"{array} = {run}({given})")
        if not whole:
            return True
        self.lines.append(f"{tensor} = wrap({array})")
        self.lines.append(f"{tensor}._type = {self.constant('type', out.spec)}")
        entry, options = self.constant("op", op), self.constant("attributes", attributes)
        if out._base is not None:
            base = self.named("x", operands[0])
            self.lines.append(f"{tensor}._become_view({base}, {entry}, {options})")
            if out._piece is not None:
                self.lines.append(f"{tensor}._piece = {out._piece!r}")
        elif op.is_view and out._writes is operands[0]._writes:  # one that stands alone
            self.lines.append(f"{tensor}._writes = {self.named('x', operands[0])}._writes")
        return out._grad_fn is None or self._node(number, entry, options)

    def _node(self, number: int, entry: str, options: str) -> bool:
        """Write down the node of an op; False where it is not one as the door makes it."""
        op, operands, _, out = self.notes[number]
        node = out._grad_fn
        if type(node) is not OpNode or node.op is not op:
            return False
        wanted = [position for position, edge in enumerate(node.edges) if edge is not None]
        if not wanted:
            return False
        edges = ["None"] * len(node.edges)
        for position in wanted:
            x = operands[position]
            known = self.names[id(x)] >= self.first
            edges[position] = f"(n{self.names[id(x)]}, 0)" if known else self.named("e", x)
        saved = []
        for name, position in op.saves(tuple(wanted)):
            x = out if position < 0 else operands[position]
            kept = self.named("x", x)
            if isinstance(x, Tensor):
                kept = f"Saved({kept}, True)" if position < 0 else f"Saved({kept})"
            saved.append(f"{name!r}: {kept}")
        types = self.constant("types", node.operands)
        kind = self.constant("type", out.spec)
        given = f"{entry}, {options}, {types}, {kind}"
        whole = f"{given}, {{{', '.join(saved)}}}, ({', '.join(edges)},)"
        place = self.names[id(out)]
        self.lines.append(f"n{place} = node({whole})")
        self.lines.append(f"x{place}._requires_grad = True")
        self.lines.append(f"x{place}._grad_fn = n{place}")
        return True

    def function(
        self, name: str, results: Sequence[Tensor], shape: str, whole: bool
    ) -> Callable[..., Any]:
        """The function."""
        self.constants["make"] = getattr(type(results), "_make", None)
        items = [self.named("x", x) for x in results]
        if not whole:
            items = [
                f"wrap({self.named('a', x)})" if id(x) not in self.given else item
                for x, item in zip(results, items, strict=True)
            ]
        body = "\n".join(f"        {line}" for line in self.lines or ["pass"])
        text = (
            f"def steps({', '.join(self.parameters)}):\n    before = ignore()\n    try:\n{body}\n"
            f"    finally:\n        restore(before)\n    return {shape.format(*items)}\n"
        )
        return define(text, name, "steps", self.constants)  # type: ignore[no-any-return]
