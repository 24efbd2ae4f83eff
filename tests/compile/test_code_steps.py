"""Instructions of functions read without ``dis``: the names and constants are those it tells."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import tracejit
from tracejit.trace.state.reads import codes_in, reads_of, steps


def functions_of(module: types.ModuleType) -> Iterator[types.FunctionType]:
    for value in vars(module).values():
        for member in (value, *(vars(value).values() if isinstance(value, type) else ())):
            found = getattr(member, "__func__", member)
            if isinstance(found, types.FunctionType):
                yield found


def told(code: types.CodeType) -> list[tuple[str, Any]]:
    """What ``dis`` says; some versions leave out the names of keyword arguments."""
    referring = {*dis.hasname, *dis.hasconst, *dis.hasfree} - {dis.opmap.get("KW_NAMES")}
    return [
        (i.opname, i.argval if i.opcode in referring else None) for i in dis.get_instructions(code)
    ]


def read(code: types.CodeType) -> list[tuple[str, Any]]:
    return [(name, None if name == "KW_NAMES" else value) for name, value in steps(code)]


@pytest.mark.parametrize("name", ["argparse", "dataclasses", "inspect", "logging", "typing"])
def test_steps_are_those_of_dis(name: str) -> None:
    __import__(name)
    codes = {c for f in functions_of(sys.modules[name]) for c in codes_in(f.__code__)}
    assert len(codes) > 40
    for code in codes:
        assert repr(read(code)) == repr(told(code)), code


def test_steps_of_functions_that_ran_are_the_same() -> None:
    """The interpreter puts other instructions in the place of those that run often."""

    def often(x: Any) -> Any:
        return sum(x.real + y for y in range(3)) + len([x.imag])

    before = read(often.__code__)
    for _ in range(100):
        often(1)
    assert read(often.__code__) == before == told(often.__code__)


@pytest.mark.parametrize("count", [1, 127, 128, 255, 256, 257, 1000])
def test_names_and_constants_beyond_one_byte(count: int) -> None:
    body = "".join(f"    a{i} = g{i}.b{i} + {i}.5\n" for i in range(count))
    namespace: dict[str, Any] = {}
    exec(f"def f():\n{body}    return g{count - 1}.m{count}(k=1)", namespace)
    code = namespace["f"].__code__
    assert read(code) == told(code)
    found = reads_of(code)
    assert found.globals == {f"g{i}" for i in range(count)}
    assert {f"b{i}" for i in range(count)} | {f"m{count}"} <= found.attributes


def test_super_and_loaded_modules() -> None:
    class Child(tracejit.nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + super().extra_repr.__len__()

    found = reads_of(Child.forward.__code__)
    assert {"forward", "extra_repr"} <= found.attributes
    assert read(Child.forward.__code__) == told(Child.forward.__code__)

    def loaded() -> Any:
        import sys

        return sys.modules["json"]

    def other(modules: Any) -> Any:
        return modules.sys

    assert "sys.modules" in reads_of(loaded.__code__).around
    assert "sys.modules" not in reads_of(other.__code__).around


def test_asking_whether_a_module_is_loaded_leads_nowhere() -> None:
    def asks(name: str) -> Any:
        import sys

        return name in sys.modules and name not in sys.modules

    def both(name: str) -> Any:
        import sys

        return name in sys.modules and sys.modules[name]

    assert "sys.modules" not in reads_of(asks.__code__).around
    assert "sys.modules" in reads_of(both.__code__).around


def test_a_text_is_no_attribute_unless_attributes_are_read_by_text() -> None:
    def item(state: Any) -> Any:
        return state.get("_version")

    def by_text(state: Any) -> Any:
        return getattr(state, "_version")  # noqa: B009

    def attribute(state: Any) -> Any:
        return state._version

    assert "_version" not in reads_of(item.__code__).around
    assert "_version" in reads_of(by_text.__code__).around
    assert "_version" in reads_of(attribute.__code__).around
