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
    q = DIVIDED(a, b)
    whole = UCAST(q * b) == a
    opposite = (x < CAST(0)) != (y < CAST(0))
    down = CAST(CAST(-CAST(q)) - select(whole, CAST(0), CAST(1)))
    return select(y == CAST(0), CAST(0), select(opposite, down, CAST(q)))


def remainder_T(x: T, y: T) -> T:
    """x - y floor(x / y), with the sign of y; 0 for y = 0."""
    a = UCAST(abs_T(x))
    b = UCAST(abs_T(y))
    b = select(b == UCAST(0), UCAST(1), b)
    rest = CAST(UCAST(a - UCAST(DIVIDED(a, b) * b)))
    rest = select(x < CAST(0), CAST(-rest), rest)
    other = (rest != CAST(0)) & ((x < CAST(0)) != (y < CAST(0)))
    rest = select(other, CAST(rest + y), rest)
    return select(y == CAST(0), CAST(0), rest)


def fmod_T(x: T, y: T) -> T:
    """x less as many times y as go into it, with the sign of x; 0 for y = 0."""
    a = UCAST(abs_T(x))
    b = UCAST(abs_T(y))
    b = select(b == UCAST(0), UCAST(1), b)
    rest = CAST(UCAST(a - UCAST(DIVIDED(a, b) * b)))
    return select(y == CAST(0), CAST(0), select(x < CAST(0), CAST(-rest), rest))


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
    q = DIVIDED(x, select(y == CAST(0), CAST(1), y))
    return select(y == CAST(0), CAST(0), q)


def remainder_T(x: T, y: T) -> T:
    """x modulo y; 0 for y = 0."""
    b = select(y == CAST(0), CAST(1), y)
    rest = CAST(x - CAST(DIVIDED(x, b) * b))
    return select(y == CAST(0), CAST(0), rest)


def fmod_T(x: T, y: T) -> T:
    """x modulo y; 0 for y = 0."""
    return remainder_T(x, y)


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


def clamp_T(x: T, low: T, high: T) -> T:
    """x between low and high, which wins where they cross."""
    above = select(x > low, x, low)
    return select(above < high, above, high)


def shift_left_T(x: T, y: T) -> T:
    """x 2^y modulo 2^BITS; 0 where y is negative or at least BITS."""
    valid = (y >= CAST(0)) & (y < CAST(BITS))
    return select(valid, CAST(x << select(valid, y, CAST(0))), CAST(0))


def shift_right_T(x: T, y: T) -> T:
    """The floor of x / 2^y; where y is negative or at least BITS, 0 or the sign in every bit."""
    valid = (y >= CAST(0)) & (y < CAST(BITS))
    return CAST(CAST(x >> select(valid, y, CAST(LAST))) >> select(valid, CAST(0), CAST(REST)))
'''

# No vector unit divides integers. Quotients of numbers of few bits are those of floating-point numbers: the distance of
# one that is no integer from the next that is, in relation to it, is at least that of 1 to the dividend.
_QUOTIENT = '''
def divided_T(a: T, b: T) -> T:
    """a / b without its fraction, for b > 0."""
    return CAST(trunc_KIND(FLOAT(a) / FLOAT(b)))
'''

_LONG_QUOTIENT = '''
def divided_few_u64(a: u64, b: u64) -> u64:
    """a / b without its fraction, for numbers below 2^51: from 2^52 on a double ends in the bits of its value."""
    hidden = uint64(0x4330000000000000)
    x = f64_from_bits(a | hidden) - float64(4503599627370496.0)
    y = f64_from_bits(b | hidden) - float64(4503599627370496.0)
    q = trunc_f64(x / y) + float64(4503599627370496.0)
    return bits_f64(q) & uint64(0xFFFFFFFFFFFFF)


def divided_many_u64(a: u64, b: u64) -> u64:
    """a / b without its fraction, for b > 0: what is found is never too much, the second time at most one too little.

    A ratio of rounded numbers is off by at most 5 2^-53 of itself, and made smaller by 2^-50.
    """
    ratio = float64(0.9999999999999991) / float64(b)
    q = uint64(float64(a) * ratio)
    rest = uint64(a - uint64(q * b))
    more = uint64(float64(rest) * ratio)
    rest = uint64(rest - uint64(more * b))
    return uint64(uint64(q + more) + select(rest >= b, uint64(1), uint64(0)))


def divided_u64(a: u64, b: u64) -> u64:
    """a / b without its fraction, for b > 0."""
    few = (a < uint64(0x8000000000000)) & (b < uint64(0x8000000000000))
    return usually_u64(few, divided_few_u64(a, b), divided_many_u64(a, b))
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
        signed = _SIGNED.replace("DIVIDED", f"divided_u{bits}")
        found |= expand(_BOTH + signed, name, BITS=bits, STEPS=last, LAST=last, REST=0)
    for name, bits in _UNSIGNED_BITS.items():
        if bits < 64:
            kind = 64 if bits == 32 else 32
            quotient = _QUOTIENT.replace("KIND", f"f{kind}").replace("FLOAT", f"float{kind}")
        else:
            quotient = _LONG_QUOTIENT
        unsigned = quotient + _UNSIGNED.replace("DIVIDED", f"divided_u{bits}")
        found |= expand(_BOTH + unsigned, name, BITS=bits, LAST=bits - 1, REST=1)
    return found
