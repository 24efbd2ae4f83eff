"""Errors and warnings: what happened, where in the user's code, what to do.

Each class derives from the built-in that PyTorch raises for the same mistake, so ``except RuntimeError`` written
for PyTorch keeps working.
"""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parent)
#: Parts of the package that use it as a user would: their lines are user lines.
_USERS = tuple(str(Path(__file__).parent / part) for part in ("cli", "testing"))


def is_internal(filename: str) -> bool:
    """Does a file belong to this package, or was it made by it (the parts that use it as a user would left out)?"""
    return filename.startswith((_PACKAGE, "<tracejit ")) and not filename.startswith(_USERS)


def last_user_line(error: BaseException) -> tuple[tuple[str, int] | None, bool]:
    """File and line of the innermost frame of an error that is not this package's; is it the innermost of all?"""
    found, trace, last = None, error.__traceback__, False
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        last = not is_internal(filename)
        if last:
            found = filename, trace.tb_lineno
        trace = trace.tb_next
    return found, last


def user_frame(above: int = 1) -> FrameType | None:
    """The innermost frame that does not belong to this package; the first ``above`` are known to be of it.

    To look at a frame takes as long as to add two numbers: it is made when somebody asks for it.
    """
    frame: FrameType | None = sys._getframe(above)
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename not in _INTERNAL:
            if not is_internal(filename):
                return frame
            _INTERNAL.add(filename)
        frame = frame.f_back
    return None


#: Files of this package that were met so far.
_INTERNAL: set[str] = set()


def user_depth() -> int:
    """How far up the user's frame is, as ``warnings`` counts from the caller."""
    user, frame, depth = user_frame(), sys._getframe(1), 1
    while frame.f_back is not None and frame is not user:
        frame, depth = frame.f_back, depth + 1
    return depth


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the user's line."""
    warnings.warn(message, category, stacklevel=user_depth())


def user_line() -> str:
    """``file.py:31   h = x @ w1`` for the user's current line, or an empty string at no user frame."""
    frame = user_frame()
    if frame is None:
        return ""
    return describe_line(frame.f_code.co_filename, frame.f_lineno)


def describe_line(filename: str, lineno: int) -> str:
    """``file.py:31   source text`` for one line of a file."""
    text = linecache.getline(filename, lineno).strip()
    return f"{os.path.basename(filename)}:{lineno}" + (f"   {text}" if text else "")


class TracejitError(Exception):
    """Base of every error tracejit raises itself; the message ends with the user's line and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        where = user_line()
        parts = [message, *([f"    {where}"] if where else []), *([hint] if hint else [])]
        super().__init__("\n".join(parts))
        self.summary, self.hint = message, hint

    @property
    def advice(self) -> str:
        """What happened and what to do, without the line: for commands, whose lines are not their users'."""
        return "\n".join(part for part in (self.summary, self.hint) if part)


class ShapeError(TracejitError, RuntimeError):
    """Shapes that do not fit an operation."""


class DtypeError(TracejitError, RuntimeError):
    """Element types that do not fit an operation."""


class ArgumentError(TracejitError, TypeError):
    """An argument of the wrong Python type."""


class ArgumentValueError(TracejitError, ValueError):
    """An argument of the right type with an impossible value."""


class LinAlgError(TracejitError, RuntimeError):
    """Matrices for which a decomposition or an inverse does not exist."""


class DimensionError(TracejitError, IndexError):
    """A dimension or an index out of range."""


class DeviceError(TracejitError, RuntimeError):
    """A device that is unknown or not present."""


class NoDeviceError(DeviceError, AssertionError):
    """No GPU can be used at all: what PyTorch says with an ``AssertionError`` where it was built without CUDA."""


class OutOfMemoryError(DeviceError):
    """A device has not enough memory left."""


class HostMemoryError(TracejitError, RuntimeError, MemoryError):
    """The system has not enough memory left, or no tensor may be so large."""


class AutogradError(TracejitError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class ConversionError(TracejitError, RuntimeError):
    """A value that cannot become what it was asked for: the number of a tensor of several, a tensor of an object."""


class NumberError(ConversionError, ValueError):
    """A whole number of more than 64 bits, where one of a tensor is wanted."""


class CaptureError(TracejitError, RuntimeError):
    """With ``compile(strict=True)``: the function could not be captured or compiled."""


class VerificationError(TracejitError, AssertionError):
    """With ``compile(verify=True)``: compiled and eager results differ."""


class CompileWarning(UserWarning):
    """A function runs eagerly because a part of it could not be captured or compiled."""
