"""The names PyTorch gives the nodes of its graph, from ops and their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Where PyTorch's name is not the op's own with capitals.
_NAMES = {
    "cast": "ToCopyBackward0",
    "detach_copy": "DetachBackward0",
    "reshape": "ViewBackward0",
    "cube": "PowBackward0",
    "fourth": "PowBackward0",
    "square": "PowBackward0",
    "take": "IndexBackward0",
    "clamp_between": "ClampBackward1",
    "clamp_inside": "HardtanhBackward0",
    "squeeze": "SqueezeBackward1",
    "pad": "ConstantPadNdBackward0",
}
_PRODUCTS: dict[tuple[int, ...], str] = {(1, 1): "Dot", (2, 1): "Mv", (2, 2): "Mm", (3, 3): "Bmm"}
_NUMBERED = ("sum", "prod")  # Backward0 over everything, Backward1 along dimensions


def torch_name(name: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    """``MulBackward0``, ``SumBackward1``, ``MmBackward0``, ... for an op with these operand types and attributes."""
    if name in _NAMES:
        return _NAMES[name]
    if name == "matmul":
        ranks = tuple(len(x.shape) for x in operands)
        return f"{_PRODUCTS.get(ranks, 'UnsafeView')}Backward0"
    camel = "".join(part.title() for part in name.split("_"))
    if name == "pow":
        return f"{camel}Backward{int(hasattr(operands[1], 'shape'))}"
    if name in _NUMBERED:
        partial = attributes["keepdim"] or len(attributes["dims"]) < len(operands[0].shape)
        return f"{camel}Backward{int(partial)}"
    return f"{camel}Backward0"
