"""Numbers that change from call to call: ``python -m tracejit.testing.given_numbers --programs 1000``.

A program is one expression of a tensor and a number, called with numbers of several types and sizes, eager and
compiled: what is recorded once has to be right for all of them, in its dtype, its values, its errors and its warnings.
A failure is printed as Python that runs by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .choices import Choices
from .fuzz_check import TOLERANCE, Mismatch, difference
from .fuzz_cli import Tool

#: What is computed of ``x`` and the number ``k``.
EXPRESSIONS = """
x + k; k - x; x * k; x / k; k / x; x // k; k // x; x % k; k % x; x ** k; k ** x; x > k; x == k; x != k; x & k; x | k
x.clamp(max=k); x.clamp(k, 3); x.clamp_min(k); x.masked_fill(x > 0, k); tj.where(x > 0, x, k); tj.where(x > 0, k, 2)
tj.full((2,), k); tj.full_like(x, k); x.new_full((2,), k); tj.tensor(k); tj.tensor([k, 1]); tj.as_tensor(k)
x.add(x, alpha=k); x.sub(x, alpha=k); x.lerp(x * 2, k); tj.addcmul(x, x, x, value=k); tj.rsub(x, k); x.fmod(k)
F.pad(x, (1, 1), value=k); x.index_fill(0, tj.tensor([0]), k); x.scatter(0, tj.tensor([0]), k); x.renorm(2, 0, k)
F.leaky_relu(x, k); F.elu(x, k); F.hardtanh(x, -1, k); F.threshold(x, 0.5, k); F.softplus(x, k); F.softshrink(x, k)
x.clone().fill_(k); x.clone().add_(k); x.clone().mul_(k); x.clone().pow_(k); x.clone().floor_divide_(k)
x.sum() * k; x.sum() > k; (x.sum() + k).item(); x[0] * k; k ** 2 * x; x / (k + 1); abs(k) * x; int(k) * x; (k > 1) * x
tj.linspace(0, k, 3); tj.arange(3) * k; tj.zeros(2) + k; tj.copysign(x, k); tj.xlogy(x, k); tj.float_power(x, k)
F.layer_norm(x, (3,), eps=k); F.normalize(x, p=k); x.norm(k); F.huber_loss(x, x * 2, delta=k); x.nan_to_num(k)
tj.div(x, k, rounding_mode='floor'); tj.isclose(x, x * 1.0, atol=k); tj.searchsorted(x.sort()[0], k); x.logit(k)
"""
#: Numbers of successive calls.
NUMBERS: tuple[tuple[Any, ...], ...] = (
    (1, 2, 3, 5),
    (0.5, 1.5, 2.5, -0.5),
    (2, 2.5, 3, True),
    (True, False, True, False),
    (0.0, -0.0, 1.0, float("inf")),
    (float("nan"), 1.0, -1.0, 1e-40),
    (1, 300, 2, 70000),
    (2**31, 2**40, 5, -(2**33)),
    (np.float64(0.5), np.float64(1.5), 2, 0.25),
)
VALUES = {"uint8": (1, 0, 3), "bool": (True, False, True), "f": (1.25, -2.5, 0.0), "i": (1, -2, 3)}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Calls:
    """An expression, the dtype of its tensor, and the numbers it is called with."""

    expression: str
    dtype: str
    numbers: tuple[Any, ...]

    def source(self) -> str:
        """The function."""
        return f"def program(x, k):\n    return {self.expression}\n"

    def tensor(self) -> Any:
        """A fresh argument."""
        import tracejit as tj

        kind = "f" if "float" in self.dtype else "i"
        return tj.tensor(VALUES.get(self.dtype, VALUES[kind])).to(getattr(tj, self.dtype))


def generate(seed: int) -> Calls:
    """The calls of a seed."""
    choices = Choices(seed)
    expressions = [part.strip() for part in EXPRESSIONS.replace("\n", ";").split(";")]
    numbers = choices.pick(NUMBERS)
    return Calls(choices.pick([e for e in expressions if e]), choices.pick(DTYPES), numbers * 2)


def check(calls: Calls) -> str:
    """Call eager and compiled; raises :class:`Mismatch`. Returns "", or "eager" where no call ran compiled.

    >>> check(Calls("x * k", "float32", (1, 2, 3, 4)))
    ''
    """
    import tracejit as tj

    space: dict[str, Any] = {"tj": tj, "F": tj.nn.functional}
    exec(calls.source(), space)
    compiled = tj.compile(space["program"])
    for place, number in enumerate(calls.numbers):
        expected = _outcome(space["program"], calls.tensor(), number)
        text = _differ(expected, _outcome(compiled, calls.tensor(), number))
        if text:
            raise Mismatch(f"call {place + 1} ({number!r}): {text}")
    return "" if compiled.stats.compiled_calls else "eager"


def _outcome(function: Callable[..., Any], x: Any, number: Any) -> tuple[Any, set[str]]:
    """The result or the error of a call, and the classes of its warnings."""
    result: Any
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            result = function(x, number)
        except Exception as error:  # noqa: BLE001  (errors are compared, whatever they are)
            result = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return result, {w.category.__name__ for w in caught}


def _differ(expected: tuple[Any, set[str]], found: tuple[Any, set[str]]) -> str:
    """How two outcomes differ, compiled code's warnings that eager code has not among it, or an empty string."""
    (a, known), (b, warned) = expected, found
    if warned - known:
        return f"compiled code warns: {', '.join(sorted(warned - known))}"
    if type(a) is not type(b):
        return f"eager {a!r}, compiled {b!r}"
    if not hasattr(a, "dtype") or isinstance(a, np.generic):
        same = a == b if isinstance(a, str) else np.isclose(a, b, rtol=1e-5, equal_nan=True)
        return "" if same else f"eager {a!r}, compiled {b!r}"
    if a.dtype is not b.dtype:
        return f"eager {a.dtype}, compiled {b.dtype}"
    return difference(a.numpy(), b.numpy(), TOLERANCE.get(a.dtype.short, 0.0))


def try_seed(seed: int, size: int | None = None) -> tuple[str, str]:
    """Outcome ("", "eager" or "failed") and, for a failure, its report; ``size`` is of no account."""
    calls = generate(seed)
    try:
        return check(calls), ""
    except Exception as error:  # noqa: BLE001  (whatever it is, the report shows it)
        return "failed", report(seed, calls, f"{type(error).__name__}: {error}")


def report(seed: int, calls: Calls, message: str) -> str:
    """The calls as Python that shows a failure again."""
    numbers = repr(calls.numbers).replace("nan", "float('nan')").replace("inf", "float('inf')")
    return (
        f"# seed {seed}: {message}\nimport numpy as np\n"
        "from tracejit.testing.given_numbers import Calls, check\n\n"
        f"check(Calls({calls.expression!r}, {calls.dtype!r}, {numbers}))\n"
    )


def shrink(calls: Calls) -> Calls:
    """Leave out numbers while there is a mismatch."""
    place = 0
    while place < len(calls.numbers):
        fewer = replace(calls, numbers=calls.numbers[:place] + calls.numbers[place + 1 :])
        try:
            check(fewer)
        except Mismatch:
            calls = fewer
        else:
            place += 1
    return calls


def _show(seed: int, size: int | None) -> str:
    return report(seed, generate(seed), "as generated")


def _smaller(seed: int, size: int | None) -> str:
    return report(seed, shrink(generate(seed)), "cut down")


TOOL = Tool("given_numbers", __doc__, _show, try_seed, _smaller)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    return TOOL.main(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
