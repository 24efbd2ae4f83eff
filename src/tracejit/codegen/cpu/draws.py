"""Printing random sources as CPU kernels of their own, for draws that no other kernel is waiting for."""

from __future__ import annotations

import re

from ...dtypes import DType
from ...ops.random import RandomSource
from .. import scalar
from ..kernel import Function, Number, Text

__all__ = ["NAMES", "PARAMETERS", "WORDS", "element", "write_blocks", "write_elements"]

#: The parameters in order: where to write, the seed, the ordinal of the call, the first element.
PARAMETERS = ("out", "seed", "offset", "first")
#: The seed and the ordinal under the names that `element` uses.
NAMES = {"seed_": "uint64(seed)", "offset_": "uint64(offset)"}
#: Random words of a block.
WORDS = 4
_GRAIN = 1 << 12


def element(op: RandomSource, dtype: DType, position: str) -> str:
    """The element at ``position``, the name of a u64; the kernel also has `NAMES`.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.random import random_uniform
    >>> element(random_uniform, float32, "i_")[:37]
    'uniform_f32(philox_u32(seed_, offset_'
    """
    names = {"seed": "seed_", "offset": "offset_", "i": position}
    text = re.sub(r"\b(seed|offset|i)\b", lambda name: names[name[0]], op.scalars[dtype.short])
    return scalar.rounded(text, dtype)


def write_blocks(op: RandomSource, dtype: DType) -> Function:
    """All elements of whole blocks: extent 1 is one block, whose words are computed once.

    >>> from tracejit.dtypes import float32
    >>> from tracejit.ops.random import random_normal
    >>> write_blocks(random_normal, float32).source.count("out[")
    2
    """
    each = WORDS // op.words[dtype.short]
    text = _opened(dtype)
    text.add(1, "for block in range(lo, hi):")
    for number in range(each):
        text.add(2, f"i{number} = uint64(block) * uint64({each}) + uint64({number})")
        text.add(2, f"drawn{number} = {element(op, dtype, f'i{number}')}")
    for number in range(each):
        text.add(2, f"out[block * {each} + {number}] = {scalar.store(f'drawn{number}', dtype)}")
    return _closed(text, op, dtype, "blocks")


def write_elements(op: RandomSource, dtype: DType) -> Function:
    """Elements one by one, from ``first`` on.

    >>> from tracejit.dtypes import float64
    >>> from tracejit.ops.random import random_normal
    >>> write_elements(random_normal, float64).name
    'k_random_normal_f64_elements'
    """
    text = _opened(dtype)
    text.add(1, "for point in range(lo, hi):")
    text.add(2, "i_ = uint64(first + point)")
    text.add(2, f"drawn = {element(op, dtype, 'i_')}")
    text.add(2, f"out[first + point] = {scalar.store('drawn', dtype)}")
    return _closed(text, op, dtype, "elements")


def _opened(dtype: DType) -> Text:
    text = Text()
    for number, name in enumerate(PARAMETERS):
        kind = "i64" if number else scalar.storage_type(dtype) + "*"
        text.parameter(name, kind, Number(number))
    for name, value in NAMES.items():
        text.add(1, f"{name} = {value}")
    return text


def _closed(text: Text, op: RandomSource, dtype: DType, what: str) -> Function:
    name = f"k_{op.name}_{dtype.short}_{what}"
    return Function(name, text.source(name, what), tuple(text.parameters.values()), 0, _GRAIN)
