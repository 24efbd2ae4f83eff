"""Leaves with hooks have their turn in a backward pass as soon as nothing more comes to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn


def layers() -> Any:
    tj.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))


#: What may have made the node of a leaf before.
BEFORE: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda model, x: None,
    "kept graph": lambda model, x: model(x).sum(),
    "kept leaf": lambda model, x: model[0].bias * 2,
    "compiled": lambda model, x: [tj.compile(model)(x).sum().backward() for _ in range(3)],
}


@pytest.mark.parametrize("before", BEFORE)
def test_leaves_have_their_turns_in_one_order(before):
    model, x, seen = layers(), tj.ones(3, 2), []
    kept = BEFORE[before](model, x)
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda g, name=name: seen.append(name))
    model(x).sum().backward()
    assert seen == ["2.bias", "2.weight", "0.bias", "0.weight"]
    del kept


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_of_a_hook_leaves_out_what_comes_later(before, compiled):
    """Of a post-accumulate hook that returns something: the layer before has no gradient yet."""
    model, x = layers(), tj.ones(3, 2)
    kept = BEFORE[before](model, x)
    model.zero_grad()

    def step(x: Any) -> Any:
        loss = model(x).sum()
        loss.backward()
        return loss

    run = tj.compile(step) if compiled else step
    model[2].weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="should return None"):
            run(x)
    found = [(p.grad is None, p.grad is not None and p.grad._version) for p in model.parameters()]
    assert found == [(True, False), (True, False), (False, 5), (False, 2)]
    del kept


def test_a_leaf_waits_for_all_that_leads_to_it():
    """Used twice, in an order that its number does not tell: one sum arrives, and after it the rest goes on."""
    w, seen = tj.ones(2, requires_grad=True), []
    kept = w * 3
    w.register_hook(lambda g: seen.append(("w", g.tolist())))
    v = tj.ones(2, requires_grad=True)
    start = v * 2
    start.register_hook(lambda g: seen.append(("start", g.tolist())))
    ((start + w) * w).sum().backward()
    assert seen == [("w", [4, 4]), ("start", [1, 1])]
    assert kept.tolist() == [3, 3]
    assert v.grad.tolist() == [2, 2]


def test_hooks_see_what_leaves_before_have():
    """Leaves without hooks have their turns, too, once one has some."""
    model, x, seen = layers(), tj.ones(3, 2), []
    kept = model(x).sum()
    model[2].weight.register_hook(lambda g: None)
    model[0].bias.register_hook(
        lambda g: seen.append([p.grad is None for p in model[2].parameters()])
    )
    model(x).sum().backward()
    assert seen == [[False, False]]
    del kept
