"""Quantization, which this package does not do: where a model would begin and end it, values pass as they are."""

from __future__ import annotations

from typing import Any, NoReturn

from .nn import Identity

__all__ = [
    "DeQuantStub",
    "QuantStub",
    "convert",
    "prepare",
    "prepare_qat",
    "quantize_dynamic",
]


class QuantStub(Identity):
    """Where a model that is prepared would go over to whole numbers: hands on what it is given.

    >>> import tracejit as tj
    >>> QuantStub()(tj.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig


class DeQuantStub(QuantStub):
    """Where a model that is prepared would come back from whole numbers: hands on what it is given.

    >>> import tracejit as tj
    >>> DeQuantStub()(tj.ones(2))
    tensor([1., 1.])
    """


def prepare(*_: Any, **__: Any) -> NoReturn:
    """Refused. Raises ``NotImplementedError``.

    >>> prepare(None)
    Traceback (most recent call last):
    NotImplementedError: models are not quantized; bfloat16 and float16 (model.bfloat16(), autocast) are what there is
    """
    raise NotImplementedError(
        "models are not quantized; bfloat16 and float16 (model.bfloat16(), autocast) are what there is"
    )


prepare_qat = convert = quantize_dynamic = prepare
