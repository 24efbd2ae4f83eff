"""Attention in tiles on a device: what the products and the softmax of the host compute, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import graph_tools as tools
import numpy as np
import pytest
import simulator
from ptx_text import assert_sound
from test_device_compiled import close, moved

import tracejit as tj
from tracejit.codegen.cuda.cubin import assembler
from tracejit.ir import parse
from tracejit.ops.functions import attention as attention_function
from tracejit.testing.gpu_checks import always_in_tiles

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional
LIMITS = {tj.float32: 2e-5, tj.float16: 1e-2, tj.bfloat16: 6e-2}


@pytest.fixture(autouse=True)
def _in_tiles() -> Iterator[None]:
    """However few scores there are."""
    with always_in_tiles():
        yield


def numbers(*shape: int, dtype: Any = tj.float32, seed: int = 0) -> Any:
    draws = np.random.default_rng(seed).standard_normal(shape)
    return tj.from_numpy(draws).to(dtype).requires_grad_()


def results(function: Any, device: str, arguments: Any, options: Any) -> list[Any]:
    given = [moved(x, device) for x in arguments]
    rest = {k: moved(x, device) for k, x in options.items()}
    out = function(*given, **rest)
    weights = tj.linspace(-1, 1, out.numel(), device=device).to(out.dtype).reshape(out.shape)
    (out * weights).sum().backward()
    return [out, *(x.grad for x in given)]


def check(arguments: Any, library: Any = None, **options: Any) -> Any:
    f = tj.compile(F.scaled_dot_product_attention, strict=True)
    expected = results(F.scaled_dot_product_attention, "cpu", arguments, options)
    for function in (F.scaled_dot_product_attention, f, f):
        found = results(function, "cuda", arguments, options)
        for a, b in zip(found, expected, strict=True):
            close(a, b, LIMITS[a.dtype])
    assert f.stats.compiled_calls == 1, f.explain()
    assert "attention: in tiles, scores are not stored" in str(f.explain())
    if library is not None:
        names = {name for name, _ in library.launched}
        assert {"k_attention", "k_attention_dq", "k_attention_dkv", "k_attention_stats"} <= names
        assert not library.products
    return f


def qkv(batch: Any, length: int, keys: int, width: int, depth: int, dtype: Any = tj.float32) -> Any:
    shapes = (*batch, length, width), (*batch, keys, width), (*batch, keys, depth)
    return [numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


def long(*values: Any) -> Any:
    """A case for thorough runs."""
    return pytest.param(*values, marks=[pytest.mark.thorough, pytest.mark.slow], id=str(values))


SIZES = [
    ((2,), 5, 7, 8, 4),
    ((), 1, 1, 1, 1),
    ((1, 2), 33, 65, 16, 16),
    ((2, 1), 64, 32, 20, 33),
    ((1,), 70, 20, 64, 64),
    ((1,), 17, 40, 128, 100),
    ((3, 1, 2), 9, 9, 3, 5),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [SIZES[0], *(long(s) for s in SIZES[1:])], ids=str)
def test_sizes(sizes: Any, causal: bool, library: Any) -> None:
    check(qkv(*sizes), library, is_causal=causal)


@pytest.mark.parametrize("dtype", [tj.bfloat16, long(tj.float16)], ids=str)
def test_half_precision(dtype: Any, library: Any) -> None:
    check(qkv((2,), 19, 21, 12, 8, dtype), library, is_causal=True)


@pytest.mark.parametrize(
    "shape",
    [(9, 11), *(long(s) for s in [(2, 9, 11), (1, 1, 11), (9, 1), (3, 2, 9, 11)])],
    ids=str,
)
def test_masks(shape: Any, library: Any) -> None:
    arguments = qkv((3, 2), 9, 11, 8, 8)
    if len(shape) == 3 and shape[0] == 2:
        shape = (1, *shape)
    keep = np.random.default_rng(7).random(shape) < 0.6
    check(arguments, library, attn_mask=tj.from_numpy(keep))
    bias = tj.from_numpy(np.random.default_rng(8).standard_normal(shape).astype(np.float32))
    check(arguments, library, attn_mask=bias, scale=0.3)


def test_rows_that_see_nothing_are_zeros(library: Any) -> None:
    keep = tj.ones(6, 6, dtype=tj.bool).tril(-1)
    f = check(qkv((2,), 6, 6, 4, 4), library, attn_mask=keep)
    q, k, v = (x.detach().cuda() for x in qkv((2,), 6, 6, 4, 4))
    assert f(q, k, v, attn_mask=keep.cuda())[:, 0].tolist() == [[0.0] * 4] * 2


@pytest.mark.thorough
def test_transposed_heads_and_shared_keys(library: Any) -> None:
    def heads(x: Any, w: Any) -> Any:
        q, k, v = (t.reshape(2, 10, 2, 4).transpose(1, 2) for t in (x @ w).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(2, 10, 8)

    f = tj.compile(heads, strict=True)
    x, w = numbers(2, 10, 6), numbers(6, 24, seed=1)
    expected = results(heads, "cpu", (x, w), {})
    for _ in range(3):
        for a, b in zip(results(f, "cuda", (x, w), {}), expected, strict=True):
            close(a, b, 2e-5)
    q, k, v = qkv((1, 4), 5, 6, 4, 4)
    check(
        [q, k[:, :2].detach().requires_grad_(), v[:, :2].detach().requires_grad_()], enable_gqa=True
    )


def test_special_numbers() -> None:
    for bad in (float("nan"), float("inf"), -float("inf"), 1e30):
        q, k, v = (x.detach() for x in qkv((1,), 4, 5, 3, 2))
        k[0, 2, 1] = bad
        expected = F.scaled_dot_product_attention(q, k, v)
        f = tj.compile(F.scaled_dot_product_attention, strict=True)
        for _ in range(2):
            found = f(q.cuda(), k.cuda(), v.cuda())
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5)


def test_what_kernels_do_not_do_is_products_and_a_softmax(library: Any) -> None:
    q, k, v = (x.double() for x in qkv((1,), 4, 5, 3, 2))
    for arguments, options in (
        ((q, k, v), {}),
        (qkv((1,), 4, 5, 200, 2), {}),
        (qkv((1,), 4, 5, 3, 2), {"dropout_p": 1.0}),
    ):
        f = tj.compile(F.scaled_dot_product_attention, strict=True)
        for _ in range(2):
            tj.manual_seed(0)
            expected = F.scaled_dot_product_attention(*(x.detach() for x in arguments), **options)
            tj.manual_seed(0)
            close(f(*(moved(x.detach(), "cuda") for x in arguments), **options), expected)
        assert f.stats.compiled_calls == 1
    assert not [name for name, _ in library.launched if name.startswith("k_attention")]
    assert library.products


def test_few_scores_are_products_and_a_softmax(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_function, "FEW_SCORES", 2 * 6 * 6)
    f = tj.compile(F.scaled_dot_product_attention, strict=True)
    for length, tiles in ((6, False), (5, False), (7, True), (8, True), (4, False)):
        for _ in range(2):
            q, k, v = (x.detach() for x in qkv((2,), length, length, 3, 2))
            expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            library.launched.clear()
            close(f(q.cuda(), k.cuda(), v.cuda(), is_causal=True), expected, 2e-5)
        names = {name for name, _ in library.launched}
        assert ("k_attention" in names) == tiles, names
    assert f.stats.compiled_calls == 6, f.explain()


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        (((2,), 5, 7, 8, 4), {"is_causal": True}),
        long(((2, 1), 64, 33, 20, 33), {}),
        long(((1,), 17, 40, 128, 100), {"scale": 0.3}),
    ],
    ids=["small", "several tiles", "wide"],
)
def test_dropout_draws_what_the_host_draws(sizes: Any, options: Any, library: Any) -> None:
    arguments = qkv(*sizes)

    f = tj.compile(F.scaled_dot_product_attention, strict=True)
    options = {**options, "dropout_p": 0.4}
    tj.manual_seed(3)
    expected = results(F.scaled_dot_product_attention, "cpu", arguments, options)
    for function in (F.scaled_dot_product_attention, f, f, f):
        library.launched.clear()
        tj.manual_seed(3)
        found = results(function, "cuda", arguments, options)
        for a, b in zip(found, expected, strict=True):
            close(a, b, LIMITS[a.dtype])
    assert f.stats.compiled_calls == 2, f.explain()
    assert not library.products
    names = {name for name, _ in library.launched}
    assert {"k_attention", "k_attention_dq", "k_attention_dkv"} <= names
    assert not [
        name for name in names if "random" in name
    ]  # nothing as large as the scores is stored


@pytest.mark.parametrize("dtype", [tj.bfloat16, tj.float16], ids=str)
def test_dropout_of_half_precision_with_a_mask(dtype: Any) -> None:
    arguments = [x.detach() for x in qkv((2,), 6, 5, 4, 3, dtype)]
    keep = tj.ones(6, 5, dtype=tj.bool).tril(-1)
    f = tj.compile(F.scaled_dot_product_attention, strict=True)
    for call in range(3):
        found = []
        for device in ("cpu", "cuda"):
            tj.manual_seed(call)
            given = [x.to(device) for x in arguments]
            function = F.scaled_dot_product_attention if device == "cpu" else f
            found.append(function(*given, attn_mask=keep.to(device), dropout_p=0.3))
        close(found[1], found[0], LIMITS[dtype])


@pytest.mark.thorough
def test_layers_with_dropout_follow_the_host() -> None:
    layer = tj.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    weights, x, losses = layer.state_dict(), tj.randn(2, 5, 8), {}
    for device in ("cpu", "cuda"):
        other = tj.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        other.load_state_dict(weights)
        other.to(device)
        optimizer = tj.optim.SGD(other.parameters(), lr=0.1)

        def step(x: Any, other: Any = other, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = other(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        compiled = tj.compile(step, strict=True)
        tj.manual_seed(1)
        losses[device] = [compiled(x.to(device)).item() for _ in range(4)]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=1e-4)


@pytest.mark.parametrize("causal", [False, long(True)])
@pytest.mark.parametrize("compiled", [long(False), True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_gradients_of_gradients(causal: bool, compiled: bool, dropout_p: float) -> None:
    found = {}
    for device in ("cpu", "cuda"):
        arguments = [moved(x, device) for x in qkv((2,), 5, 4, 3, 2)]
        function = F.scaled_dot_product_attention
        if compiled and device == "cuda":
            function = tj.compile(function, strict=True)
            function(*arguments, is_causal=causal, dropout_p=dropout_p)
        tj.manual_seed(2)
        out = function(*arguments, is_causal=causal, dropout_p=dropout_p)
        grads = tj.autograd.grad(out.square().sum(), arguments, create_graph=True)
        second = tj.autograd.grad(sum((g * g).sum() for g in grads), arguments)
        found[device] = [*grads, *second]
    for a, b in zip(found["cuda"], found["cpu"], strict=True):
        close(a, b, 1e-4)


@pytest.mark.thorough
def test_memory_grows_with_the_length() -> None:
    f = tj.compile(F.scaled_dot_product_attention, strict=True)
    for length in (64, 96):
        for dropout_p in (0.0, 0.3):
            q, k, v = (moved(x, "cuda") for x in qkv((1,), length, length, 4, 4))
            for _ in range(2):
                f(q, k, v, dropout_p=dropout_p).sum().backward()
    sizes = [p.bound(p.plan.arena_bytes) for e in f._all() for p in e.programs()]
    assert all(size < 64 * 64 for size in sizes)


GRAPH = """graph f(q: {t}[2, {l}, {e}], k: {t}[2, {s}, {e}], v: {t}[2, {s}, {d}], m: bool[{l}, {s}],
         g: {t}[2, {l}, {d}], r: {r}) {{
    %0: {t}[2, {l}, {d}] = attention(q, k, v, m, r, scale=0.5, causal={c}, masked=True, {o})
    %1: f32[2, {l}] = attention_stats(q, k, m, scale=0.5, causal={c}, masked=True)
    %2: f32[2, {l}] = exp(%1)
    %3: {t}[2, {l}, {e}] = attention_dq(g, q, k, v, m, r, %1, %2, scale=0.5, causal={c},
        masked=True, {o})
    %4: {t}[2, {s}, {w}] = attention_dkv(g, q, k, v, m, r, %1, %2, scale=0.5, causal={c},
        masked=True, {o})
    return %0, %1, %3, %4
}}"""


#: Without dropout, by numbers in memory, and by numbers that the kernel draws.
DROPOUT = {"none": (0.0, -1), "stored": (0.4, -1), "drawn": (0.4, 3)}


def graph_of(
    sizes: tuple[int, int, int, int], dtype: str, causal: bool, dropout: str = "none"
) -> Any:
    length, keys, width, depth = sizes
    low, index = DROPOUT[dropout]
    names = {"l": length, "s": keys, "e": width, "d": depth, "w": width + depth}
    names |= {"o": f"dropout={low}, index={index}"}
    names |= {"r": "i64[2]" if dropout == "drawn" else f"f32[2, {length}, {keys}]"}
    return parse(GRAPH.format(t=dtype, c=causal, **names))


def inputs(graph: Any) -> list[Any]:
    rng = np.random.default_rng(1)
    found = [rng.standard_normal(v.spec.shape).astype(v.spec.dtype.np) for v in graph.inputs]
    found[3] = rng.random(found[3].shape) < 0.8
    drawn = found[5].shape
    found[5] = np.array([11, 4]) if drawn == (2,) else rng.random(drawn, np.float32)
    return found


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "causal", "dropout"),
    [
        ((5, 17, 3, 4), True, "none"),
        ((5, 17, 3, 4), False, "drawn"),
        ((17, 4, 4, 3), False, "stored"),
    ],
    ids=str,
)
def test_kernels_are_legal_in_any_order_of_warps(sizes: Any, causal: bool, dropout: str) -> None:
    """Bounds, barriers and races, by the simulator; its numbers are those of PTX and close to the op's body."""
    graph = graph_of(sizes, "f32", causal, dropout)
    prepared = tools.prepare(graph, inputs(graph))
    body = tools.Run(prepared).execute(tools.on_host)
    ways = [tools.simulated(), tools.simulated(simulator.shuffled(1)), tools.as_ptx("sm_90")]
    first, *others = (tools.Run(prepared).execute(tools.device_way(way)) for way in ways)
    for other in others:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True))
    for a, b in zip(first, body, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dtype", "dropout"),
    [(16, "f32", "none"), (64, "f32", "drawn"), (64, "f32", "stored"), (128, "bf16", "drawn")],
)
def test_kernels_are_sound(width: int, dtype: str, dropout: str) -> None:
    graph = graph_of((9, 9, width, width), dtype, True, dropout)
    prepared = tools.prepare(graph, inputs(graph))
    for source, launch in tools.launches(prepared).items():
        for architecture in ("sm_75", "sm_80", "sm_90"):
            text = tools.ptx_of(source, launch.name, architecture)
            assert_sound(text, source)
            if assembler() is not None:
                found = tools.takes(text, architecture)
                assert found.stack_bytes == found.spilled_bytes == 0, (launch.name, found)
                assert found.shared_bytes <= 48 * 1024
