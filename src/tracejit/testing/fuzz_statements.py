"""The statements random programs are made of: each maker picks operands among the values so far and returns the text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .fuzz_programs import Grower, Statement, Unsuitable

UNARY = (
    "sin cos tanh sigmoid exp erf neg abs relu square floor ceil sign trunc round log1p expm1 atan asinh rsqrt sqrt log "
    "reciprocal cosh sinh exp2 log2 erfc tan acos asin"
).split()
CALLS = (
    "F.gelu({x})", "F.silu({x})", "F.softplus({x})", "F.elu({x})", "F.leaky_relu({x})", "{x}.clamp(-0.5, 0.75)",
    "tj.sqrt(tj.abs({x}) + 0.5)", "tj.log(tj.abs({x}) + 0.5)", "tj.nan_to_num({x} / {x})", "F.hardswish({x})",
)
BINARY = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1.0)", "tj.maximum({x}, {y})", "tj.minimum({x}, {y})",
          "tj.atan2({x}, {y} + 2.5)", "tj.logaddexp({x}, {y})", "{x} / {y}", "tj.fmod({x}, {y})", "tj.remainder({x}, {y})",
          "tj.pow(tj.abs({x}) + 0.5, {y})", "tj.copysign({x}, {y})", "tj.where({x} > {y}, {x}, {y} * 2)", "tj.lerp({x}, {y}, 0.3)")
COMPARE = ("{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} != {y}", "{x} < {y}")
INTEGRAL = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} // {y}", "tj.maximum({x}, {y})")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "int8")


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """May these shapes meet?"""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def unary(g: Grower) -> Statement:
    name = g.real()
    return g.let(f"tj.{g.pick(UNARY)}({name})" if g.chance(0.7) else g.pick(CALLS).format(x=name))


def partner(g: Grower, name: str) -> str:
    """Another value that broadcasts against ``name``, or a number."""
    if g.chance(0.2):
        return g.pick(["2", "0.5", "-1.5", "3", "True", "0"])
    shape = g.values[name].shape
    return g.any(lambda t: broadcasts(tuple(t.shape), tuple(shape)))


def binary(g: Grower) -> Statement:
    name = g.real()
    other = partner(g, name)
    if g.chance(0.3):
        name, other = other, name
    return g.let(g.pick(BINARY).format(x=name, y=other))


def integral(g: Grower) -> Statement:
    name = g.any(lambda t: not t.dtype.is_floating_point)
    shape = tuple(g.values[name].shape)
    other = g.any(lambda t: not t.dtype.is_floating_point and broadcasts(tuple(t.shape), shape))
    return g.let(g.pick(INTEGRAL).format(x=name, y=other))


def compare(g: Grower) -> Statement:
    name = g.any()
    return g.let(g.pick(COMPARE).format(x=name, y=partner(g, name)))


def where(g: Grower) -> Statement:
    x = g.any()
    shape = tuple(g.values[x].shape)
    mask = g.any(lambda t: t.dtype.short == "bool" and broadcasts(tuple(t.shape), shape))
    if g.chance(0.3):
        return g.let(f"{x}.masked_fill({mask}, {g.pick(['0', '-1.5', '7'])})")
    return g.let(f"tj.where({mask}, {x}, {partner(g, x)})")


def dims_of(g: Grower, rank: int) -> str:
    """Some dims of a value, as text."""
    count = g.whole(1, rank + 1)
    dims = [int(d) - (rank if g.chance(0.3) else 0) for d in g.rng.permutation(rank)[:count]]
    return repr(dims[0] if len(dims) == 1 and g.chance(0.5) else tuple(dims))


def reduction(g: Grower) -> Statement:
    name = g.any()
    rank = g.values[name].ndim
    real = g.values[name].dtype.is_floating_point
    how = g.pick(["sum", "sum", "mean", "amax", "amin", "var", "std"] if real else ["sum", "amax", "amin", "any", "all"])
    if rank == 0 or g.chance(0.25):
        return g.let(f"{name}.{how}()")
    keep = g.pick(["", ", keepdim=True"])
    return g.let(f"{name}.{how}({dims_of(g, rank)}{keep})")


def along(g: Grower) -> Statement:
    """Ops that take one dim."""
    name = g.ranked()
    rank = g.values[name].ndim
    dim, real = g.whole(-rank, rank), g.values[name].dtype.is_floating_point
    how = g.pick([
        "tj.softmax({x}, {d})", "F.log_softmax({x}, {d})", "tj.logsumexp({x}, {d})", "{x}.prod({d})", "tj.cumsum({x}, {d})",
        "{x}.max({d})[0]", "{x} / ({x}.abs().sum({d}, keepdim=True) + 1)", "({x} - {x}.mean({d}, keepdim=True))", "{x}.sort({d})[0]",
    ] if real else ["{x}.sum({d})", "{x}.max({d})[0]", "tj.cumsum({x}, {d})"]) if g.chance(0.85) else "{x}.argmax({d})"  # fmt: skip
    return g.let(how.format(x=name, d=dim))


def normalise(g: Grower) -> Statement:
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point and t.shape[-1] > 0)
    return g.let(f"F.layer_norm({name}, ({g.values[name].shape[-1]},))")


def view(g: Grower) -> Statement:
    name = g.any()
    value = g.values[name]
    kind = g.pick(["reshape", "permute", "slice", "slice", "expand", "unsqueeze", "squeeze", "flip", "select", "diagonal", "T", "repeat", "roll"])
    rank, shape = value.ndim, tuple(value.shape)
    if kind == "reshape":
        return g.let(f"{name}.reshape({reshaped(g, shape)})", fresh=False)
    if kind == "unsqueeze":
        return g.let(f"{name}.unsqueeze({g.whole(-rank - 1, rank + 1)})", fresh=False)
    if kind == "expand":
        ahead = g.shape(g.whole(0, 2))
        target = (*ahead, *(g.pick(g.extents) if e == 1 else e for e in shape))
        return g.let(f"{name}.expand({target})", fresh=False)
    if rank == 0:
        raise Unsuitable
    if kind == "permute":
        return g.let(f"{name}.permute({tuple(int(d) for d in g.rng.permutation(rank))})", fresh=False)
    if kind == "slice":
        return g.let(f"{name}[{sliced(g, shape)}]", fresh=False)
    dim = g.whole(0, rank)
    texts = {
        "squeeze": f"{name}.squeeze({dim})", "flip": f"tj.flip({name}, ({dim},))", "select": f"{name}.select({dim}, 0)",
        "diagonal": f"{name}.diagonal({g.whole(-1, 2)})", "T": f"{name}.transpose({dim}, {g.whole(0, rank)})",
        "repeat": f"{name}.repeat_interleave(2, {dim})", "roll": f"tj.roll({name}, {g.whole(-2, 3)}, {dim})",
    }  # fmt: skip
    return g.let(texts[kind], fresh=False)


def reshaped(g: Grower, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape with as many elements."""
    count = int(np.prod(shape, dtype=np.int64))
    choices = [(count,), (1, count), (count, 1), tuple(reversed(shape)), (*shape, 1), (1, *shape)]
    choices += [(count // d, d) for d in (2, 3, 4, 5) if count % d == 0]
    if len(shape) >= 2:
        choices += [(shape[0] * shape[1], *shape[2:]), (*shape[:-2], shape[-2] * shape[-1])] * 2
    return g.pick(choices)


def sliced(g: Grower, shape: tuple[int, ...]) -> str:
    """Basic indexing of some leading dims."""
    parts = []
    for extent in shape[: g.whole(1, len(shape) + 1)]:
        start = g.whole(0, max(extent, 1))
        parts.append(g.pick([":", f"{start}:", f":{start}", "::2", f"{start}::3", f"{start}", ":", "1:", ":-1", "None"]))
    return ", ".join(parts)


def join(g: Grower) -> Statement:
    name = g.any()
    shape = tuple(g.values[name].shape)
    if shape and g.chance(0.6):
        dim = g.whole(0, len(shape))
        rest = (shape[:dim], shape[dim + 1 :])
        other = g.any(lambda t: t.ndim == len(shape) and (t.shape[:dim], t.shape[dim + 1 :]) == rest)
        return g.let(f"tj.cat([{name}, {other}], {dim})")
    other = g.any(lambda t: tuple(t.shape) == shape)
    return g.let(f"tj.stack([{name}, {other}], {g.whole(0, len(shape) + 1)})")


def product(g: Grower) -> Statement:
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point)
    value = g.values[name]
    inner = value.shape[-1]
    fits = lambda t: t.dtype is value.dtype and t.ndim >= 1 and t.shape[max(-2, -t.ndim)] == inner  # noqa: E731
    if not g.names(fits) or g.chance(0.4):
        return g.let(f"{name} @ {name}.transpose(-1, -2)" if value.ndim >= 2 else f"{name} @ {name}")
    return g.let(f"{name} @ {g.any(fits)}")


def linear(g: Grower) -> Statement:
    """A product with a new parameter."""
    name = g.any(lambda t: t.ndim >= 1 and t.dtype.is_floating_point)
    value = g.values[name]
    dtype = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}[value.dtype.short]
    if len(g.program.inputs) > 6:
        raise Unsuitable
    weight = g.add_input((g.pick(g.extents), value.shape[-1]), dtype)
    return g.let(f"F.linear({name}, {weight})")


def index(g: Grower) -> Statement:
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
        return g.let(f"F.cross_entropy({name}, {g.add_input((value.shape[0],), 'int64', value.shape[1])})")
    positions = g.add_input((g.whole(1, 5),), "int64", value.shape[0])
    if kind == "index_add":
        return g.let(f"{name}.index_add(0, {positions}, {name}[{positions}])")
    return g.let(f"{name}[{positions}]" if kind == "take" else f"{name}.index_select(0, {positions})")


def write(g: Grower) -> Statement:
    """A change in place: of a fresh value, or of a view of one."""
    name = g.real() if g.chance(0.8) else g.any()
    shape = tuple(g.values[name].shape)
    other = g.any(lambda t: broadcasts(tuple(t.shape), shape) and t.ndim <= len(shape))
    target = g.name()
    first = f"{target} = {name}.clone()"
    forms = ["{t}.add_({o})", "{t}.mul_({o})", "{t} += {o}", "{t}.relu_()", "{t}[0] = 1", "{t}[..., 1:] = 0.5", "{t}[..., ::2] *= 2",
             "{t}[0].add_({o})", "{t}.transpose(0, -1)[0] = 0.25", "{t}[..., :1] = {t}[..., -1:]"]
    if not g.values[name].requires_grad:
        forms += ["{t}.fill_(2)", "{t}.copy_({o})"]
    form = g.pick(forms)
    return Statement((first, form.format(t=target, o=other)), target, True)


def write_input(g: Grower) -> Statement:
    """A change in place of an argument that takes no gradient."""
    taken = [i.name for i in g.program.inputs if not i.requires_grad and i.dtype not in ("bool",) and i.layout != "expanded" and i.low < 0]
    if not taken:
        raise Unsuitable
    name = g.pick(taken)
    form = g.pick(["{t}.add_(1)", "{t}.mul_(2)", "{t}[..., :1] = 3", "{t}.copy_({t} * 2)"])
    target = g.name()
    return Statement((form.format(t=name), f"{target} = {name} * 1"), target, True)


def cast(g: Grower) -> Statement:
    return g.let(f"{g.any()}.to(tj.{g.pick(DTYPES)})")


def source(g: Grower) -> Statement:
    shape = g.shape()
    text = g.pick([f"tj.zeros({shape})", f"tj.ones({shape}, dtype=tj.float64)", f"tj.full({shape}, 0.75)", f"tj.arange({g.pick(g.extents)})",
                   f"tj.arange({g.pick(g.extents)}, dtype=tj.float32) * 0.5", f"tj.eye({g.pick(g.extents)})"])
    return g.let(text)


def branch(g: Grower) -> Statement:
    """Two ways to compute one value, chosen by data."""
    judge, name, target = g.any(), g.real(), g.name()
    ways = [g.pick(["tj.sin({x})", "{x} * 0.5", "tj.tanh({x}) + 1", "tj.abs({x})", "{x} - 1"]).format(x=name) for _ in "ab"]
    test = g.pick([f"{judge}.sum() > 0.1", f"{judge}.float().mean() < 0.2", f"({judge} > 0).any()", f"{judge}.sum().item() > 0.3"])
    return Statement((f"if {test}:", f"    {target} = {ways[0]}", "else:", f"    {target} = {ways[1]}"), target, True)


def triangle(g: Grower) -> Statement:
    name = g.ranked(2)
    return g.let(f"tj.{g.pick(['tril', 'triu'])}({name}, {g.whole(-1, 2)})")


def detached(g: Grower) -> Statement:
    return g.let(f"{g.real()}.detach()", fresh=False)


KINDS: tuple[tuple[Callable[[Grower], Statement], float], ...] = (
    (unary, 5), (binary, 7), (integral, 1), (compare, 1.2), (where, 1.5), (reduction, 4), (along, 2.5), (normalise, 0.6), (view, 6),
    (join, 1.5), (product, 1.5), (linear, 0.6), (index, 1.0), (write, 1.5), (write_input, 0.4), (cast, 1.2), (source, 0.7), (branch, 0.6),
    (triangle, 0.4), (detached, 0.2),
)  # fmt: skip
