"""What a run does beside computing while it is recorded: clocks, output, random generators of others, unknown code.

The code of a function tells what it can read; whether it prints or asks for the time is known best from the run itself.
So the calls of a recorded run are watched: one of code that the guard has not looked at, or that does more than
compute, ends the recording with that reason. Generators of random numbers are compared before and after.
"""

from __future__ import annotations

import dis
import gc
import importlib
import inspect
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...modes import MODES
from ...tensor import Tensor
from ...tensor_core import TensorCore
from ..recording import sent_logs
from . import logs as state_logs
from . import reads
from .garbage import notes_collection
from .generators import readers
from .package import asking_functions, told_settings
from .purity import ENVIRONMENT, OF_ENVIRONMENT, outside_builtin, outside_function
from .special import Environment
from .tensors import names_kept

if TYPE_CHECKING:
    from .ran_codes import RanCodes
    from .reach import Walk

#: Most code objects whose verdict is remembered.
_REMEMBERED = 20_000
_USER = "user"
#: Packages that compute for ``einx``: keys of its caches, and extents; and programs that it wrote, which have no name.
_HELPERS = frozenset({"frozendict", "sympy", "mpmath", ""})
_HELPED = frozenset({"einx"})
#: What abstract classes call the functions of a class by that tell what is one of it.
_OF_ABSTRACT = (ABCMeta.__instancecheck__.__code__, ABCMeta.__subclasscheck__.__code__)
_OF_ERRSTATE = tuple(
    method.__code__
    for name in ("__enter__", "__exit__")
    if isinstance(method := vars(np.errstate)[name], FunctionType)
)
_LOGS = "a logger"
_RESUME = dis.opmap["RESUME"]
#: What runs when a module is imported that was not loaded.
_IMPORTS: CodeType = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
#: What runs when a tensor has no attribute of some name.
_ABSENT = TensorCore.__getattr__.__code__
_verdicts: dict[int, tuple[CodeType, str | None]] = {}


class Listener:
    """Watches one run; made by :func:`listening`, told what to expect by :meth:`begin`."""

    def __init__(self) -> None:
        self.known: dict[int, CodeType] = {}
        self.reached: Mapping[int, Any] = {}
        self.states: list[tuple[str, Callable[[], Any], Any]] = []
        self.active = False
        self.base: CodeType | None = (
            None  # of what calls the function: nothing further out is of its doing
        )
        # The interpreter does not hold what it calls: when a finalizer that runs in between takes the hook away, it
        # is called once more.
        self.hook = self._event
        self.blind: str | None = None
        self.sending: sent_logs.Sending | None = None  # a logger handles a record
        self.names = reads.Names()
        self.ran: RanCodes | None = None
        self.learned = False  # did code run that did not count?
        self.imported: str | None = None  # a module that was to be loaded

    def begin(self, walk: Walk) -> None:
        """From here on: what ``walk`` found has a guard. Only where it found reasons to is every call watched."""
        self.names = walk.names
        if not walk.suspect:
            return
        self.known = {id(code): code for code in walk.codes}
        self.reached, self.ran = walk.reached, walk.ran
        self.states = [(name, read, read()) for name, read in readers(walk.generators)]
        if sys.getprofile() is None:
            self.active = True
            sys.setprofile(self.hook)
        else:
            self.blind = "a profiler is active, so its calls cannot be watched"

    def end(self) -> str | None:
        """Stop listening; which generator moved, in words, or None."""
        self.stop()
        states, self.states = self.states, []
        for name, read, before in states:
            if read() != before:
                return f"the state of {name}, a random generator, changed"
        return None

    def verdict(self, guard: Any, tensors: Sequence[Tensor], result: Any) -> str | None:
        """Why what was recorded cannot be trusted, or None."""
        if self.blind is not None:
            return self.blind
        if guard is not None and guard.limits:
            return str(guard.limits[0])
        for tensor in tensors:
            for key in vars(tensor):
                if key not in names_kept(tensor) and key in self.names:
                    return f"it uses the attribute {key!r} of a tensor that is an argument"
        return None

    def apart(self, recorder: Any, call: Callable[..., Any], *arguments: Any) -> Any:
        """What ``call`` returns, which is this package's own and calls nothing of the user's: it is not watched.

        An op is hundreds of calls of Python and NumPy, and a hook on each of them takes longer than many an op.
        """
        recorder.watched = None
        if sys.getprofile() is not self.hook:
            return call(*arguments)
        sys.setprofile(None)
        try:
            return call(*arguments)
        finally:
            if self.active:
                sys.setprofile(self.hook)
                recorder.watched = self

    def draw(
        self, recorder: Any, method: Callable[..., Any], given: Sequence[Any], kinds: Any
    ) -> Any:
        """What a method of a generator draws; what is of one of these ``kinds`` will be drawn in every call."""
        before = [read() for _, read, _ in self.states]
        found = self.apart(recorder, method, *given)
        for i, (name, read, known) in enumerate(self.states):
            if before[i] == known and type(found) in kinds:
                self.states[i] = name, read, read()
        return found

    def stop(self) -> None:
        """Take the hook away if it is there."""
        if self.active:
            self.active = False
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.sending is not None:
            if event == "return" and frame is self.sending.frame:
                done, self.sending = self.sending, None
                done.end()
            return
        if event == "call":
            reason = self._called(frame)
            caller = frame.f_back
        elif event == "c_call":
            settled = (
                self._is_guarded(argument)
                or _is_harmless(argument, frame)
                or notes_collection(argument, frame)
            )
            reason = None if settled else outside_builtin(argument)
            caller = frame
        else:
            return
        if reason is None or not self.active or not (reason is _USER or _by_user(caller)):
            return
        if not self._by_finalizer(frame) and not _by_import(frame):
            self._report(frame, reason)

    def _is_guarded(self, function: Any) -> bool:
        """Does a built-in method set what a guard compares, so that a value which stays is noticed after the run?"""
        owner = getattr(function, "__self__", None)
        return isinstance(owner, ContextVar) and id(owner) in self.reached

    def _by_finalizer(self, frame: FrameType | None) -> bool:
        """Did garbage collection call this: ``__del__``, a callback, or the end of a generator that was given up?

        Not what runs when objects go that the function can make: it is of its doing, and has a guard.
        """
        callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
        while frame is not None and frame.f_code is not self.base:
            code = frame.f_code
            unknown = id(code) not in self.known
            if code in callbacks or (unknown and (code.co_name == "__del__" or _goes_on(frame))):
                return True
            frame = frame.f_back
        return False

    def _called(self, frame: FrameType) -> str | None:
        """What a Python function is called if its call cannot be left out of a recording."""
        code = frame.f_code
        if id(code) in self.known:
            return None
        found = _verdicts.get(id(code))
        if found is None:
            if len(_verdicts) > _REMEMBERED:
                _verdicts.clear()
            found = _verdicts[id(code)] = (code, _verdict(code, frame.f_globals))
        recorder = MODES.recorder
        if found[1] is _LOGS:
            if recorder is not None and _by_user(frame.f_back):
                self.sending = sent_logs.sending(frame, recorder)
            if self.sending is not None:
                return None
            checks = [] if recorder is None else recorder.checks
            return state_logs.follow(frame, checks)
        ask = told_settings().get(id(code))
        if ask is not None or found[1] is ENVIRONMENT:
            self._depends(recorder, ask)
            return None
        if code is _ABSENT and recorder is not None:
            tensor, name = frame.f_locals["self"], frame.f_locals["name"]
            # Else the run itself decides what it has; so it does where the tensor is not finished, and has no memory.
            if not recorder.inside(tensor) and not _is_slot(tensor, name):
                recorder.absent(tensor, name, self.names)
            return None
        spared = found[1] is _USER and (_helps_library(frame) or _tells_classes(frame))
        return None if spared else found[1]

    def _depends(self, recorder: Any, ask: Callable[[], Any] | None) -> None:
        """The run hangs on what ``ask``, a function of this package, says, or on the environment."""
        if recorder is None:
            return
        if ask is not None:
            words = f"what {ask.__name__}() gives"
            recorder.checks.append(state_logs.asked(ask, "answer", ask, words))
        elif not self.names.calls(*OF_ENVIRONMENT):  # else it has a guard already
            recorder.checks.append(Environment())

    def _report(self, frame: FrameType, reason: str) -> None:
        recorder = MODES.recorder
        if recorder is None:
            return
        if reason is _USER:
            if self.ran is not None and self.ran.add(frame.f_code):
                self.learned = True
            if self.learned and recorder.trial is not None:
                return  # what is recorded is dropped; let backward go on to the other code it runs
            recorder.unsupported(
                f"it calls {frame.f_code.co_qualname}(), which its code does not name"
            )
        elif frame.f_code is _IMPORTS:
            self.imported = str(frame.f_locals["name"])
            recorder.unsupported(f"it loads the module {self.imported}")
        else:
            recorder.unsupported(f"it calls {reason}()")
        if not self.learned:
            self.stop()  # the first reason counts


def _verdict(code: CodeType, namespace: dict[str, Any]) -> str | None:
    owner = reads.owner_of(code, namespace)
    if owner == "package":
        return asking_functions().get(id(code))
    if owner == "stdlib":
        return _LOGS if state_logs.is_of_loggers(code) else outside_function(code, namespace)
    return _USER if owner == "user" and code.co_name != "__del__" else None


def _helps_library(frame: FrameType | None) -> bool:
    """Is this what a library computes with whose functions are known, called by it and not by the user?"""
    name = ""
    while frame is not None and (name := _root_of(frame)) in _HELPERS:
        frame = frame.f_back
    return name in _HELPED


def _is_slot(tensor: Any, name: str) -> bool:
    """Is this one of the places that every tensor has, which has nothing in it yet?"""
    return type(getattr(type(tensor), name, None)) is MemberDescriptorType


def _tells_classes(frame: FrameType) -> bool:
    """Does this package ask what class something is of, of an abstract class that somebody has put a function into?"""
    asking = frame.f_back
    if asking is None or asking.f_code not in _OF_ABSTRACT:
        return False
    while asking is not None and asking.f_code in _OF_ABSTRACT:
        asking = asking.f_back
    return asking is not None and reads.owner_of(asking.f_code, asking.f_globals) == "package"


def _root_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_harmless(function: Any, frame: FrameType) -> bool:
    """Does ``inspect`` ask how often functions may be wrapped, or ``errstate`` of NumPy set what it sets back?"""
    if function is sys.getrecursionlimit:
        return bool(frame.f_globals.get("__name__") == "inspect")
    return frame.f_code in _OF_ERRSTATE


def _by_user(frame: FrameType | None) -> bool:
    """Was this done for the user's code, and not for this package's own?"""
    while frame is not None:
        owner = reads.owner_of(frame.f_code, frame.f_globals)
        if owner in ("user", "package"):
            return owner == "user" and not _helps_library(frame)
        if owner == "numeric" and _root_of(frame) in _HELPED:
            return False
        frame = frame.f_back
    return False


def _by_import(frame: FrameType | None) -> bool:
    """Does this package import something, for which installed hooks are called?"""
    while frame is not None:
        if frame.f_code is _IMPORTS:
            return not _by_user(frame.f_back)
        frame = frame.f_back
    return False


def _goes_on(frame: FrameType) -> bool:
    """Is this a generator that started before?"""
    code, at = frame.f_code, frame.f_lasti
    if not code.co_flags & inspect.CO_GENERATOR:
        return False
    return not (code.co_code[at] == _RESUME and code.co_code[at + 1] == 0)


# --- the listener of the thread -------------------------------------------------------------------------------------


class _Thread(threading.local):
    listener: Listener | None = None


_THREAD = _Thread()


def current() -> Listener | None:
    """The listener of the recording that is going on in this thread."""
    return _THREAD.listener


def watching() -> Listener | None:
    """The same where every call of the recording is watched."""
    listener = _THREAD.listener
    return listener if listener is not None and listener.active else None


@contextmanager
def listening() -> Iterator[Listener]:
    """Watch the next recording in this thread."""
    before, listener = _THREAD.listener, Listener()
    _THREAD.listener = listener
    try:
        yield listener
    finally:
        listener.stop()
        _THREAD.listener = before
