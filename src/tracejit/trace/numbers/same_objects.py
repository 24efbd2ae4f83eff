"""Code that asks whether numbers are one object (``n is 2``, ``i is last``): small ints are, so the answer is known.

What stands for a number that varies is no other object, and nobody is asked about ``is``. Such numbers are constants.
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from types import CodeType

from ...numpy_numbers import NUMBERS
from .numbers import UnfitError

_IS = dis.opmap["IS_OP"]
_NO_STEP = frozenset({"CACHE", "EXTENDED_ARG"})


def check_same_objects(codes: Iterable[CodeType], names: Collection[str]) -> None:
    """Raise :class:`UnfitError` where code compares a number, or what has one of these names, by ``is``."""
    for code in codes:
        numbers, compared = _compared(code)
        if numbers or not compared.isdisjoint(names):
            raise UnfitError("numbers are constants here, because the code compares one by 'is'")


@lru_cache(maxsize=4096)
def _compared(code: CodeType) -> tuple[bool, frozenset[str]]:
    """Does code compare a literal number by ``is``, and the last names of what else it compares so?

    >>> numbers, names = _compared((lambda a, b: (a is None, f(a).i is b.last)).__code__)
    >>> numbers, sorted(names)
    (False, ['i', 'last'])
    """
    numbers, names = False, set[str]()
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            within = _compared(nested)
            numbers, names = numbers or within[0], names | within[1]
    if _IS not in code.co_code[::2]:
        return numbers, frozenset(names)
    found = [x for x in dis.get_instructions(code) if x.opname not in _NO_STEP]
    for at, instruction in enumerate(found):
        if instruction.opcode != _IS:
            continue
        sides = found[at - 1], found[_before(found, at - 1)]
        constants = [x.argval for x in sides if x.opname == "LOAD_CONST"]
        numbers = numbers or any(type(x) in NUMBERS for x in constants)
        if not constants:
            names.update(x.argval for x in sides if isinstance(x.argval, str))
    return numbers, frozenset(names)


def _before(found: Sequence[dis.Instruction], end: int) -> int:
    """The position ahead of the instructions that compute what the one at ``end`` leaves on the stack."""
    height = 0
    for at in range(end, 0, -1):
        height += dis.stack_effect(found[at].opcode, found[at].arg, jump=False)
        if height == 1:
            return at - 1
    return end
