"""Backward passes from a number into leaves: the same gradients, and the same refusals, as the walk gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import ready


def loss(x, w):
    return (x * w + w).sum()


def leaves() -> tuple[tj.Tensor, tj.Tensor]:
    return tj.tensor([1.0, -2.0, 3.0], requires_grad=True), tj.full((3,), 2.0, requires_grad=True)


def compiled() -> Any:
    f = ready(loss, *leaves())
    f(*leaves()).backward()
    return f


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the walks of the autograd graph from now on."""
    from tracejit.autograd import engine

    walks: list[int] = []
    run: Callable[..., Any] = engine.run

    def noted(*args: Any, **kwargs: Any) -> Any:
        walks.append(1)
        return run(*args, **kwargs)

    monkeypatch.setattr(engine, "run", noted)
    return walks


def test_a_plain_pass_takes_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    f, (x, w) = compiled(), leaves()
    walks = counted(monkeypatch)
    f(x, w).backward()
    assert x.grad.tolist() == [2.0] * 3
    assert w.grad.tolist() == [2.0, -1.0, 4.0]
    found = tj.autograd.grad(f(x, w), [w, x, w])
    assert [g.tolist() for g in found] == [[2.0, -1.0, 4.0], [2.0] * 3, [2.0, -1.0, 4.0]]
    assert not walks


def test_gradients_add_up_in_place() -> None:
    f, (x, w) = compiled(), leaves()
    f(x, w).backward()
    first = x.grad
    f(x, w).backward()
    assert x.grad is first
    assert x.grad.tolist() == [4.0] * 3


def test_a_second_pass_is_refused_unless_the_graph_was_kept() -> None:
    f, (x, w) = compiled(), leaves()
    y = f(x, w)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0] * 3
    for again in (y.backward, lambda: tj.autograd.grad(y, x)):
        with pytest.raises(RuntimeError, match="second time"):
            again()
    y = f(x, w)
    tj.autograd.grad(y, x, retain_graph=True)
    tj.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        tj.autograd.grad(y, x)


def test_inputs_changed_in_between_are_refused() -> None:
    f, (x, w) = compiled(), leaves()
    y = f(x, w)
    with tj.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()
    assert x.grad is None


@pytest.mark.parametrize("where", ["leaf", "leaf node", "node", "accumulated"])
def test_hooks_run(where: str) -> None:
    f, (x, w) = compiled(), leaves()
    seen: list[Any] = []
    y = f(x, w)
    if where == "leaf":
        x.register_hook(lambda g: seen.append(g) or g * 10)
    elif where == "accumulated":
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    else:
        node = y.grad_fn if where == "node" else y.grad_fn.next_functions[0][0]
        node.register_hook(lambda *_: seen.append(1))
    y.backward()
    assert len(seen) == 1
    assert x.grad.tolist() == ([20.0] * 3 if where == "leaf" else [2.0] * 3)


def test_one_leaf_given_twice() -> None:
    x, _ = leaves()
    f = ready(loss, x, x)
    for _ in range(3):
        x.grad = None
        f(x, x).backward()
        assert x.grad.tolist() == [3.0, -3.0, 7.0]


def test_inputs_with_a_history_are_walked() -> None:
    f, (x, w) = compiled(), leaves()
    for _ in range(4):
        x.grad = w.grad = None
        f(x * 1, w).backward()
        assert x.grad.tolist() == [2.0] * 3
        assert w.grad.tolist() == [2.0, -1.0, 4.0]


def test_views_of_a_result_and_given_gradients() -> None:
    f, (x, w) = compiled(), leaves()
    f(x, w).view(1, 1).backward()
    assert x.grad.tolist() == [2.0] * 3
    f(x, w).backward(tj.tensor(3.0))
    assert x.grad.tolist() == [8.0] * 3
    f(x, w).backward(inputs=[x])
    assert x.grad.tolist() == [10.0] * 3
    assert w.grad.tolist() == [8.0, -4.0, 16.0]


def test_gradients_that_are_differentiated_again() -> None:
    f = ready(lambda x, w: (x * x * w).sum(), *leaves())
    x, w = leaves()
    f(x, w).backward()
    (g,) = tj.autograd.grad(f(x, w), x, create_graph=True)
    g.sum().backward()
    assert w.grad.tolist() == [1.0 + 2.0, 4.0 - 4.0, 9.0 + 6.0]


def test_leaves_that_are_none_any_more() -> None:
    f, (x, w) = compiled(), leaves()
    y = f(x, w)
    x.requires_grad_(False)
    with pytest.raises(RuntimeError, match="does not require grad"):
        tj.autograd.grad(y, x)
    other = tj.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="to not have been used"):
        tj.autograd.grad(f(x, w), other)
    assert tj.autograd.grad(f(x, w), [w, other], allow_unused=True)[1] is None


def test_anomalies_and_profiles_watch_every_node() -> None:
    f, (x, w) = compiled(), leaves()
    bad = (w * float("nan")).detach().requires_grad_()

    def run() -> None:
        with pytest.raises(RuntimeError, match="nan"):
            f(x, bad).backward()

    with tj.autograd.detect_anomaly(), pytest.warns(UserWarning, match=r"f\(x, bad\)"):
        run()
    with tj.profile() as found:
        f(x, w).backward()
    assert {c.kind for c in found.calls} == {"call", "backward"}


def test_gradients_of_other_layouts_and_types() -> None:
    x = tj.from_numpy(np.ones((3, 4), np.float32).T).requires_grad_()
    f = ready(lambda x: (x * x).sum(), x)
    for _ in range(3):
        x.grad = None
        f(x).backward()
        assert tj.equal(x.grad, 2 * x.detach())
    wide = tj.randn(3, dtype=tj.float64, requires_grad=True)
    g = ready(lambda x: (x * x).sum(), wide)
    g(wide).backward()
    assert wide.grad.dtype is tj.float64


def test_a_leaf_of_several_calls_gets_one_gradient() -> None:
    f, (x, w) = compiled(), leaves()
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    early, late = f(x, w), f(x, w)
    assert late.grad_fn.next_functions[0][0].variable is x  # looked at, and so numbered, first
    (early * late + (x * 3).sum() + early).backward()
    assert len(seen) == 1
    expected, weights = leaves()
    one, two = loss(expected, weights), loss(expected, weights)
    (one * two + (expected * 3).sum() + one).backward()
    assert x.grad.tolist() == expected.grad.tolist()
    assert w.grad.tolist() == weights.grad.tolist()


def test_edges_that_are_looked_at_stay() -> None:
    f, (x, w) = compiled(), leaves()
    node = f(x, w).grad_fn
    (first, number), (second, _) = node.next_functions
    assert (first.variable, second.variable, number) == (x, w, 0)
    assert node.next_functions[0][0] is first
    assert f(x, w).grad_fn.next_functions[0][0] is first
    seen: list[Any] = []
    first.register_hook(lambda *_: seen.append(1))
    f(x, w).backward()
    assert seen == [1]


def test_a_leaf_that_changes_after_the_call() -> None:
    f, (x, w) = compiled(), leaves()
    y = f(x, w)
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad is not None
    for _ in range(3):
        y = f(x, w)
    assert [node.variable for node, _ in y.grad_fn.next_functions] == [w]


def test_ends_made_after_the_nodes_that_lead_there() -> None:
    """Leaves get nodes of their own late: orders and searches in the graph must not notice."""
    expected: Any = None
    for second in (False, True):
        f, (x, w) = compiled(), leaves()
        y = f(x, w) if second else loss(x, w)
        z = (x * w).sum()
        (first,) = tj.autograd.grad(y * y + z, [x], create_graph=True, retain_graph=True)
        first.sum().backward()
        found = [g.tolist() for g in (first, x.grad, w.grad)]
        expected = expected if second else found
        assert found == expected
