"""Pruned weights beside PyTorch: masks, states, gradients, pruning again and removal."""

from __future__ import annotations

import copy
from importlib import import_module
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


HOOKS = [
    "P.L1Unstructured.apply(m, 'weight', 3)",
    "P.ln_structured(m, 'weight', 1, 2, 0)",
    "P.identity(m, 'bias')",
    "P.custom_from_mask(m, 'bias', s[:, 0] > 0)",
    "P.RandomUnstructured.apply(m, 'weight', amount=2)",
    "P.remove(m, 'weight')",
    "P.global_unstructured([(m, 'weight'), (m, 'bias')], P.L1Unstructured, amount=2)",
]


def test_methods_are_hooks() -> None:
    """Hooks tell what is pruned and how; methods that follow others come with them in a container."""
    sides = []
    for t in (tj, torch):
        told = []
        module, prune = pruned(t, [])[0], import_module(f"{t.__name__}.nn.utils.prune")
        for step in HOOKS:
            found = eval(step, {"P": prune, "m": module, "s": t.tensor(SCORES)})
            kinds = []
            for hook in module._forward_pre_hooks.values():
                assert isinstance(hook, prune.BasePruningMethod)
                inner = list(hook) if isinstance(hook, prune.PruningContainer) else []
                assert array(hook.apply_mask(module)).any()
                kinds.append(
                    (hook._tensor_name, type(hook).__name__, [type(h).__name__ for h in inner])
                )
            told.append((type(found).__name__, kinds, prune.is_pruned(t.nn.Sequential(module))))
        sides.append(told)
    assert sides[0] == sides[1]


def test_methods_of_ones_own() -> None:
    """Masks of any dtype, an ``apply_mask`` of its own, compiled; nothing is left when it is removed."""
    sides = []
    for t in (tj, torch):
        prune = import_module(f"{t.__name__}.nn.utils.prune")

        class Half(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t: Any, default_mask: Any) -> Any:
                return t > 0

            def apply_mask(self, module: Any) -> Any:
                return super().apply_mask(module) * 0.5

        module = pruned(t, [])[0]
        method = Half.apply(module, "weight")
        assert isinstance(method, Half)
        assert module.weight_mask.dtype == t.bool
        run = t.compile(module, strict=True) if t is tj else module
        x = t.tensor(WEIGHT[:3])
        found = [array(run(x)) for _ in range(3)]
        twin = copy.deepcopy(module) if t is tj else module
        prune.remove(twin, "weight")
        found += [array(twin(x)), array(twin.weight)]
        assert list(twin._forward_pre_hooks) == []
        assert [n for n, _ in twin.named_parameters()] == ["bias", "weight"]
        sides.append(found)
    for ours, theirs in zip(*sides, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_methods_need_a_mask() -> None:
    same_error(lambda t, f: import_module(f"{t.__name__}.nn.utils.prune").BasePruningMethod())


def test_batch_norms_of_several_processes() -> None:
    model = tj.nn.Sequential(tj.nn.Conv2d(1, 2, 1), tj.nn.Sequential(tj.nn.BatchNorm2d(2)))
    made = tj.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(made[1][0]) is tj.nn.SyncBatchNorm
    assert made[1][0].weight is next(iter(made[1].parameters()))
    assert made(tj.ones(2, 1, 3, 3)).shape == (2, 2, 3, 3)
