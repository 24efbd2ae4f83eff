"""Elements anywhere: those whose places are read from memory, and the checks of places that end the program.

Lanes gather what they look up, masked by the checks that come before: a place that is out of range is not read. Should
a check fail in any lane, nothing is stored and the rounds go on with a mask; there the program ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracejit.codegen.lower.instructions import Instruction, NotWidened

if TYPE_CHECKING:
    from tracejit.codegen.lower.body import Body
    from tracejit.codegen.lower.rounds import Rounds


def hangs_on_memory(body: Body, ref: str) -> bool:
    """Is a place computed from what lanes read? Others are known in front of the loop, such as those of a flip."""
    waiting, seen = [ref], set[str]()
    while waiting:
        made = body.definitions.get(waiting.pop())
        if made is None or made.result in seen:
            continue
        seen.add(made.result)
        if made.opcode == "load" and body.kind(made.result) == "lanes":
            return True
        waiting += made.operands
    return False


def with_lookups(body: Body) -> None:
    """Take the checks out of a body, and make lookups instructions of their own: ``gather``, of a place and checks."""
    ends: list[str] = []
    found: list[Instruction] = []
    for instruction in body.instructions:
        if instruction.opcode == "exit":
            (truth,) = instruction.operands
            if body.kind(truth) != "lanes":
                raise NotWidened("a check that is the same for all elements")
            ends.append(truth)
            continue
        if instruction.opcode == "load":
            if ends and body.kind(instruction.result) == "uniform":
                raise NotWidened("a number that is read after a check")
            if body.kind(instruction.operands[0]) == "anywhere":
                instruction = _gather(body, instruction, ends)
        found.append(instruction)
    body.instructions, body.exits = found, list(dict.fromkeys(ends))


def _gather(body: Body, load: Instruction, ends: list[str]) -> Instruction:
    root, place = body.definitions[load.operands[0]].operands
    types = ("i64", *["i1"] * len(ends))
    made = Instruction(load.result, "gather", load.type, types, (place, *ends), flags=root)
    body.definitions[load.result] = made
    return made


def load_anywhere(rounds: Rounds, instruction: Instruction, part: int) -> str:
    """The elements at the places of all lanes of a part; zeros where a check fails.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> text = lower_kernel('''
    ... def k(x: "f32*", at: "i64*", n: "i64", out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         v = at[i]
    ...         if uint64(v) >= uint64(n):
    ...             return 1
    ...         out[i] = x[v]
    ...     return 0
    ... ''', "k", noalias=True, vector_bits=512, lacking=(), widen=512).text
    >>> "llvm.masked.gather.v8f32" in text, text.count("ret i32 1")
    (True, 1)
    """
    place, *ends = instruction.operands
    root, mask = rounds.printer.scalar(instruction.flags), rounds.holds(ends, part)
    return rounds.look_up(instruction.type, root, place, part, mask)
