"""Custom operators in recorded runs: the code they stand for, which no code of the user's names.

An operator is found by its name, in a table of the package. So the walk from the recorded function does not come by
the function that the operator runs: it is looked at when it is called, and compared at every call after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from .checks import Bind, Check
from .reach import Walk
from .state import StateGuard


@dataclass(eq=False, slots=True)
class OperatorState(Check):
    """An operator runs the function it ran, under the Python state it ran under; ``holder`` is what is registered."""

    count: int
    guard: StateGuard

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        holds = bind(self.guard.holds)
        return f"len({bind(self.holder)}) != {self.count} or not {holds}()"

    def difference(self) -> str | None:
        """What changed, or None."""
        if len(self.holder) != self.count:
            return f"what is registered for {self.name} changed"
        changes = (check.difference() for check in self.guard.checks)
        return next((change for change in changes if change is not None), None)


def note(recorder: Any, name: str, registered: list[Any], function: Callable[..., Any]) -> None:
    """A recorded run is about to call ``function`` for the operator ``name``."""
    walk = Walk()
    if isinstance(function, FunctionType):
        walk.enter_code(function)
    else:
        walk.reach(function, f"what {name} calls")
    checks = walk.finish()
    if walk.suspect or walk.generators or walk.limits:
        recorder.unsupported(f"operator {name} may do more than compute")
    recorder.checks.append(OperatorState(registered, name, len(registered), StateGuard(checks)))
