"""Random programs, eager against compiled: ``python -m tracejit.testing.fuzz --programs 2000 --seed 0``.

A failure prints the seed and the program as Python that runs by itself; ``--show SEED`` prints any program.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from .fuzz_check import Mismatch, check
from .fuzz_cli import Tool
from .fuzz_programs import Grower, Program


def generate(seed: int, size: int | None = None) -> Program:
    """The program of a seed."""
    return Grower(seed, size).run()


def report(program: Program, message: str) -> str:
    """A failure as a file that shows it again."""
    inputs = "\n".join(f"#   {i}" for i in program.inputs)
    return (
        f"# seed {program.seed}: {message}\n{inputs}\nimport tracejit as tj\nfrom tracejit.nn import functional as F\n"
        f"from tracejit.testing.fuzz import check, generate\n\n{program.source()}\n"
        f"check(generate({program.seed}))\n"
    )


def shrink(program: Program) -> Program:
    """Drop outputs and statements while some mismatch stays."""
    best = program
    for output in list(best.outputs):
        smaller = Program(
            best.seed, best.inputs, best.statements, [o for o in best.outputs if o != output]
        )
        if smaller.outputs and fails(smaller):
            best = smaller
    for statement in reversed(list(best.statements)):
        rest = [s for s in best.statements if s is not statement]
        smaller = Program(best.seed, best.inputs, rest, best.outputs)
        if fails(smaller):
            best = smaller
    return best


def fails(program: Program) -> bool:
    """Is there a mismatch that is not an error of a program cut too short?"""
    try:
        check(program)
    except Mismatch as mismatch:
        return "NameError" not in str(mismatch)
    except Exception:
        return False
    return False


def try_seed(seed: int, size: int | None = None) -> tuple[str, str]:
    """Outcome ("", "skipped", "eager" or "failed") and, for a failure, its report."""
    program = generate(seed, size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        try:
            return check(program), ""
        except Exception as error:
            return "failed", report(program, f"{type(error).__name__}: {error}")


def _show(seed: int, size: int | None) -> str:
    return report(generate(seed, size), "as generated")


def _smaller(seed: int, size: int | None) -> str:
    return shrink(generate(seed, size)).source()


TOOL = Tool("fuzz", __doc__, _show, try_seed, _smaller)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    return TOOL.main(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
