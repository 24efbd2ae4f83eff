"""Random programs, eager against compiled, and proof that the comparison sees what it should."""

from __future__ import annotations

import ast
import collections
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracejit.codegen import scalar
from tracejit.testing import fuzz, fuzz_check
from tracejit.testing.fuzz_check import Mismatch, build, check, run
from tracejit.testing.fuzz_programs import Input, Program, Statement

SEEDS = range(75)
CHUNK = 15


def plain(text: str, **options: Any) -> Program:
    """A one-line program of a vector."""
    inputs = [Input("x", (40,), "float32", "contiguous", options.get("grad", False), False)]
    return Program(0, inputs, [Statement((f"y = {text}",), "y")], ["y"])


def break_operator(monkeypatch: pytest.MonkeyPatch, node: type[ast.operator], symbol: str) -> None:
    """Make kernels print another operator than the op table says."""
    monkeypatch.setitem(scalar._SYMBOLS, node, symbol)
    monkeypatch.setattr(scalar, "_templates", {})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_random_programs_agree(first: int) -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + CHUNK):
        outcome, text = fuzz.try_seed(seed)
        assert outcome != "failed", text
        outcomes[outcome] += 1
    assert outcomes[""] >= CHUNK - 4, f"too many programs were not compared: {outcomes}"


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 8))
def test_small_programs_agree(seed: int, size: int) -> None:
    outcome, text = fuzz.try_seed(seed, size)
    assert outcome != "failed", text


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    break_operator(monkeypatch, ast.Add, "-")
    program = plain("x + 0.25")
    with pytest.raises(Mismatch, match=r"call 2 .*output 0"):
        check(program)


def test_a_wrong_gradient_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    break_operator(monkeypatch, ast.Mult, "+")
    with pytest.raises(Mismatch):
        check(plain("tj.sin(x)", grad=True))


def test_another_layout_is_no_matter_of_roundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that moves the result says nothing about what is no number."""
    program = plain("(tj.floor(x * 1000) % 2).sum()")
    known = fuzz_check._facts
    calls = iter(range(100))
    monkeypatch.setattr(fuzz_check, "_facts", lambda *a: (*known(*a), next(calls) == 3))
    with pytest.raises(Mismatch, match="call 2"):
        check(program)


def test_a_failure_is_printed_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    break_operator(monkeypatch, ast.Sub, "+")
    program = plain("x - 0.25")
    program.statements.append(Statement(("z = x * 2",), "z"))
    program.outputs.append("z")
    smaller = fuzz.shrink(program)
    assert smaller.outputs == ["y"]
    assert len(smaller.statements) == 1
    text = fuzz.report(smaller, "differs")
    assert "def program(x):" in text
    ast.parse(text)


def test_programs_are_reproducible() -> None:
    assert fuzz.generate(7).source() == fuzz.generate(7).source()
    assert fuzz.generate(7).source() != fuzz.generate(8).source()


def test_programs_cover_the_language() -> None:
    """What the generator is for shows up in its programs."""
    text = "".join(fuzz.generate(seed).source() for seed in range(240))
    for part in (
        "sum(",
        "keepdim",
        "reshape",
        "permute",
        "expand",
        "@",
        "tj.cat",
        "tj.stack",
        "tj.where",
        "add_(",
        "if ",
        ".to(",
        "groups=",
        "scaled_dot_product_attention",
        "einsum",
        "interpolate",
        "scatter_reduce",
        "stable=True",
        "label_smoothing",
        "batch_norm",
        "tj.complex",
    ):
        assert part in text, part


def test_what_is_refused_must_be_refused_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position outside, in the second values only: compiled code says so, and a comparison without errors fails."""
    inputs = [
        Input("x", (4,), "float32", "contiguous", False, False),
        Input("i", (3,), "int64", "contiguous", False, False, 0, 4, False, True),
    ]
    program = Program(
        1, inputs, [Statement(("y = x[i]",), "y"), Statement(("z = x * 2",), "z")], ["z"]
    )
    assert check(program) == "refused"
    known = fuzz_check.run

    def forgiving(function: Any, *rest: Any) -> Any:
        found = known(function, *rest)
        found.error *= not hasattr(function, "stats")
        return found

    monkeypatch.setattr(fuzz_check, "run", forgiving)
    with pytest.raises(Mismatch, match=r"OutOfRangeError.*compiled: no error"):
        check(program)


def test_an_error_of_the_program_is_an_outcome() -> None:
    program = plain("x.reshape((3, 3))")
    assert "ShapeError" in run(build(program), program, 0).error
    assert check(program) == "refused"


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--programs", "2", "--seed", "11", "--size", "4"]) == 0
    assert "2 programs" in capsys.readouterr().out
    assert fuzz.main(["--show", "11"]) == 0
    assert "def program(" in capsys.readouterr().out
