"""Tracebacks of errors that leave compiled functions: the user's lines, the failing one last."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from ...errors import TracejitError
from ..state.reads import owner_of

_PACKAGE = Path(__file__).parent.parent.parent
#: What users do not call: an error that comes from here and is not of the package's own kind is a bug.
_MACHINERY = tuple(str(_PACKAGE / part) for part in ("codegen", "ir", "passes", "runtime", "trace"))


def shortened(error: Exception) -> TracebackType | None:
    """The traceback of ``error`` without this package's frames; that of a bug keeps them, since they tell where."""
    parts = _parts(error)
    kept = [part for part in parts if _owner(part) != "package"]
    last = parts[-1].tb_frame.f_code.co_filename if parts else ""
    if last.startswith(_MACHINERY) and not isinstance(error, TracejitError):
        return error.__traceback__
    context = error.__context__
    if context is not None and all(_owner(part) != "user" for part in _parts(context)):
        error.__suppress_context__ = True  # how the package came to notice is no news to the user
    found = None
    for part in reversed(kept):
        found = TracebackType(found, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return found


def _parts(error: BaseException) -> list[TracebackType]:
    """The entries of a traceback, outermost first."""
    parts = []
    trace = error.__traceback__
    while trace is not None:
        parts.append(trace)
        trace = trace.tb_next
    return parts


def _owner(part: TracebackType) -> str:
    return owner_of(part.tb_frame.f_code, part.tb_frame.f_globals)
