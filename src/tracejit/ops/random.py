"""Counter-based random sources: an element depends on the seed, the call and its own position, nothing else.

``key`` is an int64 tensor (seed, base) and ``index`` the ordinal of the call since ``base``. The call's offset
``base + index`` and a block number make the counter of Philox4x32-10 (Salmon et al. 2011), the seed its key;
every block is four words of 32 bits. A draw of w words per element takes element i's from block ``i * w // 4``. So
eager and compiled code, on any number of threads and however fused, draw the same bits.

``scalar`` maps a dtype to the element in the kernel language, over the u64 names ``seed``, ``offset`` and ``i``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import aligned, dtypes
from ..dtypes import DType
from ..errors import DtypeError
from ..types import Shape, TensorType
from .keys import draw_by_kernel, making_device
from .kinds import Source
from .op import Array, Sample
from .promotion import UnsupportedDtypeError
from .table import declare

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_WHOLE = (1 << 64) - 1
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = 0x9E3779B9, 0xBB67AE85
_CHUNK = 1 << 14  # blocks at a time: the ten rounds stay in cache


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RandomSource(Source):
    """A source of random numbers: operand ``key``, attribute ``index``; per dtype an expression and its words."""

    scalars: Mapping[str, str]
    words: Mapping[str, int]

    def evaluate(self, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning: an array of the host, or of the GPU that draws are made on here."""
        drawn = draw_by_kernel(self, operands[0], attributes, making_device())
        return super().evaluate(operands, attributes) if drawn is None else drawn


def philox_blocks(seed: int, offset: int, first: int, count: int) -> Array:
    """Blocks ``first .. first + count`` of a call: uint32 of shape (count, 4)."""
    words = np.empty((count, 4), np.uint32)
    for start in range(0, count, _CHUNK):
        part = words[start : start + _CHUNK]
        _fill_blocks(part, seed, offset, first + start)
    return words


def _fill_blocks(words: Array, seed: int, offset: int, first: int) -> None:
    """The four words of every block: even ones are multiplied, and both pairs go through a round together."""
    even, odd = np.empty((2, 2, len(words)), np.uint64)
    block = np.arange(first, first + len(words), dtype=np.uint64)
    even[0], odd[0] = block & _LOW, block >> _HALF
    even[1], odd[1] = offset & 0xFFFFFFFF, (offset >> 32) & 0xFFFFFFFF
    for key in _round_keys(seed):
        products = even * _MULTIPLIERS
        even = (products >> _HALF)[::-1] ^ odd
        even ^= key
        products &= _LOW
        odd = products[::-1]
    words[:, ::2], words[:, 1::2] = even.T, odd.T


@lru_cache(maxsize=64)
def _round_keys(seed: int) -> tuple[Array, ...]:
    """What the even words are mixed with in each of the ten rounds."""
    halves = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    return tuple(
        np.array(
            [[(k + i * w) & 0xFFFFFFFF] for k, w in zip(halves, _WEYL, strict=True)], np.uint64
        )
        for i in range(10)
    )


def stream_of(key: Any, index: int) -> tuple[int, int]:
    """The seed and the offset of a call, of 64 bits each.

    >>> stream_of((7, -1), 3)
    (7, 2)
    """
    seed, base = (int(v) for v in key)
    return seed & _WHOLE, (base + index) & _WHOLE


def _words(key: Array, index: int, shape: Shape, per_element: int) -> Array:
    """``per_element`` random words for each element, as columns."""
    count = int(np.prod(shape, dtype=np.int64))
    blocks = philox_blocks(*stream_of(key, index), 0, -(-count * per_element // 4))
    return blocks.reshape(-1)[: count * per_element].reshape(count, per_element)


def _math(name: str, *operands: Array) -> Array:
    from ..scalar_math import library as scalar_math

    return scalar_math.evaluate(name, *operands)


def _key_type(key: TensorType, *, index: int, shape: Shape, dtype: DType) -> TensorType:
    if key.shape != (2,) or key.dtype is not dtypes.int64:
        raise DtypeError(f"a random key is an int64 tensor (seed, base), got {key}")
    return TensorType(shape, dtype)


def _float_type(key: TensorType, *, index: int, shape: Shape, dtype: DType) -> TensorType:
    if not dtype.is_floating_point:
        raise UnsupportedDtypeError(f'"random" not implemented for {dtype.title!r}')
    return _key_type(key, index=index, shape=shape, dtype=dtype)


_KEY = np.array([7, 3])


def _samples(*wanted: DType) -> tuple[Sample, ...]:
    return tuple(
        Sample((_KEY,), {"index": 5, "shape": shape, "dtype": dtype})
        for dtype in wanted
        for shape in ((3, 5), (), (0,))
    )


def _word(number: str, words: int) -> str:
    """Word ``number`` of element i, when each element takes ``words`` words."""
    position = f"(i * uint64({words}) + uint64({number}))"
    return f"philox_u32(seed, offset, {position} >> uint64(2), uint32({position} & uint64(3)))"


_UNIFORM_F32 = f"uniform_f32({_word('0', 1)})"
_NORMAL_F32 = f"normal_f32({_word('0', 2)}, {_word('1', 2)})"


@declare(
    RandomSource,
    infer_type=_float_type,
    samples=_samples(*dtypes.FLOATS),
    scalars={
        "f16": f"uniform_f32({_word('0', 1)} & uint32(4292870144))",
        "bf16": f"uniform_f32({_word('0', 1)} & uint32(4278190080))",
        "f32": _UNIFORM_F32,
        "f64": f"uniform_f64({_word('0', 2)}, {_word('1', 2)})",
    },
    words={"f16": 1, "bf16": 1, "f32": 1, "f64": 2},
)
def random_uniform(key: Array, *, index: int, shape: Shape, dtype: Any) -> Array:
    """Uniform numbers in [0, 1): multiples of 2**-53 for float64, of 2**-24 otherwise, then rounded down.

    Half precision keeps the top 11 (float16) or 8 (bfloat16) bits, so that 1 never appears.
    """
    if dtype is dtypes.float64:
        w = _words(key, index, shape, 2)
        return aligned.copy(_math("uniform_f64", w[:, 0], w[:, 1])).reshape(shape)
    bits = _words(key, index, shape, 1)[:, 0]
    if dtype.itemsize == 2:
        bits = bits & np.uint32(_HALF_MASK[dtype.short])
    return aligned.copy(_math("uniform_f32", bits), dtype.np).reshape(shape)


_HALF_MASK = {"f16": 0xFFE00000, "bf16": 0xFF000000}


@declare(
    RandomSource,
    infer_type=_float_type,
    samples=_samples(*dtypes.FLOATS),
    scalars={
        "f16": _NORMAL_F32,
        "bf16": _NORMAL_F32,
        "f32": _NORMAL_F32,
        "f64": f"normal_f64({', '.join(_word(str(w), 4) for w in range(4))})",
    },
    words={"f16": 2, "bf16": 2, "f32": 2, "f64": 4},
)
def random_normal(key: Array, *, index: int, shape: Shape, dtype: Any) -> Array:
    """Standard normal numbers (Box and Muller)."""
    if dtype is dtypes.float64:
        w = _words(key, index, shape, 4)
        return aligned.copy(_math("normal_f64", *(w[:, j] for j in range(4)))).reshape(shape)
    w = _words(key, index, shape, 2)
    return aligned.copy(_math("normal_f32", w[:, 0], w[:, 1]), dtype.np).reshape(shape)


def _bits_type(key: TensorType, *, index: int, shape: Shape) -> TensorType:
    return _key_type(key, index=index, shape=shape, dtype=dtypes.int64)


@declare(
    RandomSource,
    infer_type=_bits_type,
    samples=tuple(Sample((_KEY,), {"index": 2, "shape": shape}) for shape in ((4, 3), (), (0,))),
    scalars={
        "i64": f"int64(((uint64({_word('0', 2)}) << uint64(32)) | uint64({_word('1', 2)})) "
        ">> uint64(1))"
    },
    words={"i64": 2},
)
def random_bits(key: Array, *, index: int, shape: Shape) -> Array:
    """Uniform integers in [0, 2**63)."""
    w = _words(key, index, shape, 2).astype(np.uint64)
    bits = ((w[:, 0] << _HALF) | w[:, 1]) >> np.uint64(1)
    return bits.astype(np.int64).reshape(shape)
