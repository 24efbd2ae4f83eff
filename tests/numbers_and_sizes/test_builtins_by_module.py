"""Built-in functions that code finds in the module ``builtins``, where numbers vary: as in plain Python."""

from __future__ import annotations

import builtins
import functools
import random
import sys
from typing import Any

import pytest

import tracejit as tj
from tracejit.bytecode import attributes_not_only_called, not_only_called
from tracejit.trace.numbers.sums import CARRIES
from trap_tools import user_module

VALUES = "[a, b, 1.0, -b]"
#: What a function does after ``import builtins``, and whether numbers may vary in it.
FOLLOWED = (
    f"return x * builtins.sum({VALUES})",
    "return x * builtins.sum([v.item() for v in x], start=a)",
    "return x * builtins.float(a) + builtins.int(a * 10)",
    "return x[: builtins.len(x)] * a + x.sum() * b",
    "return x * (a if builtins.isinstance(a, builtins.float) else -b)",
)
#: The same where the module is found in another way: those that round otherwise there must have the numbers.
FOUND = (
    f"import builtins as found; return x * found.sum({VALUES})",
    f"from builtins import sum as add_up; return x * add_up({VALUES})",
    f"return x * getattr(builtins, 'sum')({VALUES})",
    f"return x * vars(builtins)['sum']({VALUES}) + sum([a, b])",
    f"return x * len.__self__.sum({VALUES}) + sum([a, b])",
    f"return x * HELD[0].sum({VALUES})",
    f"return x * applied(builtins.sum, {VALUES})",
    f"return x * sys.modules['builtins'].sum({VALUES})",
)
TYPES = "return x * (a if builtins.type(a) is builtins.float else -b)"


def _module(body: str) -> Any:
    lines = "\n    ".join(body.split("; "))
    return user_module(
        "import builtins, sys\n"
        "HELD = [builtins]\n"
        "def applied(function, values):\n    return function(values)\n"
        f"def step(x, a, b):\n    {lines}\n"
    )


def _compared(module: Any) -> Any:
    """A function, compiled, after calls that gave what it gives itself."""
    compiled, rng = tj.compile(module.step), random.Random(0)
    for _ in range(6):
        x = tj.tensor([rng.uniform(-1.0, 1.0) for _ in range(5)], dtype=tj.float64)
        a, b = rng.random(), 1e17 * rng.random()
        assert compiled(x, a, b).tolist() == module.step(x, a, b).tolist()
    return compiled


@pytest.mark.parametrize("body", [*FOLLOWED, *FOUND, TYPES])
def test_they_give_what_they_give_in_plain_python(body: str) -> None:
    module = _module(body)
    before = dict(vars(module))
    assert _compared(module).stats.eager_calls > 0
    assert vars(module) == before


@pytest.mark.parametrize("body", [FOLLOWED[0], *FOLLOWED[3:]])
def test_numbers_vary_where_they_are_called(body: str) -> None:
    stats = _compared(_module(body)).stats
    assert (stats.recordings, stats.compiled_calls) == (2, 4)


@pytest.mark.skipif(not CARRIES, reason="sums are additions one after the other before Python 3.12")
def test_numbers_are_constants_where_sums_are_found_in_other_ways() -> None:
    assert "the code uses 'sum'" in str(_compared(_module(FOUND[0])).explain())


def test_what_a_program_puts_there_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(FOLLOWED[0])
    monkeypatch.setattr(builtins, "sum", lambda values: functools.reduce(max, values, 0.0))
    assert _compared(module).stats.eager_calls > 0


CACHED = """
from held import cached

def step(x, n):
    cached.cache_parameters()
    return x * cached(n) * cached.__wrapped__(n)
"""


def test_what_is_read_of_an_imported_function_with_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 announces such calls where it loads the function."""

    @functools.lru_cache
    def cached(n):
        return n + 0.5

    monkeypatch.setitem(sys.modules, "held", user_module("", "held", cached=cached))
    module = user_module(CACHED)
    compiled = tj.compile(module.step)
    for n in (0.5, 1.5, 2.5, 3.5):
        assert compiled(tj.ones(2), n).tolist() == [(n + 0.5) ** 2] * 2


NAMED = """
called = lambda x: named(x)
method = lambda x: (named.sum(x), named.len(x, named.len(x)))
attribute = lambda x: (named.float.fromhex(x), named.sum(x))
argument = lambda x: x(named.sum, named.len(x))
itself = lambda x: x(named)
"""


@pytest.mark.parametrize("before", ["", "import math as named"])
def test_only_what_is_loaded_for_a_call_is_called(before: str) -> None:
    """Names of modules that were imported are read by other instructions."""
    module = user_module(before + NAMED)
    ways = {
        "called": (False, {""}),
        "method": (True, set()),
        "attribute": (True, {"float"}),
        "argument": (True, {"sum"}),
        "itself": (True, {""}),
    }
    for name, (more, attributes) in ways.items():
        code = getattr(module, name).__code__
        assert ("named" in not_only_called(code)) is more
        assert attributes_not_only_called(code, "named") == attributes
