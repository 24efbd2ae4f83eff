"""One story told twice: a scenario runs with plain functions and with compiled ones, and must observe the same.

A scenario is a function of a :class:`Stage`. It builds its world from scratch (functions, modules, tensors), asks
the stage to compile what is to be compiled, calls it, changes state in between, and notes what it sees.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj

#: What another order of sums and fused functions may change.
CLOSE = 2e-6


def user_module(source: str, name: str = "user", **names: Any) -> types.ModuleType:
    """A module of the user's, made from source."""
    made = types.ModuleType(name)
    vars(made).update(names, tj=tj, nn=tj.nn, F=tj.nn.functional)
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


class Stage:
    """Where a scenario plays: ``compile`` is the identity or the compiler; ``seen`` is what was observed."""

    def __init__(self, compiling: bool) -> None:
        self.compiling = compiling
        self.seen: list[tuple[str, Any]] = []
        self.functions: list[Any] = []

    def compile(self, function: Any, **options: Any) -> Any:
        """The function, compiled on the second showing."""
        if not self.compiling:
            return function
        compiled = tj.compile(function, **options)
        self.functions.append(compiled)
        return compiled

    def note(self, label: str, value: Any) -> None:
        """Observe a value: tensors by type, strides, flags and contents."""
        self.seen.append((label, snapshot(value)))

    def call(self, function: Any, *args: Any, wrt: Sequence[Any] = (), **kwargs: Any) -> Any:
        """Call, go backward, and observe the result, the arguments afterwards and the gradients.

        ``wrt`` are tensors besides the arguments whose values and gradients are observed.
        """
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  (an error is an observation)
            self.note("error", (type(error).__name__, str(error).split("\n")[0]))
            return None
        self.note("result", result)
        tensors = [*leaves((args, kwargs)), *wrt]
        seeds = [t for t in leaves(result) if t.requires_grad]
        if seeds and tj.is_grad_enabled():
            self.backward(seeds, tensors)
        self.note("tensors after the call", [t.detach() for t in tensors])
        return result

    def backward(self, results: Sequence[Any], wrt: Sequence[Any]) -> None:
        """Go backward from all results with fixed weights; observe and forget the gradients."""
        for t in wrt:
            if t.is_leaf:
                t.grad = None
        kinds = {id(r): r for r in results}.values()
        grads = [tj.from_numpy(weights(tuple(r.shape))).to(r.dtype) for r in kinds]
        try:
            tj.autograd.backward(list(kinds), grads)
        except RuntimeError as error:
            self.note("error in backward", str(error).split("operation: ")[0])
        self.note("gradients", [t.grad for t in wrt if t.is_leaf])


def weights(shape: tuple[int, ...]) -> Any:
    """A gradient that is not the same everywhere."""
    return (1.0 + np.arange(int(np.prod(shape))) % 7 / 8.0).reshape(shape)


def leaves(value: Any) -> list[Any]:
    """The tensors of a nested value."""
    if isinstance(value, tj.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        return [t for v in value for t in leaves(v)]
    return (
        [t for t in vars(value).values() if isinstance(t, tj.Tensor)]
        if hasattr(value, "__dict__")
        and not isinstance(value, (type, types.ModuleType, tj.Generator))
        else []
    )


def snapshot(value: Any) -> Any:
    """A value as it is now, to be compared with :func:`same`."""
    if isinstance(value, tj.Tensor):
        pairs = zip(value.shape, value.stride(), strict=True)
        strides = tuple(s for n, s in pairs if n > 1) if value.numel() else ()
        facts = (str(value.spec), strides, value.requires_grad, value.is_leaf)
        return facts, np.array(value.detach().numpy())
    if isinstance(value, dict):
        return {k: snapshot(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(snapshot, value)]
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (int, float, str, bool, type(None), bytes, set, complex)):
        return value
    fields = getattr(value, "__dict__", {})
    return [type(value).__name__, *((k, snapshot(v)) for k, v in sorted(fields.items()))]


def same(a: Any, b: Any) -> bool:
    """Do two snapshots agree?"""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind in "biu":
            return bool(np.array_equal(a, b))
        wide = [x.astype(np.float64) for x in (a, b)]
        return bool(np.allclose(*wide, rtol=CLOSE, atol=CLOSE, equal_nan=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= CLOSE * max(1.0, abs(a))
    return type(a) is type(b) and bool(a == b)


def play(scenario: Callable[[Stage], None], compiling: bool) -> Stage:
    """One showing."""
    tj.manual_seed(0)
    np.random.seed(0)
    stage = Stage(compiling)
    scenario(stage)
    return stage


def agree(scenario: Callable[[Stage], None]) -> Any:
    """Both showings observe the same, whether or not anything ran compiled; the first compiled function."""
    eager, found = play(scenario, False), play(scenario, True)
    assert [label for label, _ in eager.seen] == [label for label, _ in found.seen]
    for number, ((label, a), (_, b)) in enumerate(zip(eager.seen, found.seen, strict=True)):
        assert same(a, b), f"observation {number}, {label}: eager {a}, compiled {b}"
    return found.functions[0]


def check(
    scenario: Callable[[Stage], None],
    compiled: int | None = None,
    recorded: int | None = None,
    reason: str | None = None,
) -> Any:
    """Both showings observe the same; at least ``compiled`` calls ran compiled, at most ``recorded`` were recorded.

    ``reason`` is a part of the words in which the compiled function says why it ran eagerly; without it there must
    be no such words. Returns the first compiled function.
    """
    eager, found = play(scenario, False), play(scenario, True)
    assert [label for label, _ in eager.seen] == [label for label, _ in found.seen]
    for number, ((label, a), (_, b)) in enumerate(zip(eager.seen, found.seen, strict=True)):
        assert same(a, b), f"observation {number}, {label}: eager {a}, compiled {b}"
    calls = sum(f.stats.compiled_calls for f in found.functions)
    recordings = sum(f.stats.recordings for f in found.functions)
    reasons = [r for f in found.functions for r in f.reasons]
    said = f"{calls} compiled calls, {recordings} recordings, reasons: {reasons}"
    assert compiled is None or calls >= compiled, said
    assert recorded is None or recordings <= recorded, said
    if reason is None:
        assert not reasons, said
    else:
        assert any(reason in r for r in reasons), said
    return found.functions[0]
