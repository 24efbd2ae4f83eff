"""Which code the calls of a function run: what a guard is about where all code that could run leads too far.

What the code of a function *can* read is found from its names, and names say little in a large library: an attribute
read by a computed name is any attribute, and a registry of functions leads to all of them. Then one call runs eagerly
while the code it runs is collected. From then on, only the state that this code can read is guarded: what decides
about a run is what the code of the run reads, and functions that did not run count by being the same functions. A
recorded run that comes to other code is given up, and that code counts from then on too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .reads import owner_of

__all__ = ["RanCodes", "WideError"]


class WideError(Exception):
    """All that the code of a function can read is too much to be guarded; nothing has run yet."""


class RanCodes:
    """The code that calls of one function have run; ``known`` is False while all code counts.

    >>> ran = RanCodes()
    >>> ran.known, ran.run(lambda x: x + 1, (1,), {}), ran.known
    (False, 2, True)
    """

    def __init__(self) -> None:
        self.known = False
        self.wanted = False  # is it to be collected, although all code could be guarded?
        self._codes: dict[int, CodeType] = {}  # by identity: comparing code takes long

    def __contains__(self, code: CodeType) -> bool:
        return id(code) in self._codes

    def add(self, code: CodeType) -> bool:
        """Count ``code`` too; False where it counted before."""
        count = len(self._codes)
        self._codes.setdefault(id(code), code)
        return len(self._codes) > count

    @property
    def possible(self) -> bool:
        """Can code be collected? Not twice, and not while somebody else listens to the calls of this thread."""
        return not self.known and sys.getprofile() is None

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a call, whose code is collected."""
        hook = self._event  # one object: it is taken away only where it is still there
        sys.setprofile(hook)
        try:
            return function(*args, **kwargs)
        finally:
            if sys.getprofile() is hook:
                sys.setprofile(None)
            self.known = True

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code not in self and owner_of(code, frame.f_globals) == "user":
            self.add(code)
