"""What PTX instructions compute, on NumPy arrays that hold one register of many threads.

Registers are bit patterns (uint16, uint32, uint64; bool for predicates), as in hardware; an instruction's type says
how to read them. Floating-point results are those of IEEE arithmetic with one rounding, as PTX defines ``.rn``.
Instructions and modifiers that are not listed raise, so that nothing runs with a guessed meaning.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.scalar_math.fused import fused_f32, fused_f64

Array = Any
FLOATS = {"f32": np.float32, "f64": np.float64}
BITS = {"b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64, "pred": np.bool_}
#: Registers by the type they are declared with; LLVM 20 still has classes of their own for floats.
REGISTERS = {**BITS, "f32": np.uint32, "f64": np.uint64}
TYPES = {
    **FLOATS,
    **BITS,
    **{
        f"{kind}{bits}": np.dtype(f"{name}{bits}").type
        for kind, name in (("s", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
}
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


class UnknownInstructionError(Exception):
    """An instruction, or a modifier of one, that has no meaning here."""


def typed(bits: Array, kind: str) -> Array:
    """Register bits read as a type."""
    wanted = np.dtype(TYPES[kind])
    if bits.dtype == np.bool_ or wanted == np.bool_:
        return bits.astype(wanted)
    if bits.dtype.itemsize > wanted.itemsize:
        bits = bits.astype(f"u{wanted.itemsize}")
    elif bits.dtype.itemsize < wanted.itemsize:
        raise UnknownInstructionError(f"{bits.dtype} read as {kind}")
    return bits.view(wanted)


def raw(values: Array, size: int) -> Array:
    """A result as register bits of ``size`` bytes; narrow integers are extended as loads and ``cvt`` do."""
    if values.dtype == np.bool_:
        return values
    if values.dtype.itemsize < size:
        values = values.astype(f"{'i' if values.dtype.kind == 'i' else 'u'}{size}")
    return values.view(f"u{values.dtype.itemsize}")


def compute(opcode: str, operands: list[Array]) -> Array:
    """The result of an arithmetic instruction, as bits."""
    name, *modifiers = opcode.split(".")
    kind = modifiers[-1]
    if kind.endswith("x2"):  # two halves of a word, each by itself
        halves = [np.ascontiguousarray(x).view(np.uint16) for x in operands]
        return compute(opcode.removesuffix("x2"), halves).view(np.uint32)
    if name in SPECIAL:
        return SPECIAL[name](modifiers, operands)
    if kind in FLOATS:
        return raw(_float(name, modifiers[:-1], [typed(x, kind) for x in operands], kind), 0)
    return raw(_whole(name, modifiers[:-1], [typed(x, kind) for x in operands], kind), 0)


def _float(name: str, modifiers: list[str], x: list[Array], kind: str) -> Array:
    if name in ("add", "sub", "mul", "div", "sqrt", "rcp", "fma"):
        if modifiers != ["rn"]:
            raise UnknownInstructionError(
                f"{name}.{'.'.join(modifiers)}: only .rn is IEEE arithmetic"
            )
        one = TYPES[kind](1)
        if name == "fma":
            return np.asarray((fused_f32 if kind == "f32" else fused_f64)(*x), TYPES[kind])
        table: dict[str, Callable[..., Array]] = {
            "add": operator.add,
            "sub": operator.sub,
            "mul": operator.mul,
            "div": operator.truediv,
            "sqrt": np.sqrt,
            "rcp": lambda v: one / v,
        }
        return table[name](*x)
    if modifiers not in ([], ["NaN"]) or (modifiers and name not in ("max", "min")):
        raise UnknownInstructionError(f"{name}.{'.'.join(modifiers)}")
    if name == "abs":
        return np.fabs(x[0])
    if name == "neg":
        return -x[0]
    if name == "copysign":
        return np.copysign(x[1], x[0])
    if name in ("max", "min"):
        return _extreme(name, bool(modifiers), *x)
    raise UnknownInstructionError(f"{name}.{kind}")


def _extreme(name: str, keeps_nan: bool, a: Array, b: Array) -> Array:
    """-0 is less than +0; without .NaN the number wins over a nan."""
    first = (a > b) if name == "max" else (a < b)
    equal = (a == b) & (np.signbit(a) != np.signbit(b))
    first = np.where(equal, np.signbit(a) == (name == "min"), first)
    result = np.where(first, a, b)
    if keeps_nan:
        return np.where(np.isnan(a), a, result)
    return np.where(np.isnan(b), a, result)


def _whole(name: str, modifiers: list[str], x: list[Array], kind: str) -> Array:
    wide = x[0].dtype.itemsize * 8
    if name in ("mul", "mad"):
        return _product(name, modifiers, x, kind)
    if modifiers:
        raise UnknownInstructionError(f"{name}.{'.'.join(modifiers)}.{kind}")
    simple: dict[str, Callable[..., Array]] = {
        "add": operator.add,
        "sub": operator.sub,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
        "not": operator.invert,
        "neg": operator.neg,
        "abs": np.abs,
        "min": np.minimum,
        "max": np.maximum,
        "mov": lambda v: v,
    }
    if name in simple:
        return simple[name](*x)
    if name in ("div", "rem"):
        return _quotient(name, *x)
    if name == "popc":
        return np.bitwise_count(x[0]).astype(np.uint32)
    if name == "clz":
        return np.uint32(wide) - np.ceil(np.log2(x[0].astype(object) + 1)).astype(np.uint32)
    raise UnknownInstructionError(f"{name}.{kind}")


def _product(name: str, modifiers: list[str], x: list[Array], kind: str) -> Array:
    if modifiers == ["lo"]:
        result = x[0] * x[1]
    elif modifiers == ["wide"]:
        double = f"{x[0].dtype.kind}{2 * x[0].dtype.itemsize}"
        result = x[0].astype(double) * x[1].astype(double)
    elif modifiers == ["hi"]:
        bits = 8 * x[0].dtype.itemsize
        exact = (x[0].astype(object) * x[1].astype(object)) >> bits
        result = np.array(exact.tolist(), x[0].dtype).reshape(x[0].shape)
    else:
        raise UnknownInstructionError(f"{name}.{'.'.join(modifiers)}.{kind}")
    return result + x[2] if name == "mad" else result


def _quotient(name: str, a: Array, b: Array) -> Array:
    if (b == 0).any():
        raise ZeroDivisionError(name)
    exact = (np.abs(a.astype(object)) // np.abs(b.astype(object))) * np.where(
        (a < 0) != (b < 0), -1, 1
    )
    result = exact if name == "div" else a.astype(object) - exact * b.astype(object)
    mask = (1 << (8 * a.dtype.itemsize)) - 1
    return np.array([int(v) & mask for v in result], f"u{a.dtype.itemsize}").view(a.dtype)


def _shift(left: bool) -> Callable[[list[str], list[Array]], Array]:
    def compute(modifiers: list[str], operands: list[Array]) -> Array:
        (kind,) = modifiers
        value, count = typed(operands[0], kind), operands[1].astype(np.uint32)
        bits = np.uint32(8 * value.dtype.itemsize)
        # Counts are clamped to the width.
        if not left and value.dtype.kind == "i":
            return raw(value >> np.minimum(count, bits - 1).astype(value.dtype), 0)
        shifted = (
            (value << count.astype(value.dtype)) if left else (value >> count.astype(value.dtype))
        )
        return raw(np.where(count >= bits, value.dtype.type(0), shifted), 0)

    return compute


def _setp(modifiers: list[str], operands: list[Array]) -> Array:
    comparison, *combined, kind = modifiers
    a, b = typed(operands[0], kind), typed(operands[1], kind)
    if comparison in ("nan", "num"):
        result = (np.isnan(a) | np.isnan(b)) == (comparison == "nan")
    elif kind in FLOATS and comparison.endswith("u"):
        result = COMPARE[comparison[:-1]](a, b) | np.isnan(a) | np.isnan(b)
    elif kind in FLOATS and comparison == "ne":
        result = (a != b) & ~np.isnan(a) & ~np.isnan(b)
    else:
        result = COMPARE[comparison](a, b)
    if not combined:
        return result
    table = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    return table[combined[0]](result, operands[2])


def _selp(modifiers: list[str], operands: list[Array]) -> Array:
    return np.where(operands[2], operands[0], operands[1])


def _testp(modifiers: list[str], operands: list[Array]) -> Array:
    question, kind = modifiers
    x = typed(operands[0], kind)
    return {"infinite": np.isinf, "finite": np.isfinite, "notanumber": np.isnan}[question](x)


ROUNDINGS = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}


def _cvt(modifiers: list[str], operands: list[Array]) -> Array:
    *how, target, source = modifiers
    x = typed(operands[0], source)
    if target in FLOATS and source in FLOATS:
        if how and how[0] in ROUNDINGS:
            return raw(ROUNDINGS[how[0]](x), 0)
        if how not in ([], ["rn"]) or (not how and target == "f32" and source == "f64"):
            raise UnknownInstructionError(f"cvt.{'.'.join(modifiers)}")
        return raw(x.astype(TYPES[target]), 0)
    if target in FLOATS:
        if how != ["rn"]:
            raise UnknownInstructionError(f"cvt.{'.'.join(modifiers)}")
        return raw(x.astype(TYPES[target]), 0)
    if source in FLOATS:
        return _float_to_whole(ROUNDINGS[how[0]](x), source, target)
    if how:
        raise UnknownInstructionError(f"cvt.{'.'.join(modifiers)}")
    return x.astype(TYPES[target])


def _float_to_whole(x: Array, source: str, target: str) -> Array:
    """Saturates; nan is zero, or the smallest number where a 64-bit type takes part."""
    info = np.iinfo(TYPES[target])
    wide = source == "f64" or info.bits == 64
    nan = (info.min if info.min < 0 else 1 << 63) if wide else 0
    whole = [
        nan if np.isnan(v) else info.max if v > info.max else info.min if v < info.min else int(v)
        for v in x.tolist()
    ]
    return np.array(whole, TYPES[target])


def _funnel(modifiers: list[str], operands: list[Array]) -> Array:
    direction, mode, _ = modifiers
    low, high, count = (x.astype(np.uint64) for x in operands)
    bits = np.minimum(count, 32) if mode == "clamp" else count & np.uint64(31)
    pair = (high << np.uint64(32)) | low
    shifted = (pair << bits) >> np.uint64(32) if direction == "l" else pair >> bits
    return shifted.astype(np.uint32)


def _field(modifiers: list[str], operands: list[Array]) -> Array:
    """bfe: ``length`` bits from ``position``."""
    (kind,) = modifiers
    value, position, length = (
        typed(operands[0], kind),
        operands[1].astype(int),
        operands[2].astype(int),
    )
    bits = 8 * value.dtype.itemsize
    found = []
    lists = value.tolist(), (position & 255).tolist(), (length & 255).tolist()
    for v, p, n in zip(*lists, strict=True):
        part = ((v & ((1 << bits) - 1)) >> p) & ((1 << n) - 1)
        sign = kind[0] == "s" and n and part >> (n - 1)
        found.append((part - (1 << n) if sign else part) & ((1 << bits) - 1))
    return np.array(found, f"u{value.dtype.itemsize}")


def _insert(modifiers: list[str], operands: list[Array]) -> Array:
    """bfi: the low ``length`` bits of the first operand at ``position`` of the second."""
    bits = 8 * operands[0].dtype.itemsize
    found = []
    for a, b, p, n in zip(*(x.tolist() for x in operands), strict=True):
        mask = (((1 << (n & 255)) - 1) << (p & 255)) & ((1 << bits) - 1)
        found.append((b & ~mask) | ((a << (p & 255)) & mask))
    return np.array(found, operands[0].dtype)


def _permute(modifiers: list[str], operands: list[Array]) -> Array:
    pair = operands[0].astype(np.uint64) | (operands[1].astype(np.uint64) << np.uint64(32))
    result = np.zeros(len(pair), np.uint32)
    for k in range(4):
        selector = (operands[2] >> np.uint32(4 * k)) & np.uint32(15)
        byte = (pair >> (np.uint64(8) * (selector & np.uint32(7)).astype(np.uint64))) & np.uint64(
            255
        )
        byte = np.where(selector & np.uint32(8), np.where(byte & np.uint64(128), 255, 0), byte)
        result |= byte.astype(np.uint32) << np.uint32(8 * k)
    return result


SPECIAL: dict[str, Callable[[list[str], list[Array]], Array]] = {
    "shl": _shift(True),
    "shr": _shift(False),
    "setp": _setp,
    "selp": _selp,
    "testp": _testp,
    "cvt": _cvt,
    "shf": _funnel,
    "bfe": _field,
    "bfi": _insert,
    "prmt": _permute,
}
