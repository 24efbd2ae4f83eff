"""Random programs of views, writes through them, products and backward passes, beside PyTorch, eager and compiled."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch")

SHAPES = [(4,), (2, 2), (3, 2), (2, 3, 2), (6,), (), (1, 4), (2,)]
VIEWS: dict[str, Callable[..., Any]] = {
    "chunk": lambda lib, x, *a: x.chunk(*a)[0],
    "unbind": lambda lib, x, *a: x.unbind(*a)[0],
    "step": lambda lib, x, d: x[(slice(None),) * d + (slice(None, None, 2),)],
    "real": lambda lib, x: x.real,
    "imag": lambda lib, x: x.imag,
    "mH": lambda lib, x: x.mH,
    "data": lambda lib, x: x.data,
    "view_as_real": lambda lib, x: lib.view_as_real(x),
    "view_as_complex": lambda lib, x: lib.view_as_complex(x),
}
WRITES: dict[str, Callable[..., Any]] = {
    "mul_": lambda lib, x, v: x.mul_(v),
    "add_": lambda lib, x, v: x.add_(1 + 1j if x.is_complex() else 1.5),
    "zero_": lambda lib, x, v: x.zero_(),
    "fill_": lambda lib, x, v: x.fill_(v),
    "first": lambda lib, x, v: x.__setitem__(0 if x.ndim else ..., v),
    "all": lambda lib, x, v: x.__setitem__(..., v),
    "real": lambda lib, x, v: setattr(x, "real", v) if x.is_complex() else x.sub_(v),
    "neg_": lambda lib, x, v: x.neg_(),
    "conj_physical_": lambda lib, x, v: x.conj_physical_(),
    "more": lambda lib, x, v: x.add_(x.mul(v)),
}


def _views_of(r: random.Random, x: Any) -> tuple[str, tuple[Any, ...]]:
    """A view that PyTorch gives of ``x``, and its arguments."""
    found: list[tuple[str, tuple[Any, ...]]] = [("squeeze", ()), ("detach", ()), ("data", ())]
    if x.ndim:
        d = r.randrange(x.ndim)
        n = x.shape[d]
        found += [("select", (d, r.randrange(n))), ("step", (d,)), ("unbind", (d,))]
        found += [("unfold", (d, r.randint(1, n), r.randint(1, 3)))] * 2 + [("chunk", (2, d))]
        found += [("unsqueeze", (d,)), ("narrow", (d, 0, r.randint(1, n)))]
    if x.ndim > 1:
        a, b = r.sample(range(x.ndim), 2)
        found += [("transpose", (a, b)), ("diagonal", (r.randint(-1, 0), a, b)), ("mH", ())]
        found = [v for v in found if v[0] != "diagonal" or min(x.shape) > 1]
    if x.numel() > 3 and x.is_contiguous():
        found += [("as_strided", ((2, 2), (1, 2))), ("as_strided", ((2,), (2,)))]
    if x.is_complex():
        found += [("real", ()), ("imag", ()), ("conj", ())] * 3
        found += [("view_as_real", ())] * (2 * (not x.is_conj()))
    elif x.ndim and x.shape[-1] == 2 and not x.is_neg():
        found += [("view_as_complex", ())] * 3
    return r.choice(found)


def _shown(lib: Any, x: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    special = VIEWS.get(name)
    return getattr(x, name)(*arguments) if special is None else special(lib, x, *arguments)


class Program:
    """Steps that run on tensors of either library."""

    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.seed = seed
        self.shape, self.is_complex = r.choice(SHAPES), r.random() < 0.7
        self.tracked, self.is_leaf = r.random() < 0.6, r.random() < 0.3
        self.steps: list[tuple[Any, ...]] = []
        known = [self.start(torch, self.leaf(torch, 0))]
        repeats = [False]
        for _ in range(r.randint(2, 9)):
            i = r.randrange(len(known)) if r.random() < 0.5 else len(known) - 1
            kind = r.random()
            if kind < 0.55:
                name, arguments = _views_of(r, known[i])
                step: tuple[Any, ...] = ("view", i, name, arguments, r.random() < 0.08)
                repeats.append(repeats[i] or name == "unfold")
            elif kind < 0.9:
                step = ("write", i, r.choice([*WRITES]), r.uniform(0.5, 2), r.random() < 0.25)
                if repeats[i]:  # what is written twice hangs on the order
                    continue
            else:
                step = ("product", i)
                repeats.append(False)
            self.steps.append(step)
            try:
                self.step(torch, known, step)
            except (RuntimeError, IndexError):
                return

    def leaf(self, lib: Any, shift: int) -> Any:
        """The tensor that everything is made of."""
        r = np.random.RandomState(self.seed + shift)
        values = r.uniform(-2, 2, self.shape) + (1j * r.uniform(-2, 2, self.shape))
        values = values if self.is_complex else values.real
        dtype = lib.complex128 if self.is_complex else lib.float64
        return lib.tensor(values.tolist(), dtype=dtype, requires_grad=self.tracked)

    def start(self, lib: Any, leaf: Any) -> Any:
        """What the first steps take."""
        return leaf if self.is_leaf else leaf * 1

    def step(self, lib: Any, known: list[Any], step: tuple[Any, ...]) -> None:
        """Run a step."""
        kind, i, *rest = step
        if kind == "product":
            known.append((known[i] * 2 * known[i]).contiguous())
            return
        with lib.set_grad_enabled(not rest[-1]):
            if kind == "view":
                known.append(_shown(lib, known[i], *rest[:-1]))
            else:
                WRITES[rest[0]](lib, known[i], rest[1])

    def run(self, lib: Any, leaf: Any) -> list[Any]:
        """All tensors that there are."""
        known = [self.start(lib, leaf)]
        for step in self.steps:
            self.step(lib, known, step)
        return known

    def outcome(self, lib: Any, function: Callable[[Any], list[Any]], shift: int) -> Any:
        """Values, flags and gradients, or that there is an error."""
        leaf = self.leaf(lib, shift)
        try:
            known = function(leaf)
        except (RuntimeError, IndexError):
            return "error", [_values(leaf)], []
        values = [_values(x) for x in (*known, leaf)]
        flags = [_flags(x) for x in known]
        try:
            tracked = [x for x in known if x.requires_grad]
            parts = [(x * x.conj_physical() * (n + 1)).sum() for n, x in enumerate(tracked)]
            if parts:
                sum(x.real for x in parts).backward()
        except RuntimeError:
            return "error", values, flags
        grads = [] if leaf.grad is None else [_values(leaf.grad)]
        return "done", values + grads, flags


def _values(x: Any) -> Any:
    return np.array(x.detach().resolve_conj().resolve_neg().numpy())


def _flags(x: Any) -> Any:
    try:
        place = x.requires_grad, x.is_leaf
    except RuntimeError:
        place = None, None
    return *place, x._version, tuple(x.shape), x.is_conj(), x.is_neg()


def _alike(one: Any, other: Any) -> bool:
    same = one[0] == other[0] and one[2] == other[2] and len(one[1]) == len(other[1])
    return same and all(
        a.shape == b.shape and np.allclose(a, b, equal_nan=True)
        for a, b in zip(one[1], other[1], strict=True)
    )


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_eager_programs(start: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(start, start + 100):
            program = Program(seed)
            found = program.outcome(tj, lambda leaf, p=program: p.run(tj, leaf), 0)
            expected = program.outcome(torch, lambda leaf, p=program: p.run(torch, leaf), 0)
            assert _alike(found, expected), (seed, program.__dict__, found, expected)


@pytest.mark.parametrize("start", range(1000, 1060, 20))
def test_compiled_programs(start: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(start, start + 20):
            program = Program(seed)
            compiled = tj.compile(lambda leaf, p=program: p.run(tj, leaf))
            for shift in range(3):
                found = program.outcome(tj, compiled, shift)
                expected = program.outcome(torch, lambda leaf, p=program: p.run(torch, leaf), shift)
                assert _alike(found, expected), (seed, shift, program.__dict__, found, expected)
