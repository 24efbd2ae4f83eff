"""Straight-line LLVM text as instructions: what `FunctionLowering` prints, read back to be printed for vectors.

Only what the lowering prints itself is read, one line each, and checks that end the program, four lines each. Anything
else (labels, branches, vectors, calls of the C library) raises `NotWidened`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

__all__ = [
    "FAILED",
    "Instruction",
    "NotWidened",
    "Spelling",
    "all_lanes",
    "is_literal",
    "read",
    "with_calls_inline",
]

#: A scalar type as it is spelled, perhaps for several lanes.
Spelling = Callable[[str], str]

ARITHMETIC = frozenset(
    ["fadd", "fsub", "fmul", "fdiv", "add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor"]
)
_DIVISIONS = frozenset(["sdiv", "udiv", "srem", "urem", "frem"])
_COMPARISONS = frozenset(["fcmp", "icmp"])
_ALONE = frozenset(["fneg", "freeze"])
_CASTS = frozenset(
    "fpext fptrunc sitofp uitofp fptosi fptoui zext sext trunc bitcast".split()  # noqa: SIM905
)

_USUAL = frozenset(["usually_f32", "usually_f64", "usually_u64"])

_ENDED = re.compile(r"  br i1 (\S+), label %(\S+), label %(\S+)")
#: What a kernel does that cannot serve its input.
FAILED = "  ret i32 1"
_ASSIGNED = re.compile(r"  (%\S+) = (\w+) (.*)")
_STORED = re.compile(r"  store (\S+) (\S+), ptr (%\S+)")
_TWO = re.compile(r"((?:[a-z]+ )*)([a-z]+\d*) (\S+), (\S+)")
_ONE = re.compile(r"(\S+) (\S+)")
_SELECT = re.compile(r"i1 (\S+), (\S+) (\S+), \S+ (\S+)")
_CAST = re.compile(r"(\S+) (\S+) to (\S+)")
_LOAD = re.compile(r"(\S+), ptr (%\S+)")
_ADDRESS = re.compile(r"inbounds (\S+), ptr (\S+), i64 (\S+)")
_CALL = re.compile(r"((?:nnan )?(?:nsz )?)(\S+) @([\w.]+)\((.*)\)")
_HEAD = re.compile(r"define internal (\S+) @\S+\((.*)\) ")
_NAME = re.compile(r"%[\w.]+")


class NotWidened(Exception):
    """A loop that is left to LLVM's vectoriser."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: what it computes, from operands of which types."""

    result: str
    opcode: str
    type: str
    types: tuple[str, ...]
    operands: tuple[str, ...]
    flags: str = ""
    callee: str = ""

    def text(self, spell: Spelling, operands: Sequence[str]) -> str:
        """What stands right of the equals sign, with these operands."""
        types = [spell(type_) for type_ in self.types]
        if self.opcode in ("call", "select", "usually"):
            given = ", ".join(f"{t} {o}" for t, o in zip(types, operands, strict=True))
            if self.opcode != "call":
                return f"select {given}"
            return f"call {self.flags}{spell(self.type)} @{self.callee}({given})"
        if self.opcode == "getelementptr":
            return f"getelementptr inbounds {self.type}, ptr {operands[0]}, i64 {operands[1]}"
        if self.opcode == "load":
            return f"load {self.type}, ptr {operands[0]}"
        if self.opcode in _CASTS:
            return f"{self.opcode} {types[0]} {operands[0]} to {spell(self.type)}"
        return f"{self.opcode} {self.flags}{types[0]} {', '.join(operands)}"

    def with_operands(self, operands: tuple[str, ...], result: str = "") -> Instruction:
        """The same of other operands, and perhaps with another result."""
        result = result or self.result
        if operands == self.operands and result == self.result:
            return self
        return Instruction(
            result, self.opcode, self.type, self.types, operands, self.flags, self.callee
        )

    def renamed(self, names: Mapping[str, str], result: str = "") -> Instruction:
        """The same with operands that have other names."""
        return self.with_operands(tuple([names.get(o, o) for o in self.operands]), result)

    @property
    def divides(self) -> bool:
        """Is this a division that traps, or is a call?"""
        return self.opcode in _DIVISIONS


def is_literal(ref: str) -> bool:
    """Is an operand a number?

    >>> is_literal("0x3FF0000000000000"), is_literal("%t.1")
    (True, False)
    """
    return not ref.startswith("%")


def read(lines: Iterable[str]) -> list[Instruction]:
    """The instructions of some lines.

    >>> read(["  %t.2 = fadd reassoc float %t.1, %x"])[0].operands
    ('%t.1', '%x')
    """
    pending = list(lines)[::-1]
    found = []
    while pending:
        line = pending.pop()
        ended = _ENDED.fullmatch(line)
        found.append(_read(line) if ended is None else _end(line, ended, pending))
    return found


def _end(line: str, ended: re.Match[str], pending: list[str]) -> Instruction:
    """A branch around a return, which is a check: what fails it ends the program."""
    truth, then, after = ended.groups()
    block = [pending.pop() for _ in range(min(3, len(pending)))]
    if block != [f"{then}:", FAILED, f"{after}:"]:
        raise NotWidened(line)
    return Instruction("", "exit", "i1", ("i1",), (truth,))


def _read(line: str) -> Instruction:
    if stored := _STORED.fullmatch(line):
        type_, value, pointer = stored.groups()
        return Instruction("", "store", type_, (type_, "ptr"), (value, pointer))
    assigned = _ASSIGNED.fullmatch(line)
    if assigned is None:
        raise NotWidened(line)
    result, opcode, rest = assigned.groups()
    if opcode in ARITHMETIC or opcode in _DIVISIONS or opcode in _COMPARISONS:
        flags, type_, left, right = _groups(_TWO, rest)
        made = "i1" if opcode in _COMPARISONS else type_
        return Instruction(result, opcode, made, (type_, type_), (left, right), flags)
    if opcode in _ALONE:
        type_, ref = _groups(_ONE, rest)
        return Instruction(result, opcode, type_, (type_,), (ref,))
    if opcode in _CASTS:
        source, ref, target = _groups(_CAST, rest)
        return Instruction(result, opcode, target, (source,), (ref,))
    if opcode == "select":
        condition, type_, yes, no = _groups(_SELECT, rest)
        return Instruction(result, opcode, type_, ("i1", type_, type_), (condition, yes, no))
    if opcode == "load":
        type_, pointer = _groups(_LOAD, rest)
        return Instruction(result, opcode, type_, ("ptr",), (pointer,))
    if opcode == "getelementptr":
        type_, pointer, index = _groups(_ADDRESS, rest)
        return Instruction(result, opcode, type_, ("ptr", "i64"), (pointer, index))
    if opcode == "call":
        flags, type_, callee, given = _groups(_CALL, rest)
        pairs = [part.split(" ") for part in given.split(", ")]
        types, refs = zip(*pairs, strict=True)
        return Instruction(result, opcode, type_, types, refs, flags, callee)
    raise NotWidened(line)


def _groups(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise NotWidened(text)
    return found.groups()


def with_calls_inline(
    instructions: Iterable[Instruction],
    text_of: Callable[[str], str],
    substitutes: Mapping[str, str] | None = None,
) -> list[Instruction]:
    """The same with calls of library functions replaced by their instructions, those within too.

    `text_of` gives the text of ``@tj.NAME`` by its name; `substitutes` are the names for intrinsics that the target
    lacks. What they return is an instruction of its own, ``same``; usual choices are instructions, too: ``usually``.

    >>> text = "define internal float @tj.f(float %x) a {\\nentry:\\n  %t.1 = fneg float %x\\n  ret float %t.1\\n}\\n"
    >>> calls = read(["  %t.9 = call float @tj.f(float %y)"])
    >>> [(i.opcode, i.operands) for i in with_calls_inline(calls, lambda name: text)]
    [('fneg', ('%y',)), ('same', ('%c0.t.1',))]
    """
    numbers = count()
    return list(_inline(instructions, text_of, substitutes or {}, numbers))


def _inline(
    instructions: Iterable[Instruction],
    text_of: Callable[[str], str],
    substitutes: Mapping[str, str],
    numbers: Iterator[int],
) -> Iterator[Instruction]:
    for instruction in instructions:
        callee = instruction.callee
        name = callee[3:] if callee.startswith("tj.") else substitutes.get(callee)
        if name is None:
            yield instruction
            continue
        if name in _USUAL:
            yield replace(instruction, opcode="usually", callee="")
            continue
        parameters, inner, returned = _function(text_of(name))
        number = next(numbers)
        names = dict(zip(parameters, instruction.operands, strict=True))
        names |= {i.result: f"%c{number}.{i.result[1:]}" for i in inner}
        value = names.get(returned, returned)
        renamed = [i.renamed(names, names[i.result]) for i in inner]
        yield from _inline(renamed, text_of, substitutes, numbers)
        yield Instruction(
            instruction.result, "same", instruction.type, (instruction.type,), (value,)
        )


@cache
def _function(text: str) -> tuple[list[str], list[Instruction], str]:
    """Parameters, instructions and the returned value of a straight-line function."""
    lines = text.rstrip().split("\n")
    head = _HEAD.match(lines[0])
    if head is None or lines[1] != "entry:" or lines[-1] != "}" or "  ret " not in lines[-2]:
        raise NotWidened(lines[0])
    return _NAME.findall(head[2]), read(lines[2:-2]), lines[-2].split(" ")[-1]


def all_lanes(type_: str, literal: str, lanes: int) -> str:
    """A number in all lanes.

    >>> all_lanes("i32", "7", 4), all_lanes("i32", "7", 1)
    ('splat (i32 7)', '7')
    """
    return literal if lanes == 1 else f"splat ({type_} {literal})"
