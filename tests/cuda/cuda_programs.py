"""Programs as users write them, with the graphs that compiling them gives: forward, backward, optimizer updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tracejit as tj
import tracejit.nn.functional as F
from tracejit import dtypes
from tracejit.ir import parse
from tracejit.ir.graph import Graph
from tracejit.testing.workloads import WORKLOADS

Tensor = Any
Array = Any


def tensor(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Tensor:
    draws = np.random.default_rng(seed).uniform(low, high, shape)
    return tj.from_numpy(draws.astype(np.float32))


def parameter(*shape: int, seed: int = 0) -> Tensor:
    return tensor(*shape, seed=seed, low=-0.5, high=0.5).requires_grad_()


def labels(count: int, classes: int) -> Tensor:
    return tj.from_numpy(np.random.default_rng(5).integers(0, classes, count))


@dataclass(frozen=True)
class Program:
    """A function, its arguments, and whether it is differentiated."""

    function: Callable[..., Tensor]
    arguments: Callable[[], tuple[Tensor, ...]]
    backward: bool = True


def mlp(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return (F.gelu(x @ w1 + b1) @ w2 + b2).square().mean()


def tanh_mlp(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(F.gelu(x @ w1 + b1, approximate="tanh") @ w2 + b2, y)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) * 0.5
    n = scores.shape[-1]
    mask = tj.ones(n, n, dtype=tj.bool, device=q.device).triu(1)
    return (scores.masked_fill(mask, float("-inf")).softmax(-1) @ v).sum()


def batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    mean = x.mean((0, 2, 3), keepdim=True)
    centred = x - mean
    variance = centred.square().mean((0, 2, 3), keepdim=True)
    return (centred / (variance + 1e-5).sqrt() * w + b).relu().square().sum()


def strided(x: Tensor) -> Tensor:
    return ((x[::2].T * 2 + x[1::2].T.flip(0)) * x[:1, :6]).exp().sum(0).square().sum()


def half(dtype: Any) -> Callable[..., Tensor]:
    def program(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = F.layer_norm(x.to(dtype), (x.shape[-1],), w.to(dtype), b.to(dtype))
        return y.softmax(-1).to(tj.float32).square().sum()

    return program


def statistics(x: Tensor) -> tuple[Tensor, ...]:
    return x.var(-1), x.amax(1) - x.amin(1), x.prod(0), (x > 0).any(1), (x > -3).all(0), x.std()


def rows_and_columns(n: int, m: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (tensor(n, m).requires_grad_(),)


def affine(n: int, m: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (tensor(n, m).requires_grad_(), parameter(m, seed=1), parameter(m, seed=2))


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return (F.layer_norm(x, (x.shape[-1],), w, b) * tj.arange(x.shape[-1], device=x.device)).sum()


def two_layers() -> tuple[Tensor, ...]:
    return (
        tensor(6, 8),
        parameter(8, 12, seed=1),
        parameter(12, seed=2),
        parameter(12, 5, seed=3),
        parameter(5, seed=4),
    )


def gpt(tokens: Tensor, targets: Tensor, *p: Tensor) -> Tensor:
    """One block of a small language model: embeddings, causal attention, an MLP, cross entropy."""
    embed, position, g1, b1, qkv, out, g2, b2, w1, w2, g3, b3 = p
    batch, length = tokens.shape
    width, heads = embed.shape[-1], 2
    x = F.embedding(tokens, embed) + position
    h = F.layer_norm(x, (width,), g1, b1) @ qkv
    q, k, v = (t.reshape(batch, length, heads, -1).transpose(1, 2) for t in h.chunk(3, -1))
    scores = q @ k.transpose(-2, -1) * (width // heads) ** -0.5
    mask = tj.ones(length, length, dtype=tj.bool, device=x.device).triu(1)
    a = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
    x = x + a.transpose(1, 2).reshape(batch, length, width) @ out
    x = x + F.gelu(F.layer_norm(x, (width,), g2, b2) @ w1) @ w2
    logits = F.layer_norm(x, (width,), g3, b3) @ embed.T
    return F.cross_entropy(logits.reshape(batch * length, -1), targets.reshape(-1))


def gpt_arguments() -> tuple[Tensor, ...]:
    shapes = [
        (11, 12),
        (6, 12),
        (12,),
        (12,),
        (12, 36),
        (12, 12),
        (12,),
        (12,),
        (12, 48),
        (48, 12),
        (12,),
        (12,),
    ]
    tokens = labels(18, 11).reshape(3, 6)
    return (
        tokens,
        labels(18, 11).reshape(3, 6),
        *(parameter(*s, seed=i) for i, s in enumerate(shapes)),
    )


def digits(x: Tensor, y: Tensor, *p: Tensor) -> Tensor:
    """A classifier of 8 by 8 images."""
    h = F.relu(x.reshape(-1, 64) / 16.0 @ p[0] + p[1])
    return F.cross_entropy(F.relu(h @ p[2] + p[3]) @ p[4] + p[5], y)


def digits_arguments() -> tuple[Tensor, ...]:
    shapes = [(64, 32), (32,), (32, 16), (16,), (16, 10), (10,)]
    return (
        tensor(9, 8, 8, low=0.0, high=16.0),
        labels(9, 10),
        *(parameter(*s, seed=i) for i, s in enumerate(shapes)),
    )


def workload(name: str, size: int) -> Program:
    found = next(w for w in WORKLOADS if w.name == name)
    function, _ = found.make(tj, size)
    return Program(function, lambda: found.make(tj, size)[1], found.mode != "forward")


PROGRAMS: dict[str, Program] = {
    "softmax": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(5, 24)),
    "softmax_odd": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(4, 37)),
    "softmax_short": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(37, 5)),
    "softmax_short_even": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(67, 32)),
    "softmax_long": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(2, 1300)),
    "softmax_long_odd": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(2, 1127)),
    "softmax_full_warp": Program(lambda x: (x.softmax(-1) * x).sum(), rows_and_columns(2, 1024)),
    "softmax_three": Program(
        lambda x: (x.exp() / x.exp().sum((0, 2), keepdim=True)).square().sum(),
        lambda: (tensor(3, 7, 5).requires_grad_(),),
    ),
    "softmax_columns": Program(lambda x: (x.softmax(0) * x).sum(), rows_and_columns(33, 9)),
    "log_softmax": Program(lambda x: (F.log_softmax(x, -1) * x).sum(), rows_and_columns(3, 10)),
    "layer_norm": Program(layer_norm, affine(9, 20)),
    "layer_norm_long": Program(layer_norm, affine(2, 1100)),
    "cross_entropy": Program(
        lambda x, y: F.cross_entropy(x, y),
        lambda: (tensor(7, 10).requires_grad_(), labels(7, 10)),
    ),
    "cross_entropy_smoothed": Program(
        lambda x, y: F.cross_entropy(x, y, ignore_index=2, label_smoothing=0.1),
        lambda: (tensor(9, 33).requires_grad_(), labels(9, 33)),
    ),
    "cross_entropy_long": Program(
        lambda x, y: F.cross_entropy(x, y, reduction="sum"),
        lambda: (tensor(3, 1500).requires_grad_(), labels(3, 1500)),
    ),
    "gelu_mlp": Program(mlp, two_layers),
    "tanh_gelu_mlp": Program(tanh_mlp, lambda: (*two_layers(), labels(6, 5))),
    "attention": Program(
        attention, lambda: tuple(tensor(2, 2, 6, 4, seed=s).requires_grad_() for s in range(3))
    ),
    "batch_norm": Program(
        batch_norm,
        lambda: (
            tensor(3, 4, 5, 5).requires_grad_(),
            parameter(4, 1, 1, seed=1),
            parameter(4, 1, 1, seed=2),
        ),
    ),
    "strided": Program(strided, rows_and_columns(12, 10)),
    "columns": Program(lambda x: ((x * 2).sum(0) + 1).square().sum(), rows_and_columns(300, 6)),
    "statistics": Program(statistics, lambda: (tensor(6, 40),), False),
    "bfloat16": Program(half(tj.bfloat16), affine(3, 36)),
    "float16": Program(half(tj.float16), affine(3, 35)),
    "dropout": Program(lambda x: (F.dropout(x * 2, 0.4) + x).exp().sum(), rows_and_columns(6, 10)),
    "black_scholes": workload("black_scholes", 50),
    "black_scholes_gradient": workload("black_scholes_grad", 50),
    "mlp": workload("mlp_step", 8),
    "digits": Program(digits, digits_arguments),
    "gpt": Program(gpt, gpt_arguments),
}

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: tj.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, fused=True
    ),
    "adam": lambda p: tj.optim.Adam(p, lr=0.01, amsgrad=True, fused=True),
    "adamw": lambda p: tj.optim.AdamW(p, lr=0.01, weight_decay=0.1, fused=True),
}


def concrete(graph: Graph) -> Graph:
    """A graph of its own, with the sizes it has now."""
    return parse(str(graph))


@cache
def graphs(name: str) -> tuple[Graph, ...]:
    """The graphs of a program, forward and backward."""
    program = PROGRAMS[name]
    compiled = tj.compile(program.function, strict=True)
    for _ in range(2):
        arguments = program.arguments()
        result = compiled(*arguments)
        if program.backward:
            result.backward()
    found = [p.plan.legal for e in compiled.entries.values() for x in e for p in x.programs()]
    return tuple(map(concrete, found))


@cache
def update_graph(name: str) -> Graph:
    """The graph of an optimizer's update of a few parameters."""
    from tracejit.optim import fused

    fused._updates.clear()
    parameters = [parameter(5, 3), parameter(7, seed=1), parameter(40, seed=2)]
    optimizer = OPTIMIZERS[name](parameters)
    for step in range(4):
        for p in parameters:
            p.grad = tensor(*p.shape, seed=step)
        optimizer.step()
    found = [u.program.plan.legal for u in fused._updates.values() if u.program is not None]
    return concrete(max(found, key=lambda graph: len(graph.body)))


def all_graphs() -> Iterator[tuple[str, Graph]]:
    """Every graph, by a name of its own."""
    for name in PROGRAMS:
        for number, graph in enumerate(graphs(name)):
            yield f"{name}_{number}", graph
    for name in OPTIMIZERS:
        yield name, update_graph(name)


#: Graphs that take logarithms and square roots of their inputs.
POSITIVE = ("_call_price", "value", "update", "adam")


def inputs_of(graph: Graph, seed: int = 0) -> list[Array]:
    """Arrays for a graph's inputs: what it saved is positive, what it looks up is small."""
    rng = np.random.default_rng(seed)
    smallest = 5
    found = []
    for value in graph.inputs:
        dtype, shape = value.spec.dtype, value.spec.shape
        if dtype.category == "float":
            positive = value.name[:1] == "s" or graph.name.startswith(POSITIVE)
            low = 0.1 if positive else -2.0
            found.append(np.asarray(rng.uniform(low, 2.0, shape)).astype(dtype.np))
        elif dtype is dtypes.bool_:
            found.append(np.asarray(rng.integers(0, 2, shape)).astype(bool))
        else:
            found.append(np.asarray(rng.integers(0, smallest, shape)).astype(dtype.np))
    return found
