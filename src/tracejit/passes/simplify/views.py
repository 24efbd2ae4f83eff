"""Simplification of views and trivial reductions: compositions, identities, and work moved before broadcasting.

No value changes: views only rename positions. Part of :mod:`.simplify`.
"""

from __future__ import annotations

from ...ir.graph import Value
from ...ops.table import Reduction
from ..rewrite import Rewriter, Rules


def _source(value: Value, *names: str) -> Value | None:
    """The operand of ``value`` if it is a view by one of ``names``."""
    x = value.value_operands[0]
    return x if x.op is not None and x.op.name in names else None


def _identity(_: Rewriter, value: Value) -> Value | None:
    """A view that changes no extent and moves nothing (reshape, expand, squeeze, unsqueeze)."""
    x = value.value_operands[0]
    return x if x.spec == value.spec else None


def _identity_permute(_: Rewriter, value: Value) -> Value | None:
    dims = value.attributes["dims"]
    return value.value_operands[0] if dims == tuple(range(len(dims))) else None


def _identity_slice(_: Rewriter, value: Value) -> Value | None:
    x = value.value_operands[0]
    if x.spec != value.spec:  # before asking where it starts, which a plan need not decide
        return None
    moves = any(value.attributes["starts"]) or any(s != 1 for s in value.attributes["steps"])
    return x if not moves or value.spec.numel == 0 else None


def _composed_permute(rewriter: Rewriter, value: Value) -> Value | None:
    inner = _source(value, "permute")
    if inner is None:
        return None
    first = inner.attributes["dims"]
    dims = tuple(first[d] for d in value.attributes["dims"])
    return rewriter.write("permute", inner.operands, value.line, dims=dims)


def _composed_reshape(rewriter: Rewriter, value: Value) -> Value | None:
    """Only the last shape of a chain of reshapes matters; squeeze and unsqueeze are reshapes."""
    inner = _source(value, "reshape", "unsqueeze", "squeeze")
    if inner is None:
        return None
    return rewriter.write("reshape", inner.operands, value.line, shape=value.spec.shape)


def _composed_expand(rewriter: Rewriter, value: Value) -> Value | None:
    inner = _source(value, "expand")
    if inner is None:
        return None
    return rewriter.write("expand", inner.operands, value.line, shape=value.spec.shape)


def _undone(_: Rewriter, value: Value) -> Value | None:
    """``squeeze(unsqueeze(x))`` and the other way round, at the same dimensions."""
    assert value.op is not None
    inner = _source(value, "unsqueeze" if value.op.name == "squeeze" else "squeeze")
    if inner is None or inner.attributes["dims"] != value.attributes["dims"]:
        return None
    return inner.value_operands[0]


def _composed_slice(rewriter: Rewriter, value: Value) -> Value | None:
    inner = _source(value, "slice")
    if inner is None:
        return None
    starts, steps, counts = (value.attributes[n] for n in ("starts", "steps", "counts"))
    first, by = inner.attributes["starts"], inner.attributes["steps"]
    begin = tuple(
        a + b * s if n else 0 for a, b, s, n in zip(first, starts, by, counts, strict=True)
    )
    step = tuple(a * b if n else 1 for a, b, n in zip(by, steps, counts, strict=True))
    return rewriter.write(
        "slice", inner.operands, value.line, starts=begin, counts=counts, steps=step
    )


def _before_expand(rewriter: Rewriter, value: Value) -> Value | None:
    """``f(expand(x))`` is ``expand(f(x))``: compute once per distinct element.

    For an elementwise op with one value operand. Python numbers stay weak beside a 0-d operand, so the dtype is
    checked: ``expand(x) * 2.0`` of integers keeps its place if a 0-d ``x`` promoted otherwise.
    """
    assert value.op is not None
    if len(value.value_operands) != 1:
        return None
    if value.op.name == "clone":  # made so that an output has memory for all its elements
        return None
    expanded = value.value_operands[0]
    if expanded.op is None or expanded.op.name != "expand":
        return None
    source = expanded.value_operands[0]
    operands = [source if isinstance(x, Value) else x for x in value.operands]
    kinds = [x.spec if isinstance(x, Value) else x for x in operands]
    if value.op.infer(kinds, value.attributes).dtype is not value.spec.dtype:
        return None
    small = rewriter.write(value.op, operands, value.line, **value.attributes)
    return rewriter.write("expand", (small,), value.line, shape=value.spec.shape)


def reduces_nothing(value: Value) -> bool:
    """Is this a reduction along no dimension, which is simplified to its operand in the dtype of the result?

    Extents that happen to be one are reduced like any other, so that kernels do not depend on them.
    """
    op = value.op
    if not isinstance(op, Reduction) or value.attributes["dims"]:
        return False
    kinds = value.spec.dtype, value.value_operands[0].spec.dtype
    known = op.combine in ("sum", "prod", "max", "min", "any", "all")
    return known and (kinds[0] is kinds[1] or not any(kind.is_complex for kind in kinds))


def _reduction_of_nothing(rewriter: Rewriter, value: Value) -> Value | None:
    """A reduction along no dimension; a sum also turns -0.0 into 0.0, as ``x + 0.0`` does.

    A product of complex numbers is one by 1, whose imaginary part makes NaN of infinities.
    """
    assert isinstance(value.op, Reduction)
    if not reduces_nothing(value):
        return None
    x, dtype = value.value_operands[0], value.spec.dtype
    if x.spec.dtype is not dtype:
        truth = value.op.combine in ("any", "all")
        op, operands, options = ("ne", (x, 0), {}) if truth else ("cast", (x,), {"dtype": dtype})
        x = rewriter.write(op, operands, value.line, **options)
    if value.op.combine == "sum" and dtype.is_differentiable:
        return rewriter.write("add", (x, 0.0), value.line)
    if value.op.combine == "prod" and dtype.is_complex:
        return rewriter.write("mul", (x, 1.0), value.line)
    return x


VIEW_RULES: Rules = {
    "permute": (_identity_permute, _composed_permute),
    "reshape": (_identity, _composed_reshape),
    "expand": (_identity, _composed_expand),
    "squeeze": (_identity, _undone),
    "unsqueeze": (_identity, _undone),
    "slice": (_identity_slice, _composed_slice),
    "elementwise": (_before_expand,),
    "reduction": (_reduction_of_nothing,),
}
