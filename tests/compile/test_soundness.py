"""Random stories with state agree eager and compiled, and the comparison sees what it should."""

from __future__ import annotations

import ast
import collections
import re
from pathlib import Path

import pytest

from process_tools import python
from tracejit.codegen import scalar
from tracejit.testing import soundness
from tracejit.testing.fuzz_check import Mismatch
from tracejit.testing.soundness_programs import write
from tracejit.trace.state.state import StateGuard

SEEDS = range(24)
CHUNK = 12

#: A global that changes between calls.
STALE = """
scale = 0.5


@stage.compile
def program(x):
    unused = 3
    return x * scale


x0 = stage.tensor(3)
with stage.step():
    out0 = program(x0)
with stage.step():
    out1 = program(x0)
with stage.step():
    scale = 0.75
with stage.step():
    out2 = program(x0)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_random_stories_agree(first: int) -> None:
    outcomes: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + CHUNK):
        outcome, text = soundness.try_seed(seed)
        assert outcome != "failed", text
        outcomes[outcome] += 1
    assert outcomes[""] >= CHUNK // 4, f"too few stories ran compiled: {outcomes}"


def test_a_guard_that_always_holds_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    soundness.check(STALE)
    blind(monkeypatch)
    with pytest.raises(Mismatch, match=r"out2 = program\(x0\): out2: 3 of 3 differ"):
        soundness.check(STALE)
    smaller = soundness.shrink(STALE)
    assert soundness.fails(smaller)
    assert "unused" not in smaller
    assert "scale = 0.75" in smaller


@pytest.mark.parametrize(
    ("inside", "seen"),
    [
        ("kept.append(1)", "len of kept: eager 0, compiled 1"),
        ("x.add_(1)", "x0._version: eager 0, compiled 1"),
        ("x.detach().add_(1e-2)", "x0._version"),
        ("x.data.add_(1e-2)", "out0: 3 of 3 differ"),
        (
            "x.requires_grad_()",
            "out0: eager .* False, True, False.*, compiled .* True, False, True",
        ),
        ("tj.rand(2)", "random state: eager"),
        ("raise ValueError('no')", "eager: no error; compiled: ValueError: no"),
        ("return x[...]", "out0 and x0 share memory only where they are compiled"),
        ("return x", "x0: eager .*, compiled is out0"),
    ],
)
def test_what_only_one_showing_does_is_seen(inside: str, seen: str) -> None:
    text = (
        "import tracejit as tj\nkept = []\ndef program(x):\n    if stage.compiling:\n"
        f"        {inside}\n    return x.clone()\nx0 = stage.tensor(3)\nout0 = None\n"
        "with stage.step():\n    out0 = program(x0)\n"
    )
    with pytest.raises(Mismatch, match=seen):
        soundness.check(text)


#: Single precision between double arguments and double results, in a sum of what cancels.
CANCELS = """
import tracejit as tj

def program(x):
    v = x.float()
    small = (v - v.mean()).double().mean()
    if stage.compiling:
        return small + {more}, x + {wrong}
    return small, x.clone()


x0 = stage.tensor(64, dtype="float64")
with stage.step():
    out0 = program(x0)
"""


def test_a_rounding_of_the_narrowest_dtype_is_no_mismatch() -> None:
    assert soundness.check(CANCELS.format(more=1e-9, wrong=0)) == (0, 0)


@pytest.mark.parametrize(("more", "wrong", "path"), [(1e-5, 0, 0), (0, 1e-2, 1)])
def test_noise_explains_no_more_than_it_moves(more: float, wrong: float, path: int) -> None:
    """A value far from its roundings is wrong, and so is one beside a value that nothing can be said about."""
    with pytest.raises(Mismatch, match=rf"out0\[{path}\]"):
        soundness.check(CANCELS.format(more=more, wrong=wrong))


def found_in(seeds: range) -> list[str]:
    """Reports on the first of these stories that fails."""
    tried = map(soundness.try_seed, seeds)
    return next(([text] for outcome, text in tried if outcome == "failed"), [])


def test_random_stories_see_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scalar._SYMBOLS, ast.Mult, "+")
    monkeypatch.setattr(scalar, "_templates", {})
    assert found_in(range(100, 115))


def test_random_stories_see_a_guard_that_always_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)
    assert found_in(range(100, 115))


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards on state look at nothing."""
    known = StateGuard.__init__
    monkeypatch.setattr(StateGuard, "__init__", lambda self, *_: known(self, (), ()))


def test_a_result_that_shares_memory_is_seen() -> None:
    text = (
        "def program(x):\n    return x.data if stage.compiling else x.clone()\n"
        "x0 = stage.tensor(3)\nwith stage.step():\n    out0 = program(x0)\n"
    )
    with pytest.raises(Mismatch, match="share memory only where they are compiled"):
        soundness.check(text)


def test_stories_are_reproducible() -> None:
    assert write(7) == write(7)
    assert write(7) != write(8)


def test_every_story_is_one() -> None:
    """No name is missing and no template left open."""
    for seed in range(300):
        text = write(seed)
        ast.parse(text)
        assert "..." not in re.sub(r"\[\.\.\.[,\]]", "", text), text


def test_calls_at_the_same_time_are_compared() -> None:
    text = (
        "@stage.compile\ndef program(x, k=2):\n    if x.sum() > 0:\n        return x * k\n    return x - {k}\n"
        "for number in range(4):\n    x0 = stage.tensor(3, grad=True)\n"
        "    with stage.step():\n        out0 = stage.at_once(program, x0, k=number)\n"
    )
    calls, compiled = soundness.check(text.replace("{k}", "k"))
    assert calls == 24
    assert compiled
    with pytest.raises(Mismatch, match="out0"):
        soundness.check(text.replace("{k}", "int(stage.compiling)"))


def test_a_story_that_fails_outside_its_steps_is_none() -> None:
    with pytest.raises(ValueError, match="not a story: NameError"):
        soundness.check("missing\n")


def test_stories_cover_what_they_are_about() -> None:
    text = "".join(write(seed) for seed in range(1000))
    for part in (
        "while ",
        "break",
        "continue",
        "global ",
        "nonlocal ",
        "return ",
        "raise ",
        "except ",
        "no_grad",
        "inference_mode",
        "autograd.grad",
        ".backward(",
        "opt.step()",
        "manual_seed",
        "generator=gen",
        "F.dropout",
        "register_forward_hook",
        "handle.remove()",
        "load_state_dict",
        "net.eval()",
        "nn.Parameter",
        "__defaults__",
        "__code__",
        "__class__",
        "setattr",
        ".data",
        "[1:]",
        "requires_grad_",
        "layout='expanded'",
        "x0, y0 = base[:-1], base[1:]",
        "match ",
        "case ",
        "yield",
        "lambda ",
        "nonzero",
        "unique",
        ".split(",
        "dataclasses.replace",
        "contextlib.",
        "else:",
        "tj.func.",
        "Twice.apply",
        "plan.step()",
        "clip_grad_norm_",
        "set_default_dtype",
        "stage.at_once",
        "rate=True",
        "Box(",
        "deepcopy",
        "f'{v",
        "Going(",
        "(Root, gain=",
        "sized(",
    ):
        assert part in text, part


def test_a_failure_is_a_script(tmp_path: Path) -> None:
    text = soundness.report(0, STALE, "differs")
    ast.parse(text)
    path = tmp_path / "story.py"
    path.write_text(text)
    done = python(str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "equal; 1 of 3 calls ran compiled\n"


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert soundness.main(["--programs", "2", "--seed", "11", "--size", "3"]) == 0
    assert "seeds 11..: 2 programs" in capsys.readouterr().out
    assert soundness.main(["--programs", "3", "--seed", "11", "--size", "2", "--jobs", "2"]) == 0
    assert "seeds 11..: 3 programs" in capsys.readouterr().out
    assert soundness.main(["--show", "11"]) == 0
    assert "def program(" in capsys.readouterr().out
