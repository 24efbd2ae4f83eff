"""Random draws of eager code on a device; what they need is loaded when the first one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import int64
from ..ops.keys import set_device_draw
from ..ops.random import RandomSource


def _draw(op: RandomSource, key: Any, attributes: Mapping[str, Any], device: int) -> Any:
    from .cuda.draws import draw

    dtype = attributes.get("dtype", int64)  # bits have no other
    return draw(op, key, attributes["index"], attributes["shape"], dtype, device)


set_device_draw(_draw)
