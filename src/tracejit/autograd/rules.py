"""Running gradient rules: shared by the tape and by differentiation of IR graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ops.complex_numbers import conjugate
from ..ops.elementwise import cast
from ..ops.movement import sum_to
from ..ops.table import Elementwise, Op
from ..types import TensorType


def differentiate_operands(
    op: Op,
    operand_types: Sequence[Any],
    attributes: dict[str, Any],
    known: dict[str, Any],
    wanted: Sequence[Any],
) -> list[Any]:
    """Run the gradient rules of ``op``: the one function behind the tape and IR differentiation.

    ``known`` maps ``g``, ``out``, operand names, ``out_type`` and ``types`` to tensors or IR values; what is true in
    ``wanted`` stands for an operand whose gradient is asked for.

    >>> from tracejit.ops.table import lookup
    >>> x, g = tj.tensor(2.0), tj.tensor(1.0)
    >>> differentiate_operands(lookup("neg"), [x.spec], {}, {"g": g, "x": x}, [True])
    [tensor(-1.)]
    """
    for name, position in op.types_asked:
        known[name] = operand_types[position]
    broadcast = isinstance(op, Elementwise)
    turned = known["g"].spec.dtype.is_complex
    if turned:  # gradients are conjugates of derivatives, and rules are written for derivatives
        known["g"] = conjugate(known["g"])
    if op.shared is not None:
        known["shared"] = op.shared.function(
            *_told(op.shared.needs, known, attributes, op.attributes)
        )
    result: list[Any] = []
    for position, want in enumerate(wanted):
        rule = op.gradient_rule(position) if want else None
        if rule is None:
            result.append(None)
            continue
        known["position"] = position
        gradient = rule.function(*_told(rule.needs, known, attributes, op.attributes))
        if turned and gradient.spec.dtype.is_complex:
            gradient = conjugate(gradient)
        operand = operand_types[position]
        if gradient.spec is not operand:
            gradient = fit(gradient, operand, broadcast)
        result.append(gradient)
    return result


def _told(
    needs: Sequence[str],
    known: Mapping[str, Any],
    attributes: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> list[Any]:
    """What a rule needs, each from the first of these that has it."""
    return [
        known[x] if x in known else attributes[x] if x in attributes else defaults[x] for x in needs
    ]


def fit(gradient: Any, operand: TensorType, broadcast: bool) -> Any:
    """A gradient in its operand's own shape and dtype.

    >>> fit(tj.ones(2, 3), TensorType((3,), tj.float32), broadcast=True)
    tensor([2., 2., 2.])
    """
    kind = gradient.spec
    if broadcast:
        gradient = sum_to(gradient, operand.shape)
    if kind.dtype is not operand.dtype:
        gradient = cast(gradient, dtype=operand.dtype)
    return gradient
