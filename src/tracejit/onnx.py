"""Export to ONNX, which this package does not do: programs ask whether they are exported, and are not."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False: nothing is exported.

    >>> is_in_onnx_export()
    False
    """
    return False


def export(*_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``NotImplementedError``.

    >>> export(None)
    Traceback (most recent call last):
    NotImplementedError: programs cannot be exported to ONNX; save the state_dict() of the model instead
    """
    raise NotImplementedError(
        "programs cannot be exported to ONNX; save the state_dict() of the model instead"
    )
