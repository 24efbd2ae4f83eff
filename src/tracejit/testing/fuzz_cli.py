"""The command line that the generators of random programs share."""

from __future__ import annotations

import argparse
import collections
import functools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

#: Seconds between two lines that tell how far a run is.
PROGRESS = 60.0


@dataclass(frozen=True)
class Tool:
    """A generator: ``show`` prints the program of a seed, ``attempt`` compares, ``smaller`` cuts a failure down.

    ``attempt`` gives an outcome ("" where all agreed) and, where it is "failed", a report. All take a seed and a size.
    """

    name: str
    description: str | None
    show: Callable[[int, int | None], str]
    attempt: Callable[[int, int | None], tuple[str, str]]
    smaller: Callable[[int, int | None], str]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """The command line."""
        parser = argparse.ArgumentParser(
            prog=f"python -m tracejit.testing.{self.name}", description=self.description
        )
        parser.add_argument("--programs", type=int, default=200)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--size", type=int, default=None, help="statements per program")
        parser.add_argument(
            "--show", type=int, default=None, help="print the program of a seed and stop"
        )
        parser.add_argument(
            "--shrink",
            action="store_true",
            help="print failures with what does not matter left out",
        )
        parser.add_argument(
            "--keep-going", action="store_true", help="do not stop at the first failure"
        )
        parser.add_argument("--jobs", type=int, default=1, help="processes to share the programs")
        chosen = parser.parse_args(arguments)
        if chosen.show is not None:
            print(self.show(chosen.show, chosen.size))
            return 0
        return self._many(chosen)

    def _attempts(
        self, seeds: Sequence[int], size: int | None, jobs: int
    ) -> Iterator[tuple[int, str, str]]:
        """Seeds with the outcome and the report of each."""
        attempt = functools.partial(_attempt, self.attempt, size)
        if jobs == 1:
            yield from map(attempt, seeds)
            return
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            yield from pool.imap(attempt, seeds, chunksize=4)

    def _many(self, chosen: argparse.Namespace) -> int:
        outcomes: collections.Counter[str] = collections.Counter()
        start = told = time.perf_counter()
        seeds = range(chosen.seed, chosen.seed + chosen.programs)

        def listing() -> str:
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(outcomes.items()))
            seconds = time.perf_counter() - start
            return f"{sum(outcomes.values())} programs, {kinds}; {seconds:.1f} s"

        for seed, outcome, text in self._attempts(seeds, chosen.size, chosen.jobs):
            outcomes[outcome or "agreed"] += 1
            if time.perf_counter() - told > PROGRESS:
                told = time.perf_counter()
                print(f"so far {listing()}", file=sys.stderr, flush=True)
            if outcome == "failed":
                print(text)
                if chosen.shrink:
                    print("# smaller:\n" + self.smaller(seed, chosen.size))
                sys.stdout.flush()
                if not chosen.keep_going:
                    break
        print(f"seeds {chosen.seed}..: {listing()}")
        return 1 if outcomes["failed"] else 0


def _attempt(
    attempt: Callable[[int, int | None], tuple[str, str]], size: int | None, seed: int
) -> tuple[int, str, str]:
    return seed, *attempt(seed, size)
