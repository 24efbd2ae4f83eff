"""Loops for tests: written by hand, drawn at random, and the same round by round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj
from ir_graphs import random_graph
from tracejit.ir import Builder, Graph, Guard, Value
from tracejit.ir.loops import body_of, is_loop, loop_value, part, part_value, split_operands
from tracejit.ops.table import lookup
from tracejit.types import TensorType

Body = Callable[..., tuple[Sequence[Value], Sequence[Value]]]
KINDS = {"f64": tj.float64, "f32": tj.float32, "i64": tj.int64}


def typed(text: str | TensorType) -> TensorType:
    """``f64 3 4`` is a matrix."""
    if isinstance(text, TensorType):
        return text
    dtype, *shape = text.split()
    return TensorType(tuple(map(int, shape)), KINDS[dtype])


def looped(
    carried: Sequence[str], fixed: Sequence[str], items: Sequence[str], rounds: Any, write: Body
) -> Graph:
    """A graph with one loop, and all its parts as outputs; ``write(c, f, i)`` writes a round."""
    inner = Builder("round")
    groups = [
        [inner.input(f"{letter}{n}", typed(t)) for n, t in enumerate(texts)]
        for letter, texts in (("c", carried), ("f", fixed), ("i", items))
    ]
    with inner.writing():
        after, collected = write(*groups)
    body = inner.finish([*after, *collected])
    outer = Builder("looped")
    starts, same = (
        [outer.input(f"{name}{n}", typed(t)) for n, t in enumerate(texts)]
        for name, texts in (("start", carried), ("fixed", fixed))
    )
    kinds = list(map(typed, items))
    stacks = [
        outer.input(f"stack{n}", TensorType((rounds, *k.shape), k.dtype))
        for n, k in enumerate(kinds)
    ]
    loop = outer.insert(loop_value(starts, same, stacks, body, rounds, ("model.py", 3)))
    return outer.finish([outer.insert(part_value(loop, i)) for i in range(len(body.outputs))])


def unrolled(graph: Graph) -> Graph:
    """``graph`` with its loops written out, round by round."""
    builder = Builder(graph.name)
    builder.inputs.extend(graph.inputs)
    return builder.finish(_written(builder, graph, graph.inputs))


def _written(builder: Builder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    mapping = dict(zip(graph.inputs, inputs, strict=True))
    parts: dict[Value, list[Value]] = {}
    for statement in graph.body:
        assert not isinstance(statement, Guard)
        if is_loop(statement):
            operands = [[mapping[x] for x in group] for group in split_operands(statement)]
            parts[statement] = _rounds(builder, statement, *operands)
        elif statement.op is part:
            mapping[statement] = parts[statement.value_operands[0]][statement.attributes["index"]]
        else:
            assert statement.op is not None
            found = [mapping[x] if isinstance(x, Value) else x for x in statement.operands]
            mapping[statement] = builder.emit(statement.op, found, statement.attributes)
    return [mapping[v] for v in graph.outputs]


def _rounds(
    builder: Builder, loop: Value, state: list[Value], fixed: list[Value], stacks: list[Value]
) -> list[Value]:
    body, carried = body_of(loop), len(state)
    collected: list[list[Value]] = [[] for _ in body.outputs[carried:]]
    for number in range(loop.attributes["count"]):
        items = [_item(builder, stack, number) for stack in stacks]
        found = _written(builder, body, [*state, *fixed, *items])
        state = found[:carried]
        for rows, value in zip(collected, found[carried:], strict=True):
            rows.append(builder.emit(lookup("unsqueeze"), (value,), {"dims": (0,)}))
    return [*state, *(builder.emit(lookup("cat"), rows, {"dim": 0}) for rows in collected)]


def _item(builder: Builder, stack: Value, number: int) -> Value:
    rest = stack.spec.shape[1:]
    attributes = {
        "starts": (number, *[0] * len(rest)),
        "counts": (1, *rest),
        "steps": (1,) * (len(rest) + 1),
    }
    row = builder.emit(lookup("slice"), (stack,), attributes)
    return builder.emit(lookup("squeeze"), (row,), {"dims": (0,)})


def random_inputs(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Moderate values for every input."""
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.normal(size=v.spec.shape) * 0.7).astype(v.spec.dtype.np)
        for v in graph.inputs
    ]


# --- examples ----------------------------------------------------------------------------------


def rnn(c: Any, f: Any, i: Any) -> Any:
    h = (i[0] @ f[0] + c[0] @ f[1] + f[2]).tanh()
    return [h], [h]


def last_state(c: Any, f: Any, i: Any) -> Any:
    return [(i[0] @ f[0] + c[0] @ f[1] + f[2]).tanh()], []


def lstm(c: Any, f: Any, i: Any) -> Any:
    h, cell = c
    z = h @ f[0] + i[0] @ f[1] + f[2]
    take, forget, new, out = (z[:, 3 * k : 3 * k + 3] for k in range(4))
    cell = forget.sigmoid() * cell + take.sigmoid() * new.tanh()
    h = out.sigmoid() * cell.tanh()
    return [h, cell], [h @ f[3]]


def leapfrog(c: Any, f: Any, i: Any) -> Any:
    x, v = c
    v = v - 0.05 * f[0] * x.sin()
    x = x + 0.1 * v
    v = v - 0.05 * f[0] * x.sin()
    return [x, v], [(v * v).sum() + f[0].sum() * x.sum()]


def product(c: Any, f: Any, i: Any) -> Any:
    return [c[0] * i[0]], []


def unchanged(c: Any, f: Any, i: Any) -> Any:
    return [c[0], c[1] * c[0].exp() + i[0]], [c[0] * i[0]]


def collected_is_carried(c: Any, f: Any, i: Any) -> Any:
    after = (c[0] * f[0]).cos()
    return [after], [c[0], after, after, i[0], f[0]]


def no_carry(c: Any, f: Any, i: Any) -> Any:
    return [], [(i[0] - f[0]).exp().sum(1), i[0] @ f[1]]


def swapped(c: Any, f: Any, i: Any) -> Any:
    return [c[1], c[0].sin() + c[1] * f[0]], []


def last_of_a_stack(c: Any, f: Any, i: Any) -> Any:
    """The first carried value only shows what the last round made."""
    y = (c[1] * f[0]).sin()
    return [y * 2.0, y], []


def first_only(c: Any, f: Any, i: Any) -> Any:
    """What the first round starts from matters in it alone."""
    return [lookup("detach_copy")(c[0]) * 0.5 + 1.0, c[1] + c[0] * f[0]], []


def heads(c: Any, f: Any, i: Any) -> Any:
    """A batch of matrices, and a matrix shared by a batch."""
    h = (c[0] @ f[0]).tanh() + (i[0] @ f[1])
    return [h], [h.sum((0, 2))]


def numbers(c: Any, f: Any, i: Any) -> Any:
    """Scalars beside tensors, integers beside floats."""
    k, x = c
    return [k + 1, x * f[0] + i[0] * k], [x.sum() * i[0]]


def attention(c: Any, f: Any, i: Any) -> Any:
    """Rows of one fixed matrix weighted by what is carried."""
    scores = ((c[0] @ f[0]) @ i[0].transpose(0, 1)).softmax(-1)
    return [(scores @ i[0]) @ f[1] + c[0]], [scores]


def eager_sum(c: Any, f: Any, i: Any) -> Any:
    """Sums of several terms, of which some can be taken out."""
    h = (c[0] @ f[0]).tanh()
    gram = c[1] + i[0].transpose(0, 1) @ h + i[0].transpose(0, 1) @ c[0].cos()
    return [h, gram, c[2] + h.exp().sum(0) + h[0] * 2.0], [h]


def activated(c: Any, f: Any, i: Any) -> Any:
    """What is collected is what its own gradient reads; the stack of it is a copy all the same."""
    h = (c[0] @ f[0]).tanh()
    return [h], [(h @ f[1]).sigmoid(), (i[0] @ f[0]).sigmoid()]


EXAMPLES: dict[str, Graph] = {
    "rnn": looped(["f64 2 4"], ["f64 3 4", "f64 4 4", "f64 4"], ["f64 2 3"], 5, rnn),
    "last_state": looped(["f64 2 4"], ["f64 3 4", "f64 4 4", "f64 4"], ["f64 2 3"], 4, last_state),
    "lstm": looped(
        ["f64 2 3", "f64 2 3"],
        ["f64 3 12", "f64 2 12", "f64 12", "f64 3 2"],
        ["f64 2 2"],
        4,
        lstm,
    ),
    "activated": looped(["f64 2 3"], ["f64 3 3", "f64 3 4"], ["f64 2 3"], 3, activated),
    "leapfrog": looped(["f64 5", "f64 5"], ["f64 5"], [], 6, leapfrog),
    "product": looped(["f64 3"], [], ["f64 3"], 7, product),
    "unchanged": looped(["f64 3", "f64 3"], [], ["f64 3"], 3, unchanged),
    "collected_is_carried": looped(["f64 3"], ["f64 3"], ["f64 3"], 4, collected_is_carried),
    "no_carry": looped([], ["f64 4", "f64 4 2"], ["f64 3 4"], 5, no_carry),
    "swapped": looped(["f64 3", "f64 3"], ["f64 3"], [], 5, swapped),
    "last_of_a_stack": looped(["f64 3", "f64 3"], ["f64 3"], [], 4, last_of_a_stack),
    "first_only": looped(["f64 3", "f64 3"], ["f64 3"], [], 4, first_only),
    "heads": looped(["f64 3 2 4"], ["f64 3 4 4", "f64 5 4"], ["f64 3 2 5"], 3, heads),
    "numbers": looped(["i64", "f64 3"], ["f64"], ["f64"], 4, numbers),
    "attention": looped(["f64 2 4"], ["f64 4 3", "f64 3 4"], ["f64 5 3"], 3, attention),
    "eager_sum": looped(["f64 2 4", "f64 3 4", "f64 4"], ["f64 4 4"], ["f64 2 3"], 4, eager_sum),
}


def nested() -> Graph:
    """A loop in the body of a loop, and a loop that reads what another collects."""

    def outer(c: Any, f: Any, i: Any) -> Any:
        from tracejit.modes import MODES

        def inner(c: Any, f: Any, i: Any) -> Any:
            return [(c[0] * f[0] + i[0]).tanh()], [c[0]]

        graph = looped(["f64 3"], ["f64 3"], ["f64 3"], 2, inner)
        builder = MODES.builder
        assert isinstance(builder, Builder)
        (old,) = [v for v in graph.values if is_loop(v)]
        loop = builder.insert(loop_value([c[0]], [f[0]], [i[0]], body_of(old), 2))
        last, rows = (builder.insert(part_value(loop, k)) for k in range(2))
        return [last * 0.5], [rows.sum(0)]

    return looped(["f64 3"], ["f64 3"], ["f64 2 3"], 3, outer)


EXAMPLES["nested"] = nested()


def random_loop(seed: int, rounds: int = 3) -> tuple[Graph, list[np.ndarray]]:
    """A loop with a random body over the op table, and inputs."""
    body, arrays = random_graph(seed, size=8, dtypes=(tj.float64,), special=False)
    rng = np.random.default_rng(seed)
    values = [*body.inputs, *body.values]
    state: list[tuple[Value, Value]] = []
    fixed, items = [], []
    for value in body.inputs:
        options = [v for v in values if v.spec == value.spec]
        kind = rng.choice(["carried", "carried", "fixed", "item"])
        if kind == "carried":
            state.append((value, options[-1 - int(rng.integers(min(3, len(options))))]))
        else:
            (fixed if kind == "fixed" else items).append(value)
    inputs = (*(v for v, _ in state), *fixed, *items)
    outputs = (*(v for _, v in state), *body.outputs)
    graph = Graph("round", inputs, tuple(body.values), outputs)
    known = dict(zip(body.inputs, arrays, strict=True))
    given = [known[v] for v in (*(v for v, _ in state), *fixed)]
    given += [np.stack([known[v]] * rounds) for v in items]
    if items:  # other values in other rounds where they may be any
        given[len(inputs) - len(items) :] = [
            a * np.linspace(0.5, 1.5, rounds, dtype=a.dtype).reshape(-1, *[1] * (a.ndim - 1))
            if a.dtype.kind == "f"
            else a
            for a in given[len(inputs) - len(items) :]
        ]
    outer = Builder("random")
    operands = [
        outer.input(f"a{n}", TensorType(a.shape, tj.dtypes.from_numpy(a.dtype)))
        for n, a in enumerate(given)
    ]
    cut, last = len(state), len(inputs) - len(items)
    loop = outer.insert(
        loop_value(operands[:cut], operands[cut:last], operands[last:], graph, rounds)
    )
    count = len(graph.outputs)
    return outer.finish([outer.insert(part_value(loop, i)) for i in range(count)]), given


def random_network(seed: int) -> Graph:
    """A loop over rows, matrices and numbers, made of products, sums, pieces and elementwise ops."""
    rng = np.random.default_rng(seed)

    def some(texts: Sequence[str], most: int) -> list[str]:
        return [str(rng.choice(texts)) for _ in range(int(rng.integers(most + 1)))]

    kinds = ("f64 2 4", "f64 2 4", "f64 4", "f64 4 4", "f64")
    carried = some(kinds, 3)
    fixed, items = some(("f64 4 4", "f64 4 4", "f64 4", "f64"), 3), some(kinds, 2)

    def write(c: Any, f: Any, i: Any) -> Any:
        values = [*c, *f, *i]
        if not values:
            values = [tj.ones(4).double()]
        for _ in range(int(rng.integers(4, 12))):
            found = _one_op(rng, values)
            if found is not None:
                values.append(found)
        after = [_of_type(rng, x, values) for x in c]
        return after, [values[-1 - k] for k in range(int(rng.integers(3)))]

    if not carried and not items:
        carried = ["f64 2 4"]
    return looped(carried, fixed, items, int(rng.integers(2, 5)), write)


def _one_op(rng: np.random.Generator, values: list[Any]) -> Any:
    x, y = (values[-1 - min(int(rng.exponential(3.0)), len(values) - 1)] for _ in range(2))
    matrices = x.spec.ndim == y.spec.ndim == 2
    match int(rng.integers(9)):
        case 0 | 1 if matrices and x.spec.shape[1] == y.spec.shape[0]:
            return x @ y * 0.5
        case 2 if matrices and x.spec.shape[0] == y.spec.shape[0]:
            return x.mT @ y * 0.5
        case 3 if x.spec.ndim:
            return x.sum(int(rng.integers(x.spec.ndim))) * 0.5
        case 4 if x.spec.ndim == 2:
            return tj.cat([x[:, 2:] * 2.0, x[:, :2]], 1)
        case 5 if matrices and x.spec.shape[0] == y.spec.shape[0]:
            return tj.cat([x, y], 1)[:, 2:6]
        case 6:
            return x.tanh()
        case 7:
            return x.sin() + 0.5
    if x.spec.shape[-y.spec.ndim :] == y.spec.shape or not y.spec.ndim:
        return x * y if rng.random() < 0.5 else x + y
    return None


def _of_type(rng: np.random.Generator, x: Any, values: list[Any]) -> Any:
    """What follows on a carried value: a sum, or another value of its type."""
    others = [v for v in values if v.spec == x.spec]
    found = others[-1 - min(int(rng.exponential(1.0)), len(others) - 1)]
    return x + found * 0.5 if rng.random() < 0.5 else found
