"""Random calls with numbers that change agree eager and compiled, and the comparison sees what it should."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tracejit as tj
from process_tools import python
from tracejit.testing import given_numbers
from tracejit.testing.fuzz_check import Mismatch
from tracejit.testing.given_numbers import Calls


@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_calls_agree(first: int) -> None:
    outcomes = []
    for seed in range(first, first + 30):
        outcome, text = given_numbers.try_seed(seed)
        assert outcome != "failed", text
        outcomes.append(outcome)
    assert outcomes.count("") > 15, "too few ran compiled"


def test_differences_are_seen_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        """Compiled code that takes every number for the first."""

        def __init__(self, function: Any) -> None:
            self.function, self.first = function, None
            self.stats = SimpleNamespace(compiled_calls=1)

        def __call__(self, x: Any, number: Any) -> Any:
            self.first = number if self.first is None else self.first
            return self.function(x, self.first)

    calls = Calls("x * k", "float32", (1.0, 1.0, 2.0, 3.0))
    assert given_numbers.check(calls) == ""
    monkeypatch.setattr(tj, "compile", Wrong)
    with pytest.raises(Mismatch, match=r"call 3 \(2.0\): 2 of 3 differ"):
        given_numbers.check(calls)
    assert given_numbers.shrink(calls).numbers == (2.0, 3.0)


def test_a_report_is_a_script() -> None:
    text = given_numbers.report(0, Calls("x + k", "int8", (float("inf"), 2)), "differs")
    done = python("-c", text)
    assert done.returncode == 0, done.stderr


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert given_numbers.main(["--programs", "2"]) == 0
    assert "seeds 0..: 2 programs" in capsys.readouterr().out
    assert given_numbers.main(["--show", "1"]) == 0
    assert "check(Calls(" in capsys.readouterr().out
