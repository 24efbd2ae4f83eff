"""Each house rule reports the text that breaks it and passes the text that does not."""

from __future__ import annotations

import ast

import pytest

import house_rules as rules

KNOWN = {"tracejit", "tracejit.ops", "tracejit.ops.table", "tracejit.ir", "tracejit.ir.graph"}


def imported(source: str, module: str = "tracejit.ir.graph", is_package: bool = False):
    found = rules.imports_of(ast.parse(source), module, is_package, KNOWN)
    return [(item.target, item.at_load) for item in found]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy as np", [("numpy", True)]),
        ("from ..ops import table", [("tracejit.ops.table", True)]),
        ("from ..ops import add", [("tracejit.ops", True)]),
        ("from .. import ir", [("tracejit.ir", True)]),
        ("from tracejit.ops.table import OPS", [("tracejit.ops.table", True)]),
        ("def f():\n    import numba", [("numba", False)]),
        ("class A:\n    import numba", [("numba", True)]),
        ("try:\n    import numba\nexcept ImportError:\n    pass", [("numba", True)]),
        ("if TYPE_CHECKING:\n    import numba\nelse:\n    import os", [("os", True)]),
    ],
)
def test_imports_are_resolved(source: str, expected: list[tuple[str, bool]]):
    assert imported(source) == expected


def test_relative_imports_of_a_package_start_at_itself():
    assert imported("from . import graph", "tracejit.ir", True) == [("tracejit.ir.graph", True)]


@pytest.mark.parametrize(
    ("module", "target", "fine"),
    [
        ("tracejit.runtime.plan.plan", "tracejit.codegen.lower.lower", True),
        ("tracejit.codegen.lower.lower", "tracejit.runtime.plan.plan", False),
        ("tracejit.ops.table", "tracejit.dtypes", True),
        ("tracejit.dtypes", "tracejit.ops.table", False),
        ("tracejit.tensor", "tracejit.autograd.tape", True),
        ("tracejit.tensor", "tracejit.ir.graph", False),
        ("tracejit.ir.graph", "tracejit.tensor", False),
        ("tracejit.ops.table", "tracejit", False),
        ("tracejit.unplaced", "tracejit.ops", False),
        ("tracejit.ops.table", "tracejit.ops.unary", True),
    ],
)
def test_layers(module: str, target: str, fine: bool):
    assert (rules.layer_violation(module, target) is None) == fine


def test_cycles_are_found():
    assert rules.import_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert rules.import_cycle({"a": {"b", "c"}, "b": {"c"}, "c": {"numpy"}}) == []


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "open('/ho" + "me/me/data')",
        "see /wo" + "rk/notes",
        "index = 'https://py" + "pi.org/simple'",
        "fixes iss" + "ue #12",
        "done in this sess" + "ion",
    ],
)
def test_leftovers_are_found(line: str):
    assert len(rules.leftovers("fine\n" + line)) == 1
    assert rules.leftovers(line)[0].startswith("1: ")


@pytest.mark.parametrize(
    "line",
    ['@pytest.fixture(scope="session")', "a/home/b", "src/tracejit/ops", "the issue is rounding"],
)
def test_ordinary_text_is_no_leftover(line: str):
    assert rules.leftovers(line) == []


@pytest.mark.parametrize(
    "comment",
    ["x = f(y)", "import os", "return x", "if x > 0:", "else:", "for i in range(3):", "f(x)"],
)
def test_commented_code_is_found(comment: str):
    assert len(rules.commented_code(f"y = 1\n# {comment}\n")) == 1


@pytest.mark.parametrize(
    "comment", ["if this fails:", "return to the caller", "x = 1, twice", "for free: no cost"]
)
def test_prose_is_not_commented_code(comment: str):
    assert rules.commented_code(f"# {comment}\nx = 1  # y = f(x)\n") == []


def test_prints_are_found():
    assert rules.prints(ast.parse("def f():\n    print(1)\n")) == ["2: print"]
    assert rules.prints(ast.parse("log.print(1)\npprint(2)")) == []


def test_length_is_measured():
    long_file = "x = 1\n" * (rules.MAX_FILE_LINES + 1)
    long_function = "def f():\n" + "    x = 1\n" * rules.MAX_FUNCTION_LINES
    assert len(rules.too_long(long_file, ast.parse(long_file))) == 1
    assert len(rules.too_long(long_function, ast.parse(long_function))) == 1
    assert rules.too_long("x = 1\n", ast.parse("x = 1\n")) == []


def without_assertion(source: str) -> list[str]:
    return rules.tests_without_assertion({"t.py": ast.parse(source)})


@pytest.mark.parametrize(
    "body", ["f(1)", "assert True", "x = 1", "if x:\n        pass", "check(1)"]
)
def test_idle_tests_are_found(body: str):
    assert without_assertion(f"def test_a():\n    {body}\n") == ["t.py: test_a"]


@pytest.mark.parametrize(
    "body",
    [
        "assert f(1)",
        "with pytest.raises(ValueError):\n        f()",
        "np.testing.assert_allclose(a, b)",
        "outer()",
    ],
)
def test_asserting_tests_pass(body: str):
    helpers = "def outer():\n    inner()\n\ndef inner():\n    assert f()\n"
    assert without_assertion(f"{helpers}\ndef test_a():\n    {body}\n") == []
