"""Bytecode in one form: the same steps on every version of CPython, with the stack as high as Python says it is."""

from __future__ import annotations

import ast
import collections
import dis
import inspect
import itertools
import json
import subprocess
import sys
import types
import typing

import pytest

import tracejit as tj
from tracejit import bytecode, lengths
from tracejit.bytecode import Unfollowed, at_offset, steps_of
from tracejit.trace.rounds import code as round_code
from tracejit.trace.rounds.code import Flow
from tracejit.trace.state import calls as state_calls
from tracejit.trace.state import reads as state_reads

SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MODULES = [ast, collections, dis, inspect, itertools, json, subprocess, types, typing]
MODULES += [bytecode, lengths, round_code, state_reads, tj.nn.functional, tj.optim]


def codes():
    """Every code object of the modules' functions and methods, and those nested in them."""
    found = {}
    for module in MODULES:
        for thing in vars(module).values():
            for inner in (thing, *vars(thing).values()) if isinstance(thing, type) else (thing,):
                code = getattr(inner, "__code__", None)
                if isinstance(code, types.CodeType):
                    found.update((id(c), c) for c in state_reads.codes_in(code))
    return list(found.values())


CODES = codes()


def test_there_are_codes_to_look_at():
    assert len(CODES) > 500


def test_the_stack_is_as_high_as_python_says_on_every_way():
    for code in CODES:
        if not code.co_flags & inspect.CO_OPTIMIZED:
            continue
        flow = Flow(code)
        # A constant that is returned without the stack is put there for a moment.
        assert max(flow.depth.values()) <= max(1, code.co_stacksize)
        for number, height in flow.depth.items():
            for target, effect in flow.next[number]:
                assert effect is None or flow.depth[target] == height + effect
            if flow.steps[number].name == "RETURN_VALUE":
                assert height == 1 or code.co_flags & SUSPENDED, code


def test_local_variables_are_those_that_instructions_name():
    for code in CODES:
        wanted, found = collections.Counter(), collections.Counter()
        for instruction in dis.get_instructions(code):
            if instruction.opcode in dis.haslocal:
                names = instruction.argval
                wanted.update(names if isinstance(names, tuple) else [names])
        for step in steps_of(code):
            if step.name in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST"):
                found[step.value] += 1
        assert found.keys() == wanted.keys()
        assert all(found[name] >= count for name, count in wanted.items())


def test_splitting_an_instruction_keeps_its_effect():
    for code in CODES:
        effects = collections.Counter()
        for step in steps_of(code):
            effects[step.offset] += step.onward or 0
        start, effect = None, 0
        for instruction in dis.get_instructions(code):
            start = instruction.offset if start is None else start
            if (
                instruction.opname in ("RETURN_CONST", "RETURN_VALUE", "RERAISE", "RAISE_VARARGS")
                or instruction.opcode in dis.hasjrel
            ):
                start, effect = None, 0
            else:
                effect += dis.stack_effect(instruction.opcode, instruction.arg)
                if instruction.opname not in ("EXTENDED_ARG", "PRECALL", "KW_NAMES", "CACHE"):
                    assert effects[start] == effect, instruction
                    start, effect = None, 0


def counts(x, n):
    k = 0
    while x > 1 and k < n:
        x = x * 0.5
        k += 1
    if not k:
        return None
    return x


def test_versions_write_the_same_steps():
    """But for how the loop's test is laid out."""
    names = [step.name for step in steps_of(counts.__code__)]
    count = ["LOAD_FAST", "LOAD_CONST", "BINARY_OP", "STORE_FAST"]
    ways = [i for i in range(len(names)) if names[i : i + 4] == count]
    assert [steps_of(counts.__code__)[i].value for i in ways] == ["x", "k"]
    assert names.count("RETURN_VALUE") == 2
    assert not {"RETURN_CONST", "LOAD_FAST_LOAD_FAST", "PRECALL", "EXTENDED_ARG"} & {*names}
    signs = [s.value for s in steps_of(counts.__code__) if s.name in ("BINARY_OP", "COMPARE_OP")]
    assert signs[:4] == [">", "<", "*", "+="]


class Asked:
    """Says where the frame that asks it stands, and how high its stack is beneath."""

    def __init__(self):
        self.places = []

    def __bool__(self):
        frame = sys._getframe(1)
        flow = Flow(frame.f_code)
        number = flow.at(frame.f_lasti)
        self.places.append((flow.steps[number].name, flow.below(number)))
        return len(self.places) < 3

    def __gt__(self, other):
        return self


def while_asked(x):
    while x:
        pass


def while_compared(x):
    while x > 1:
        pass


def while_not(x):
    done = False
    while not done:
        done = not x


def while_called(x):
    while bool(x):
        pass


def while_called_by_name(x, ask=lambda *, it: bool(it)):
    while ask(it=x):
        pass


def while_called_with_many(x):
    while bool(*(x,)):
        pass


def for_asked(x):
    for _ in range(9):
        for _ in range(9):
            if not x:
                return


def comprehended(x):
    return [[1 for _ in range(9) if x > 0], 2]


@pytest.mark.parametrize(
    ("f", "below"),
    [
        (while_asked, {0}),
        (while_compared, {0}),
        (while_not, {0}),
        (while_called, {0}),
        (while_called_by_name, {0}),
        (while_called_with_many, {0}),
        (for_asked, {2}),
        (comprehended, {2, 3}),  # its list and iterator; from 3.12 on what its variable was
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_lies_on_the_stack_where_a_truth_is_asked(f, below):
    asked = Asked()
    f(asked)
    assert len(asked.places) >= 3
    assert {height for _, height in asked.places} <= below


def test_long_code_and_namespaces_are_not_followed():
    body = "\n".join(f"    x = x + {n}" for n in range(bytecode.MAX_INSTRUCTIONS // 3))
    names = {}
    exec(f"def f(x):\n{body}\n", names)
    with pytest.raises(Unfollowed):
        steps_of(names["f"].__code__)
    assert round_code.flow_of(compile("x = 1", "<module>", "exec")) is None


def test_an_unknown_instruction_for_local_variables_is_refused(monkeypatch):
    found = next(i for i in dis.get_instructions(counts) if i.opname == "STORE_FAST")
    monkeypatch.setattr(bytecode, "_LOCAL", bytecode._LOCAL - {"STORE_FAST"})
    with pytest.raises(Unfollowed):
        bytecode._steps(found, 0, 0)


def test_an_unknown_python_is_refused(monkeypatch):
    monkeypatch.setattr(bytecode, "FOLLOWED", False)
    with pytest.raises(Unfollowed):
        steps_of.__wrapped__(counts.__code__)


def test_offsets_within_a_step():
    steps = steps_of(counts.__code__)
    for number, step in enumerate(steps[:-1]):
        last = steps[number + 1].offset - 1
        if last > step.offset:
            assert at_offset(steps, step.offset) == at_offset(steps, last) == number


def test_a_list_on_the_stack_that_grows_makes_no_loop():
    flow = Flow(comprehended.__code__)
    asked = Asked()
    comprehended(asked)
    places = []
    for code in state_reads.codes_in(comprehended.__code__):
        flow = Flow(code)
        places += [
            round_code.driver_of(code, number)
            for number, step in enumerate(flow.steps)
            if step.takes_truth
        ]
        for number, step in enumerate(flow.steps):
            if step.name == "LIST_APPEND" and number in flow.depth:
                assert 0 <= round_code._collects(flow, number) < flow.depth[number] - 1
    assert places
    assert set(places) == {None}


def test_the_variable_of_a_comprehension_does_not_hide_that_of_the_function():
    def reads(x):
        y = 3
        while x:
            [y for y in range(3)]  # noqa: C416
            x = x - 1
        return y

    flow = Flow(reads.__code__)
    assert all("y" in flow.live(n) for n, step in enumerate(flow.steps) if step.takes_truth)


def test_every_instruction_with_a_name_is_looked_at():
    known = state_reads._NAMING
    real = {dis.opname[code] for code in dis.hasname if code < 256}  # others exist while compiling
    assert real - known == {"IMPORT_NAME", "STORE_NAME", "DELETE_NAME"}


def test_a_generator_that_goes_on_is_told_from_one_that_starts():
    def numbers():
        yield from range(2)
        yield 2

    found = []

    def hook(frame, event, argument):
        if event == "call" and frame.f_code is numbers.__code__:
            found.append(state_calls._goes_on(frame))

    before = sys.getprofile()
    try:
        sys.setprofile(hook)
        list(numbers())
    finally:
        sys.setprofile(before)
    assert found == [False, True, True, True]


LOOKED_UP = """
def by_a_local_name(x):
    import sys
    return sys.modules["one"].scale * x
def beside_another(x, sys):
    return max(x, sys.modules["one"])
def asked(x):
    import sys
    return "one" in sys.modules
class ByName:
    scale = getattr(x, "scale")
class ByAnyName:
    scale = getattr("text", x)
"""


def test_names_are_found_whatever_stands_in_one_instruction():
    """Versions load two variables at once, and announce calls ahead of the function or behind it."""
    whole = compile(LOOKED_UP, "user.py", "exec")
    found = {
        code.co_name: state_reads.reads_of(code)
        for code in whole.co_consts
        if hasattr(code, "co_name")
    }
    around = {name: "sys.modules" in reads.around for name, reads in found.items()}
    assert [around[name] for name in ("by_a_local_name", "beside_another", "asked")] == [
        True,
        True,
        False,
    ]
    assert [found[name].everything for name in ("ByName", "ByAnyName")] == [False, True]
