"""Counting operations, and checkpoints of which some results are kept: against PyTorch."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.utils import checkpoint as checkpointing
from tracejit.utils import flop_counter

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def model(of: Any) -> Any:
    """Convolutions, layers in rows, and products."""
    nn = of.nn

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)
            self.blocks = nn.ModuleList(
                [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2)]
            )
            self.head = nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            x = self.conv(x).mean((2, 3))
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Net()


def counter(of: Any) -> Any:
    """The module."""
    return import_module(f"{of.__name__}.utils.flop_counter")


def counted(of: Any) -> tuple[Any, ...]:
    """All that is counted of a pass forward and backward."""
    net, x = model(of), of.ones(2, 3, 8, 8)
    with counter(of).FlopCounterMode(display=False) as found:
        net(x).sum().backward()
    counts = {
        name: {str(op): n for op, n in row.items()} for name, row in found.get_flop_counts().items()
    }
    return found.get_total_flops(), counts


def test_layers_are_counted_as_in_pytorch() -> None:
    assert counted(tj) == counted(torch)


def test_products_and_windows_are_counted_as_in_pytorch() -> None:
    def totals(of: Any) -> list[Any]:
        layers = of.nn.functional
        x = of.ones(2, 4, 9, 9, requires_grad=True)
        w, turned = of.ones(4, 2, 3, 3, requires_grad=True), of.ones(4, 3, 3, 3, requires_grad=True)
        calls = [
            lambda: layers.conv2d(x, w, groups=2, stride=2, dilation=2).sum().backward(),
            lambda: layers.conv_transpose2d(x, turned, stride=2).sum().backward(),
            lambda: of.baddbmm(of.ones(2, 3, 5), of.ones(2, 3, 4), of.ones(2, 4, 5)),
            lambda: of.ones(2, 3, 4) @ of.ones(4, 5),
            lambda: of.einsum("bij,bjk->bik", of.ones(2, 3, 4), of.ones(2, 4, 5)),
            lambda: layers.scaled_dot_product_attention(*[of.ones(1, 2, 5, 4)] * 3),
        ]
        found = []
        for call in calls:
            with counter(of).FlopCounterMode(display=False) as mode:
                call()
            found.append(
                (
                    mode.get_total_flops(),
                    {str(k): v for k, v in mode.get_flop_counts().get("Global", {}).items()},
                )
            )
        return found

    assert totals(tj) == totals(torch)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with flop_counter.FlopCounterMode(depth=None) as found:
        model(tj)(tj.ones(2, 3, 8, 8))
    printed = capsys.readouterr().out
    assert printed == f"{found.get_table()}\n"
    lines = [
        "Module                 FLOP    % Total",
        "------------------  -------  ---------",
        "Net                 55.936K    100.00%",
        "- aten.convolution  55.296K     98.86%",
        "- aten.addmm         0.640K      1.14%",
        "Net.blocks.0         0.256K      0.46%",
        "- aten.addmm         0.256K      0.46%",
    ]
    assert printed.split("\n")[: len(lines)] == lines
    assert found.get_table(1).split("\n") == lines[:5]
    with flop_counter.FlopCounterMode(display=False) as none:
        tj.ones(1)
    assert none.get_table().split("\n")[-1].split() == ["Global", "0", "0%"]


def test_formulas_of_programs() -> None:
    @tj.library.custom_op("listened::thrice", mutates_args=())
    def thrice(x: tj.Tensor) -> tj.Tensor:
        return x * 3

    mapping = {tj.ops.aten.add: lambda a, b, out_shape=None: 7}
    with flop_counter.FlopCounterMode(display=False, custom_mapping=mapping) as found:
        _ = tj.ones(2) + 1
    assert found.get_total_flops() == 7
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        flop_counter.register_flop_formula(tj.add)(len)
    with pytest.raises(RuntimeError, match=r"duplicate registrations for aten\.mm"):
        flop_counter.register_flop_formula(tj.ops.aten.mm)(len)


# --- checkpoints ----------------------------------------------------------------------------------


def selective(of: Any, policy: Any) -> tuple[list[str], list[Any]]:
    """What is told of a checkpointed part, forward and backward, and its gradients."""
    saving = import_module(f"{of.__name__}.utils.checkpoint")
    base = import_module(f"{of.__name__}.utils._python_dispatch").TorchDispatchMode
    lines: list[str] = []

    class Notes(base):  # type: ignore[misc,valid-type]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not any(word in str(func) for word in ("detach", "strided", "copy_")):
                lines.append(str(func))
            return func(*args, **(kwargs or {}))

    w = of.arange(32.0).reshape(4, 8).div(32).requires_grad_()
    v = of.arange(32.0).reshape(8, 4).div(32).requires_grad_()
    x = of.arange(12.0).reshape(3, 4).div(12).requires_grad_()
    layers = of.nn.functional

    def part(x: Any) -> Any:
        return layers.gelu(layers.linear(layers.silu(x @ w), v.t())).softmax(-1)

    options = {}
    if policy is not None:
        given = functools.partial(saving.create_selective_checkpoint_contexts, policy(of, saving))
        options["context_fn"] = given
    with Notes():
        y = saving.checkpoint(part, x, use_reentrant=False, **options)
        (y * y).sum().backward()
    return lines, [x.grad.tolist(), w.grad.tolist(), v.grad.tolist()]


def _all_but_transposes(of: Any, saving: Any) -> Any:
    policies = saving.CheckpointPolicy

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(context.is_recompute, bool)
        turned = op is of.ops.aten.t.default
        return policies.PREFER_RECOMPUTE if turned else policies.MUST_SAVE

    return policy


POLICIES = {
    "nothing": None,
    "products": lambda of, _: [of.ops.aten.mm.default],
    "products and functions": lambda of, _: [of.ops.aten.mm.default, of.ops.aten.silu.default],
    "all but views": _all_but_transposes,
}


@pytest.mark.parametrize("name", POLICIES)
def test_selective_checkpoints_compute_again_what_pytorch_does(name: str) -> None:
    (theirs, expected), (ours, found) = (selective(of, POLICIES[name]) for of in (torch, tj))
    assert ours == theirs
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "part",
    [
        lambda x, w: x.sort(1)[0].cumsum(1) @ w,
        lambda x, w: (x.std(1) * x.prod(1)).sum() * (x @ w).sum(),
        lambda x, w: x.reshape(2, 6).t().contiguous().view(-1, 4) @ w,
    ],
)
def test_gradients_of_what_is_kept(part: Any) -> None:
    def keep(context: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        return not op.is_view

    contexts = functools.partial(checkpointing.create_selective_checkpoint_contexts, keep)
    w = tj.arange(32.0).reshape(4, 8).div(32)
    found = []
    for options in ({}, {"context_fn": contexts}):
        x = tj.arange(12.0).reshape(3, 4).add(1).div(12).requires_grad_()
        checkpointing.checkpoint(
            lambda x: part(x, w), x, use_reentrant=False, **options
        ).sum().backward()
        found.append(x.grad.tolist())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_what_selective_checkpoints_refuse() -> None:
    make = checkpointing.create_selective_checkpoint_contexts
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        make([tj.ops.aten.mm])
    x = tj.ones(2, 2, requires_grad=True)
    contexts = functools.partial(make, [tj.ops.aten.mm.default])
    y = checkpointing.checkpoint(lambda x: (x @ x).exp().sum(), x, context_fn=contexts)
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.backward()
    y = checkpointing.checkpoint(lambda x: (x @ x).add_(1).exp().sum(), x, context_fn=contexts)
    with pytest.raises(RuntimeError, match="has been mutated"):
        y.backward()
