"""What the body of an innermost loop does: which results are the same for all rounds, and which are of one element.

The lines of a body, printed for one element, are read back as instructions; stack slots and calls of library functions
are resolved. Each result is then uniform (the same in every round), linear (the counter and something uniform),
stepping (as linear, but by any uniform number from round to round), the address of one element after the other, the
place of elements that lie further apart or anywhere, a place in a table of constants, or of one element: of lanes,
once several elements go together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracejit.codegen.lower.anywhere import hangs_on_memory, with_lookups
from tracejit.codegen.lower.instructions import Instruction, NotWidened, read, with_calls_inline
from tracejit.codegen.lower.primitives import SUBSTITUTES
from tracejit.codegen.lower.schedule import scheduled
from tracejit.codegen.lower.steps import BITS, Stepped, Windows, counting, step_of

__all__ = ["BITS", "NEUTRAL", "Body", "Carried", "Loop", "body_of"]

#: Where every lane of a sum starts: what changes nothing, not even the sign of a zero.
NEUTRAL = {
    "fadd": "0x8000000000000000",
    "fmul": "0x3FF0000000000000",
    "add": "0",
    "mul": "1",
    "xor": "0",
}
_OF_LANES = ("lanes", "table")
_MANY = ("address", "stepped", "place")
_IDEMPOTENT = ("and", "or")
_EXTREME = re.compile(r"(llvm|tj)\.(maximum|minimum|maxnum|minnum)[._]\w+")
#: Instructions of a body that takes less time than it takes to wait for what was just stored.
_SHORT = 16


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop as it was lowered, one element a round."""

    counter: str
    start: str
    stop: str
    body: Sequence[str]
    #: Stack slots with their types, and those among them that had a value before the loop.
    slots: dict[str, str]
    outer: frozenset[str]
    interleave: int
    #: Is it inside of another loop?
    inner: bool = False


@dataclass(slots=True)
class Carried:
    """A slot that every round folds something into: its value before and after the round, and the folding."""

    slot: str
    first: str
    last: str
    fold: Instruction


@dataclass(slots=True)
class Body:
    """The instructions of a body, with slots and calls gone, and what each result depends on."""

    instructions: list[Instruction]
    carried: list[Carried]
    definitions: dict[str, Instruction] = field(default_factory=dict)
    #: "linear", "stepping", "address", "stepped", "place", "anywhere", "table" or "lanes"; all else is uniform.
    kinds: dict[str, str] = field(default_factory=dict)
    #: Where the elements of addresses lie that are a few steps apart.
    steps: dict[str, Stepped] = field(default_factory=dict)
    #: Truths of lanes; where all hold, the instructions compute what they should.
    checks: list[str] = field(default_factory=list)
    #: Truths of lanes, any of which ends the program.
    exits: list[str] = field(default_factory=list)
    _spelled: dict[str, str] = field(default_factory=dict)

    def kind(self, ref: str) -> str:
        """What a result depends on; what was there before the loop is uniform."""
        return self.kinds.get(ref, "uniform")

    def spelled(self, ref: str) -> str:
        """A result as an expression, the same for results that are computed alike."""
        known = self._spelled.get(ref)
        if known is None:
            made = self.definitions.get(ref)
            if made is None:
                return ref
            operands = " ".join([self.spelled(operand) for operand in made.operands])
            known = self._spelled[ref] = f"({made.opcode} {made.flags}{made.type} {operands})"
        return known

    def moved_types(self) -> list[str]:
        """The types of what lanes read and write."""
        moves = [i for i in self.instructions if i.opcode in ("load", "gather", "store")]
        if any(i.type == "i1" for i in moves):
            raise NotWidened("truth values in memory, where LLVM packs them")
        # What all lanes read is one number, such as the start of a row, whatever its type.
        return [i.type for i in moves if i.opcode == "store" or self.kind(i.result) == "lanes"]

    def memory_types(self) -> list[str]:
        """The types of what lanes read, write and carry, and of all numbers with a fraction."""
        found = self.moved_types()
        found += [i.type for i in self.instructions if i.type in ("float", "double")]
        found += [carried.fold.type for carried in self.carried if carried.fold.type != "i1"]
        if not found:
            raise NotWidened("nothing that is read, written or folded")
        return found

    def accesses(self) -> list[tuple[str, Instruction]]:
        """What is read and written element by element: "load" or "store", and the instruction of the address."""
        return [
            (i.opcode, self.definitions[i.operands[-1]])
            for i in self.instructions
            if i.opcode in ("load", "store") and self.kind(i.operands[-1]) in _MANY
        ]

    def windows(self, opcode: str) -> Windows:
        """The places some steps apart that are read ("load") or written ("store")."""
        pointers = [i.operands[-1] for i in self.instructions if i.opcode == opcode]
        return Windows((p, self.steps[p]) for p in pointers if self.kind(p) == "stepped")

    def reads(self, address: str) -> bool:
        """Is the array of an address read?"""
        root = self.definitions[address].operands[0]
        return any(which == "load" and at.operands[0] == root for which, at in self.accesses())

    def has_places(self) -> bool:
        """Are elements read or written that do not lie next to each other?"""
        return any(self.kind(at.result) == "place" for _, at in self.accesses())

    def usual(self, interleave: int) -> Body:
        """The body for lanes whose usual choices come out as usual: that they do is left to ``checks``.

        It is the body itself where there are no such choices, or where something stored is read again: checks come
        before all that is stored.
        """
        choices = [i for i in self.instructions if i.opcode == "usually"]
        choices = [i for i in choices if self.kind(i.operands[0]) == "lanes"]
        if self.exits and self.reads_what_it_stored():
            raise NotWidened("what was stored is read again, and checked")
        if not choices or self.reads_what_it_stored():
            return self
        names: dict[str, str] = {}
        for choice in choices:  # in order: what one chooses among may be chosen itself
            often = choice.operands[1]
            names[choice.result] = names.get(often, often)
        taken = {choice.result for choice in choices}
        left = [i.renamed(names) for i in self.instructions if i.result not in taken]
        checks = list(dict.fromkeys(names.get(c.operands[0], c.operands[0]) for c in choices))
        carried = [replace(c, last=names.get(c.last, c.last)) for c in self.carried]
        wanted = {*checks, *self.exits, *(c.last for c in carried)}
        needed = []
        for instruction in reversed(left):
            made = instruction.result
            if made and made not in wanted and self.kind(made) in _OF_LANES:
                continue
            wanted.update(instruction.operands)
            needed.append(instruction)
        others, lanes = _apart(self, needed[::-1])
        instructions = others + scheduled(lanes, interleave)
        return replace(self, instructions=instructions, carried=carried, checks=checks)

    def divides(self) -> bool:
        """Do lanes divide in a way that vector units cannot?"""
        return any(i.divides and self.kind(i.result) == "lanes" for i in self.instructions)

    def reads_what_it_stored(self) -> bool:
        """Does a round read an array that it has written to?"""
        stored: set[str] = set()
        for opcode, at in self.accesses():
            if opcode == "load" and at.operands[0] in stored:
                return True
            if opcode == "store":
                stored.add(at.operands[0])
        return False

    def better_one_by_one(self) -> bool:
        """Are the elements left over better done singly: few instructions that add to an array?

        A processor cannot hand what a store with a mask wrote to the load that follows, and columns of sums are stored
        and loaded again at once.
        """
        accesses = self.accesses()
        roots = {
            which: {at.operands[0] for opcode, at in accesses if opcode == which}
            for which in ("load", "store")
        }
        short = sum(self.kind(i.result) == "lanes" for i in self.instructions) <= _SHORT
        return short and not self.carried and bool(roots["load"] & roots["store"])


def body_of(loop: Loop, text_of: Callable[[str], str], lacking: Iterable[str]) -> Body:
    """The body of a loop; `text_of` and `lacking` as for `lower_widen.widened`. Raises `NotWidened`.

    >>> lines = [
    ...     "  %t.1 = getelementptr inbounds float, ptr %x, i64 %i",
    ...     "  %t.2 = load float, ptr %t.1",
    ...     "  store float %t.2, ptr %t.1",
    ... ]
    >>> body = body_of(Loop("%i", "0", "%n", lines, {}, frozenset(), 1), str, [])
    >>> body.kind("%t.1"), body.kind("%t.2"), body.kind("%n")
    ('address', 'lanes', 'uniform')
    """
    body = _resolved(loop, text_of, {f"llvm.{name}": SUBSTITUTES[name] for name in lacking})
    _classify(body, loop)
    with_lookups(body)
    others, lanes = _apart(body, body.instructions)
    body.instructions = others + scheduled(lanes, loop.interleave)
    return body


def _apart(
    body: Body, instructions: Iterable[Instruction]
) -> tuple[list[Instruction], list[Instruction]]:
    """What is the same in all rounds, and addresses, which are printed elsewhere; and what is of lanes."""
    others: list[Instruction] = []
    lanes: list[Instruction] = []
    for i in instructions:
        # Places in tables are printed where they are used, in the order of lanes.
        (lanes if not i.result or body.kind(i.result) in _OF_LANES else others).append(i)
    return others, lanes


def _resolved(loop: Loop, text_of: Callable[[str], str], substitutes: Mapping[str, str]) -> Body:
    instructions: list[Instruction] = []
    current: dict[str, str] = {}
    loaded: dict[str, str] = {}
    stored: set[str] = set()
    same: dict[str, str] = {}
    for instruction in read(loop.body):
        instruction = instruction.renamed(same)
        slot = instruction.operands[-1]
        if instruction.opcode == "load" and slot in loop.slots:
            if slot not in current:
                current[slot] = loaded[slot] = instruction.result
            same[instruction.result] = current[slot]
        elif instruction.opcode == "store" and slot in loop.slots:
            if slot not in current and slot in loop.outer:
                raise NotWidened("what the last round leaves is used after the loop")
            current[slot] = instruction.operands[0]
            stored.add(slot)
        else:
            instructions.append(instruction)
    carried = [
        _carried(slot, first, current[slot], instructions)
        for slot, first in loaded.items()
        if slot in stored
    ]
    before = [
        Instruction(first, "load", loop.slots[slot], ("ptr",), (slot,))
        for slot, first in loaded.items()
        if slot not in stored
    ]
    inline = with_calls_inline(before + instructions, text_of, substitutes)
    flat = _without_names(inline, carried)
    body = Body(flat, carried)
    body.definitions = {i.result: i for i in flat if i.result}
    return body


def _without_names(
    instructions: Iterable[Instruction], carried: list[Carried]
) -> list[Instruction]:
    """The instructions but those that give another name to what is there; `carried` follows."""
    flat: list[Instruction] = []
    same: dict[str, str] = {}
    for instruction in instructions:
        instruction = instruction.renamed(same)
        if instruction.opcode == "same":
            same[instruction.result] = instruction.operands[0]
        else:
            flat.append(instruction)
    for each in carried:
        each.last = same.get(each.last, each.last)
    return flat


def _carried(slot: str, first: str, last: str, instructions: Sequence[Instruction]) -> Carried:
    """A slot that is read, folded with something and written, in every round alike."""
    latest, folds = first, []
    for instruction in instructions:
        if latest not in instruction.operands and first not in instruction.operands:
            continue
        if instruction.operands.count(latest) != 1 or not _folds(instruction):
            raise NotWidened("a value carried from round to round")
        latest = instruction.result
        folds.append(instruction)
    alike = {(fold.opcode, fold.flags, fold.callee, fold.type) for fold in folds}
    if latest != last or len(alike) != 1:
        raise NotWidened("a value carried from round to round")
    for fold in folds[:-1]:
        if sum(i.operands.count(fold.result) for i in instructions) != 1:
            raise NotWidened("a value carried from round to round, and used")
    return Carried(slot, first, last, folds[0])


def _folds(instruction: Instruction) -> bool:
    if instruction.opcode in ("fadd", "fmul"):
        return instruction.flags == "reassoc "
    if instruction.opcode == "call":
        return _EXTREME.fullmatch(instruction.callee) is not None
    return instruction.opcode in NEUTRAL or instruction.opcode in _IDEMPOTENT


def _classify(body: Body, loop: Loop) -> None:
    body.kinds[loop.counter] = "linear"
    for carried in body.carried:
        body.kinds[carried.first] = "lanes"
    stored = {
        body.definitions[i.operands[1]].operands[0]
        for i in body.instructions
        if i.opcode == "store" and i.operands[1] in body.definitions
    }
    for instruction in body.instructions:
        kind = _kind(body, instruction, stored)
        if kind == "place":
            kind = _stepped(body, instruction, loop.counter)
        if instruction.callee and not instruction.callee.startswith("llvm."):
            raise NotWidened(instruction.callee)
        if instruction.result:
            body.kinds[instruction.result] = kind
    carries = {carried.last for carried in body.carried}
    if any(body.kind(ref) != "lanes" for ref in carries):
        raise NotWidened("a value carried from round to round")


def _kind(body: Body, instruction: Instruction, stored: set[str]) -> str:
    kinds = [body.kind(operand) for operand in instruction.operands]
    if instruction.opcode == "getelementptr":
        if instruction.operands[0].startswith("@"):  # a table of constants
            return "table" if kinds[1] != "uniform" else "uniform"
        root, place = instruction.operands
        if root in body.definitions or (kinds[1] == "lanes" and not hangs_on_memory(body, place)):
            raise NotWidened("elements here and there")
        return _ADDRESSES[kinds[1]]
    if instruction.opcode == "store":
        if kinds[1] not in _MANY:
            raise NotWidened("one element written again and again")
        return "lanes"
    if instruction.opcode == "load":
        pointer = body.definitions.get(instruction.operands[0])
        fixed = kinds[0] in ("uniform", "anywhere")
        if fixed and pointer is not None and pointer.operands[0] in stored:
            raise NotWidened("an element that is read and may be written")
        return "uniform" if kinds[0] == "uniform" else "lanes"
    if all(kind == "uniform" for kind in kinds):
        return "uniform"
    return (
        counting(instruction.opcode, instruction.operands, kinds)
        if instruction.type == "i64"
        else "lanes"
    )


def _stepped(body: Body, instruction: Instruction, counter: str) -> str:
    """The kind of the address of elements that do not lie next to each other."""

    def same(ref: str) -> str | None:
        return body.spelled(ref) if body.kind(ref) == "uniform" else None

    found = step_of(instruction, counter, body.definitions, same)
    if found is None:
        return "place"
    body.steps[instruction.result] = found
    return "stepped"


_ADDRESSES = {"uniform": "uniform", "linear": "address", "stepping": "place", "lanes": "anywhere"}
