"""Backward passes one after another through one compiled call: freed, kept and refused as in eager execution."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

BANK = tj.tensor([0.5, -0.25, 0.75])


class Square(tj.autograd.Function):
    """A custom function that saves something."""

    @staticmethod
    def forward(ctx: Any, x: tj.Tensor) -> tj.Tensor:
        """The square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: tj.Tensor) -> tj.Tensor:
        """Its derivative."""
        (x,) = ctx.saved_tensors
        return grad * 2 * x


def _rounds(x: tj.Tensor, y: tj.Tensor) -> Any:
    h = x
    for _ in range(14):
        h = tj.tanh(h + y)
    return h, y.sum()


def _branch(x: tj.Tensor, y: tj.Tensor) -> Any:
    return (x * y, y + 1) if x.sum() > 0 else (x + y, y.exp())


def _write(x: tj.Tensor, y: tj.Tensor) -> Any:
    out = tj.zeros(3)
    out[0] = x[0]
    out.add_(y)
    return out, out * y


BODIES: dict[str, Callable[[tj.Tensor, tj.Tensor], Any]] = {
    "nothing kept": lambda x, y: x + y,
    "nothing kept, two": lambda x, y: (x + y, x - y),
    "moved": lambda x, y: (x.reshape(3, 1).T, tj.cat([x, y]), y[1:]),
    "kept for one": lambda x, y: (x * x, y + 1),
    "kept for both apart": lambda x, y: (x.exp(), y.sin()),
    "kept for both together": lambda x, y: ((x * y).exp(), (x * y).sin()),
    "a common start": lambda x, y: (x.exp() + y, x.exp() * 2, x.exp().sum() + y.sum()),
    "inputs apart": lambda x, y: x * x + y * y,
    "inputs apart, one kept": lambda x, y: x * x + y,
    "a number": lambda x, y: (x * 2, y / 3, x + 1),
    "constant": lambda x, y: (x * BANK, y + BANK),
    "half way": lambda x, y: (lambda h: (h, h * y))(x.tanh()),
    "chain": lambda x, y: (lambda h: (h + 1, (h + 1) * h))(x + y),
    "zero gradients": lambda x, y: (x.sign() * y, x.floor() + y, y.round()),
    "detached": lambda x, y: (x.detach() * y, x * y.detach()),
    "one result twice": lambda x, y: (lambda h: (h, h))(x * y),
    "an input": lambda x, y: (x, x * y),
    "view of a result": lambda x, y: (lambda h: (h[1:], h[:1]))(x * y),
    "sum": lambda x, y: (x.sum(), y.mean(), (x * y).sum()),
    "softmax": lambda x, y: (tj.softmax(x, 0), tj.logsumexp(y, 0)),
    "library": lambda x, y: (nn.functional.layer_norm(x, (3,)), nn.functional.gelu(y)),
    "product": lambda x, y: (x @ y, tj.outer(x, y)),
    "custom": lambda x, y: (Square.apply(x) + y, Square.apply(y)),
    "rounds": _rounds,
    "branch": _branch,
    "write": _write,
    "gradients inside": lambda x, y: (
        tj.autograd.grad((x * x).sum(), x, create_graph=True)[0] * y,
        y.exp(),
    ),
}


def tensors(value: Any) -> list[tj.Tensor]:
    """The tensors of a result."""
    return [value] if isinstance(value, tj.Tensor) else [t for v in value for t in tensors(v)]


def one_pass(outs: Sequence[tj.Tensor], leaves: Sequence[tj.Tensor], how: Any) -> Any:
    """What a backward pass gives: gradients, or the error."""
    kind, chosen, wrt, retain, create = how
    found = {id(t): t for t in (outs[i % len(outs)] for i in chosen) if t.requires_grad}
    roots = list(found.values())
    if not roots:
        return None
    seeds = [
        tj.tensor(1.0 + np.arange(t.numel()).reshape(tuple(t.shape)) % 7 / 8).float() for t in roots
    ]
    wanted = [leaves[i] for i in wrt]
    try:
        if kind == "grad":
            made = tj.autograd.grad(
                roots, wanted, seeds, retain_graph=retain, create_graph=create, allow_unused=True
            )
            return [None if g is None else g.tolist() for g in made]
        inputs = wanted if kind == "inputs" else None
        tj.autograd.backward(roots, seeds, retain_graph=retain, inputs=inputs)
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return [None if t.grad is None else t.grad.tolist() for t in leaves]


def told(function: Callable[..., Any], passes: Sequence[Any], sign: float) -> list[Any]:
    """What a series of passes gives after one call."""
    x = tj.tensor([0.5, 1.25, -0.75]) * sign
    y = tj.tensor([1.5, -0.5, 2.0])
    leaves = [x.requires_grad_(), y.requires_grad_()]
    outs = tensors(function(*leaves))
    found: list[Any] = []
    for how in passes:
        found.append(one_pass(outs, leaves, how))
        if isinstance(found[-1], str):  # an error has freed some of the steps on the way to it
            break
    return found


def series(seed: int) -> list[Any]:
    """A random series of passes."""
    rng = random.Random(seed)
    found = []
    for _ in range(rng.randint(2, 4)):
        kind = rng.choice(["backward", "backward", "grad", "grad", "inputs"])
        chosen = rng.choice([(0,), (1,), (2,), (0, 1), (0, 1, 2), (1, 2)])
        wrt = rng.choice([(0,), (1,), (0, 1)])
        retain = rng.choice([None, None, None, True, False])
        found.append((kind, chosen, wrt, retain, kind == "grad" and rng.random() < 0.1))
    return found


def simple() -> Iterator[list[Any]]:
    """The usual pairs: all twice, one after the other, one input after the other."""
    for first, second in itertools.product([(0,), (1,), (0, 1, 2)], repeat=2):
        yield [("backward", first, (0, 1), None, False), ("backward", second, (0, 1), None, False)]
    for first, second in itertools.product([(0,), (1,), (0, 1)], repeat=2):
        yield [("grad", (0, 1, 2), first, None, False), ("grad", (0, 1, 2), second, None, False)]


def close(a: Any, b: Any) -> bool:
    """Equal up to roundings."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 2e-6 * max(1.0, abs(a))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", BODIES)
def test_passes_one_after_another(name: str) -> None:
    body = BODIES[name]
    function = tj.compile(body)
    for passes in (*simple(), *map(series, range(16))):
        for sign in (1.0, -1.0):
            expected, found = told(body, passes, sign), told(function, passes, sign)
            assert len(expected) == len(found), (passes, sign, expected, found)
            for how, a, b in zip(passes, expected, found, strict=False):
                assert close(a, b), f"{passes}, {sign}: {how}: eager {a}, compiled {b}"
    if name != "custom":  # functions with a backward of their own run as they are
        assert function.stats.compiled_calls > 40, function.explain()


def test_memory_is_freed_with_the_last_part() -> None:
    import gc
    import weakref

    @tj.compile
    def f(x: tj.Tensor, y: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        return x.exp(), y.sin()

    for _ in range(3):
        leaves = [tj.ones(3, requires_grad=True) for _ in range(2)]
        kept = [t * 1 for t in leaves]
        gone = [weakref.ref(t) for t in kept]
        a, b = f(*kept)
        del kept
        a.sum().backward()
        b.sum().backward()
        gc.collect()
    assert f.stats.compiled_calls == 2
    assert [r() for r in gone] == [None, None]
    with pytest.raises(RuntimeError, match="second time"):
        a.sum().backward()


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("changed", ["first", "last", "of another result"])
def test_a_refused_pass_has_let_go_of_what_it_came_by(changed, retain):
    """What a pass came by before the tensor that was changed is freed; the next one stumbles over that."""

    def function(x, first, last):
        y = x * first
        return (y.exp() * last).sum(), y.sum()

    said = []
    for call in (function, compiled := tj.compile(function, strict=True)):
        first, last = tj.tensor([2.0, 3.0]), tj.tensor([0.5, 1.0])
        x = tj.tensor([0.1, 0.2], requires_grad=True)
        for _ in range(3):
            result = call(x, first, last)
        (last if changed == "last" else first).mul_(2)
        messages = []
        for number in (0, 0, 1):
            chosen = 1 if changed == "of another result" and not messages else number
            try:
                result[chosen].backward(retain_graph=retain)
            except RuntimeError as error:
                messages.append(error.args[0][:30])
            else:
                messages.append("")
        said.append(messages)
    assert said[0] == said[1]
    assert compiled.stats.compiled_calls == 2


@pytest.mark.parametrize("whole", [False, True])
def test_what_a_pass_inside_freed_is_refused_and_nothing_else(whole: bool) -> None:
    """A result may lead to leaves by ways on which nothing was freed."""
    layer = nn.Linear(3, 3)

    def body(x: tj.Tensor, y: tj.Tensor) -> tj.Tensor:
        hidden = layer(tj.tanh(x))
        (hidden * hidden).mean().backward()
        return (hidden * y).sin() if whole else hidden.sin() + y * 2

    compiled = tj.compile(body)
    found = []
    for call in (body, compiled, compiled, compiled):
        x, y = tj.ones(3, requires_grad=True), tj.full((3,), 0.5, requires_grad=True)
        out = call(x, y)
        seen: list[Any] = []
        for wanted in (y, x):
            try:
                seen.append(tj.autograd.grad(out.sum(), wanted, retain_graph=True)[0].tolist())
            except RuntimeError as error:
                seen.append(str(error).split("(")[0])
        found.append(seen)
    assert found == [found[0]] * 4
    assert found[0][1].startswith("Trying to backward through the graph a second time")
