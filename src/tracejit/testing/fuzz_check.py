"""Compare a program run eagerly with the same program compiled: values, types, layouts, gradients, written inputs."""

from __future__ import annotations

import itertools
import linecache
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CompileWarning
from .fuzz_programs import Program, _functional, _package, tensor_of
from .noise import disturb, disturbed

#: Relative to the largest value of a tensor: what other roundings and other orders of sums may change.
TOLERANCE = {"f64": 1e-9, "f32": 3e-4, "f16": 2e-2, "bf16": 1e-1}
TRIALS = 12

_numbers = itertools.count()


class Mismatch(AssertionError):
    """Compiled and eager differ."""


@dataclass
class Run:
    """What one call did."""

    outputs: list[np.ndarray] = field(default_factory=list)
    facts: list[tuple[Any, ...]] = field(default_factory=list)
    gradients: list[np.ndarray | None] = field(default_factory=list)
    written: list[np.ndarray] = field(default_factory=list)
    error: str = ""

    def arrays(self) -> list[tuple[str, np.ndarray | None]]:
        """Everything to compare, with labels."""
        return [
            *((f"output {i}", a) for i, a in enumerate(self.outputs)),
            *((f"argument {i} after the call", a) for i, a in enumerate(self.written)),
            *((f"gradient of argument {i}", a) for i, a in enumerate(self.gradients)),
        ]


def build(program: Program) -> Callable[..., Any]:
    """The program as a function."""
    text = program.source()
    filename = f"<program {program.seed} {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space: dict[str, Any] = {"tj": _package(), "F": _functional()}
    exec(compile(text, filename, "exec"), space)
    return space["program"]  # type: ignore[no-any-return]


def run(
    function: Callable[..., Any],
    program: Program,
    values: int,
    noise: np.random.Generator | None = None,
) -> Run:
    """Call ``function`` on fresh arguments made from seed ``values``, then go backward; ``noise`` moves everything."""
    rng = np.random.default_rng([program.seed & 0xFFFFFFFF, values])
    arguments = [tensor_of(i, rng) for i in program.inputs]
    if noise is not None:
        disturb(arguments, noise)
    found = Run()
    try:
        with (
            np.errstate(all="ignore"),
            warnings.catch_warnings(),
            nullcontext() if noise is None else disturbed(noise),
        ):
            warnings.simplefilter("ignore", RuntimeWarning)
            outputs = [_real(t) for t in function(*arguments)]
            found.outputs = [t.detach().numpy().copy() for t in outputs]
            found.facts = [_facts(t, [*arguments, *outputs[:i]]) for i, t in enumerate(outputs)]
            _backward(outputs, arguments, rng, program.seed % 6 == 5)
    except Exception as error:
        # A compiled call is one node: another name, and another view of what was changed in place.
        message = str(error).splitlines()[0].split(" inplace operation: ")[0]
        found.error = f"{type(error).__name__}: {message}"
    found.gradients = [None if t.grad is None else t.grad.numpy().copy() for t in arguments]
    found.written = [t.detach().numpy().copy() for t in arguments]
    return found


def _real(tensor: Any) -> Any:
    """A tensor of real numbers."""
    return _package().view_as_real(tensor) if tensor.is_complex() else tensor


def _facts(tensor: Any, others: list[Any]) -> tuple[Any, ...]:
    """Everything but values; last, which arguments and earlier outputs it shares memory with."""
    shown = tuple(np.shares_memory(tensor.detach().numpy(), a.detach().numpy()) for a in others)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    strides = tuple(
        s for extent, s in pairs if extent > 1 and tensor.numel()
    )  # where there is somewhere to go
    return str(tensor.spec), strides, tensor.requires_grad, tensor.is_leaf, shown


def _backward(outputs: Any, arguments: list[Any], rng: np.random.Generator, twice: bool) -> None:
    """Gradients with random weights; ``twice`` differentiates the sum of their squares."""
    tj = _package()
    total = None
    for tensor in outputs:
        if not tensor.requires_grad:
            continue
        weight = tj.from_numpy(rng.standard_normal(tuple(tensor.shape))).to(tensor.dtype)
        part = (tensor * weight).sum().to(tj.float64)
        total = part if total is None else total + part
    if total is None:
        return
    if not twice:
        total.backward()
        return
    leaves = [a for a in arguments if a.requires_grad]
    first = tj.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    squares = [
        (g.to(tj.float64) * 0.1).square().sum() for g in first if g is not None and g.requires_grad
    ]
    if squares:
        tj.stack(squares).sum().backward()


def compare(expected: Run, found: Run, tolerance: float) -> tuple[int | None, str]:
    """Which array differs first, unless something else does, and how in words."""
    if expected.error != found.error:
        return None, f"eager: {expected.error or 'no error'}; compiled: {found.error or 'no error'}"
    if expected.error:  # how far a backward pass came before it is not compared
        expected, found = Run(written=expected.written), Run(written=found.written)
    if expected.facts != found.facts:
        pairs = zip(expected.facts, found.facts, strict=True)
        return None, "; ".join(
            f"output {i}: eager {a}, compiled {b}" for i, (a, b) in enumerate(pairs) if a != b
        )
    pairs = zip(expected.arrays(), found.arrays(), strict=True)
    for number, ((label, a), (_, b)) in enumerate(pairs):
        text = difference(a, b, tolerance)
        if text:
            return number, f"{label}: {text}"
    return None, ""


def difference(a: np.ndarray | None, b: np.ndarray | None, tolerance: float) -> str:
    """How two arrays differ."""
    if a is None or b is None:
        return (
            ""
            if a is b
            else f"eager {'has none' if a is None else 'has one'}, compiled {'has none' if b is None else 'has one'}"
        )
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"eager {a.dtype}{a.shape}, compiled {b.dtype}{b.shape}"
    if a.dtype.kind in "biu":
        same = a == b
    else:
        kind = np.complex128 if a.dtype.kind == "c" else np.float64
        wide_a, wide_b = a.astype(kind), b.astype(kind)
        finite = np.abs(wide_a[np.isfinite(wide_a)])
        scale = float(finite.max()) if finite.size else 0.0
        with np.errstate(all="ignore"):
            same = np.isclose(
                wide_b, wide_a, rtol=tolerance, atol=tolerance * min(scale, 1e6), equal_nan=True
            )
    if np.all(same):
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{int(np.sum(~same))} of {a.size} differ, first at {list(at)}: eager {a[at]!r}, compiled {b[at]!r}"


def moves(expected: np.ndarray | None, found: np.ndarray | None, noisy: np.ndarray | None) -> bool:
    """Is an array moved by noise at least a tenth as far as the one that was ``found`` is away?"""
    return 10 * _distance(expected, noisy) >= _distance(expected, found)


def _distance(a: np.ndarray | None, b: np.ndarray | None) -> float:
    """The largest difference between elements; endless where dtypes, shapes or special values differ."""
    if a is None or b is None or a.dtype != b.dtype or a.shape != b.shape:
        return 0.0 if a is b else float("inf")
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(kind), b.astype(kind)
    special = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[special], b[special], equal_nan=True):
        return float("inf")
    return float(np.max(np.abs(a - b), initial=0.0, where=~special))


def sensitive(program: Program, expected: Run, found: Run, values: int, place: int | None) -> bool:
    """Does noise of a rounding's size move eager code as far? Then nothing can be said about a difference.

    ``place`` is the number of the array that differs, if it is one.
    """
    for trial in range(TRIALS):
        again = run(build(program), program, values, np.random.default_rng(trial))
        if again.error != expected.error:
            return True
        if place is None:
            if again.facts != expected.facts:
                return True
        elif moves(*(r.arrays()[place][1] for r in (expected, found, again))):
            return True
    return False


def tolerance_of(program: Program) -> float:
    """By the coarsest dtype that takes part."""
    text = program.source() + "".join(i.dtype for i in program.inputs)
    coarse = [
        s
        for s, n in (
            ("bf16", "bfloat16"),
            ("f16", "float16"),
            ("f32", "float32"),
            ("f32", ".float()"),
        )
        if n in text
    ]
    plain = {i.dtype for i in program.inputs} - {"float64"}
    if coarse:
        return TOLERANCE[coarse[0]]
    return TOLERANCE["f32" if plain or "tj." in text else "f64"]


def check(program: Program) -> str:
    """Run eager and compiled on two sets of values; raises :class:`Mismatch`.

    Returns "", or "skipped" where roundings explain a difference, "refused" where both end in the same error, or
    "eager".
    """
    tj = _package()
    eager = build(program)
    compiled = tj.compile(build(program))
    tolerance = tolerance_of(program)
    refused = False
    for call, values in enumerate((0, 0, 1, 1, 0)):
        expected = run(eager, program, values)
        refused |= bool(expected.error)
        with warnings.catch_warnings():
            if (
                refused
            ):  # a gradient that does not exist is no kernel either, which a warning says first
                warnings.simplefilter("ignore", CompileWarning)
            found = run(compiled, program, values)
        place, text = compare(expected, found, tolerance)
        if not text:
            continue
        if expected.error and not found.error and len(program.outputs) < len(program.statements):
            # What nobody asks for is not computed, so it refuses nothing: now everything is asked for.
            return check(program.returning_all())
        if sensitive(program, expected, found, values, place):
            return "skipped"
        raise Mismatch(f"call {call + 1} (values {values}): {text}")
    if refused:
        return "refused"
    return "eager" if compiled.stats.compiled_calls == 0 else ""
