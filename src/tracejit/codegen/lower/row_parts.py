"""Loops over rows that fold each row and write what comes of it: what they consist of, if they are that simple."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from tracejit.codegen.lower.names import is_innermost, names_of, stays_as_it_is

__all__ = ["RowParts", "row_parts"]

_NUMBERS = {"inf", "nan"}


@dataclass(frozen=True, slots=True)
class RowParts:
    """What is done for a row: before the loop over its elements, this loop, and what follows."""

    before: Sequence[ast.stmt]
    loop: ast.For
    after: Sequence[ast.stmt]
    folded: frozenset[str]  # the names that the loop carries

    def needed(self) -> list[ast.stmt]:
        """What is computed before the loop and needed after it."""
        wanted, found = names_of(*self.after)[1] - self.folded, list[ast.stmt]()
        for statement in reversed(self.before):
            stored, loaded = names_of(statement)
            if isinstance(statement, ast.Assign) and stored & wanted:
                found.append(statement)
                wanted |= loaded
        return found[::-1]


def row_parts(node: ast.For) -> RowParts | None:
    """The parts of a loop over rows ``together``; None where they are not folded alike, or anything else is done.

    >>> text = "for r in together(0, n):\\n  t = 0\\n  for i in range(m):\\n    t += x[r * m + i]\\n  out[r] = t"
    >>> parts = row_parts(ast.parse(text).body[0])
    >>> parts.folded, ast.unparse(parts.after)
    (frozenset({'t'}), 'out[r] = t')
    >>> row_parts(ast.parse(text.replace("range(m)", "range(r)")).body[0]) is None
    True
    """
    call = node.iter
    if not (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "together"
    ):
        return None
    loops = [
        number
        for number, each in enumerate(node.body)
        if isinstance(each, ast.For) and not stays_as_it_is(each)
    ]
    if len(loops) != 1 or not isinstance(node.target, ast.Name):
        return None
    before, loop, after = node.body[: loops[0]], node.body[loops[0]], node.body[loops[0] + 1 :]
    assert isinstance(loop, ast.For)
    simple = is_innermost(loop) and _assigns(before, ast.Name) and _assigns(after)
    if not simple or _assigns(after, ast.Name):
        return None
    changing = {node.target.id, *names_of(*before, *after)[0]}
    if not changing.isdisjoint(names_of(loop.iter)[1]):
        return None
    folded = _carried(loop)
    begun = (s for s in before if isinstance(s, ast.Assign) and _is_constant(s.value))
    if not folded or not folded <= names_of(*begun)[0]:
        return None
    return RowParts(before, loop, after, folded)


def _assigns(body: Sequence[ast.stmt], kind: type[ast.expr] = ast.expr) -> bool:
    """Are there assignments to this kind of place only, and loops that ask for memory?"""
    return all(
        isinstance(s.targets[0], kind) if isinstance(s, ast.Assign) else isinstance(s, ast.For)
        for s in body
    )


def _carried(loop: ast.For) -> frozenset[str]:
    """The names that a loop changes, and reads before it does."""
    found, so_far = set[str](), set[str]()
    changed = names_of(*loop.body)[0]
    for statement in loop.body:
        stored, loaded = names_of(statement)
        if isinstance(statement, ast.AugAssign):
            loaded |= stored
        found |= (loaded & changed) - so_far
        so_far |= stored
    return frozenset(found)


def _is_constant(node: ast.expr) -> bool:
    """Is this a number such as ``float32(-inf)``?"""
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.Call):
        return all(names_of(argument)[1] <= _NUMBERS for argument in node.args)
    return names_of(node)[1] <= _NUMBERS
