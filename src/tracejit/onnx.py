"""Export to ONNX, which this package does not do: programs ask whether they are exported, and are not."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

from .made_modules import make_module

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]


class TrainingMode(enum.Enum):
    """For what an export would be made."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """As what an export would write operators."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


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


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accepted and without effect: libraries tell at import how their operators would be exported.

    >>> register_custom_op_symbolic("shop::nms", print, 11)
    """


def _parse_args(*kinds: str) -> Callable[[Any], Any]:
    """A decorator that leaves a function as it is: no export calls it."""
    return lambda function: function


make_module("onnx.symbolic_helper", parse_args=_parse_args)
for _opset in range(
    7, 21
):  # the sets of operators; libraries write down functions over them, which no export calls
    make_module(f"onnx.symbolic_opset{_opset}")
