"""A compiled function seen as a method, and the counts it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .trace.replay.tracebacks import shortened

if TYPE_CHECKING:
    from .jit import CompiledFunction


def name_of(function: Any) -> str:
    """What a callable without a name is called."""
    inner = getattr(function, "func", None)
    return getattr(inner, "__name__", None) or type(function).__name__


class Stats:
    """Counts of one compiled function since it was made."""

    def __init__(self) -> None:
        self.other_calls = 0  # calls that Python looked up
        self.other_compiled_calls = 0
        self.eager_calls = 0
        self.recordings = 0
        self.served = np.zeros(1, dtype=np.int64)  # calls that native code served

    @property
    def calls(self) -> int:
        """Calls of any kind."""
        return self.other_calls + int(self.served[0])

    @property
    def compiled_calls(self) -> int:
        """Calls that compiled code served."""
        return self.other_compiled_calls + int(self.served[0])

    def __repr__(self) -> str:
        return (
            f"Stats(calls={self.calls}, compiled_calls={self.compiled_calls}, eager_calls={self.eager_calls}, "
            f"recordings={self.recordings})"
        )


class BoundFunction:
    """A compiled function as a method of an instance; everything else is the function's."""

    __slots__ = ("__func__", "__self__", "__weakref__")

    def __init__(self, function: CompiledFunction, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled function on the instance."""
        try:
            return self.__func__(self.__self__, *args, **kwargs)
        except Exception as error:
            error.__traceback__ = shortened(error)
            raise

    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """The function's profile of calls on the instance."""
        return self.__func__.profile(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundFunction):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<compiled method {self.__func__.name} of {type(self.__self__).__name__} object>"
