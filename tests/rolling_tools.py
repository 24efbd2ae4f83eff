"""Recording functions as straight lists of statements, and comparing these with what rolling makes of them."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tracejit as tj
from tracejit.ir import interpreter
from tracejit.ir.builder import Builder
from tracejit.ir.graph import Graph
from tracejit.ir.loops import body_of, is_loop
from tracejit.ir.verifier import verify
from tracejit.trace.recording.inputs import Signature
from tracejit.trace.recording.recorder import Recorder, recording
from tracejit.trace.rolling.rolling import Rolled, natively_plannable, roll
from tracejit.trace.signature import flatten
from tracejit.trace.tree.tree import path_graph


def record(function: Callable[..., Any], *tensors: Any) -> Graph:
    """What a call of ``function`` does, as a graph."""
    signature = Signature(Builder("f"))
    recorder = Recorder(signature, [(f"a{i}", t) for i, t in enumerate(tensors)])
    with recording(recorder):
        result = function(*tensors)
    leaves: list[Any] = []
    flatten(result, leaves)
    found = recorder.finish(leaves)
    assert recorder.failure is None
    return path_graph(found, signature)


def rolled_graph(graph: Graph, plannable: Any = natively_plannable) -> tuple[Graph, Rolled | None]:
    """The rolled graph (the same one if nothing is), well formed to its bodies."""
    found = roll(graph.inputs, tuple(graph.values), graph.outputs, plannable)
    if found is None:
        return graph, None
    outputs = tuple(found.mapping[v] for v in graph.outputs)
    new = verify(Graph(graph.name, graph.inputs, found.statements, outputs))
    loops = [v for v in new.values if is_loop(v)]
    assert len(loops) == found.loops
    for value in loops:
        verify(body_of(value))
        assert {v.line for v in body_of(value).values} <= {v.line for v in graph.values}
    return new, found


def arrays_for(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Random inputs."""
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.standard_normal(v.spec.shape), v.spec.dtype.np)
        if v.spec.dtype.is_floating_point
        else rng.integers(0, 3, v.spec.shape).astype(v.spec.dtype.np)
        for v in graph.inputs
    ]


def assert_equal(graph: Graph, new: Graph, rtol: float = 0.0) -> None:
    """Both graphs give the same on random inputs, to the bit unless ``rtol`` says otherwise."""
    arrays = arrays_for(graph)
    for a, b in zip(interpreter.run(graph, arrays), interpreter.run(new, arrays), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if rtol:
            np.testing.assert_allclose(b, a, rtol, rtol)
        else:
            np.testing.assert_array_equal(b, a)
            np.testing.assert_array_equal(np.signbit(b), np.signbit(a))


def check(
    function: Callable[..., Any], *tensors: Any, plannable: Any = natively_plannable
) -> tuple[Graph, Rolled | None]:
    """Record, roll, compare."""
    graph = record(function, *tensors)
    new, found = rolled_graph(graph, plannable)
    assert_equal(graph, new)
    return new, found


# --- random programs ---------------------------------------------------------------------------------------------

UNARY = ("{}.tanh()", "{}.sigmoid()", "(-{})", "{}.relu()", "({} * 0.5)", "(1 - {})", "{}.cos()")
BINARY = ("({} + {})", "({} - {})", "({} * {})", "tj.maximum({}, {})", "({} + 0.5 * {})")
SHAPED = (
    "({} @ w)",
    "({} @ u.T)",
    "({} * v)",
    "({} - {}.mean(1, keepdim=True))",
    "{}.flip(1)",
    "tj.cat([{}[:, 2:], {}[:, :2]], 1)",
    "({}[:, 1:2] * {})",
    "sum({}.chunk(2, 1)).repeat(1, 2)",
    "{}.sum(0).expand(3, 4)",
    "{}.unsqueeze(1).squeeze(1)",
    "{}.softmax(1)",
    "tj.where({} > 0, {}, {})",
)
STARTS = ("h", "x[0]", "0", "1.5", "(h * 2)", "tj.zeros(3, 4, dtype=tj.float64)", "g")
SEQUENCES = (
    "[x[t] for t in range(n)]",
    "x.unbind(0)",
    "y.unbind(1)",
    "[y[:, t] for t in reversed(range(n))]",
    "x[::2].unbind(0)",
    "x.split(1, 0)",
    "[x[t : t + 2].sum(0) for t in range(n - 1)]",
    "[h] + list(x.unbind(0))",
    "[y[:, 2 * t : 2 * t + 2].sum(1) for t in range(n // 2)]",
    "[x[t::n // 2].mean(0) for t in range(n // 2)]",
    "[x[n - 1 - t, :, 1:3].repeat(1, 2) for t in range(n)]",
    "[y.permute(2, 0, 1)[:, :, t].T for t in range(n)]",
    "[x.reshape(-1, 4)[3 * t : 3 * t + 3].flip(0) for t in range(n)]",
    "[x[n // 2 - t].mT.reshape(3, 4) for t in range(n // 2)]",
    "[k * x[0] for k in w.reshape(16)[:n].unbind(0)]",
)
FILLS = (
    ("tj.zeros(40, 3, 4, dtype=tj.float64)", "[i]"),
    ("tj.ones(3, 80, 4, dtype=tj.float64)", "[:, 2 * i + 1]"),
    ("tj.zeros(120, 4, dtype=tj.float64)", "[3 * i : 3 * i + 3]"),
    ("tj.zeros(3, 40, 4, dtype=tj.float64)", "[:, 39 - i]"),
)


class Program:
    """The source of a random function with loops over time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(x, y, h, g, w, u, v):", "    n = x.shape[0]"]
        self.lists: list[str] = []
        self.states: list[str] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.loop()
        self.finish()

    def pick(self, options: Any) -> Any:
        return self.random.choice(list(options))

    def expression(self, names: list[str]) -> str:
        kind = self.random.random()
        forms = UNARY if kind < 0.3 else BINARY if kind < 0.7 else SHAPED
        form = self.pick(forms)
        return form.format(*(self.pick(names) for _ in range(form.count("{}"))))

    def loop(self) -> None:
        """One loop with its states and lists."""
        number = len(self.lists)
        states = [f"s{number}_{i}" for i in range(self.pick((0, 1, 1, 2, 3)))]
        self.lines += [f"    {s} = {self.pick(STARTS)}" for s in states]
        source = self.pick([*SEQUENCES, *self.lists])
        source = self.pick((source, source, f"{source}[::-1]"))
        out = f"l{number}"
        begin = self.pick(("[]", "[]", "[h]"))
        before = len(self.lines)
        self.lines += [f"    {out} = {begin}", f"    for i, z in enumerate({source}):"]
        self.lines += ["        z = z.reshape(3, 4)"]
        names = ["z", "z", "h", "g", *states, *states]
        if begin == "[h]":
            names.append(f"{out}[-1]")
        if self.random.random() < 0.15:
            where = self.pick(("i == 0", "i == 5", "i % 4 == 3", "i > 8"))
            self.lines.append(f"        if {where}: z = z + h")
        for i in range(self.random.randint(1, 6)):
            # a state may still be a number: everything a round computes is a tensor
            value = self.expression(names) if not states else self.safe(names)
            self.lines.append(f"        t{i} = {value}")
            names.append(f"t{i}")
        if self.random.random() < 0.15:
            self.lines.append("        for _ in range(3):")
            self.lines.append(f"            z = {self.pick(UNARY).format('z')}")
            names.append("z")
        if self.random.random() < 0.15:
            self.lines += ["        for p in (w, u, w + u)[: 2 + (n > 8)]:"]
            self.lines += [f"            z = (z @ p + {self.pick(names)}).tanh()"]
        made = [n for n in names if n[0] in "tz"]
        if self.random.random() < 0.2:
            start, place = self.pick(FILLS)
            self.lines.insert(before, f"    o{number} = {start}")
            self.lines.append(f"        o{number}{place} = {self.pick(made)}")
            self.states.append(f"o{number}.sum()")
        self.lines += [f"        {s} = {self.pick(made)}" for s in states]
        self.lines.append(f"        {out}.append({self.pick(made)})")
        self.lists.append(out)
        self.states += states

    def safe(self, names: list[str]) -> str:
        """An expression in which numbers among the states do no harm."""
        first = self.expression([n for n in names if not n.startswith("s")])
        return self.pick(
            (first, f"({first} + {self.pick(names)})", f"({self.pick(names)} * {first})")
        )

    def finish(self) -> None:
        forms = (
            "tj.stack({})",
            "tj.stack({}, 1)",
            "tj.cat({}[::-1], 1)",
            "{}[-1]",
            "{}[2]",
            "sum({})",
            "tj.stack({}[1:]).mean()",
            "tj.stack({}[::3])",
        )
        results = [self.pick(forms).format(name) for name in self.lists]
        results += [f"(h + {s})" for s in self.states if self.random.random() < 0.5]
        self.lines.append(f"    return {', '.join(results)},")

    @property
    def source(self) -> str:
        return "\n".join(self.lines) + "\n"


def random_function(seed: int) -> Callable[..., Any]:
    """A function of (x, y, h, g, w, u, v)."""
    name, source = f"<random {seed}>", Program(seed).source
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"tj": tj}
    exec(compile(source, name, "exec"), space)
    function: Callable[..., Any] = space["f"]
    return function


def random_operands(steps: int) -> list[Any]:
    """Operands for a random function: (n, 3, 4), (3, n, 4), (3, 4), (3, 4), (4, 4), (4, 4), (4,)."""
    rng = np.random.default_rng(steps)
    shapes = ((steps, 3, 4), (3, steps, 4), (3, 4), (3, 4), (4, 4), (4, 4), (4,))
    return [tj.from_numpy(np.asarray(rng.standard_normal(s)) * 0.5) for s in shapes]
