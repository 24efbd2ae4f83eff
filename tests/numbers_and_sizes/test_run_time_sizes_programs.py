"""Whole programs whose sizes a run tells, what they may look at, and gradients in every order."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from test_run_time_sizes import COUNTS, chosen, compare, rows, same, vectors, weight

import tracejit as tj


def test_comparing_a_size_is_a_branch() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        if y.numel() == 0:
            return x.sum()
        if len(y) > 4:
            return y * 2
        return y.exp() if len(y) >= 2 else y

    compiled = compare(program, vectors(*COUNTS, 3, 8, 11, 6))
    assert compiled.stats.recordings == 4
    assert not compiled.reasons


def test_truth_of_a_length_is_a_branch() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        if not len(y):
            return x
        while y.shape[0] > 6:
            y = y[1:]
        return y

    compiled = compare(program, vectors(7, 0, 5, 0, 3, 7, 1))
    assert compiled.stats.recordings == 3


def test_a_number_read_is_known_for_that_number_only() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        return y * float(f"{y.numel()}.5") + {3: 1.0, 4: 2.0}.get(y.shape[0], 0.0)

    compiled = compare(program, vectors(3, 4, 5, 3, 4, 5, 3))
    assert compiled.stats.recordings == 3
    assert compiled.stats.compiled_calls == 4


def test_numbers_read_are_bounded_and_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tj.config, "max_paths", 3)

    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        return y[list(range(len(y)))].sum()

    compiled = compare(program, vectors(3, 4, 5, 6, 7, 3))
    assert compiled.stats.recordings == 3
    assert "read as a number" in compiled.reasons[0]
    assert "test_run_time_sizes_programs.py" in compiled.reasons[0]


def test_iterating_reads_the_number() -> None:
    compiled = compare(lambda x: sum((r * r).sum() for r in chosen(x)), rows(2, 3, 2, 3, 0, 2))
    assert compiled.stats.recordings == 3


def test_returned_sizes_are_plain_ints() -> None:
    def program(x: tj.Tensor) -> Any:
        y = chosen(x)
        return y.shape[0], y.shape, [y.numel() + 1], {"n": y.size(0) * 2}

    compiled = tj.compile(program)
    for (a,) in rows(5, 3, 0, 1):
        count, shape, (more,), named = compiled(tj.tensor(a))
        expected = int((a[:, 0] > 0).sum())
        assert (count, tuple(shape), more, named) == (
            expected,
            (expected, 4),
            expected * 4 + 1,
            {"n": expected * 2},
        )
        assert {type(count), type(shape[0]), type(more), type(named["n"])} == {int}
    assert compiled.stats.recordings == 1


def test_errors_are_those_of_eager_execution() -> None:
    compiled = compare(lambda x: x[x > 0].max(), vectors(5, 3, 0, 4, 0))
    assert compiled.stats.compiled_calls == 2
    compare(lambda x: x[x > 0].reshape(2, -1), vectors(4, 6, 3, 0, 8))
    compare(lambda x: x[x > 0] + x[:3], vectors(3, 3, 1, 5, 0, 3))
    compare(lambda x: x[x > 0][2], vectors(3, 5, 2, 0, 7))


def test_integers_and_booleans() -> None:
    rng = np.random.default_rng(3)
    calls = [(rng.integers(0, 5, 30),) for _ in range(6)]
    for program in (
        lambda x: tj.unique(x, return_inverse=True, return_counts=True),
        lambda x: tj.bincount(x, minlength=2) * 2,
        lambda x: (x > 2).nonzero(),
        lambda x: x[x > 9] // 2,
        lambda x: (x[x > 1] > 2).any(),
    ):
        compiled = compare(program, calls, backward=False)
        assert compiled.stats.recordings == 1


def test_no_dimension_at_all() -> None:
    calls = [(np.float32(v),) for v in (1.0, -1.0, 2.0, -3.0, 0.5)]
    compiled = compare(lambda x: x[x > 0] * 3, [(np.asarray(v),) for (v,) in calls])
    assert compiled.stats.recordings == 1


def experts(x: tj.Tensor) -> tj.Tensor:
    """The two best of four experts, each on the rows that chose it."""
    best, expert = (x @ x.T[:, :4]).softmax(-1).topk(2, dim=-1)
    out = tj.zeros_like(x)
    for e in range(4):
        token, slot = (expert == e).nonzero(as_tuple=True)
        y = (x[token] @ weight() * (e + 1)).relu() @ weight().T
        out = out.index_add(0, token, y * best[token, slot][:, None])
    return out


def test_mixture_of_experts() -> None:
    rng = np.random.default_rng(5)
    calls = [(rng.standard_normal((8, 4)).astype(np.float32),) for _ in range(12)]
    compiled = compare(experts, calls)
    assert compiled.stats.recordings == 1
    assert compiled.stats.compiled_calls == 11


def test_steps_of_layers_with_a_bias_whose_rows_happen_to_be_as_many_as_their_columns() -> None:
    tj.manual_seed(0)
    layer = tj.nn.Linear(4, 4)

    @tj.compile
    def step(x: tj.Tensor) -> tj.Tensor:
        layer.zero_grad()
        loss = layer(x[x[:, 0] > 0]).square().sum()
        loss.backward()
        return loss.detach()

    for count in (4, 3, 5, 1, 0, 4, 6):
        x = tj.randn(8, 4)
        x[:, 0] = tj.where(tj.arange(8) < count, 1.0, -1.0)
        found = step(x), layer.bias.grad.clone()
        rows = x[:count].requires_grad_()
        expected = layer(rows).square().sum()
        assert tj.allclose(found[0], expected)
        assert tj.allclose(found[1], tj.autograd.grad(expected, layer.bias)[0], atol=1e-5)
    assert step.stats.recordings == 1


def suppressed(boxes: tj.Tensor) -> tj.Tensor:
    """Boxes that overlap no better one."""
    order = boxes[:, 4].argsort(descending=True)
    keep = []
    while order.numel() > 0:
        best, rest = order[0], order[1:]
        keep.append(best)
        b, r = boxes[best], boxes[rest]
        low, high = tj.maximum(b[:2], r[:, :2]), tj.minimum(b[2:4], r[:, 2:4])
        common = (high - low).clamp(min=0).prod(1)
        area = (r[:, 2:4] - r[:, :2]).prod(1) + (b[2:4] - b[:2]).prod() - common
        order = rest[common / area < 0.3]
    return tj.stack(keep)


def test_non_maximum_suppression() -> None:
    rng = np.random.default_rng(6)
    calls = []
    for _ in range(15):
        low = rng.uniform(0, 2, (10, 2))
        high = low + rng.uniform(1, 3, (10, 2))
        boxes = np.concatenate([low, high, rng.random((10, 1))], 1)
        calls.append((boxes.astype(np.float32),))
    compiled = compare(suppressed, calls, backward=False)
    assert compiled.stats.recordings <= 6  # one for each number of rounds
    assert not compiled.reasons


def counted(*lists: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    return [(rng.standard_normal((12, 3)).astype(np.float32), np.array(c)) for c in lists]


LISTS = counted((3, 4, 5), (5, 5, 2), (1, 0, 11), (12, 0, 0), (4, 4, 4), (0, 6, 6), (2, 3, 7))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, c: [p.sum(0) for p in x.split(c.tolist())],
        lambda x, c: tj.cat([p.exp() * i for i, p in enumerate(x.split(c.tolist()))]),
        lambda x, c: tj.repeat_interleave(x[:3], c, dim=0) * 2,
        lambda x, c: x[:3].repeat_interleave(c, 0).sum(0),
        lambda x, c: sum(x[i] * n for i, n in enumerate(c.tolist())),
    ],
)
def test_sizes_from_a_tensor(program: Any) -> None:
    compiled = compare(program, LISTS)
    assert compiled.stats.recordings == 1
    assert not compiled.reasons


def test_running_ends_of_segments() -> None:
    def program(x: tj.Tensor, counts: tj.Tensor) -> tj.Tensor:
        out, start = [], 0
        for n in counts.tolist():
            out.append(x[start : start + n].sum(0))
            start += n
        return tj.stack(out)

    compiled = compare(program, LISTS)
    assert compiled.stats.recordings == 1
    assert not compiled.reasons


def test_lists_used_for_more_than_sizes_are_read_number_by_number() -> None:
    compiled = compare(lambda x, c: x * float(str(c.tolist()[0])), [*LISTS, *LISTS])
    assert compiled.stats.compiled_calls >= 2, compiled.explain()
    assert not compiled.entries or all(
        e.failure is None for v in compiled.entries.values() for e in v
    )


def test_bad_counts_raise_as_eagerly() -> None:
    calls = counted((3, 4, 5), (6, 6, 0), (3, -1, 10), (3, 4, 6), (3, 3, 6))
    compare(lambda x, c: x.split(c.tolist())[1], calls)
    compare(lambda x, c: x[:3].repeat_interleave(c, 0), calls)


def batches(program: Any, *counts: int) -> list[tuple[tj.Tensor, Any]]:
    found = []
    for (a,) in rows(*counts):
        x = tj.tensor(a).requires_grad_()
        found.append((x, program(x)))
    return found


def test_backwards_in_another_order_than_the_calls() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        return (chosen(x) @ weight()).tanh().pow(2).sum() * chosen(x).shape[0]

    compiled = tj.compile(program)
    for counts in ((5,), (7, 2, 5, 0, 1, 12)):
        mine, other = batches(compiled, *counts), batches(program, *counts)
        for calls in (mine, other):
            for _, y in reversed(calls):
                y.backward()
        for (x, y), (u, v) in zip(mine, other, strict=True):
            same(y.detach(), v.detach())
            same(x.grad, u.grad)
    assert compiled.stats.recordings == 1


def test_gradients_of_gradients_and_kept_graphs() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        return x[x > 0].pow(3).sum()

    compiled = tj.compile(program)
    for (a,) in vectors(5, 3, 0, 1, 12, 4):
        found = []
        for function in (compiled, program):
            x = tj.tensor(a).requires_grad_()
            (first,) = tj.autograd.grad(function(x), x, create_graph=True)
            first.pow(2).sum().backward(retain_graph=True)
            first.sum().backward()
            found.append((first.detach(), x.grad))
        same(found[0], found[1])
    assert compiled.stats.recordings == 1


def test_modes_and_backward_inside() -> None:
    def step(x: tj.Tensor) -> Any:
        w = weight().requires_grad_()
        loss = (chosen(x) @ w).pow(2).sum()
        (gradient,) = tj.autograd.grad(loss, w)
        return loss.detach(), gradient

    compiled = compare(step, rows(5, 3, 7, 0, 1), backward=False)
    assert not compiled.reasons

    def inside(x: tj.Tensor, w: tj.Tensor) -> Any:
        (gradient,) = tj.autograd.grad((chosen(x) @ w).pow(2).mean(), w)
        return gradient

    trained = tj.compile(inside)
    for (a,) in rows(5, 3, 7, 2, 12):
        w = weight().requires_grad_()
        same(trained(tj.tensor(a), w), inside(tj.tensor(a), w))
    assert trained.stats.recordings == 1
    assert trained.stats.compiled_calls == 4

    plain = tj.compile(chosen)
    with tj.no_grad():
        for (a,) in rows(5, 0, 3):
            x = tj.tensor(a).requires_grad_()
            same(plain(x), chosen(x))
            assert not plain(x).requires_grad


def test_random_numbers_of_found_sizes() -> None:
    def program(x: tj.Tensor) -> tj.Tensor:
        y = x[x > 0]
        return tj.nn.functional.dropout(y, 0.5) + tj.randn_like(y)

    compiled = tj.compile(program)
    for (a,) in vectors(5, 9, 0, 1, 12):
        tj.manual_seed(3)
        expected = [program(tj.tensor(a)), tj.randn(2)]
        tj.manual_seed(3)
        same([compiled(tj.tensor(a)), tj.randn(2)], expected)
    assert compiled.stats.recordings == 1


def test_two_sizes_of_input_share_a_plan() -> None:
    compiled = tj.compile(lambda x: (chosen(x) @ weight()).relu().sum(0), dynamic=False)
    for length in (12, 20, 31):
        for (a,) in rows(5, 3, 0, length=length):
            same(compiled(tj.tensor(a)), compiled.function(tj.tensor(a)))
    assert compiled.stats.recordings == 3
    assert compiled.plans.made == 1


def test_many_threads_with_many_sizes() -> None:
    program = tj.compile(lambda x: (chosen(x) @ weight()).relu().sum(0))
    calls = [(tj.tensor(a), program.function(tj.tensor(a))) for (a,) in rows(*range(13))]
    wrong: list[Any] = []

    def work(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(calls) * 4) % len(calls)
        for i in order.tolist():
            x, expected = calls[i]
            if not np.allclose(program(x).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert program.stats.recordings == 1


def test_strict_and_verify_accept_found_sizes() -> None:
    strict = tj.compile(lambda x: x[x > 0].sum(), strict=True, verify=True)
    for (a,) in vectors(3, 5, 0, 1):
        same(strict(tj.tensor(a)), strict.function(tj.tensor(a)))
    assert strict.stats.compiled_calls == 3


def test_questions_about_layouts_that_found_sizes_have_no_part_in():
    def farthest(points, count):
        batch, n, _ = points.shape
        found = tj.zeros(batch, count, dtype=tj.long)
        distance = tj.full((batch, n), 1e10)
        last = tj.zeros(batch, dtype=tj.long)
        for i in range(count):
            found[:, i] = last
            center = points[tj.arange(batch), last].view(batch, 1, 3)
            here = ((points - center) ** 2).sum(-1)
            mask = here < distance
            distance[mask] = here[mask]
            last = distance.max(-1)[1]
        flat = points.transpose(2, 1).contiguous().view(batch, -1)
        return found, flat.is_contiguous(), flat.stride()

    compiled = tj.compile(farthest)
    for seed in range(8):
        tj.manual_seed(seed)
        points = tj.randn(2, 12, 3)
        found, wanted = compiled(points, 4), farthest(points, 4)
        assert tj.equal(found[0], wanted[0])
        assert found[1:] == wanted[1:] == (True, (36, 1))
    assert compiled.stats.recordings <= 2
    assert compiled.stats.compiled_calls >= 6


def test_layouts_that_found_sizes_have_a_part_in():
    def rows(x):
        kept = x[x[:, 0] > 0]
        part = kept.t()[:2, :1].clone(), kept.t()[:2]
        return kept * 1, part[1].stride(), kept.t()[:, :1].is_contiguous()

    compiled = tj.compile(rows)
    for seed in range(12):
        tj.manual_seed(seed)
        x = tj.randn(6, 3)
        x[0] = 1.0
        found, wanted = compiled(x), rows(x)
        assert tj.equal(found[0], wanted[0])
        assert found[1:] == wanted[1:]
