"""Whether equal calls are to have equal bits, whatever was called before: PyTorch's names for it.

Results never depend on the number of threads or on chance. What eager programs compute often may be compiled behind
them and then differ in the last bit from what they computed before: not where this is switched on.
"""

from __future__ import annotations

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]

_MODES = {"default": 0, "warn": 1, "error": 2}
_debug_mode = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Have equal calls give equal bits, early and late in a process; nothing ever warns or fails because of it.

    >>> import tracejit as tj
    >>> tj.use_deterministic_algorithms(True)
    >>> tj.are_deterministic_algorithms_enabled()
    True
    >>> tj.use_deterministic_algorithms(False)
    """
    global _debug_mode
    _debug_mode = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Was that asked for?

    >>> import tracejit as tj
    >>> tj.are_deterministic_algorithms_enabled()
    False
    """
    return _debug_mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Was it asked for with ``warn_only``?

    >>> import tracejit as tj
    >>> tj.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _debug_mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same as a number or a word: 0 or "default", 1 or "warn", 2 or "error". ``RuntimeError`` for another mode.

    >>> import tracejit as tj
    >>> tj.set_deterministic_debug_mode("default")
    """
    global _debug_mode
    found = _MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if found not in _MODES.values():
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, 0, 1 or 2, "
            f"but got {debug_mode}"
        )
    _debug_mode = found


def get_deterministic_debug_mode() -> int:
    """0, or 1 with ``warn_only``, or 2.

    >>> import tracejit as tj
    >>> tj.get_deterministic_debug_mode()
    0
    """
    return _debug_mode
