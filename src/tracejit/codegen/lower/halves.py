"""Conversions of IEEE halves as instructions, where the processor has them.

They are the functions of `scalar_math.half` bit for bit, but for the payload of a nan: an instruction keeps its upper
bits, and half a dozen integer operations give the usual nan.
"""

from __future__ import annotations

import platform

from tracejit.codegen.identity import features
from tracejit.codegen.lower.types import F32, U16, LoweredFunction

__all__ = ["half_functions"]

_TO_HALF = """define internal i16 @tj.f16_from_f32(float %x) alwaysinline nounwind {
entry:
  %t.1 = fptrunc float %x to half
  %t.2 = bitcast half %t.1 to i16
  ret i16 %t.2
}
"""
_FROM_HALF = """define internal float @tj.f32_from_f16(i16 %bits) alwaysinline nounwind {
entry:
  %t.1 = bitcast i16 %bits to half
  %t.2 = fpext half %t.1 to float
  ret float %t.2
}
"""


def half_functions(capable: bool | None = None) -> dict[str, LoweredFunction]:
    """The functions that are instructions of this host (or of one that is `capable`), by name.

    >>> sorted(half_functions(capable=True)), half_functions(capable=False)
    (['f16_from_f32', 'f32_from_f16'], {})
    """
    if capable is None:
        capable = "f16c" in features() or platform.machine() in ("aarch64", "arm64")
    if not capable:
        return {}
    return {
        "f16_from_f32": LoweredFunction("f16_from_f32", (F32,), U16, _TO_HALF, (), (), (), 2),
        "f32_from_f16": LoweredFunction("f32_from_f16", (U16,), F32, _FROM_HALF, (), (), (), 2),
    }
