"""compile(): functions that warn, under the filters of each call and once for each line as in eager code."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from trap_tools import user_module


def outcomes(source: str, compiling: bool, action: Callable[[int], str]) -> tuple[list[Any], Any]:
    """What is warned of in each call of ``f`` in a module, or the error; and ``f``."""
    module = user_module(source, name="warner")
    module.f = f = tj.compile(module.f) if compiling else module.f
    found: list[Any] = []
    with warnings.catch_warnings():
        for k in range(12):
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter(action(k))  # type: ignore[arg-type]
                try:
                    result: Any = module.call(tj.ones(2) * k).tolist()
                except Warning as error:
                    result = repr(error)
                seen = [(str(w.message), w.category, w.filename, w.lineno) for w in shown]
                found.append((result, seen))
    return found, f


CASES = {
    "its own line": "import warnings\ndef f(x):\n    warnings.warn('own')\n    return x * 2\ncall = lambda x: f(x)\n",
    "the line of the call": (
        "import warnings\ndef f(x):\n    warnings.warn('up', FutureWarning, stacklevel=2)\n    return x * 2\n"
        "def call(x):\n    if x.sum() > 8:\n        return f(x)\n    return f(x)\n"
    ),
    "further up": (
        "import warnings\ndef f(x):\n    inner()\n    return x * 2\n"
        "def inner():\n    warnings.warn('up', stacklevel=4)\n"
        "def outer(x):\n    return f(x)\ndef call(x):\n    return outer(x)\n"
    ),
    "a line inside": (
        "from warnings import warn\ndef old(x):\n    warn('old', DeprecationWarning, stacklevel=2)\n    return x\n"
        "def f(x):\n    return old(x) * 2\ncall = lambda x: f(x)\n"
    ),
}


@pytest.mark.parametrize("action", ["always", "default", "once", "ignore", "error"])
@pytest.mark.parametrize("case", CASES)
def test_as_in_eager_code(case: str, action: str) -> None:
    eager, _ = outcomes(CASES[case], False, lambda k: action)
    found, f = outcomes(CASES[case], True, lambda k: action)
    assert found == eager
    assert f.stats.compiled_calls >= (0 if action == "error" else 9), f.explain()


def test_filters_that_change() -> None:
    actions = ["always", "always", "ignore", "error", "always"]
    eager, _ = outcomes(CASES["its own line"], False, lambda k: actions[k % 5])
    found, f = outcomes(CASES["its own line"], True, lambda k: actions[k % 5])
    assert found == eager
    assert f.stats.compiled_calls >= 3, f.explain()


@pytest.mark.parametrize(
    "body",
    [
        "with warnings.catch_warnings():\n        warnings.simplefilter('ignore')\n        warnings.warn('inside')",
        "warnings.warn(UserWarning('made'))",
        "warnings.warn(f'sum {x.sum().item():.0f}')",
    ],
)
def test_other_ways_to_warn(body: str) -> None:
    source = f"import warnings\ndef f(x):\n    {body}\n    return x * 2\ncall = lambda x: f(x)\n"
    eager, _ = outcomes(source, False, lambda k: "always")
    found, _ = outcomes(source, True, lambda k: "always")
    assert found == eager


def test_warnings_keep_their_order_with_printed_lines() -> None:
    source = "import warnings\ndef f(x):\n    print('a')\n    warnings.warn('w')\n    print('b')\n    return x\n"

    def lines(compiling: bool) -> str:
        module = user_module(source)
        f = tj.compile(module.f) if compiling else module.f
        out = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_: print(message)  # type: ignore[assignment]
            for _ in range(5):
                f(tj.ones(2))
        assert module.warnings is warnings
        return out.getvalue()

    assert lines(True) == lines(False) == "a\nw\nb\n" * 5
