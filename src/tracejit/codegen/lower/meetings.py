"""Which elements that a loop writes may be elements that it touches in another round as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracejit.codegen.lower.instructions import Instruction, NotWidened, is_literal

if TYPE_CHECKING:
    from tracejit.codegen.lower.body import Body

__all__ = ["pairs_to_compare"]

#: Columns that LLVM stores together, and instructions for each that take longer than storing it.
_VECTORS, _MUCH = (4, 8), 8


def pairs_to_compare(body: Body) -> list[tuple[str, str]]:
    """Indices into one array, written and touched otherwise, that may be the same in two rounds.

    Raises `NotWidened` where no comparison in front of the loop tells.

    >>> from tracejit.codegen.lower.body import Loop, body_of
    >>> lines = [
    ...     "  %t.1 = mul i64 %i, %n",
    ...     "  %t.2 = getelementptr inbounds float, ptr %x, i64 %t.1",
    ...     "  store float 0x3FF0000000000000, ptr %t.2",
    ...     "  %t.3 = add i64 %t.1, 1",
    ...     "  %t.4 = getelementptr inbounds float, ptr %x, i64 %t.3",
    ...     "  store float 0x4000000000000000, ptr %t.4",
    ... ]
    >>> pairs_to_compare(body_of(Loop("%i", "0", "%m", lines, {}, frozenset(), 1), str, []))
    []
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    accesses = body.accesses()
    for written in (at for opcode, at in accesses if opcode == "store"):
        for _, other in accesses:
            a, b = written.operands[1], other.operands[1]
            key = (body.spelled(a), body.spelled(b))
            if written.operands[0] != other.operands[0] or key[0] == key[1]:
                continue
            if _are_of_one_row(body, written, other):
                continue
            if _are_of_one_value(body, written, other):
                if _fills_vectors(body, written):
                    raise NotWidened("columns that LLVM stores together")
                continue
            if "stepping" in (body.kind(a), body.kind(b)):
                raise NotWidened("two ways through one array")
            found.setdefault(key, (a, b))
    return list(found.values())


def _are_of_one_row(body: Body, written: Instruction, other: Instruction) -> bool:
    """Are two elements of the same short rows written, and nothing of them read?"""
    a, b = (body.steps.get(at.result) for at in (written, other))
    if a is None or b is None or a.rows != b.rows or body.reads(written.result):
        return False
    return abs(a.at - b.at) < a.step


def _are_of_one_value(body: Body, written: Instruction, other: Instruction) -> bool:
    """Are two elements of rows whose step the call tells written, known apart, and nothing of them read?

    They are columns of one value, and a kernel writes each element of a value once.
    """
    if any(body.kind(at.operands[1]) != "stepping" for at in (written, other)):
        return False
    a, b = (_row_of(body, at.operands[1]) for at in (written, other))
    return a == b and not body.reads(written.result)


def _fills_vectors(body: Body, written: Instruction) -> bool:
    """Are as many columns moved as fill a vector, with little to compute for each?"""
    stores = [body.definitions[at.result] for which, at in body.accesses() if which == "store"]
    columns = sum(at.operands[0] == written.operands[0] for at in stores)
    lanes = sum(body.kind(i.result) == "lanes" for i in body.instructions if i.result)
    return columns in _VECTORS and lanes < _MUCH * len(stores)


def _row_of(body: Body, index: str) -> str:
    """An index but for the number that is added to it, as an expression."""
    made = body.definitions.get(index)
    if made is not None and made.opcode == "add" and is_literal(made.operands[1]):
        index = made.operands[0]
    return body.spelled(index)
