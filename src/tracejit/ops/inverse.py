"""Writing through views: a view op's own rule puts a value back where the view reads."""

from __future__ import annotations

from typing import Any

from .table import Op


def write(op: Op, attributes: dict[str, Any], base: Any, value: Any) -> Any:
    """``base`` with ``value`` in place of ``op(base, **attributes)``."""
    rule = getattr(op, "write", None)
    if rule is None:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            f"single memory location (a view by {op.name}). Please clone() the tensor before "
            "performing the operation."
        )
    return rule(base, value, **attributes)
