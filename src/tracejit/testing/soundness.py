"""Random stories with state, eager against compiled: ``python -m tracejit.testing.soundness --programs 1000``.

A story is a function over globals, closures, objects, modules, generators and tensors, called several times while all
of that changes between the calls. It is played twice from equal starts; after every step everything that can be seen
must be equal: results, state, version counters, histories, gradients, memory that is shared, random streams, errors.
A failure is printed as a script that runs by itself.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from .fuzz_check import Mismatch, moves
from .fuzz_cli import Tool
from .soundness_look import Difference, Look, compare, facts_differ
from .soundness_programs import write
from .soundness_stage import END, counts, play

#: Ahead of a story that is to run by itself.
HEADER = """if __name__ == "__main__":
    from tracejit.testing.soundness import rerun

    raise SystemExit(rerun(__file__))
"""
#: What compiled code says when a gradient is differentiated again after an input was changed, where the backward of
#: a custom function would find other Python state than the call, a checkpointed part other values, or the pass other
#: memory: docs/guards.md.
REFUSALS = (
    "reads Python state that has changed since the call",
    "a tensor that a checkpointed part reads",
    "was given other memory since the call",
    "a tensor that compiled code computes values from again",
)
#: Runs with other roundings that a difference must survive.
TRIALS = 8
_numbers = itertools.count()


class Refused(Exception):
    """Compiled code said that it cannot do what eager code does."""


def check(text: str) -> tuple[int, int]:
    """Play a story twice; the number of calls and of those that ran compiled. Raises :class:`Mismatch`.

    >>> check("@stage.compile\\ndef f(x):\\n    return x * 2\\nwith stage.step():\\n    y = f(stage.tensor(3))\\n")
    (1, 0)
    """
    filename = f"<story {next(_numbers)}>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        eager = play(text, filename, False)
        found = play(text, filename, True)
        last = eager.looks[-1]
        if last.step == END:
            raise ValueError(f"not a story: {last.error}")
        if len(eager.looks) != len(found.looks):
            raise Mismatch(f"{len(eager.looks)} steps eagerly, {len(found.looks)} compiled")
        for number, (expected, seen) in enumerate(zip(eager.looks, found.looks, strict=True)):
            difference = compare(expected, seen)
            if difference is not None:
                if any(text in seen.error for text in REFUSALS):
                    raise Refused
                if _sensitive(text, filename, eager.looks[: number + 1], seen, difference):
                    return 0, 0
                raise Mismatch(f"{expected.step}: {difference}")
    return counts(found.functions)


def _sensitive(
    text: str, filename: str, looks: Sequence[Look], seen: Look, difference: Difference
) -> bool:
    """Does noise of a rounding's size move eager code as far? Then nothing can be said about a difference.

    ``looks`` are those of the eager showing up to the step in which compiled code looked as in ``seen``.
    """
    path = difference.path
    for trial in range(TRIALS):
        again = play(text, filename, False, noise=trial).looks
        if len(again) < len(looks):
            return True
        if path and moves(
            looks[-1].arrays[path], seen.arrays.get(path), again[len(looks) - 1].arrays.get(path)
        ):
            return True
        if not path and any(map(facts_differ, looks, again)):
            return True
    return False


def try_seed(seed: int, size: int | None = None) -> tuple[str, str]:
    """Outcome ("", "eager", "sensitive", "refused" or "failed") and, for a failure, the script that shows it."""
    text = write(seed, size)
    try:
        calls, compiled = check(text)
    except Refused:
        return "refused", ""
    except Exception as error:  # whatever it is, the script shows it
        return "failed", report(seed, text, f"{type(error).__name__}: {error}")
    if not calls:
        return "sensitive", ""
    return ("" if compiled else "eager"), ""


def report(seed: int, text: str, message: str) -> str:
    """A story as a script that runs by itself."""
    return f"# seed {seed}: {message}\n{HEADER}\n{text}"


def rerun(path: str) -> int:
    """Check the story in a script printed by :func:`report`; the exit status."""
    try:
        calls, compiled = check(Path(path).read_text())
    except Mismatch as mismatch:
        print(mismatch)
        return 1
    print(f"equal; {compiled} of {calls} calls ran compiled")
    return 0


# --- cutting down -------------------------------------------------------------------------------------------------


def fails(text: str) -> bool:
    """Is there a mismatch that is not an error of a story cut too short?"""
    try:
        compile(text, "story", "exec")
        check(text)
    except Mismatch as mismatch:
        return "NameError" not in str(mismatch) and "UnboundLocal" not in str(mismatch)
    except Exception:
        return False
    return False


def shrink(text: str) -> str:
    """Leave out statements, and headers of statements, while some mismatch stays."""
    lines, before = text.splitlines(), 0
    while before != len(lines):
        before = len(lines)
        at = len(lines) - 1
        while at >= 0:
            for shorter in _shorter(lines, at):
                if fails("\n".join(shorter) + "\n"):
                    lines = shorter
                    break
            at = min(at, len(lines)) - 1
    return "\n".join(lines) + "\n"


def _shorter(lines: list[str], at: int) -> Iterator[list[str]]:
    """Without the statement at a line; without its header only; with ``pass`` in its place."""
    end = at + 1
    depth = _depth(lines[at])
    while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > depth):
        end += 1
    yield lines[:at] + lines[end:]
    inner = lines[at + 1 : end]
    if inner:
        step = _depth(next((i for i in inner if i.strip()), "")) - depth
        yield [*lines[:at], *(i[step:] for i in inner), *lines[end:]]
    if lines[at].strip() != "pass":
        yield [*lines[:at], " " * depth + "pass", *lines[end:]]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _show(seed: int, size: int | None) -> str:
    return report(seed, write(seed, size), "as generated")


def _smaller(seed: int, size: int | None) -> str:
    return report(seed, shrink(write(seed, size)), "cut down")


TOOL = Tool("soundness", __doc__, _show, try_seed, _smaller)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    return TOOL.main(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
