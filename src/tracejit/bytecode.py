"""Instructions of a code object in one form, whatever version of CPython compiled it.

Versions say the same things differently: 3.11 calls in two instructions, 3.12 returns constants in one and has
comprehensions in the code around them, 3.13 loads or stores two variables at once and takes the truth of a comparison
within it. Who follows instructions should not know; the tables here do. An instruction for local variables that they
lack is refused, so what is not known is never misread.
"""

from __future__ import annotations

import dis
import functools
import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

#: Is the bytecode of this Python known?
FOLLOWED = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 13)
#: Bytecode longer than this is not looked at.
MAX_INSTRUCTIONS = 5000

#: Instructions that say something about the next one: the argument's upper bits, names of arguments, half a call.
_BEFORE = frozenset({"CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL"})
#: Other names of the same thing.
_NAMES: Mapping[str, str] = {
    "LOAD_FAST_CHECK": "LOAD_FAST",  # 3.12: may be unbound
    **{
        f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"  # 3.11
        for way in ("FORWARD", "BACKWARD")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
}
#: Instructions that are several in a row, and how each of them changes the height of the stack.
_PARTS: Mapping[str, Sequence[tuple[str, int]]] = {
    "LOAD_FAST_AND_CLEAR": (("LOAD_FAST", 1), ("DELETE_FAST", 0)),  # 3.12, around a comprehension
    "LOAD_FAST_LOAD_FAST": (("LOAD_FAST", 1), ("LOAD_FAST", 1)),  # 3.13
    "STORE_FAST_LOAD_FAST": (("STORE_FAST", -1), ("LOAD_FAST", 1)),  # 3.13
    "STORE_FAST_STORE_FAST": (("STORE_FAST", -1), ("STORE_FAST", -1)),  # 3.13
    "RETURN_CONST": (("LOAD_CONST", 1), ("RETURN_VALUE", -1)),  # 3.12
}
#: A comparison whose truth is taken, and the bit of its argument that says so. (From 3.13.)
_COMPARED = (("COMPARE_OP", -1), ("TO_BOOL", 0))
_TRUTH_TAKEN = 16 if sys.version_info >= (3, 13) else 0
#: Where ``PUSH_NULL``, which announces a call, stands beside what loads the function.
ANNOUNCED = 1 if sys.version_info >= (3, 13) else -1
#: Does an instruction that reads an attribute say whether it is called at once? (Until 3.11 there were two.)
_CALLED_ATTRIBUTE = sys.version_info >= (3, 12)
#: Those that read an attribute.
_READING = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
#: What there is for local variables after that.
_LOCAL = frozenset({"LOAD_FAST", "STORE_FAST", "DELETE_FAST"})
#: For those that nested functions share.
_CELLS = frozenset(dis.opname[code] for code in dis.hasfree)
#: Steps that take a value for its truth and nothing else.
TESTS = frozenset({"POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "TO_BOOL", "UNARY_NOT"})
#: Those that may leave the value. (Until 3.11; later it is copied first.)
_TESTS_OR_LEAVES = frozenset({"JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"})
_LAST = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})


#: Instructions for globals, and those of the body of a class.
GLOBALS = frozenset(
    {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
)
#: What hands shared variables to nested functions, or sets them up.
_NO_USE = frozenset({"COPY_FREE_VARS", "LOAD_CLOSURE", "MAKE_CELL"})


class Unfollowed(Exception):
    """Python does something here that cannot be told from outside."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that Python does.

    ``value`` is a constant, a name, a relation or the sign of an operation; ``onward`` is by how much the stack is
    higher when the next step follows (None: it does not), ``jump`` the offset and the same for where a jump leads.
    """

    offset: int
    name: str
    argument: int
    value: Any
    onward: int | None
    jump: tuple[int, int] | None = None

    def names_local(self, name: str) -> bool:
        """Does it read, set or delete the local variable?"""
        return (self.name in _LOCAL or self.name in _CELLS) and self.value == name

    @property
    def takes_truth(self) -> bool:
        """Does it ask for the truth of the value on top of the stack?"""
        return self.name in TESTS or self.name in _TESTS_OR_LEAVES


@functools.lru_cache(maxsize=256)
def steps_of(code: CodeType) -> tuple[Step, ...]:
    """What a code object does, in order; raises :class:`Unfollowed` where that is not known.

    >>> [step.name for step in steps_of((lambda a, b: (a, b)).__code__)]
    ['RESUME', 'LOAD_FAST', 'LOAD_FAST', 'BUILD_TUPLE', 'RETURN_VALUE']
    """
    if not FOLLOWED:
        raise Unfollowed
    found: list[Step] = []
    start, before = -1, 0
    for count, instruction in enumerate(dis.get_instructions(code)):
        if count >= MAX_INSTRUCTIONS:
            raise Unfollowed
        start = instruction.offset if start < 0 else start
        if instruction.opname in _BEFORE:
            before += dis.stack_effect(instruction.opcode, instruction.arg)
            continue
        found += _steps(instruction, start, before)
        start, before = -1, 0
    return tuple(found)


def _steps(found: dis.Instruction, start: int, before: int) -> list[Step]:
    """The steps of an instruction that begins at an offset, after what has changed the stack already."""
    parts = _PARTS.get(found.opname)
    if found.opname == "COMPARE_OP" and (found.arg or 0) & _TRUTH_TAKEN:
        parts = _COMPARED
    if parts is not None:
        values = found.argval if isinstance(found.argval, tuple) else (found.argval,) * len(parts)
        if found.opname == "RETURN_CONST":
            values = found.argval, None
        return [
            Step(start, name, found.arg or 0, value, None if name in _LAST else effect)
            for (name, effect), value in zip(parts, values, strict=True)
        ]
    name = _NAMES.get(found.opname, found.opname)
    if found.opcode in dis.haslocal and name not in _LOCAL:
        raise Unfollowed
    jump = onward = None
    if found.opcode in dis.hasjrel or found.opcode in dis.hasjabs:
        jump = found.argval, dis.stack_effect(found.opcode, found.arg, jump=True)
    if name not in _LAST and name not in _JUMPS:
        onward = before + dis.stack_effect(found.opcode, found.arg, jump=False)
    value = found.argrepr if name == "BINARY_OP" else found.argval
    return [Step(start, name, found.arg or 0, value, onward, jump)]


def keywords_at(code: CodeType, call: Step) -> tuple[str, ...]:
    """The names of the last arguments of a call, if they have some.

    >>> code = (lambda f: f(1, a=2)).__code__
    >>> [keywords_at(code, step) for step in steps_of(code) if step.name.startswith("CALL")]
    [('a',)]
    """
    return _keywords(code).get(call.offset, ())


@functools.lru_cache(maxsize=256)
def _keywords(code: CodeType) -> Mapping[int, tuple[str, ...]]:
    """The same by the offsets of calls."""
    found: dict[int, tuple[str, ...]] = {}
    start, before = -1, None
    for instruction in dis.get_instructions(code):
        start = instruction.offset if start < 0 else start
        if instruction.opname == "KW_NAMES":
            found[start] = code.co_consts[instruction.arg or 0]
        elif instruction.opname == "CALL_KW" and before is not None:  # 3.13
            found[start] = before.argval
        if instruction.opname not in _BEFORE:
            start, before = -1, instruction
    return found


def shared_name(code: CodeType, number: int) -> str:
    """The name of a variable that nested functions share, by its number in an instruction.

    >>> def outer():
    ...     kept = 1
    ...     return lambda: kept
    >>> shared_name(outer().__code__, 0)
    'kept'
    """
    own = code.co_varnames
    cells = [name for name in code.co_cellvars if name not in own]
    found: str = (*own, *cells, *code.co_freevars)[number]
    return found


#: What has a name or constant and reads nothing that has one.
_READS_NOTHING = frozenset(dis.opname[code] for code in dis.hasconst) | {
    "LOAD_CLOSURE",
    "MAKE_CELL",
}


def used_for(
    instructions: Iterable[tuple[str, Any]], methods: Collection[str]
) -> tuple[set[str], set[str]]:
    """The names that instructions, given with their names, read for one of these methods, and for anything else.

    What is read of a name by a key alone is named for both (``log["loss"]``, or ``log[...]`` for a key that varies).

    >>> used_for([("LOAD_GLOBAL", "seen"), ("LOAD_METHOD", "append")], {"append"})
    ({'seen'}, {'append'})
    >>> keyed = [("LOAD_GLOBAL", "log"), ("LOAD_CONST", "loss"), ("BINARY_SUBSCR", None)]
    >>> used_for([*keyed, ("LOAD_METHOD", "append")], {"append"})
    ({"log['loss']"}, {'append'})
    """
    found = [step for step in instructions if step[0] != "EXTENDED_ARG"]
    ways: tuple[set[str], set[str]] = (set(), set())
    for at, (operation, name) in enumerate(found):
        if isinstance(name, str) and not (
            operation in _READS_NOTHING or operation.startswith("STORE_")
        ):
            count, key = _keyed(found, at + 1)
            after, method = found[at + 1 + count] if at + 1 + count < len(found) else ("", None)
            other = after not in ("LOAD_ATTR", "LOAD_METHOD") or method not in methods
            ways[other].add(item_name(name, key) if count else name)
    return ways


#: The key of an item that only the run tells.
ANY_KEY = "..."


def item_name(name: str, key: str) -> str:
    """How the item under a key is named of what has this name.

    >>> item_name("log", "loss"), item_name("log", ANY_KEY)
    ("log['loss']", 'log[...]')
    """
    return f"{name}[{key if key is ANY_KEY else repr(key)}]"


_VARIABLES = frozenset({"LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_GLOBAL"})
#: How an item under a key is read, set, or read and set: what comes after the key.
_ITEM = (("BINARY_SUBSCR",), ("STORE_SUBSCR",), ("COPY", "COPY", "BINARY_SUBSCR"))
#: The same where it may be a new list, ``log.setdefault(key, [])``: what comes before the key, and after it.
_SETDEFAULT = (("LOAD_ATTR", "setdefault"), ("LOAD_METHOD", "setdefault"))
_ITEM_OR_NEW = (("BUILD_LIST", "CALL"), ("BUILD_LIST", "PRECALL", "CALL"))


def _keyed(steps: Sequence[tuple[str, Any]], at: int) -> tuple[int, str]:
    """How many instructions from here on reach an item of what was read before, 0 for none, and under which key."""
    new = at < len(steps) and steps[at] in _SETDEFAULT
    first = at + new
    operation, key = steps[first] if first < len(steps) else ("", None)
    if operation not in _VARIABLES and not (operation == "LOAD_CONST" and isinstance(key, str)):
        return 0, ANY_KEY
    for operations in _ITEM_OR_NEW if new else _ITEM:
        end = first + 1 + len(operations)
        if tuple([name for name, _ in steps[first + 1 : end]]) == operations:
            return end - at, str(key) if operation == "LOAD_CONST" else ANY_KEY
    return 0, ANY_KEY


def at_offset(steps: Sequence[Step], offset: int) -> int:
    """The number of the step at an offset in the bytecode, or around it: of several the last."""
    return bisect_right(steps, offset, key=lambda step: step.offset) - 1


@functools.lru_cache(maxsize=4096)
def not_only_called(code: CodeType) -> frozenset[str]:
    """The globals that ``code`` does something else with than to call them.

    >>> not_only_called((lambda x: (len(x), print, abs)).__code__) == {"print", "abs"}
    True
    """
    steps = [x for x in dis.get_instructions(code) if x.opname not in _BEFORE]
    return frozenset(
        step.argval
        for at, step in enumerate(steps)
        if step.opname in GLOBALS
        and not (step.opname == "LOAD_GLOBAL" and (step.arg or 0) & 1 and _is_itself(steps, at))
    )


def _is_itself(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Is what an instruction loads for a call called itself, and not an attribute of it?"""
    return at + 1 == len(steps) or steps[at + 1].opname not in _READING


@functools.lru_cache(maxsize=1024)
def attributes_not_only_called(code: CodeType, name: str) -> frozenset[str]:
    """The attributes of the global ``name`` that ``code`` does more with than call; "" where it reads no attribute.

    >>> sorted(attributes_not_only_called((lambda x: (math.exp(x), math.pi)).__code__, "math"))
    ['pi']
    """
    found: set[str] = set()
    steps = [x for x in dis.get_instructions(code) if x.opname not in _BEFORE]
    for at, step in enumerate(steps):
        if step.opname not in GLOBALS or step.argval != name:
            continue
        read = steps[at + 1]
        if read.opname not in _READING:
            found.add("")
        elif not (_is_method(read) or (_is_announced(steps, at) and _is_itself(steps, at + 1))):
            found.add(read.argval)
    return frozenset(found)


def _is_method(read: dis.Instruction) -> bool:
    """Is an attribute called at once, as methods are?"""
    return read.opname == "LOAD_METHOD" or bool(_CALLED_ATTRIBUTE and (read.arg or 0) & 1)


def _is_announced(steps: Sequence[dis.Instruction], at: int) -> bool:
    """Is the attribute of what an instruction reads called as the function that it is?"""
    if ANNOUNCED < 0:  # before all that loads the function
        return steps[at].opname == "LOAD_GLOBAL" and bool((steps[at].arg or 0) & 1)
    return steps[at + 2].opname == "PUSH_NULL"


@functools.lru_cache(maxsize=1024)
def shared_not_only_called(code: CodeType) -> frozenset[str]:
    """The variables that nested functions share, and that ``code`` or what is nested in it does more with than call.

    >>> def outer(a, b):
    ...     return lambda: (a(1), a(b))
    >>> sorted(shared_not_only_called(outer.__code__))
    ['b']
    """
    found: set[str] = set()
    steps = [x for x in dis.get_instructions(code) if x.opname not in _BEFORE]
    for at, step in enumerate(steps):
        if step.opname in _CELLS and step.opname not in _NO_USE:
            near = steps[at + ANNOUNCED].opname if at + ANNOUNCED < len(steps) else ""
            if step.opname != "LOAD_DEREF" or near != "PUSH_NULL" or not _is_itself(steps, at):
                found.add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= shared_not_only_called(constant)
    return frozenset(found)
