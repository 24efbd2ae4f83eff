"""Statements of random programs from the larger families: convolutions, pooling, attention, losses, norms, orders.

Options come first and operands after them: where no value of a program fits, a new argument does.
"""

from __future__ import annotations

from collections.abc import Callable

from .fuzz_programs import INTEGERS, Grower, Statement, Unsuitable

_FLOATS = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
#: Arguments of a program that have a shape of their own.
MOST_INPUTS = 8


def dtype_of(g: Grower, name: str) -> str:
    """The name of a floating-point value's dtype."""
    return _FLOATS[g.values[name].dtype.short]


def own(g: Grower, shape: tuple[int, ...], dtype: str, high: int = 5) -> str:
    """A new argument of a given shape."""
    if len(g.program.inputs) >= MOST_INPUTS:
        raise Unsuitable
    return g.add_input(shape, dtype, high)


def planes(g: Grower, dims: int) -> str:
    """A floating-point value of so many dims behind a batch and channels; sometimes a new one."""
    found = g.names(lambda t: t.ndim == dims + 2 and t.dtype.is_floating_point and t.numel() > 0)
    if found and g.chance(0.6):
        return str(g.pick(found))
    spatial = tuple(g.pick([1, 3, 4, 5, 7, 8, 9]) for _ in range(dims))
    return own(
        g, (g.pick([1, 2, 3]), g.pick([1, 2, 3, 4, 6]), *spatial), g.pick(["float32", "float64"])
    )


def several(g: Grower, dims: int, options: list[int]) -> str:
    """One number for all dims, or one each, as text."""
    if g.chance(0.5):
        return str(g.pick(options))
    return repr(tuple(g.pick(options) for _ in range(dims)))


def convolution(g: Grower) -> Statement:
    """A convolution or its transpose, with all that may be odd about it."""
    dims = g.pick([1, 1, 2, 2, 2, 3])
    x = planes(g, dims)
    channels, dtype = g.values[x].shape[1], dtype_of(g, x)
    groups = g.pick([n for n in (1, 1, 2, 3, 4, 6) if channels % n == 0])
    kernel = tuple(g.pick([1, 2, 3, 3, 4]) for _ in range(dims))
    options = [f"groups={groups}"]
    stride = several(g, dims, [1, 1, 2, 3])
    transposed = g.chance(0.3)
    if transposed:
        shape = (channels, g.whole(1, 4), *kernel)
        options += [f"output_padding={several(g, dims, [0, 0, 1])}"]
    else:
        shape = (groups * g.whole(1, 4), channels // groups, *kernel)
    padding = several(g, dims, [0, 0, 1, 2])
    if not transposed and g.chance(0.2):
        padding = g.pick(["'same'", "'valid'"])
        stride = "1" if padding == "'same'" else stride
    options += [f"stride={stride}", f"padding={padding}", f"dilation={several(g, dims, [1, 1, 2])}"]
    weight = own(g, shape, dtype)
    out = shape[1] * groups if transposed else shape[0]
    bias = own(g, (out,), dtype) if g.chance(0.4) else "None"
    name = f"F.conv{'_transpose' if transposed else ''}{dims}d"
    return g.let(f"{name}({x}, {weight}, {bias}, {', '.join(options)})")


def pooling(g: Grower) -> Statement:
    """Pooling with odd windows, or resampling."""
    dims = g.pick([1, 2, 2, 3])
    x = planes(g, dims)
    kernel, stride = several(g, dims, [1, 2, 2, 3]), several(g, dims, [1, 2, 3])
    padding, ceil = g.pick(["0", "0", "1"]), g.pick(["True", "False"])
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[dims]
    size = tuple(g.pick([1, 2, 3, 5, 8]) for _ in range(dims))
    factor = g.pick(["0.5", "1.5", "2", "0.7"])
    align = g.pick(["True", "False"])
    texts = [
        f"F.max_pool{dims}d({x}, {kernel}, {stride}, {padding}, ceil_mode={ceil})",
        f"F.max_pool{dims}d({x}, {kernel}, {stride}, {padding}, dilation={several(g, dims, [1, 2])})",
        f"F.avg_pool{dims}d({x}, {kernel}, {stride}, {padding}, {ceil}, count_include_pad={align})",
        f"F.adaptive_avg_pool{dims}d({x}, {size})",
        f"F.adaptive_max_pool{dims}d({x}, {size})",
        f"F.interpolate({x}, size={size}, mode='nearest')",
        f"F.interpolate({x}, scale_factor={factor}, mode='nearest-exact')",
        f"F.interpolate({x}, scale_factor={factor}, mode={g.pick(modes)!r}, align_corners={align})",
        f"F.interpolate({x}, size={size}, mode={g.pick(modes)!r}, align_corners={align})",
        f"F.pad({x}, {(1, 2) * dims}, mode={g.pick(['reflect', 'replicate', 'circular', 'constant'])!r})",
    ]
    if dims == 2:
        texts += [
            f"F.unfold({x}, {kernel}, padding=1, stride={stride})",
            f"F.lp_pool2d({x}, 2, 2, ceil_mode={ceil})",
            f"F.pixel_unshuffle({x}, 2)",
        ]
    return g.let(g.pick(texts))


def attention(g: Grower) -> Statement:
    """Attention with or without masks."""
    batch = g.pick([(), (2,), (2, 3), (1, 2)])
    rows, columns, depth = g.pick([1, 2, 5, 7]), g.pick([1, 3, 5, 8]), g.pick([1, 3, 4, 8])
    dtype = g.pick(["float32", "float32", "float64", "bfloat16"])
    q = own(g, (*batch, rows, depth), dtype)
    k, v = (
        own(g, (*batch, columns, depth), dtype),
        own(g, (*batch, columns, g.pick([2, depth])), dtype),
    )
    options = [f"scale={g.pick(['0.5', 'None'])}"]
    kind = g.pick(["", "causal", "bool", "float"])
    if kind == "causal":
        options.append("is_causal=True")
    elif kind:
        mask = own(g, (rows, columns), "bool" if kind == "bool" else dtype)
        options.append(f"attn_mask={mask}")
    return g.let(f"F.scaled_dot_product_attention({q}, {k}, {v}, {', '.join(options)})")


def einsum(g: Grower) -> Statement:
    """A sum of products by letters."""
    x = g.any(lambda t: 1 <= t.ndim <= 4 and t.dtype.is_floating_point)
    value = g.values[x]
    extents = {chr(97 + i): int(n) for i, n in enumerate(value.shape)}
    operands, terms = [x], ["".join(extents)]
    for _ in range(g.pick([0, 1, 1, 2])):
        other = list(g.rng.permutation(list(extents)))[: g.whole(1, 4)]
        if g.chance(0.4) and len(extents) < 6:
            fresh = chr(97 + len(extents))
            extents[fresh] = g.pick(g.extents)
            other.append(fresh)
        operands.append(own(g, tuple(extents[c] for c in other), dtype_of(g, x)))
        terms.append("".join(map(str, other)))
    kept = [c for c in extents if g.chance(0.6)]
    out = "".join(map(str, g.rng.permutation(kept))) if kept else ""
    arrow = "" if g.chance(0.15) else f"->{out}"
    return g.let(f"tj.einsum({','.join(terms) + arrow!r}, {', '.join(operands)})")


def scattered(g: Grower) -> Statement:
    """Values brought to places that an integer argument names, in all ways."""
    x = g.any(lambda t: t.ndim >= 1 and t.numel() > 0 and t.dtype.is_floating_point)
    shape = tuple(g.values[x].shape)
    dim = g.whole(0, len(shape))
    n = shape[dim]
    places = own(g, shape, "int64", n)
    row = own(g, (g.whole(1, 5),), "int64", n)
    taken = f"{x}.index_select({dim}, {row})"
    how, self_ = g.pick(["sum", "prod", "mean", "amax", "amin"]), g.pick(["True", "False"])
    texts = [
        f"{x}.scatter_reduce({dim}, {places}, {x} * 0.5, {how!r}, include_self={self_})",
        f"{x}.scatter({dim}, {places}, 0.25)",
        f"{x}.index_copy({dim}, tj.unique({row}), {x}.index_select({dim}, tj.unique({row})) * 2)",
        f"{x}.index_fill({dim}, {row}, 0.5)",
        f"{x}.index_add({dim}, {row}, {taken}, alpha=0.5)",
        f"tj.take_along_dim({x}, {places}, {dim})",
        f"{x}.take({row})",
        f"{x}.masked_fill({places} > 1, -0.5)",
        f"{x}.masked_select({places} > 0).sum()",
        f"F.one_hot({row}, {n}).float() * 0.5",
        f"F.embedding({row}, {x}.reshape({n}, -1))",
        f"tj.bincount({row}, minlength={n})",
    ]
    return g.let(g.pick(texts))


def ordered(g: Grower) -> Statement:
    """Orders of values with ties, and running results."""
    x = g.any(lambda t: t.ndim >= 1 and t.numel() > 0)
    shape = g.values[x].shape
    d = g.whole(-len(shape), len(shape))
    tied = f"tj.round({x})" if g.values[x].dtype.is_floating_point and g.chance(0.6) else x
    k = g.whole(1, shape[d] + 1)
    texts = [
        "{t}.sort({d}, stable=True)[{i}]",
        "{t}.sort({d}, descending=True, stable=True)[{i}]",
        "{t}.argsort({d}, stable=True)",
        "{x}.topk({k}, {d})[0]",
        "{x}.topk({k}, {d}, largest=False)[0]",
        "{x}.kthvalue({k}, {d})[0]",
        "{x}.median({d})[0]",
        "{t}.max({d})[1]",
        "{t}.argmin({d})",
        "{t}.cummax({d})[{i}]",
        "{t}.cummin({d})[{i}]",
        "tj.cumprod({x} * 0.5, {d})",
        "tj.logcumsumexp({x}, {d})",
        "tj.diff({x}, dim={d})",
        "{x}.flip({d}).cumsum({d})",
        "tj.unique({t})",
        "tj.unique({t}, return_counts=True)[1]",
        "tj.searchsorted({x}.reshape(-1).sort()[0].contiguous(), {t}, right={r})",
        "{x}.quantile(0.3, {d})",
        "tj.count_nonzero({t}, {d})",
        "{t}.unfold({d}, {k}, 1)",
        "tj.renorm({x}, 2, 0, 1.0)",
    ]
    return g.let(
        g.pick(texts).format(x=x, t=tied, d=d, k=k, i=g.whole(0, 2), r=g.pick(["True", "False"]))
    )


def loss(g: Grower) -> Statement:
    """A loss with its options."""
    rows, classes = g.pick([1, 2, 3, 5, 8]), g.pick([1, 2, 3, 5])
    rest = g.pick([(), (), (3,)])
    dtype = g.pick(["float32", "float32", "float64", "float16"])
    x = own(g, (rows, classes, *rest), dtype)
    y = own(g, (rows, classes, *rest), dtype)
    how = g.pick(["mean", "sum", "none"])
    smoothing = g.pick(["0.0", "0.1", "0.5"])
    texts = [
        f"F.cross_entropy({x}, tj.softmax({y}, 1), label_smoothing={smoothing}, reduction={how!r})",
        f"F.binary_cross_entropy_with_logits({x}, tj.sigmoid({y}), reduction={how!r})",
        f"F.mse_loss({x}, {y}, reduction={how!r})",
        f"F.smooth_l1_loss({x}, {y}, beta=0.5, reduction={how!r})",
        f"F.huber_loss({x}, {y}, delta=0.3, reduction={how!r})",
        f"F.kl_div(F.log_softmax({x}, 1), tj.softmax({y}, 1), reduction={how!r})",
        f"F.cosine_similarity({x}, {y}, dim={g.whole(0, 2)})",
        f"F.soft_margin_loss({x}, tj.sign({y}), reduction={how!r})",
        f"F.gaussian_nll_loss({x}, {y}, tj.exp({y}), reduction={how!r})",
        f"F.pairwise_distance({x}.reshape({rows}, -1), {y}.reshape({rows}, -1))",
    ]
    if g.chance(0.5):
        target = own(g, (rows, *rest), "int64", classes)
        weight = f"weight={own(g, (classes,), dtype)}.abs() + 0.1, " if g.chance(0.4) else ""
        ignored = g.pick(["", "", f"ignore_index={g.whole(0, classes)}, ", "ignore_index=-100, "])
        texts = [
            f"F.cross_entropy({x}, {target}, {weight}{ignored}label_smoothing={smoothing}, reduction={how!r})",
            f"F.nll_loss(F.log_softmax({x}, 1), {target}, {weight}{ignored}reduction={how!r})",
        ]
        if not rest:
            texts.append(f"F.multi_margin_loss({x}, {target}, reduction={how!r})")
    return g.let(g.pick(texts))


def normalisation(g: Grower) -> Statement:
    """Norm layers over batches, groups, instances and rows."""
    x = planes(g, g.pick([1, 2, 2]))
    channels, last = g.values[x].shape[1], g.values[x].shape[-1]
    dtype = dtype_of(g, x)
    groups = g.pick([n for n in (1, 2, 3) if channels % n == 0])
    scale = own(g, (channels,), dtype) if g.chance(0.5) else "None"
    texts = [
        f"F.batch_norm({x}, None, None, {scale}, None, training=True)",
        f"F.batch_norm({x}, tj.zeros({channels}), tj.ones({channels}), {scale}, None)",
        f"F.group_norm({x}, {groups}, {scale})",
        f"F.instance_norm({x}, weight={scale})",
        f"F.layer_norm({x}, {tuple(g.values[x].shape[2:])})",
        f"F.rms_norm({x}, ({last},))",
        f"F.normalize({x}, p={g.pick(['1', '2', '3'])}, dim={g.whole(0, 3)})",
        f"F.local_response_norm({x}, {g.pick(['1', '2', '3'])})",
        f"F.glu({x}, {g.whole(0, 3)})",
        f"tj.linalg.vector_norm({x}, {g.pick(['1', '2', '3.0'])}, dim={g.whole(0, 3)})",
        f"F.prelu({x}, {scale})",
        f"F.softmin({x}, 1) + F.hardtanh({x})",
    ]
    return g.let(g.pick(texts))


def complex_value(g: Grower) -> Statement:
    """Complex numbers from real ones and back, by way of arithmetic or Fourier transforms."""
    x = g.any(lambda t: t.ndim >= 1 and t.dtype.short in ("f32", "f64") and t.numel() > 0)
    shape = g.values[x].shape
    y = g.any(lambda t: t.dtype is g.values[x].dtype and tuple(t.shape) == tuple(shape))
    d = g.whole(-len(shape), len(shape))
    z = f"tj.complex({x}, {y})"
    made = g.pick(
        [
            z,
            f"({z} * {z}.conj() + 1j)",
            f"{z}.exp()",
            f"({z} / ({z}.abs() + 1))",
            f"tj.fft.fft({x}, dim={d})",
            f"tj.fft.rfft({x}, dim={d})",
            f"tj.fft.ifft({z}, dim={d}, norm='ortho')",
            f"({z} @ {z}.mH)" if len(shape) >= 2 else f"{z}.sum()",
            f"{z}.flip({d}).cumsum({d})",
            f"{z}.reshape(-1)[::2]",
        ]
    )
    back = g.pick(
        ["{z}.real", "{z}.imag", "{z}.abs()", "tj.view_as_real({z}).sum(-1)", "({z} + 2).angle()"]
    )
    return g.let(back.format(z=made))


def wrapped(g: Grower) -> Statement:
    """Arithmetic of small integers that leaves their range."""
    found = g.names(lambda t: t.dtype.short in ("i8", "u8", "i16") and t.numel() > 0)
    dtype = g.pick(["int8", "uint8", "int8", "uint8", "int16"])
    x = g.pick(found) if found and g.chance(0.5) else own(g, g.shape(), dtype, 100)
    y = own(g, tuple(g.values[x].shape), g.pick([dtype, *INTEGERS]), 9)
    texts = [
        "{x} * {x}",
        "{x} + {x} + {y}",
        "{x} - {y} * 7",
        "-{x}",
        "~{x}",
        "{x} << ({y}.abs() % 3)",
        "{x} >> 1",
        "{x} // 3",
        "{x} % 5",
        "({x} + {y}).sum()",
        "{x}.abs() ** 2",
        "{x}.to(tj.uint8) + 250",
        "({x} * 3).to(tj.int8)",
        "({x}.float() * 2.5).to(tj.int16)",
        "{x}.clamp(-3, 100) * 2",
        "tj.bitwise_xor({x}, 85)",
        "{x}.cumsum(0)",
        "{x}.prod()",
        "tj.where({y} > 1, {x}, {x} * 4)",
        "{x} / 2",
    ]
    return g.let(g.pick(texts).format(x=x, y=y))


def part_written(g: Grower) -> Statement:
    """Parts of a value changed in place: by slices, masks, positions and views."""
    x = g.any(lambda t: t.ndim >= 1 and t.numel() > 0 and t.dtype.is_floating_point)
    shape = tuple(g.values[x].shape)
    t = g.name()
    row = own(g, (g.whole(1, 4),), "int64", shape[0]) if g.chance(0.4) else "0"
    forms = [
        "{t}[1:, ...] = {t}[:-1].clone()",
        "{t}[..., 1::2] += 0.5",
        "{t}[{t} > 0] = 0.25",
        "{t}[{t} > 0.5] *= 0.5",
        "{t}[{r}] = 0.75",
        "{t}[{r}] += {t}[{r}] * 0.5",
        "{t}.index_put_((tj.as_tensor({r}).reshape(-1),), {t}[0] * 2, accumulate=True)",
        "{t}.reshape(-1)[::3].mul_(2)",
        "{t}.view(-1)[1:].copy_({t}.view(-1)[:-1].clone())",
        "{t}.diagonal().fill_(0.5)",
        "{t}.select(-1, -1).zero_()",
        "{t}.narrow(0, 0, 1).exp_()",
        "{t}.unsqueeze(0).transpose(0, -1)[..., 0] = 1.5",
        "{t}.flip(0).mul_(2)",
        "{t}.masked_fill_({t}.abs() > 1, 0.125)",
        "{t}.clamp_(-0.5, 0.5)",
        "{t}[..., 0], {t}[..., -1] = {t}[..., -1].clone(), {t}[..., 0].clone()",
        "{t}.scatter_(0, {t}.argsort(0), 0.5)",
        "{t}.swapaxes(0, -1)[:1].add_(1)",
        "{t}.index_fill_(0, tj.as_tensor({r}).reshape(-1), 2.0)",
    ]
    return Statement((f"{t} = {x} * 1", g.pick(forms).format(t=t, r=row)), t)


FAMILIES: tuple[tuple[Callable[[Grower], Statement], float], ...] = (
    (convolution, 0.7),
    (pooling, 0.7),
    (attention, 0.3),
    (einsum, 0.6),
    (scattered, 0.8),
    (ordered, 1.2),
    (loss, 0.5),
    (normalisation, 0.6),
    (complex_value, 0.5),
    (wrapped, 0.6),
    (part_written, 1.0),
)
