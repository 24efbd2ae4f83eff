"""Elements some steps apart, in vector code: whole vectors of memory are read or written, and lanes shuffled.

Components of short rows, every other column, the corners of windows: indices that grow by two to eight from round to
round, but not by five or seven. As many vectors as the step has elements hold all that lanes are at; those of one step
from each other lie in one *window*. LLVM's vectoriser does the same, but has no masks for what is left over, and stops
with a failed assertion at some loops of half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracejit.codegen.lower.instructions import Instruction, is_literal

if TYPE_CHECKING:
    from tracejit.codegen.lower.rounds import Rounds

__all__ = [
    "BITS",
    "STEPS",
    "SUFFIX",
    "Stepped",
    "Windows",
    "load_stepped",
    "step_of",
    "store_stepped",
]

#: Larger steps leave less than an eighth of what is read, and of five or seven vectors too many are shuffled.
STEPS = frozenset((2, 3, 4, 6, 8))
BITS = {"float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i1": 1}
SUFFIX = {"float": "f32", "double": "f64"}

#: A step, what is added that is known, and what else is added.
_Sum = tuple[int, int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class Stepped:
    """Where elements lie: in an array, ``step`` apart, from ``at`` behind what ``terms`` add up to."""

    root: str
    type: str
    step: int
    terms: tuple[tuple[str, int], ...]
    at: int

    @property
    def rows(self) -> tuple[object, ...]:
        """What elements of the same short rows share."""
        return self.root, self.type, self.step, self.terms


def step_of(
    at: Instruction,
    counter: str,
    definitions: Mapping[str, Instruction],
    same: Callable[[str], str | None],
) -> Stepped | None:
    """Where the elements of an address lie, if they are a few steps apart.

    ``definitions`` are those of results in the loop; ``same`` tells one that is the same in all rounds as an
    expression.

    >>> i = Instruction("%a", "mul", "i64", ("i64", "i64"), ("%i", "3"))
    >>> at = Instruction("%p", "getelementptr", "float", ("ptr", "i64"), ("%x", "%a"))
    >>> step_of(at, "%i", {"%a": i}, lambda ref: None)
    Stepped(root='%x', type='float', step=3, terms=(), at=0)
    """
    root, index = at.operands

    def sum_of(ref: str) -> _Sum | None:
        if ref == counter:
            return 1, 0, ()
        if is_literal(ref):
            return 0, int(ref), ()
        made, found = definitions.get(ref), None
        if made is not None and made.opcode in ("add", "sub", "mul"):
            a, b = map(sum_of, made.operands)
            if a is not None and b is not None:
                found = _multiplied(a, b) if made.opcode == "mul" else _added(a, b, made.opcode)
        known = same(ref) if found is None else None
        return found if known is None else (0, 0, ((known, 1),))

    found = sum_of(index)
    if found is None or found[0] not in STEPS or at.type == "i1":
        return None
    step, behind, terms = found
    return Stepped(root, at.type, step, terms, behind)


def _added(a: _Sum, b: _Sum, opcode: str) -> _Sum:
    sign = 1 if opcode == "add" else -1
    terms = dict(a[2])
    for term, count in b[2]:
        terms[term] = terms.get(term, 0) + sign * count
    kept = tuple(sorted((term, count) for term, count in terms.items() if count))
    return a[0] + sign * b[0], a[1] + sign * b[1], kept


def _multiplied(a: _Sum, b: _Sum) -> _Sum | None:
    if a[0] or a[2]:
        a, b = b, a
    if a[0] or a[2]:
        return None
    factor = a[1]
    return factor * b[0], factor * b[1], tuple((term, factor * count) for term, count in b[2])


class Windows:
    """The places that a loop reads, or those that it writes, by short rows and windows."""

    def __init__(self, places: Iterable[tuple[str, Stepped]]) -> None:
        self.first: dict[tuple[object, ...], int] = {}
        self.places = dict(places)
        #: The pointers of each window by their place in it.
        self.windows: dict[tuple[object, ...], dict[int, str]] = {}
        for place in self.places.values():
            self.first[place.rows] = min(place.at, self.first.get(place.rows, place.at))
        for pointer, place in self.places.items():
            window, phase = self.of(place)
            self.windows.setdefault((place.rows, window), {})[phase] = pointer

    def of(self, place: Stepped) -> tuple[int, int]:
        """The window of a place, and where it is in that."""
        return divmod(place.at - self.first[place.rows], place.step)

    def phases(self, place: Stepped) -> dict[int, str]:
        """The pointers of the window of a place."""
        return self.windows[place.rows, self.of(place)[0]]

    def behind(self, place: Stepped) -> int:
        """How many elements at the end of the window of a place nobody asks for; there may be no such memory."""
        rows, (window, _) = place.rows, self.of(place)
        if (rows, window + 1) in self.windows:
            return 0
        return place.step - 1 - max(self.phases(place))


def load_stepped(rounds: Rounds, windows: Windows, pointer: str, part: int) -> str:
    """The elements of all lanes that an address is of.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = x[i * 2] + x[i * 2 + 1]
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> "<16 x i32> <i32 1, i32 3, i32 5, i32 7" in text
    True
    """
    place = windows.places[pointer]
    window, phase = windows.of(place)
    key = (place.rows, window, part)
    vectors = rounds.stepped.get(key)
    if vectors is None:
        addresses = _addresses(rounds, windows, pointer, part)
        masks = _masks(rounds, place, range(place.step), windows.behind(place))
        vectors = [
            rounds.load_at(place.type, address, mask)
            for address, mask in zip(addresses, masks, strict=True)
        ]
        rounds.stepped[key] = vectors
    return _phase(rounds, place.type, vectors, phase, key)


def _phase(
    rounds: Rounds, type_: str, vectors: list[str], phase: int, key: tuple[object, ...]
) -> str:
    """Every so many elements of vectors that follow each other, as many as there are vectors; ``key`` names these."""
    step, lanes = len(vectors), rounds.lanes
    if step % 2 == 0:
        rest, odd = divmod(phase, 2)
        half = (*key, odd)
        if half not in rounds.stepped:
            picked = [2 * lane + odd for lane in range(lanes)]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            rounds.stepped[half] = [_shuffled(rounds, type_, a, b, picked) for a, b in pairs]
        return _phase(rounds, type_, rounds.stepped[half], rest, half)
    at = [step * lane + phase for lane in range(lanes)]
    found = vectors[0]
    for number in range(1, step):
        picked = []
        for lane, index in enumerate(at):
            before = index % lanes if number == 1 else lane  # where it is in what was found so far
            there, here = index // lanes < number, index // lanes == number
            picked.append(before if there else lanes + index % lanes if here else -1)
        found = _shuffled(rounds, type_, found, vectors[number], picked)
    return found


def store_stepped(rounds: Rounds, windows: Windows, pointer: str, values: list[str]) -> None:
    """Write the elements of all lanes of all parts, with the last of those that lie in the same window.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", out: "f32*", n: "i64", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i * 2 + 1] = x[i]
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> "<16 x i1> <i1 true, i1 false, i1 true, i1 false" in text
    True
    """
    place = windows.places[pointer]
    window, phase = windows.of(place)
    phases = windows.phases(place)
    given = rounds.given.setdefault((place.rows, window), {})
    given[phase] = values
    if len(given) < len(phases):
        return
    for part in range(rounds.parts):
        addresses = _addresses(rounds, windows, pointer, part)
        masks = _masks(rounds, place, given, 0)
        turns: list[str | None] = [None] * place.step
        for number, parts in given.items():
            turns[number] = parts[part]
        rows = _side_by_side(rounds, place.type, turns)
        for row, address, mask in zip(rows, addresses, masks, strict=True):
            rounds.store_at(place.type, row or "poison", address, mask)


def _side_by_side(rounds: Rounds, type_: str, parts: Sequence[str | None]) -> Sequence[str | None]:
    """Vectors that follow each other, in which the elements of parts take turns; None where nobody cares."""
    step, lanes = len(parts), rounds.lanes
    if step == 1:
        return parts
    if step % 2:
        return [_mixed(rounds, type_, parts, number) for number in range(step)]
    found: list[str | None] = []
    evens, odds = (_side_by_side(rounds, type_, parts[first::2]) for first in (0, 1))
    for a, b in zip(evens, odds, strict=True):
        for start in (0, lanes // 2):
            both = zip(
                range(start, start + lanes // 2), range(lanes + start, 2 * lanes), strict=False
            )
            picked = [lane for pair in both for lane in pair]
            one = None if a is b is None else (a or "poison", b or "poison")
            found.append(None if one is None else _shuffled(rounds, type_, *one, picked))
    return found


def _mixed(rounds: Rounds, type_: str, parts: Sequence[str | None], number: int) -> str | None:
    """One of them, put together part by part."""
    lanes, step = rounds.lanes, len(parts)
    indices = range(number * lanes, (number + 1) * lanes)
    whole: str | None = None
    for phase, part in enumerate(parts):
        if part is None or all(index % step != phase for index in indices):
            continue
        picked = []
        for lane, index in enumerate(indices):
            other = lane if whole is not None else -1
            picked.append(lanes + index // step if index % step == phase else other)
        whole = _shuffled(rounds, type_, whole or "poison", part, picked)
    return whole


def _addresses(rounds: Rounds, windows: Windows, pointer: str, part: int) -> list[str]:
    """Where the vectors of a window begin."""
    place = windows.places[pointer]
    window, _ = windows.of(place)
    printer, type_, lanes = rounds.printer, place.type, rounds.lanes
    start = windows.first[place.rows] + window * place.step
    first = printer.base(rounds.body.definitions[pointer])
    shift = start - place.at
    key = (place.rows, start)  # the same for bodies that leave some loads out
    base = printer.windows.get(key)
    if base is None:
        text = f"getelementptr {type_}, ptr {first}, i64 {shift}"
        base = printer.windows[key] = printer.emit(printer.before, text)
    here = _scaled(rounds, place.step)
    found = []
    for number in range(place.step):
        ahead = (part * place.step + number) * lanes
        at = printer.emit(rounds.lines, f"add i64 {here}, {ahead}") if ahead else here
        text = f"getelementptr {type_}, ptr {base}, i64 {at}"
        found.append(printer.emit(rounds.lines, text))
    return found


def _masks(rounds: Rounds, place: Stepped, phases: Iterable[int], behind: int) -> list[str | None]:
    """The masks of the vectors of a window; None where all of one is there."""
    lanes, step, phases = rounds.lanes, place.step, set(phases)
    found: list[str | None] = []
    for number in range(step):
        indices = range(number * lanes, (number + 1) * lanes)
        there = [i % step in phases and i < step * lanes - behind for i in indices]
        literal = f"<{', '.join('i1 ' + ('true' if t else 'false') for t in there)}>"
        if rounds.mask is None:
            found.append(None if all(there) else literal)
            continue
        below = _below(rounds, number, step, behind)
        if not all(i % step in phases for i in indices):
            type_ = rounds.printer.spell("i1")
            below = rounds.printer.emit(rounds.lines, f"and {type_} {below}, {literal}")
        found.append(below)
    return found


def _scaled(rounds: Rounds, step: int) -> str:
    """So many times the counter."""
    key = f"* {step}"
    if key not in rounds.linears:
        rounds.linears[key] = rounds.printer.emit(rounds.lines, f"mul i64 {rounds.counter}, {step}")
    return rounds.linears[key]


def _below(rounds: Rounds, number: int, step: int, behind: int) -> str:
    """Which elements of a vector there are: the ``number``-th of those that ``step`` for each lane fill."""
    printer, lines, lanes = rounds.printer, rounds.lines, rounds.lanes
    type_ = "i32" if lanes <= 16 else "i16"
    key = f"{step} but {behind}"
    if key not in rounds.linears:
        every = printer.emit(lines, f"mul {type_} {rounds.left}, {step}")
        rounds.linears[key] = printer.emit(lines, f"sub {type_} {every}, {behind}")
    count, first = rounds.linears[key], number * lanes
    if step * lanes > 64:
        every = printer.spread(lines, count, type_)
        numbers = ", ".join(f"{type_} {first + lane}" for lane in range(lanes))
        return printer.emit(lines, f"icmp slt {printer.spell(type_)} <{numbers}>, {every}")
    word = _bits(rounds, count, type_, key)  # which has one for each
    if first:
        word = printer.emit(lines, f"lshr i64 {word}, {first}")
    if lanes < 64:
        word = printer.emit(lines, f"trunc i64 {word} to i{lanes}")
    return printer.emit(lines, f"bitcast i{lanes} {word} to {printer.spell('i1')}")


def _bits(rounds: Rounds, count: str, type_: str, key: str) -> str:
    """A word whose first bits are set, ``count`` of them but no more than there are."""
    printer, lines, known = rounds.printer, rounds.lines, f"bits of {key}"
    if known not in rounds.linears:
        if type_ != "i32":
            count = printer.emit(lines, f"zext {type_} {count} to i32")
        printer.target.declare("declare i32 @llvm.umin.i32(i32, i32)")
        most = printer.emit(lines, f"call i32 @llvm.umin.i32(i32 {count}, i32 64)")
        above = printer.emit(lines, f"sub i32 64, {most}")
        above = printer.emit(lines, f"zext i32 {above} to i64")
        rounds.linears[known] = printer.emit(lines, f"lshr i64 -1, {above}")
    return rounds.linears[known]


def _shuffled(rounds: Rounds, type_: str, a: str, b: str, lanes: list[int]) -> str:
    """Lanes of two vectors, those of the second numbered on; -1 for any."""
    numbers = ", ".join(f"i32 {'poison' if lane < 0 else lane}" for lane in lanes)
    vector = rounds.printer.spell(type_)
    text = f"shufflevector {vector} {a}, {vector} {b}, <{rounds.lanes} x i32> <{numbers}>"
    return rounds.printer.emit(rounds.lines, text)


def counting(opcode: str, operands: Sequence[str], kinds: Sequence[str]) -> str:
    """What arithmetic with the counter gives."""
    moved = opcode == "add" and sorted(kinds) == ["linear", "uniform"]
    if moved or (opcode == "sub" and kinds == ["linear", "uniform"]):
        return "linear"
    if "lanes" in kinds or (opcode == "sub" and kinds == ["uniform", "linear"]):
        return "lanes"  # backwards is what LLVM does better: it turns registers round
    if opcode == "mul" and "1" in operands:
        return kinds[1 - operands.index("1")]
    scaled = opcode == "mul" and "uniform" in kinds
    return "stepping" if scaled or opcode in ("add", "sub") else "lanes"
