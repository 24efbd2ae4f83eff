"""What backward passes let go of: where the steps of a recorded run kept values, between which results and inputs.

A compiled call is one node of the autograd graph where the run had many. Eagerly, a backward pass that is not told to
keep the graph frees the steps it visits, those between the results it starts from and the tensors it goes to, and a
later pass is an error if it comes to one of them. A compiled call frees and refuses the same, by *parts*: a part stands
for all steps that kept something and lie between the same results and the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, TypeGuard

from ...autograd.node import AccumulateGrad, Edge, Node

#: Bits of results and of inputs.
Part = tuple[int, int]
#: Parts by what their steps kept: the position of an input, or ``~i`` for output ``i``, once those are known.
Parts = tuple[tuple[Any, tuple[Part, ...]], ...]


@dataclass(frozen=True)
class History:
    """The tape of a recorded run as far as passes over it differ.

    ``ends`` are the bits of inputs per result, ``ways`` the same with inputs that a pass comes to without a gradient;
    ``beyond`` are the positions of those that it never brings one. ``keepers`` has, for what steps kept, the parts with
    those steps: a pass that comes by one of them is refused once that was changed, whether or not its gradients hang on
    it. ``rewritten`` has the same of inputs that were kept as the run had written them. ``before`` has the parts with
    steps that the pass comes by before those, which it has let go of when it is refused.
    """

    parts: tuple[Part, ...] = ()
    ends: tuple[int, ...] = ()
    before: Parts = ()
    keepers: Parts = ()
    rewritten: Parts = ()
    ways: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()

    def placed(self, *names: tuple[int, Sequence[Hashable], Hashable]) -> History:
        """The same where what steps kept goes by the places of inputs and outputs.

        Each is known by some of the names, and by another one as the run had written it.

        >>> kept = History(((1, 1),), (1,), before=(("x", ()),), keepers=(("x", ((1, 1),)),))
        >>> kept.placed((0, ("x", "its memory"), "x written"), (~0, ("y",), None)).keepers
        ((0, ((1, 1),)),)
        """
        before = {place: _known(self.before, (*those, written)) for place, those, written in names}
        keepers = {place: chain(*_known(self.keepers, those)) for place, those, _ in names}
        rewritten = {p: chain(*_known(self.keepers, (written,))) for p, _, written in names}
        return replace(
            self,
            before=tuple([(p, min(found, key=len)) for p, found in before.items() if found]),
            keepers=_filled(keepers),
            rewritten=_filled(rewritten),
        )

    def never(self) -> Iterator[int]:
        """The positions of the inputs that a pass comes to, but brings no gradient.

        >>> list(History(ends=(0b001,), ways=(0b101,)).never())
        [2]
        """
        silent = reduce(or_, self.ways, 0) & ~reduce(or_, self.ends, 0)
        return (i for i in range(silent.bit_length()) if silent >> i & 1)


def _known(parts: Parts, names: Sequence[Hashable]) -> list[tuple[Part, ...]]:
    found = dict(parts)
    return [found[name] for name in names if name in found]


def _filled(found: Mapping[int, Iterable[Part]]) -> Parts:
    listed = [(place, tuple(parts)) for place, parts in found.items()]
    return tuple([(place, parts) for place, parts in listed if parts])


def history_of(
    roots: Sequence[Edge | None],
    ends: Mapping[Edge, int],
    first: int,
    name: Callable[[Any], Hashable] = id,
) -> History:
    """The history behind ``roots``, the edges of results; node ``first`` was the first recorded.

    A result whose own edge leads to an input (``copy_`` gives it the history of what it copies) has none of its own.

    ``ends`` has the bits of the inputs to which edges lead. Bits of results are positions among ``roots``. ``name`` is
    how ``before`` and ``keepers`` are to name a tensor that was kept, given as it was.

    >>> import tracejit as tj
    >>> x, y = tj.ones(2, requires_grad=True), tj.ones(2, requires_grad=True)
    >>> a, b = x * x, x.sin() + y
    >>> found = history_of([a._edge(), b._edge()], {x._edge(): 1, y._edge(): 2}, 0)
    >>> sorted(found.parts), found.ends
    ([(1, 1), (2, 1)], (1, 3))
    """
    above: dict[Node, int] = {}
    for number, root in enumerate(roots):
        node = root[0] if root is not None else None
        if node is not None and _inside(node, first):
            above[node] = above.get(node, 0) | 1 << number
    inside = _behind(list(above), first)
    nodes = sorted(inside, key=lambda node: -node.sequence)  # the last made first
    for node in nodes:
        bits = above[node]
        for edge in edges_of(node):
            if edge[0] in inside:
                above[edge[0]] = above.get(edge[0], 0) | bits
    below = led_to(reversed(nodes), ends)
    parts: dict[Part, None] = {}
    before: dict[Any, tuple[Part, ...]] = {}
    keepers: dict[Any, tuple[Part, ...]] = {}
    for node in nodes:
        own = above[node], below[node]
        for entry in kept_by(node):
            key = name(entry)
            before.setdefault(key, tuple(parts))
            if own not in keepers.get(key, ()):
                keepers[key] = (*keepers.get(key, ()), own)
        if node.keeps:
            parts[own] = None
    flowing = led_to(reversed(nodes), ends, passing) if any(n.silent for n in nodes) else below
    reached, ways = (
        tuple([0 if r is None else found.get(r[0], ends.get(r, 0)) for r in roots])
        for found in (flowing, below)
    )
    return History(tuple(parts), reached, tuple(before.items()), tuple(keepers.items()), ways=ways)


def edges_of(node: Node) -> list[Edge]:
    """The edges along which passes go, with a gradient or without."""
    return [e for e in node.edges if e is not None]


def led_to(
    nodes: Iterable[Node],
    ends: Mapping[Edge, int],
    edges: Callable[[Node], list[Edge]] = edges_of,
) -> dict[Node, int]:
    """The bits of the ends that passes over each node lead to; ``nodes`` come in the order in which they were made."""
    below: dict[Node, int] = {}
    for node in nodes:
        found = 0
        for edge in edges(node):
            found |= below[edge[0]] if edge[0] in below else ends.get(edge, 0)
        below[node] = found
    return below


def kept_by(node: Node) -> Iterator[Any]:
    """The tensors that a step keeps, as it keeps them; not what hooks have packed, or its backward does not ask for."""
    if not getattr(node, "_asks", True):
        return
    saved = getattr(node, "saved", None)
    entries = saved.values() if isinstance(saved, dict) else getattr(node, "_saved", None)
    for entry in entries or ():
        if getattr(entry, "tensor", None) is not None:
            yield entry


def is_leaf(node: Node) -> TypeGuard[AccumulateGrad]:
    """Does the node put gradients into a leaf?"""
    return isinstance(node, AccumulateGrad)


def passing(node: Node) -> list[Edge]:
    """The edges along which gradients flow."""
    silent = node.silent
    return [e for i, e in enumerate(node.edges) if e is not None and i not in silent]


def _inside(node: Node, first: int) -> bool:
    return node.sequence >= first and not is_leaf(node)


def _behind(roots: list[Node], first: int) -> set[Node]:
    """The recorded nodes that can be reached."""
    found = set(roots)
    stack = roots
    while stack:
        for edge in edges_of(stack.pop()):
            if edge[0] not in found and _inside(edge[0], first):
                found.add(edge[0])
                stack.append(edge[0])
    return found


def acts_unasked(node: Node, first: int) -> bool:
    """Does a pass along the silent edges of a node come to a step that does something without a gradient?

    Only steps from number ``first`` on count; those with hooks do something.

    >>> x = tj.ones(2, requires_grad=True)
    >>> acts_unasked((x * 2).grad_fn, 0)
    False
    """
    tops = [e[0] for i, e in enumerate(node.edges) if e is not None and i in node.silent]
    behind = _behind([top for top in tops if _inside(top, first)], first)
    return any(step.always_runs or step.hooked for step in behind)


def moved_bits(bits: int, places: Mapping[int, int], other: int = 0) -> int:
    """Bits at the ``places`` of theirs; ``other`` for each without.

    >>> bin(moved_bits(0b101, {0: 3, 2: 1})), moved_bits(0b11, {0: 0}, 16)
    ('0b1010', 17)
    """
    found, position = 0, 0
    while bits >> position:
        if bits >> position & 1:
            found |= 1 << places[position] if position in places else other
        position += 1
    return found
