"""The error bound of every inexact function, in units in the last place of the exact result.

Each bound holds over the whole domain, subnormal results, huge arguments and overflow thresholds included. Functions
not listed are exact or correctly rounded. `logaddexp` holds where the result is not small against its operands.
`lgamma`, `digamma` and `trigamma` hold for x >= 0; for x < 0 the bound is in units of the larger of the two numbers
that are then added.
"""

from __future__ import annotations

_BOTH = {
    "exp": 1.0,
    "exp2": 1.0,
    "expm1": 2.0,
    "sigmoid": 2.0,
    "log": 1.0,
    "log2": 2.0,
    "log10": 2.2,
    "log1p": 1.6,
    "logaddexp": 1.5,
    "rsqrt": 1.5,
    "hypot": 1.3,
    "asin": 2.4,
    "acos": 1.5,
    "atan": 2.4,
    "atan2": 2.4,
    "sinh": 3.2,
    "cosh": 3.2,
    "tanh": 2.0,
    "asinh": 2.4,
    "acosh": 2.8,
    "atanh": 2.8,
    "erf": 2.0,
    "erfc": 4.0,
    "erfinv": 2.6,
    "lgamma": 2.8,
    "digamma": 2.6,
    "trigamma": 3.5,
}
_SINGLE = {"sin": 1.8, "cos": 1.8, "tan": 4.0, "pow": 0.6}
_DOUBLE = {"sin": 1.0, "cos": 1.0, "tan": 2.5, "pow": 1.5}

ULP_BOUND: dict[str, float] = {
    **{f"{name}_f32": bound for name, bound in {**_BOTH, **_SINGLE}.items()},
    **{f"{name}_f64": bound for name, bound in {**_BOTH, **_DOUBLE}.items()},
}
