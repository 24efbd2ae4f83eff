"""Random programs, eager against compiled: ``python -m tracejit.testing.fuzz --programs 2000 --seed 0``.

A failure prints the seed and the program as Python that runs by itself; ``--show SEED`` prints any program.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Sequence

from .fuzz_check import Mismatch, check
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tracejit.testing.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=None, help="statements per program")
    parser.add_argument(
        "--show", type=int, default=None, help="print the program of a seed and stop"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="print failures with what does not matter left out"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="do not stop at the first failure"
    )
    chosen = parser.parse_args(arguments)
    if chosen.show is not None:
        print(report(generate(chosen.show, chosen.size), "as generated"))
        return 0
    return _many(chosen)


def _many(chosen: argparse.Namespace) -> int:
    outcomes: collections.Counter[str] = collections.Counter()
    start = time.perf_counter()
    for seed in range(chosen.seed, chosen.seed + chosen.programs):
        outcome, text = try_seed(seed, chosen.size)
        outcomes[outcome or "agreed"] += 1
        if outcome == "failed":
            print(text)
            if chosen.shrink:
                print("# smaller:\n" + shrink(generate(seed, chosen.size)).source())
            sys.stdout.flush()
            if not chosen.keep_going:
                break
    listing = ", ".join(f"{n} {k}" for k, n in sorted(outcomes.items()))
    print(
        f"seeds {chosen.seed}..: {sum(outcomes.values())} programs, {listing}; {time.perf_counter() - start:.1f} s"
    )
    return 1 if outcomes["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
