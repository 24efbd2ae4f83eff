"""What a small eager computation takes: which ops run, forward and backward, and that nothing else does."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.nn import functional as F
from tracejit.ops import op as op_module
from tracejit.ops.table import set_dispatcher
from tracejit.tensor import Tensor


@pytest.fixture
def applied() -> Iterator[list[str]]:
    """The names of the ops that run, in order."""
    names: list[str] = []
    apply = op_module._apply

    def noting(op: Any, *arguments: Any) -> Any:
        names.append(op.name)
        return apply(op, *arguments)

    set_dispatcher(noting)
    try:
        yield names
    finally:
        set_dispatcher(apply)


def leaf(*shape: int) -> Tensor:
    return tj.ones(*shape).requires_grad_()


CASES: dict[str, tuple[Callable[[], Tensor], list[str], list[str]]] = {
    "sum": (lambda: leaf(3).sum(), ["sum"], ["expand"]),
    "sum of rows": (lambda: leaf(4, 3).sum(0).sum(), ["sum", "sum"], ["expand", "expand"]),
    "sum of columns": (
        lambda: leaf(4, 3).sum(1).sum(),
        ["sum", "sum"],
        ["expand", "unsqueeze", "expand"],
    ),
    "mean": (lambda: leaf(3, 2).mean(), ["sum", "div"], ["div", "expand"]),
    "expand": (lambda: leaf(3).expand(2, 3).sum(), ["expand", "sum"], ["expand", "sum"]),
    "product": (lambda: (leaf(3) * leaf(3)).sum(), ["mul", "sum"], ["expand", "mul", "mul"]),
    "exp": (lambda: leaf(3).exp().sum(), ["exp", "sum"], ["expand", "mul"]),
    "linear": (
        lambda: F.linear(tj.ones(4, 3), leaf(5, 3), leaf(5)).sum(),
        ["permute", "matmul", "add", "sum"],
        # the weight's gradient is made transposed, as the weight is used: turned back it lies in rows
        ["expand", "sum", "permute", "matmul", "permute", "permute"],
    ),
    "slice": (lambda: leaf(4)[1:].sum(), ["slice", "sum"], ["expand", "full", "slice_scatter"]),
}


@pytest.mark.parametrize("name", CASES)
def test_ops_of_a_computation_and_of_its_gradient(name: str, applied: list[str]):
    compute, forward, backward = CASES[name]
    tj.ones(1)
    del applied[:]
    loss = compute()
    made = [n for n in applied if n != "full"]  # leaves and inputs
    del applied[:]
    loss.backward()
    assert (made, applied) == (forward, backward)


def test_the_gradient_of_a_weight_is_made_in_rows():
    """Else copying it into rows takes longer than the copy of a block."""
    weight = leaf(5, 3)
    strides: list[tuple[int, ...]] = []
    weight.register_hook(lambda g: strides.append(g.stride()))
    F.linear(tj.ones(4, 3), weight).sum().backward()
    assert strides == [(3, 1)]


def test_reading_by_an_index_tensor_is_one_op(applied: list[str]):
    x, index = tj.arange(6).reshape(3, 2), tj.tensor([2, 0])
    del applied[:]
    assert x[index].tolist() == [[4, 5], [0, 1]]
    assert applied == ["take"]


def test_a_gradient_that_is_kept_twice_is_copied_once():
    a, b = leaf(3), leaf(3)
    (a + b).backward(tj.tensor([1.0, 2.0, 3.0]))
    assert a.grad.tolist() == b.grad.tolist() == [1.0, 2.0, 3.0]
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_given_gradients_stay_the_callers_own():
    x, seed = leaf(3), tj.tensor([1.0, 2.0, 3.0])
    (x + 0).backward(seed)
    x.grad.zero_()
    assert seed.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x * x,
        lambda x, y: x * y + x,
        lambda x, y: tj.cat([x, y, x]).reshape(3, -1).sum(0),
        lambda x, y: x.detach() * y,
        lambda x, y: (x @ y) * x,
    ],
)
def test_leaves_used_once_twice_or_not_at_all(compute: Callable[[Tensor, Tensor], Tensor]):
    def gradients(watched: bool) -> list[Any]:
        x = tj.tensor([1.0, -2.0, 3.0], requires_grad=True)
        y = tj.tensor([0.5, 4.0, -1.0], requires_grad=True)
        seen: list[str] = []
        if watched:
            x.register_post_accumulate_grad_hook(lambda t: seen.append("x"))
            y.register_hook(lambda g: seen.append("y"))
        for _ in range(2):  # into nothing, then into what is there
            compute(x, y).sum().backward()
        if watched:
            assert set(seen) <= {"x", "y"}
            assert len(seen) == 2 * len(set(seen))
        return [None if t.grad is None else (t.grad.tolist(), t.grad._version) for t in (x, y)]

    plain, watched = gradients(False), gradients(True)
    assert [p and p[0] for p in plain] == [w and w[0] for w in watched]


def test_the_benchmark_times_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "eager.py"
    spec = importlib.util.spec_from_file_location("eager_benchmark", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert module.main(["--seconds", "0.0001", "--json", str(first)]) == 0
    rows = json.loads(first.read_text())
    assert set(rows) == set(module.operations(tj)) | set(module.gradients(tj))
    assert all(cost > 0 for cost in rows.values())
    again = ["--only", "sum", "--seconds", "0.0001", "--json", str(second), "--with", str(first)]
    assert module.main(again) == 0
    assert set(json.loads(second.read_text())) == {name for name in rows if "sum" in name}
    assert "geometric mean" in capsys.readouterr().out
