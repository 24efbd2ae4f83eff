"""Random programs of views, writes, shapes and flags changed in place, and passes: as PyTorch runs them, line by line.

The same programs as functions: compiled as eager, through writes and passes that follow the call.
"""

from __future__ import annotations

import linecache
import random
import warnings
from typing import Any

import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

#: What PyTorch refuses and this package does: results are contiguous here, a write may read what it overwrites, and
#: values are copied that an operation keeps for backward and overwrites itself.
TOLERATED = (
    *("refer to a single memory", "multiple views", "no_grad mode", "modified by an inplace"),
    *("invalid gradient", "INTERNAL ASSERT", "view size is not compatible"),
)

OPS = ("{a} * 2", "{a} * {b}", "{a}.sin()", "{a} + {b}", "{a}.clone()", "{a} * {a}", "{a}.tanh()")
VIEWS = (
    *("{a}.view(-1)", "{a}.unsqueeze(0)", "{a}.squeeze()", "{a}.detach()", "{a}.data"),
    *("{a}[0]", "{a}[1:]", "{a}.select(0, 0)", "{a}.t()", "{a}[:, 0]", "{a}[:, :1]", "{a}[...]"),
)
WRITES = (
    *(
        "{a}.mul_(2)",
        "{a}.add_({b}.clone())",
        "{a}.zero_()",
        "{a}.sin_()",
        "{a} += 1",
        "{a}[0] = 1.5",
    ),
    *("{a}[0].mul_(3)", "{a}.tanh_()", "{a}.neg_()", "{a}[0] *= 3"),
)
TURNS = (
    "{a}.unsqueeze_(0)",
    "{a}.squeeze_()",
    "{a}.transpose_(0, 1)",
    "{a}.t_()",
    "{a}.squeeze_(0)",
)
FLAGS = (
    *("{a}.requires_grad_()", "{a}.requires_grad_(False)", "{a}.requires_grad = True"),
    *("{a}.detach_()", "{a}.retain_grad()", "{a}.grad = None", "{a}.data = {a}.data * 2"),
)
PASSES = (
    *("({a} * {a}).sum().backward()", "{a}.sum().backward(retain_graph=True)"),
    *("{a}.sum().backward(inputs=[{b}])", "({a} * {a}).sum().backward(create_graph=True)"),
    "{v} = T.autograd.grad(({a} * 3).sum(), {b}, create_graph=True)[0]",
)
KINDS = (OPS, VIEWS, WRITES, TURNS, FLAGS, PASSES)


def leaf(r: random.Random, number: int) -> str:
    rows, cols = r.choice([(2, 2), (2, 2), (1, 2), (2, 1), (2, 3)])
    values = [[round(r.uniform(-2, 2), 1) for _ in range(cols)] for _ in range(rows)]
    return f"v{number} = T.tensor({values}, requires_grad={r.random() < 0.5})"


def line(r: random.Random, names: list[str], number: int) -> str:
    (kind,) = r.choices(KINDS, [3, 5, 5, 2, 2, 2])
    a, b = (r.choice(names[-3:] if r.random() < 0.4 else names) for _ in range(2))
    text = r.choice(kind).format(a=a, b=b, v=f"v{number}")
    if kind in (OPS, VIEWS):
        text = f"v{number} = {text}"
    return f"with T.no_grad(): {text}" if r.random() < 0.12 else text


def told(run: Any) -> Any:
    try:
        return run()
    except Exception as error:  # noqa: BLE001  (whatever it is, the other must do the same)
        return error


def facts(x: Any) -> dict[str, Any]:
    return {
        "values": (tuple(x.shape), x.detach().flatten().tolist()),
        "is_leaf": told(lambda: x.is_leaf),
        "requires_grad": x.requires_grad,
        "version": x._version,
        "grad": None if x.grad is None else (tuple(x.grad.shape), x.grad.flatten().tolist()),
    }


def alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float):
        return (
            bool(a == pytest.approx(b, rel=tolerance, abs=tolerance, nan_ok=True)) or abs(a) > 1e5
        )
    if isinstance(a, (list, tuple)):
        return (
            isinstance(b, type(a))
            and len(a) == len(b)
            and all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    return isinstance(b, type(a)) if isinstance(a, Exception) else bool(a == b)


def tolerated(error: Any) -> bool:
    return isinstance(error, Exception) and any(text in str(error) for text in TOLERATED)


def differs(theirs: dict[str, Any], ours: dict[str, Any], text: str) -> str | None:
    """Which fact of which variable, if any; '' where nothing can be told any more."""
    for name, x in theirs.items():
        if not isinstance(x, torch.Tensor):
            continue
        if name not in ours:
            return f"{name} is missing"
        expected, found = facts(x), facts(ours[name])
        if tolerated(expected["is_leaf"]):
            return ""
        for fact, value in expected.items():
            if fact == "version" and "grad(" in text:
                continue  # of gradients, which kernels make as they like
            if not alike(value, found[fact], 2e-3):
                return f"{fact} of {name}: {value} there, {found[fact]} here"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 600, 20))
def test_line_by_line_as_pytorch(seed) -> None:
    for one in range(seed, seed + 20):
        r = random.Random(one)
        theirs, ours = {"T": torch}, {"T": tj}
        done: list[str] = []
        for number in range(14):
            names = [name for name, x in theirs.items() if isinstance(x, torch.Tensor)]
            text = leaf(r, number) if number < 2 else line(r, names, number)
            outcomes = [told(lambda m=m, t=text: exec(t, m)) for m in (theirs, ours)]
            done.append(text if outcomes[0] is None else f"# {text}")
            program = "\n".join(done)
            if tolerated(outcomes[0]):
                break
            assert alike(*outcomes, 0.0), f"{outcomes}\n{program}"
            if outcomes[0] is not None and "grad" in text:
                break  # how far a pass came before its error is nobody's business
            found = differs(theirs, ours, text)
            if found == "":
                break
            assert found is None, f"seed {one}: {found}\n{program}"


def function(seed: int) -> tuple[list[str], str]:
    """Lines that make arguments, and a function of them, without the lines that fail."""
    r = random.Random(seed)
    made: dict[str, Any] = {"T": tj}
    heads = [leaf(r, number) for number in range(r.choice([1, 2]))]
    for text in heads:
        exec(text, made)
    body = []
    for number in range(len(heads), 10):
        names = [name for name, x in made.items() if isinstance(x, tj.Tensor)]
        text = line(r, names, number)
        if told(lambda t=text: exec(t, made)) is None:
            body.append(f"    {text}\n")
    names = [name for name, x in made.items() if isinstance(x, tj.Tensor)]
    results = ", ".join(r.sample(names, min(len(names), 3)))
    arguments = ", ".join(text.split(" = ")[0] for text in heads)
    return heads, f"def f({arguments}):\n{''.join(body)}    return {results},\n"


def calls(f: Any, heads: list[str]) -> list[Any]:
    """What some calls leave, and a pass after them."""
    seen: list[Any] = []
    for call in range(4):
        made = {"T": tj}
        for text in heads:
            exec(text, made)
        arguments = [made[text.split(" = ")[0]] for text in heads]
        with tj.no_grad():
            for x in arguments:
                x.mul_(1 + 0.25 * call)
        found = told(lambda a=arguments: f(*a))
        if isinstance(found, Exception):
            seen.append(found)
            continue
        losses = [(y * 1.5).sum() for y in found if y.requires_grad and y._flows]
        outcome = told(sum(losses).backward) if losses else None
        seen.append((outcome, [list(facts(x).values()) for x in (*arguments, *found)]))
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_compiled_as_eager(seed) -> None:
    for one in range(seed, seed + 10):
        heads, source = function(one)
        name = f"<program {one}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        made = {"T": tj}
        exec(compile(source, name, "exec"), made)
        compiled = tj.compile(made["f"])
        assert alike(calls(made["f"], heads), calls(compiled, heads), 1e-3), source


def test_compiled_programs_are_compiled_at_all() -> None:
    """Else the comparison would say nothing."""
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in range(40):
            heads, source = function(one)
            name = f"<counted program {one}>"
            linecache.cache[name] = (len(source), None, source.splitlines(True), name)
            made = {"T": tj}
            exec(compile(source, name, "exec"), made)
            compiled = tj.compile(made["f"])
            calls(compiled, heads)
            count += compiled.stats.compiled_calls > 0
    assert count >= 10
