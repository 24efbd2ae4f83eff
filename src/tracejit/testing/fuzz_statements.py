"""The statements random programs are made of: each maker picks operands among the values so far."""

from __future__ import annotations

from collections.abc import Callable

from .fuzz_families import FAMILIES
from .fuzz_programs import Grower, Statement, Unsuitable
from .fuzz_structure import (
    along,
    broadcasts,
    index,
    join,
    linear,
    normalise,
    product,
    reduction,
    triangle,
    view,
)

UNARY = [
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "exp",
    "erf",
    "neg",
    "abs",
    "relu",
    "square",
    "floor",
    "ceil",
    "sign",
    "trunc",
    "round",
    "log1p",
    "expm1",
    "atan",
    "asinh",
    "rsqrt",
    "sqrt",
    "log",
    "reciprocal",
    "cosh",
    "sinh",
    "exp2",
    "log2",
    "erfc",
    "tan",
    "acos",
    "asin",
]
CALLS = (
    "F.gelu({x})",
    "F.silu({x})",
    "F.softplus({x})",
    "F.elu({x})",
    "F.leaky_relu({x})",
    "{x}.clamp(-0.5, 0.75)",
    "tj.sqrt(tj.abs({x}) + 0.5)",
    "tj.log(tj.abs({x}) + 0.5)",
    "tj.nan_to_num({x} / {x})",
    "F.hardswish({x})",
)
BINARY = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / ({y} * {y} + 1.0)",
    "tj.maximum({x}, {y})",
    "tj.minimum({x}, {y})",
    "tj.atan2({x}, {y} + 2.5)",
    "tj.logaddexp({x}, {y})",
    "{x} / {y}",
    "tj.fmod({x}, {y})",
    "tj.remainder({x}, {y})",
    "tj.pow(tj.abs({x}) + 0.5, {y})",
    "tj.copysign({x}, {y})",
    "tj.where({x} > {y}, {x}, {y} * 2)",
    "tj.lerp({x}, {y}, 0.3)",
)
COMPARE = ("{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} != {y}", "{x} < {y}")
INTEGRAL = (
    "{x} & {y}",
    "{x} | {y}",
    "{x} ^ {y}",
    "{x} + {y}",
    "{x} * {y}",
    "{x} - {y}",
    "{x} // {y}",
    "tj.maximum({x}, {y})",
)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "int8")


def unary(g: Grower) -> Statement:
    """An elementwise function or activation of one value."""
    name = g.real()
    return g.let(f"tj.{g.pick(UNARY)}({name})" if g.chance(0.7) else g.pick(CALLS).format(x=name))


def partner(g: Grower, name: str) -> str:
    """Another value that broadcasts against ``name``, or a number."""
    if g.chance(0.2):
        number: str = g.pick(["2", "0.5", "-1.5", "3", "True", "0"])
        return number
    shape = g.values[name].shape
    return g.any(lambda t: broadcasts(tuple(t.shape), tuple(shape)))


def binary(g: Grower) -> Statement:
    """Two values, or a value and a number."""
    name = g.real()
    other = partner(g, name)
    if g.chance(0.3):
        name, other = other, name
    return g.let(g.pick(BINARY).format(x=name, y=other))


def integral(g: Grower) -> Statement:
    """Two integer values."""
    name = g.any(lambda t: not t.dtype.is_floating_point)
    shape = tuple(g.values[name].shape)
    other = g.any(lambda t: not t.dtype.is_floating_point and broadcasts(tuple(t.shape), shape))
    return g.let(g.pick(INTEGRAL).format(x=name, y=other))


def compare(g: Grower) -> Statement:
    """A mask."""
    name = g.any()
    return g.let(g.pick(COMPARE).format(x=name, y=partner(g, name)))


def where(g: Grower) -> Statement:
    """A choice by a mask."""
    x = g.any()
    shape = tuple(g.values[x].shape)
    mask = g.any(lambda t: t.dtype.short == "bool" and broadcasts(tuple(t.shape), shape))
    if g.chance(0.3):
        return g.let(f"{x}.masked_fill({mask}, {g.pick(['0', '-1.5', '7'])})")
    return g.let(f"tj.where({mask}, {x}, {partner(g, x)})")


def write(g: Grower) -> Statement:
    """A change in place: of a fresh value, or of a view of one."""
    name = g.real() if g.chance(0.8) else g.any()
    shape = tuple(g.values[name].shape)
    other = g.any(lambda t: broadcasts(tuple(t.shape), shape) and t.ndim <= len(shape))
    target = g.name()
    first = f"{target} = {name}.clone()"
    forms = [
        "{t}.add_({o})",
        "{t}.mul_({o})",
        "{t} += {o}",
        "{t}.relu_()",
        "{t}[0] = 1",
        "{t}[..., 1:] = 0.5",
        "{t}[..., ::2] *= 2",
        "{t}[0].add_({o})",
        "{t}.transpose(0, -1)[0] = 0.25",
        "{t}[..., :1] = {t}[..., -1:]",
    ]
    if not g.values[name].requires_grad:
        forms += ["{t}.fill_(2)", "{t}.copy_({o})"]
    form = g.pick(forms)
    return Statement((first, form.format(t=target, o=other)), target)


def write_input(g: Grower) -> Statement:
    """A change in place of an argument that takes no gradient."""
    taken = [
        i.name
        for i in g.program.inputs
        if not i.requires_grad and i.dtype != "bool" and i.layout != "expanded" and i.low < 0
    ]
    if not taken:
        raise Unsuitable
    name = g.pick(taken)
    form = g.pick(["{t}.add_(1)", "{t}.mul_(2)", "{t}[..., :1] = 3", "{t}.copy_({t} * 2)"])
    target = g.name()
    return Statement((form.format(t=name), f"{target} = {name} * 1"), target)


def cast(g: Grower) -> Statement:
    """Another dtype."""
    return g.let(f"{g.any()}.to(tj.{g.pick(DTYPES)})")


def source(g: Grower) -> Statement:
    """New values that depend on nothing."""
    shape = g.shape()
    text = g.pick(
        [
            f"tj.zeros({shape})",
            f"tj.ones({shape}, dtype=tj.float64)",
            f"tj.full({shape}, 0.75)",
            f"tj.arange({g.pick(g.extents)})",
            f"tj.arange({g.pick(g.extents)}, dtype=tj.float32) * 0.5",
            f"tj.eye({g.pick(g.extents)})",
        ]
    )
    return g.let(text)


def branch(g: Grower) -> Statement:
    """Two ways to compute one value, chosen by data."""
    judge, name, target = g.any(), g.real(), g.name()
    ways = [
        g.pick(["tj.sin({x})", "{x} * 0.5", "tj.tanh({x}) + 1", "tj.abs({x})", "{x} - 1"]).format(
            x=name
        )
        for _ in "ab"
    ]
    test = g.pick(
        [
            f"{judge}.sum() > 0.1",
            f"{judge}.float().mean() < 0.2",
            f"({judge} > 0).any()",
            f"{judge}.sum().item() > 0.3",
        ]
    )
    return Statement(
        (f"if {test}:", f"    {target} = {ways[0]}", "else:", f"    {target} = {ways[1]}"),
        target,
    )


def detached(g: Grower) -> Statement:
    """A value cut from its history."""
    return g.let(f"{g.real()}.detach()")


def meet(g: Grower) -> Statement:
    """A value with itself along other dimensions, and with what was reduced from it."""
    name = g.any(lambda t: t.dtype.is_floating_point and t.ndim >= 1)
    rank = g.values[name].ndim
    d, e = g.whole(0, rank), g.whole(0, rank)
    texts = [
        "{x}.unsqueeze({d}) - {x}",
        "{x}.unsqueeze({d}) * {x}.unsqueeze({e})",
        "{x} + {x}.transpose({d}, {e})",
        "{x} * {x}.sum({d})",
        "{x} - {x}.amax({d}, keepdim=True).exp()",
        "{x}.sum({d}, keepdim=True).expand({x}.shape).sum()",
        "{x} / ({x}.abs().mean() + 1)",
        "({x} * {x}.sum({d}).unsqueeze({e})).mean({d})",
    ]
    return g.let(g.pick(texts).format(x=name, d=d, e=e))


KINDS: tuple[tuple[Callable[[Grower], Statement], float], ...] = (
    (unary, 5),
    (binary, 7),
    (integral, 1),
    (compare, 1.2),
    (where, 1.5),
    (reduction, 4),
    (along, 2.5),
    (normalise, 0.6),
    (view, 6),
    (join, 1.5),
    (product, 1.5),
    (linear, 0.6),
    (index, 1.0),
    (write, 1.5),
    (write_input, 0.4),
    (cast, 1.2),
    (source, 0.7),
    (branch, 0.6),
    (triangle, 0.4),
    (detached, 0.2),
    *FAMILIES,
)
