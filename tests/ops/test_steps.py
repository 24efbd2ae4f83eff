"""Functions by the steps that they are known to take: the same bits, views, nodes, gradients and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import steps
from tracejit.nn import functional as F
from tracejit.ops.remembered import STEADY, remembered

CALLS = 2 * steps.SEEN + 3
Make = Callable[..., Any]


def real(*shape: int) -> Make:
    return lambda draws: tj.tensor(draws.standard_normal(shape).astype(np.float32))


def unit(*shape: int) -> Make:
    return lambda draws: tj.tensor(draws.random(shape).astype(np.float32))


def whole(high: int, *shape: int) -> Make:
    return lambda draws: tj.tensor(draws.integers(0, high, shape))


def turned(*shape: int) -> Make:
    return lambda draws: tj.tensor(draws.standard_normal(shape[::-1]).astype(np.float32)).T


def true(*shape: int) -> Make:
    return lambda draws: tj.tensor(draws.random(shape) > 0.5)


X, Y, LONG = real(4, 6), real(4, 6), whole(6, 4)
#: A function, and what makes its tensors; functions with other arguments stand under the name and a number.
CASES: dict[str, tuple[Callable[..., Any], list[Make]]] = {
    "softmax": (lambda x: tj.softmax(x, -1), [X]),
    "softmax 2": (lambda x: x.half().softmax(0), [turned(4, 6)]),
    "log_softmax": (lambda x: x.log_softmax(1), [X]),
    "cross_entropy": (F.cross_entropy, [X, LONG]),
    "cross_entropy 2": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=2),
        [X, LONG],
    ),
    "cross_entropy 3": (
        lambda x, y, w: F.cross_entropy(x, y, w.detach(), reduction="none"),
        [X, LONG, unit(6)],
    ),
    "cross_entropy 4": (F.cross_entropy, [X, unit(4, 6)]),
    "nll_loss": (F.nll_loss, [X, LONG]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), [X, real(6), real(6)]),
    "layer_norm 2": (lambda x, w: F.layer_norm(x, (6,), w, w), [X, real(6)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), [X, real(6)]),
    "group_norm": (lambda x, w: F.group_norm(x, 3, w), [X, real(6)]),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m.detach(), v.detach()), [X, real(6), unit(6)]),
    "linear": (F.linear, [X, real(5, 6), real(5)]),
    "var": (lambda x: x.var(1), [X]),
    "std": (lambda x: x.std(0, keepdim=True), [X]),
    "var_mean": (lambda x: tj.var_mean(x, 1), [X]),
    "std_mean": (lambda x: tj.std_mean(x), [X]),
    "logsumexp": (lambda x: x.logsumexp(1), [X]),
    "mean": (lambda x: x.mean(), [turned(4, 6)]),
    "norm": (lambda x: x.norm(), [X]),
    "norm 2": (lambda x: x.norm(3, dim=1), [X]),
    "vector_norm": (lambda x: tj.linalg.vector_norm(x, dim=-1), [X]),
    "gelu": (F.gelu, [X]),
    "silu": (F.silu, [X]),
    "silu 2": (lambda x: F.silu(x * 1, inplace=True), [X]),
    "normalize": (F.normalize, [X]),
    "leaky_relu": (F.leaky_relu, [X]),
    "elu": (F.elu, [X]),
    "softplus": (F.softplus, [X]),
    "softsign": (F.softsign, [X]),
    "logsigmoid": (F.logsigmoid, [X]),
    "hardsigmoid": (F.hardsigmoid, [X]),
    "hardswish": (F.hardswish, [X]),
    "mish": (F.mish, [X]),
    "glu": (F.glu, [X]),
    "lerp": (lambda x, y: x.lerp(y, 0.3), [X, Y]),
    "lerp 2": (tj.lerp, [X, Y, unit(4, 6)]),
    "addcmul": (lambda x, y: x.addcmul(x, y, value=-0.0), [X, Y]),
    "addcdiv": (lambda x, y, z: x.addcdiv(y, z, value=2), [X, Y, Y]),
    "stack": (lambda x, y: tj.stack([x, y], 1), [X, Y]),
    "cat": (lambda x, y: tj.cat((x, y, x), 1), [X, Y]),
    "hstack": (lambda x, y: tj.hstack([x, y]), [X, Y]),
    "vstack": (lambda x, y: tj.vstack([x, y]), [X, Y]),
    "repeat": (lambda x: x.repeat(2, 1, 1), [X]),
    "roll": (lambda x: x.roll(1, 0), [X]),
    "split": (lambda x: tj.split(x, 2), [X]),
    "split_method": (lambda x: x.split([1, 5], 1), [X]),
    "chunk": (lambda x: x.chunk(2, -1), [X]),
    "unbind": (lambda x: x.unbind(), [X]),
    "flip": (lambda x: x.flip(0, 1), [X]),
    "view": (lambda x: x.view(3, -1), [X]),
    "expand": (lambda x: x.expand(2, -1, 6), [real(4, 1)]),
    "getitem": (lambda x: x[:, None, 1:-1], [X]),
    "getitem 2": (lambda x, i: x[i], [X, whole(4, 5)]),
    "getitem 3": (lambda x, m: x[m], [X, true(4, 6)]),
    "getitem 4": (lambda x, i: x[i], [X, whole(4)]),
    "getitem 5": (lambda x: x[..., -1], [X]),
    "tril": (lambda x: x.tril(), [X]),
    "triu": (lambda x: x.triu(1), [X]),
    "diag": (lambda x: x.diag(), [X]),
    "scaled_dot_product_attention": (F.scaled_dot_product_attention, [real(2, 3, 4)] * 3),
    "einsum": (lambda x, y: tj.einsum("ij,kj->ik", x, y), [X, Y]),
    "max": (lambda x: x.max(1), [X]),
    "max 2": (lambda x: x.max(), [X]),
    "min": (lambda x, y: tj.min(x, y), [X, Y]),
    "gather": (lambda x, i: x.gather(1, i), [X, whole(6, 4, 3)]),
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y), [X, whole(6, 4, 6), Y]),
    "index_select": (lambda x, i: x.index_select(0, i), [X, whole(4, 3)]),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), [X, whole(6, 4, 1)]),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), [X, whole(4, 4), Y]),
    "masked_fill": (lambda x, m: x.masked_fill(m, -1e9), [X, true(4, 6)]),
    "mse_loss": (F.mse_loss, [X, Y]),
    "l1_loss": (F.l1_loss, [X, Y]),
    "smooth_l1_loss": (F.smooth_l1_loss, [X, Y]),
    "huber_loss": (F.huber_loss, [X, Y]),
    "binary_cross_entropy": (F.binary_cross_entropy, [unit(4, 6), unit(4, 6)]),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, [X, unit(4, 6)]),
    "kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), [X, unit(4, 6)]),
    "cosine_similarity": (F.cosine_similarity, [X, Y]),
    "mv": (tj.mv, [X, real(6)]),
    "dot": (tj.dot, [real(6), real(6)]),
    "dot 2": (lambda x: tj.dot(x, x), [real(6)]),
    "outer": (tj.outer, [real(4), real(6)]),
    "addmm": (lambda b, x, y: tj.addmm(b, x, y, alpha=2), [real(5), X, real(6, 5)]),
    "baddbmm": (tj.baddbmm, [real(2, 4, 5), real(2, 4, 3), real(2, 3, 5)]),
    "tensordot": (lambda x, y: tj.tensordot(x, y, 1), [X, real(6, 3)]),
    "kron": (tj.kron, [X, real(2, 2)]),
    "pad": (lambda x: F.pad(x, (1, 2)), [X]),
    "sort": (lambda x: x.sort(1), [X]),
    "topk": (lambda x: x.topk(2), [X]),
    "matmul": (tj.matmul, [X, real(6, 3)]),
    "matmul 2": (lambda x, y: x @ y, [real(2, 4, 3), real(3)]),
    "matmul 3": (lambda x, y: x.T @ y, [X, Y]),
    "bmm": (tj.bmm, [real(2, 4, 3), real(2, 3, 5)]),
    "reshape": (lambda x: x.reshape(2, -1), [turned(4, 6)]),
    "reshape 2": (lambda x: x.reshape(x.shape), [X]),
    "flatten": (lambda x: x.flatten(), [X]),
    "transpose": (lambda x: x.transpose(0, -1), [X]),
    "permute": (lambda x: x.permute(1, 0), [X]),
    "squeeze": (lambda x: x.squeeze(), [real(1, 4, 1)]),
    "unsqueeze": (lambda x: x.unsqueeze(1), [X]),
    "where": (lambda m, x, y: tj.where(m, x, y), [true(4, 6), X, real(6)]),
    "where 2": (lambda m, x: tj.where(m, x, -0.0), [true(4, 6), X]),
    "clamp": (lambda x: x.clamp(-1, 0.5), [X]),
    "pow": (lambda x: x**3, [X]),
    "pow 2": (lambda x, y: x**y, [unit(4, 6), Y]),
    "sum": (lambda x: x.sum(1, keepdim=True), [X]),
    "sum 2": (lambda x: x.sum(), [turned(4, 6)]),
    "amax": (lambda x: x.amax(0), [X]),
    "argmax": (lambda x: x.argmax(1), [X]),
    "diagonal": (lambda x: x.diagonal(1), [X]),
    "cumsum": (lambda x: x.cumsum(0), [X]),
}


@pytest.fixture
def as_written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Switches steps off, and on again."""
    usual = steps.usual

    def switch(off: bool) -> None:
        monkeypatch.setattr(steps, "usual", (lambda: False) if off else usual)

    yield switch
    monkeypatch.undo()


def test_every_function_with_a_memory_has_a_case() -> None:
    assert {name.split()[0] for name in CASES} == set(STEADY)


def structure(node: Any) -> Any:
    """The names of nodes, as they hang together."""
    if node is None:
        return None
    return node.name(), [structure(below) for below, _ in node.next_functions]


def facts(found: Any) -> list[Any]:
    """All there is to a result."""
    if isinstance(found, tuple):
        return [type(found), *(fact for x in found for fact in facts(x))]
    x = found.detach()
    return [
        (x.numpy().tobytes(), x.dtype, x.shape, x.stride(), found.requires_grad, found.is_leaf),
        (found._base is not None, found._piece, found._version, structure(found.grad_fn)),
    ]


def gradients(found: Any, tensors: list[Any], draws: Any) -> list[Any]:
    """The gradients that reach the tensors."""
    loss = None
    for x in found if isinstance(found, tuple) else (found,):
        if x.requires_grad:
            part = (x * tj.tensor(draws.random(x.shape).astype(np.float32))).sum()
            loss = part if loss is None else loss + part
    if loss is None:
        return []
    loss.backward()
    return [None if x.grad is None else x.grad.numpy().tobytes() for x in tensors]


def run(function: Any, makers: list[Make], seed: int, mode: str) -> list[Any]:
    """What a function gives: for leaves, views of what requires grad, or tensors without gradients."""
    draws = np.random.default_rng(seed)
    leaves = [make(draws) for make in makers]
    if mode != "plain":
        for x in leaves:
            x.requires_grad_(x.dtype.is_floating_point)
    given = [x[:] if mode == "views" and x.ndim else x for x in leaves]
    found = function(*given)
    return facts(found) + gradients(found, leaves, draws)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["plain", "leaves", "views"])
@pytest.mark.parametrize("name", CASES)
def test_calls_by_steps_are_those_as_written(
    name: str, mode: str, as_written: Callable[[bool], None]
) -> None:
    function, makers = CASES[name]
    for call in range(CALLS):
        as_written(False)
        found = run(function, makers, call, mode)
        as_written(True)
        assert found == run(function, makers, call, mode), f"call {call}"


def repeated(function: Callable[..., Any], *args: Any) -> Any:
    """The result of the last of several calls."""
    return [function(*args) for _ in range(CALLS)][-1]


def test_steps_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    double = remembered(lambda x: (asked.append(1), tj.add(x, x))[1])
    assert repeated(double, tj.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert len(asked) == steps.SEEN + 1


def test_numbers_that_are_equal_are_not_the_same() -> None:
    times = remembered(lambda x, y: tj.mul(x, y))
    x = tj.ones(1)
    for number in (0.0, -0.0, 0, False, 1, 1.0, True):
        expected = tj.mul(tj.ones(1, dtype=tj.int64), number)
        assert repeated(times, tj.ones(1, dtype=tj.int64), number).dtype is expected.dtype
        assert np.signbit(repeated(times, x, number).numpy()) == np.signbit(
            tj.mul(x, number).numpy()
        )


@pytest.mark.parametrize(
    "index",
    [
        np.array([1, 0]),
        [1, 0],
        (slice(tj.tensor(1), None), 0),
        np.int64(1),
        (tj.tensor(1), slice(0, np.int64(1))),
        True,
    ],
    ids=str,
)
def test_parts_by_other_things_than_numbers(index: Any) -> None:
    x = tj.arange(6).reshape(2, 3).float().requires_grad_()
    expected = x[index].tolist()
    for _ in range(CALLS):
        assert x[index].tolist() == expected


def test_a_place_in_a_tensor_is_read_every_time() -> None:
    x, place = tj.arange(4.0).requires_grad_(), tj.tensor(0)
    for call in range(CALLS):
        place.fill_(call % 3)
        assert x[place].item() == call % 3
        assert x[place:].tolist()[0] == call % 3


def test_a_function_may_do_nothing() -> None:
    same = remembered(lambda x: x)
    both = remembered(lambda x, y: (y, x))
    none = remembered(lambda x: ())
    x, y = tj.ones(1), tj.ones(1)
    assert repeated(same, x) is x
    assert repeated(both, x, y)[1] is x
    assert repeated(none, x) == ()


def test_tensors_without_memory_are_told_apart() -> None:
    x = tj.ones(2, 3)
    repeated(tj.softmax, x, 1)
    assert repeated(tj.softmax, tj.ones(2, 3, device="meta"), 1).is_meta
    with tj.device("meta"):
        assert repeated(tj.tril, x).shape == (2, 3)
        assert repeated(tj.softmax, tj.ones(2, 3), 1).is_meta
    assert repeated(tj.softmax, x, 1).tolist() == [[pytest.approx(1 / 3)] * 3] * 2


class Activated(tj.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act, self.table = F.gelu, {"norm": tj.softmax}

    def forward(self, x: Any) -> Any:
        return self.table["norm"](self.act(x), -1)


def test_compiled_code_does_not_depend_on_what_is_remembered() -> None:
    module = Activated()
    compiled = tj.compile(module)
    for size in (2, 3):
        for _ in range(CALLS):
            repeated(module, tj.ones(size))
            compiled(tj.ones(4))
    assert "1 recorded" in str(compiled.explain()).splitlines()[0]


def test_one_tensor_twice_is_not_two() -> None:
    minus = remembered(lambda x, y: tj.sub(x, y))
    x, y = tj.ones(2), tj.zeros(2)
    assert repeated(minus, x, y).tolist() == [1.0, 1.0]
    assert repeated(minus, x, x).tolist() == [0.0, 0.0]
    assert repeated(minus, y, x).tolist() == [-1.0, -1.0]


def test_what_is_written_or_drawn_or_known_elsewhere_is_not_remembered() -> None:
    count, other = tj.zeros(1), tj.ones(1)
    adding = remembered(lambda x, y: x.add_(y))
    assert repeated(adding, count, other).item() == CALLS
    drawing = remembered(lambda x: x + tj.rand(3))
    drawn = {tuple(drawing(tj.zeros(3)).tolist()) for _ in range(CALLS)}
    assert len(drawn) == CALLS
    outside = remembered(lambda x: x + other)
    repeated(outside, count)
    before = count.item()
    other.add_(1)
    assert outside(count).item() == before + 2


def test_errors_are_those_of_the_function() -> None:
    x = tj.randn(4, 6)
    for _ in range(CALLS):
        F.cross_entropy(x, tj.tensor([0, 1, 2, 3]))
        x.gather(1, tj.tensor([[0], [1], [2], [3]]))
    for _ in range(CALLS):
        with pytest.raises(IndexError, match="out of bounds"):
            F.cross_entropy(x, tj.tensor([0, 1, 2, 6]))
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.gather(1, tj.tensor([[0], [1], [2], [6]]))


def test_pieces_and_views_refuse_what_they_refuse() -> None:
    x = tj.ones(4, requires_grad=True)
    for _ in range(CALLS):
        first, _ = (x * 1).chunk(2)
        with pytest.raises(RuntimeError, match="multiple views"):
            first.add_(1)
    y = tj.ones(4)
    for _ in range(CALLS):
        y.view(2, 2)[0] = 3.0
    assert y.tolist() == [3.0, 3.0, 1.0, 1.0]


def test_modes_tell_calls_apart() -> None:
    x = tj.ones(3, requires_grad=True)
    for _ in range(2):
        assert repeated(tj.softmax, x, 0).requires_grad
        with tj.no_grad():
            assert not repeated(tj.softmax, x, 0).requires_grad
        with tj.inference_mode():
            assert repeated(tj.softmax, x, 0).is_inference()
        with tj.autocast("cpu"):
            assert repeated(F.linear, tj.eye(3), tj.eye(3), tj.ones(3)).dtype is tj.bfloat16
        assert repeated(F.linear, tj.eye(3), tj.eye(3), tj.ones(3)).dtype is tj.float32


def test_tensors_that_are_kept_are_packed_and_watched() -> None:
    packed: list[Any] = []
    x = tj.ones(3, requires_grad=True)
    repeated(F.silu, x)
    with tj.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        F.silu(x).sum().backward()
    assert packed
    found = F.silu(x)
    with tj.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        found.sum().backward()
