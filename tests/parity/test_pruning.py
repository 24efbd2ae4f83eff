"""Pruned weights beside PyTorch: masks, states, gradients, pruning again and removal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import array, same_error, torch

import tracejit as tj

RNG = np.random.default_rng(4)
WEIGHT, BIAS, SCORES = (RNG.standard_normal(s) for s in ((4, 6), (4,), (4, 6)))

STEPS = [
    ["P.l1_unstructured(m, 'weight', 0.3)"],
    ["P.l1_unstructured(m, 'weight', amount=5)", "P.l1_unstructured(m, 'weight', amount=0.5)"],
    ["P.l1_unstructured(m, 'weight', 4, importance_scores=s)"],
    ["P.ln_structured(m, 'weight', 0.5, 2, 0)", "P.ln_structured(m, 'weight', 1, 1, dim=1)"],
    ["P.ln_structured(m, 'weight', 1, float('inf'), -1)", "P.l1_unstructured(m, 'weight', 3)"],
    ["P.identity(m, 'bias')", "P.custom_from_mask(m, 'weight', (s > 0))"],
    ["P.l1_unstructured(m, 'bias', 2)", "P.l1_unstructured(m, 'weight', 2)", "P.remove(m, 'bias')"],
    [
        "P.l1_unstructured(m, 'weight', 2)",
        "P.remove(m, 'weight')",
        "P.l1_unstructured(m, 'weight', 4)",
    ],
    ["P.global_unstructured([(m, 'weight'), (m, 'bias')], P.L1Unstructured, amount=9)"],
    [
        "P.l1_unstructured(m, 'weight', 6)",
        "P.global_unstructured([(m, 'weight'), (m, 'bias')], P.L1Unstructured, amount=5)",
    ],
]


def pruned(t: Any, steps: list[str]) -> Any:
    module = t.nn.Linear(6, 4).double()
    module.load_state_dict({"weight": t.tensor(WEIGHT), "bias": t.tensor(BIAS)})
    prune = __import__(f"{t.__name__}.nn.utils.prune", fromlist=["prune"])
    for step in steps:
        eval(step, {"P": prune, "m": module, "s": t.tensor(SCORES)})
    return module, prune.is_pruned(module)


@pytest.mark.parametrize("steps", STEPS)
def test_pruning(steps: list[str]) -> None:
    sides = []
    for t in (tj, torch):
        module, is_pruned = pruned(t, steps)
        x = t.tensor(WEIGHT[:3] * 0.5)
        (module(x) ** 2).sum().backward()
        gradients = {name: array(p.grad) for name, p in module.named_parameters()}
        state = {name: array(v) for name, v in module.state_dict().items()}
        sides.append((is_pruned, state, gradients, array(module.weight), array(module(x))))
    ours, theirs = sides
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:3], theirs[1:3], strict=True):
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], err_msg=name)
    np.testing.assert_array_equal(ours[3], theirs[3])
    np.testing.assert_allclose(ours[4], theirs[4])


def test_random_masks_have_the_size_they_should() -> None:
    P = tj.nn.utils.prune
    layer = P.random_structured(
        P.random_unstructured(tj.nn.Linear(6, 4), "bias", 0.5), "weight", 2, dim=1
    )
    assert (layer.bias_mask.sum().item(), layer.weight_mask.sum().item()) == (2.0, 16.0)
    compiled = tj.compile(layer, strict=True)
    x = tj.ones(3, 6)
    for _ in range(3):
        assert tj.allclose(compiled(x), layer(x))


WRONG = [
    "l1_unstructured(m, 'weight', 1.5)",
    "l1_unstructured(m, 'weight', 99)",
    "l1_unstructured(m, 'weight', -1)",
    "l1_unstructured(m, 'weight', 'x')",
    "ln_structured(m, 'bias', 1, 2, 0)",
    "remove(m, 'weight')",
]


@pytest.mark.parametrize("call", WRONG)
def test_errors(call: str) -> None:
    def run(t: Any, f: Any) -> None:
        prune = __import__(f"{t.__name__}.nn.utils.prune", fromlist=["prune"])
        eval(f"prune.{call}", {"prune": prune, "m": t.nn.Linear(3, 2)})

    same_error(run)


def test_batch_norms_of_several_processes() -> None:
    model = tj.nn.Sequential(tj.nn.Conv2d(1, 2, 1), tj.nn.Sequential(tj.nn.BatchNorm2d(2)))
    made = tj.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(made[1][0]) is tj.nn.SyncBatchNorm
    assert made[1][0].weight is next(iter(made[1].parameters()))
    assert made(tj.ones(2, 1, 3, 3)).shape == (2, 2, 3, 3)
