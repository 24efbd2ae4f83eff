"""Integer arithmetic with PyTorch's meaning, for every integer type, printed from one text.

Results wrap. Quotients by zero, which the hardware would trap on, are 0: a kernel that must raise checks the divisor.
"""

from __future__ import annotations

from functools import lru_cache

from tracejit.scalar_math.templates import expand

_SIGNED = '''
def abs_T(x: T) -> T:
    """|x|; the smallest value is its own absolute value."""
    return select(x < CAST(0), CAST(-x), x)


def sign_T(x: T) -> T:
    """-1, 0 or 1 with the sign of x."""
    return select(x > CAST(0), CAST(1), select(x < CAST(0), CAST(-1), CAST(0)))


def floor_divide_T(x: T, y: T) -> T:
    """The floor of x / y; 0 for y = 0, and the smallest value divided by -1 wraps."""
    a = UCAST(abs_T(x))
    b = UCAST(abs_T(y))
    b = select(b == UCAST(0), UCAST(1), b)
    q = CAST(a // b)
    rest = CAST(a % b)
    opposite = (x < CAST(0)) != (y < CAST(0))
    down = CAST(CAST(-q) - select(rest != CAST(0), CAST(1), CAST(0)))
    return select(y == CAST(0), CAST(0), select(opposite, down, q))


def remainder_T(x: T, y: T) -> T:
    """x - y floor(x / y), with the sign of y; 0 for y = 0."""
    b = select(y == CAST(0), CAST(1), y)
    rest = CAST(x - CAST(floor_divide_T(x, b) * b))
    return select(y == CAST(0), CAST(0), rest)


def pow_T(x: T, y: T) -> T:
    """x to the power y, modulo 2^BITS; for y < 0 what is left of 1 / x^-y: 0, or +-1 for x = +-1."""
    result = CAST(1)
    base = x
    left = y
    for _ in range(STEPS):
        result = select((left & CAST(1)) == CAST(0), result, CAST(result * base))
        base = CAST(base * base)
        left = CAST(left >> CAST(1))
    odd = (y & CAST(1)) == CAST(1)
    unit = select(x == CAST(1), CAST(1), select(odd, CAST(-1), CAST(1)))
    one = (x == CAST(1)) | (x == CAST(-1))
    return select(y < CAST(0), select(one, unit, CAST(0)), result)
'''

_UNSIGNED = '''
def abs_T(x: T) -> T:
    """x itself."""
    return x


def sign_T(x: T) -> T:
    """0 for zero, else 1."""
    return select(x > CAST(0), CAST(1), CAST(0))


def floor_divide_T(x: T, y: T) -> T:
    """The floor of x / y; 0 for y = 0."""
    q = CAST(x // select(y == CAST(0), CAST(1), y))
    return select(y == CAST(0), CAST(0), q)


def remainder_T(x: T, y: T) -> T:
    """x modulo y; 0 for y = 0."""
    return CAST(x % select(y == CAST(0), CAST(1), y))


def pow_T(x: T, y: T) -> T:
    """x to the power y, modulo 2^BITS."""
    result = CAST(1)
    base = x
    left = y
    for _ in range(BITS):
        result = select((left & CAST(1)) == CAST(0), result, CAST(result * base))
        base = CAST(base * base)
        left = CAST(left >> CAST(1))
    return result
'''

_BOTH = '''
def maximum_T(x: T, y: T) -> T:
    """The larger of x and y."""
    return select(x > y, x, y)


def minimum_T(x: T, y: T) -> T:
    """The smaller of x and y."""
    return select(x < y, x, y)


def shift_left_T(x: T, y: T) -> T:
    """x 2^y modulo 2^BITS; 0 where y is negative or at least BITS."""
    valid = (y >= CAST(0)) & (y < CAST(BITS))
    return select(valid, CAST(x << select(valid, y, CAST(0))), CAST(0))


def shift_right_T(x: T, y: T) -> T:
    """The floor of x / 2^y; where y is negative or at least BITS, 0 or the sign in every bit."""
    valid = (y >= CAST(0)) & (y < CAST(BITS))
    return CAST(CAST(x >> select(valid, y, CAST(LAST))) >> select(valid, CAST(0), CAST(REST)))
'''

_SIGNED_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
_UNSIGNED_BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """The text of every function, by name.

    >>> print(sources()["maximum_i8"].splitlines()[0])
    def maximum_i8(x: i8, y: i8) -> i8:
    """
    found: dict[str, str] = {}
    for name, bits in _SIGNED_BITS.items():
        last = bits - 1
        found |= expand(_BOTH + _SIGNED, name, BITS=bits, STEPS=last, LAST=last, REST=0)
    for name, bits in _UNSIGNED_BITS.items():
        found |= expand(_BOTH + _UNSIGNED, name, BITS=bits, LAST=bits - 1, REST=1)
    return found
