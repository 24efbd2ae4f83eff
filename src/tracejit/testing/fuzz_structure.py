"""Statements of random programs that reduce, rearrange, index, join or multiply values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .fuzz_programs import Grower, Statement, Unsuitable


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """May these shapes meet?"""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def dims_of(g: Grower, rank: int) -> str:
    """Some dims of a value, as text."""
    count = g.whole(1, rank + 1)
    dims = [int(d) - (rank if g.chance(0.3) else 0) for d in g.rng.permutation(rank)[:count]]
    return repr(dims[0] if len(dims) == 1 and g.chance(0.5) else tuple(dims))


def reduction(g: Grower) -> Statement:
    """A reduction over some or all dims."""
    name = g.any()
    rank = g.values[name].ndim
    real = g.values[name].dtype.is_floating_point
    how = g.pick(
        ["sum", "sum", "mean", "amax", "amin", "var", "std"]
        if real
        else ["sum", "amax", "amin", "any", "all"]
    )
    if rank == 0 or g.chance(0.25):
        return g.let(f"{name}.{how}()")
    keep = g.pick(["", ", keepdim=True"])
    return g.let(f"{name}.{how}({dims_of(g, rank)}{keep})")


def along(g: Grower) -> Statement:
    """Ops that take one dim."""
    name = g.ranked()
    rank = g.values[name].ndim
    dim, real = g.whole(-rank, rank), g.values[name].dtype.is_floating_point
    how = (
        g.pick(
            [
                "tj.softmax({x}, {d})",
                "F.log_softmax({x}, {d})",
                "tj.logsumexp({x}, {d})",
                "{x}.prod({d})",
                "tj.cumsum({x}, {d})",
                "{x}.max({d})[0]",
                "{x} / ({x}.abs().sum({d}, keepdim=True) + 1)",
                "({x} - {x}.mean({d}, keepdim=True))",
                "{x}.sort({d})[0]",
            ]
            if real
            else ["{x}.sum({d})", "{x}.max({d})[0]", "tj.cumsum({x}, {d})"]
        )
        if g.chance(0.85)
        else "{x}.argmax({d})"
    )
    return g.let(how.format(x=name, d=dim))


def normalise(g: Grower) -> Statement:
    """A layer norm over the last dim."""
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point and t.shape[-1] > 0)
    return g.let(f"F.layer_norm({name}, ({g.values[name].shape[-1]},))")


def view(g: Grower) -> Statement:
    """A view, or a rearranged copy."""
    name = g.any()
    value = g.values[name]
    kind = g.pick(
        [
            "reshape",
            "permute",
            "slice",
            "slice",
            "expand",
            "unsqueeze",
            "squeeze",
            "flip",
            "select",
            "diagonal",
            "T",
            "repeat",
            "roll",
        ]
    )
    rank, shape = value.ndim, tuple(value.shape)
    if kind == "reshape":
        return g.let(f"{name}.reshape({reshaped(g, shape)})")
    if kind == "unsqueeze":
        return g.let(f"{name}.unsqueeze({g.whole(-rank - 1, rank + 1)})")
    if kind == "expand":
        ahead = g.shape(g.whole(0, 2))
        target = (*ahead, *(g.pick(g.extents) if e == 1 else e for e in shape))
        return g.let(f"{name}.expand({target})")
    if rank == 0:
        raise Unsuitable
    if kind == "permute":
        return g.let(f"{name}.permute({tuple(int(d) for d in g.rng.permutation(rank))})")
    if kind == "slice":
        return g.let(f"{name}[{sliced(g, shape)}]")
    dim = g.whole(0, rank)
    texts = {
        "squeeze": f"{name}.squeeze({dim})",
        "flip": f"tj.flip({name}, ({dim},))",
        "select": f"{name}.select({dim}, 0)",
        "diagonal": f"{name}.diagonal({g.whole(-1, 2)})",
        "T": f"{name}.transpose({dim}, {g.whole(0, rank)})",
        "repeat": f"{name}.repeat_interleave(2, {dim})",
        "roll": f"tj.roll({name}, {g.whole(-2, 3)}, {dim})",
    }
    return g.let(texts[kind])


def reshaped(g: Grower, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape with as many elements."""
    count = int(np.prod(shape, dtype=np.int64))
    choices = [(count,), (1, count), (count, 1), tuple(reversed(shape)), (*shape, 1), (1, *shape)]
    choices += [(count // d, d) for d in (2, 3, 4, 5) if count % d == 0]
    if len(shape) >= 2:
        choices += [(shape[0] * shape[1], *shape[2:]), (*shape[:-2], shape[-2] * shape[-1])] * 2
    chosen: tuple[int, ...] = g.pick(choices)
    return chosen


def sliced(g: Grower, shape: tuple[int, ...]) -> str:
    """Basic indexing of some leading dims."""
    parts = []
    for extent in shape[: g.whole(1, len(shape) + 1)]:
        start = g.whole(0, max(extent, 1))
        parts.append(
            g.pick(
                [
                    ":",
                    f"{start}:",
                    f":{start}",
                    "::2",
                    f"{start}::3",
                    f"{start}",
                    ":",
                    "1:",
                    ":-1",
                    "None",
                ]
            )
        )
    return ", ".join(parts)


def join(g: Grower) -> Statement:
    """Two values side by side."""
    name = g.any()
    shape = tuple(g.values[name].shape)
    if shape and g.chance(0.6):
        dim = g.whole(0, len(shape))
        rest = (shape[:dim], shape[dim + 1 :])
        other = g.any(
            lambda t: t.ndim == len(shape) and (t.shape[:dim], t.shape[dim + 1 :]) == rest
        )
        return g.let(f"tj.cat([{name}, {other}], {dim})")
    other = g.any(lambda t: tuple(t.shape) == shape)
    return g.let(f"tj.stack([{name}, {other}], {g.whole(0, len(shape) + 1)})")


def product(g: Grower) -> Statement:
    """A matrix product."""
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point)
    value = g.values[name]
    inner = value.shape[-1]

    def fits(t: Any) -> bool:
        return t.dtype is value.dtype and t.ndim >= 1 and bool(t.shape[max(-2, -t.ndim)] == inner)

    if not g.names(fits) or g.chance(0.4):
        return g.let(
            f"{name} @ {name}.transpose(-1, -2)" if value.ndim >= 2 else f"{name} @ {name}"
        )
    return g.let(f"{name} @ {g.any(fits)}")


def linear(g: Grower) -> Statement:
    """A product with a new parameter."""
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point)
    value = g.values[name]
    dtype = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}[
        value.dtype.short
    ]
    if len(g.program.inputs) > 6:
        raise Unsuitable
    weight = g.add_input((g.pick(g.extents), value.shape[-1]), dtype)
    return g.let(f"F.linear({name}, {weight})")


def index(g: Grower) -> Statement:
    """Indexing by an integer argument."""
    name = g.any(lambda t: t.ndim >= 1 and t.shape[0] > 0)
    value = g.values[name]
    if len(g.program.inputs) > 6:
        raise Unsuitable
    kind = g.pick(["take", "take", "select", "gather", "scatter", "index_add", "loss"])
    if kind == "gather":
        dim = g.whole(0, value.ndim)
        shape = list(value.shape)
        shape[dim] = g.whole(1, 4)
        positions = g.add_input(tuple(shape), "int64", value.shape[dim])
        return g.let(f"{name}.gather({dim}, {positions})")
    if kind == "scatter":
        positions = g.add_input(tuple(value.shape), "int64", value.shape[0])
        return g.let(f"{name}.scatter_add(0, {positions}, {name})")
    if kind == "loss":
        if value.ndim != 2 or not value.dtype.is_floating_point or not value.shape[1]:
            raise Unsuitable
        return g.let(
            f"F.cross_entropy({name}, {g.add_input((value.shape[0],), 'int64', value.shape[1])})"
        )
    positions = g.add_input((g.whole(1, 5),), "int64", value.shape[0])
    if kind == "index_add":
        return g.let(f"{name}.index_add(0, {positions}, {name}[{positions}])")
    return g.let(
        f"{name}[{positions}]" if kind == "take" else f"{name}.index_select(0, {positions})"
    )


def triangle(g: Grower) -> Statement:
    """One triangle of a matrix."""
    name = g.ranked(2)
    return g.let(f"tj.{g.pick(['tril', 'triu'])}({name}, {g.whole(-1, 2)})")
