"""What stands before every op while a recording has sizes that only a run tells."""

from __future__ import annotations

from typing import Any

from ...dispatch import apply
from ...extents import hint
from ...modes import MODES
from ...tensor import Tensor
from ...types import TensorType
from .found_sizes import has_extents, plain


class Door:
    """Before every op while extents are about: arrays are given numbers, the recorder and the tape the extents."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder

    def emit(self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Run ``op``."""
        recorder = self.recorder
        MODES.builder = None
        try:
            if MODES.recorder is None:
                return self._for_the_tape(op, operands, attributes)
            if not (has_extents(operands) or has_extents(attributes)):
                return apply(op, operands, attributes)
            recorder.pending = operands, attributes
            return apply(op, tuple(map(hint, operands)), plain(attributes))
        finally:
            if MODES.recorder is not None:
                recorder.pending = None
            MODES.builder = self

    def _for_the_tape(self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Run ``op`` unrecorded, as those that make the history of a view: what the tape keeps has the extents."""
        out = apply(op, tuple(map(hint, operands)), plain(attributes))
        kinds = [x.spec if isinstance(x, Tensor) else x for x in operands]
        shapes = [x.shape for x in kinds if isinstance(x, TensorType)]
        if self.recorder.scope is None or not has_extents([*shapes, *operands, attributes]):
            return out
        self.recorder.on_tape(out, op, operands, attributes)
        self.recorder.has_type(out, op, op.infer(kinds, attributes))
        return out
