"""Marks of operators, by PyTorch's names."""

from __future__ import annotations

import enum

__all__ = ["Tag"]

_TAGS = """
core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace
inplace_view maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order
nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction
view_copy
"""

#: What operators are marked with; marks change nothing here.
Tag = enum.Enum("Tag", _TAGS.split(), module=__name__)  # type: ignore[misc]

Tag.__doc__ = (
    "Marks of operators, which change nothing here.\n\n>>> Tag.pointwise.name\n'pointwise'\n"
)
