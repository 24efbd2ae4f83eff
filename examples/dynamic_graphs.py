"""What "dynamic graph" means, one behaviour per function, each asserted eagerly and compiled.

`wrap` is either the identity or `tj.compile`. Compiled functions are called several times, because the first call
records, the second compiles, and the third replays: all must do the same.

    python examples/dynamic_graphs.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import tracejit as tj
from tracejit import nn

Wrap = Callable[[Any], Any]
REPEATS = 3


def leaf(*values: float) -> tj.Tensor:
    """A fresh tensor that collects a gradient: 0-d for one value."""
    return tj.tensor(values[0] if len(values) == 1 else list(values), requires_grad=True)


def raises(words: str, action: Callable[[], Any]) -> None:
    """The action must fail with a RuntimeError that says `words`."""
    message = "nothing was raised"
    try:
        action()
    except RuntimeError as error:
        message = str(error)
    assert words in message, message


def built_as_python_runs(wrap: Wrap) -> None:
    """x*x + 3*x + 1 at 2: the gradient is 7."""
    f = wrap(lambda x: x * x + 3 * x + 1)
    for _ in range(REPEATS):
        x = leaf(2.0)
        y = f(x)
        assert y.grad_fn is not None
        y.backward()
        assert (y.item(), x.grad.item()) == (11.0, 7.0)


def structure_can_be_walked(wrap: Wrap) -> None:
    """`next_functions` leads from a result to its leaves; the last eager op names the node."""
    f = wrap(lambda x: x * x + 1)
    for _ in range(REPEATS):
        x = leaf(2.0)
        y = f(x)
        assert any(getattr(node, "variable", None) is x for node in nodes(y.grad_fn))
    assert repr((x * x + 1).grad_fn).startswith("<AddBackward0")
    assert all(v.item() == 2.0 for v in (x * x).grad_fn.saved_tensors.values())


def nodes(root: Any) -> Iterator[Any]:
    """Every node of the graph below `root`."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(child for child, _ in node.next_functions if child is not None)


def leaves_accumulate(wrap: Wrap) -> None:
    """`.grad` adds up on leaves; other tensors keep theirs on request and warn otherwise."""
    f = wrap(lambda x: x * x)
    x = leaf(3.0)
    for count in range(1, REPEATS + 1):
        middle = f(x)
        middle.retain_grad()
        (middle * 2).backward()
        assert x.grad.item() == 12.0 * count
        assert middle.grad.item() == 2.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert f(x).grad is None
    assert caught


def branches(wrap: Wrap) -> None:
    """A branch on data is taken anew in every call."""
    f = wrap(lambda x: x * 2 if x.sum() > 0 else x - 2)
    for _ in range(REPEATS):
        for values, slope in (([1.0, -1.0, 2.0], 2.0), ([-3.0, -2.0, -1.0], 1.0)):
            x = leaf(*values)
            y = f(x)
            y.sum().backward()
            assert y.tolist() == [v * 2 if slope == 2.0 else v - 2 for v in values]
            assert x.grad.tolist() == [slope] * 3


def loops(wrap: Wrap) -> None:
    """Five doublings: the gradient is 32."""

    def double(y: tj.Tensor) -> tj.Tensor:
        for _ in range(5):
            y = y * 2
        return y

    f = wrap(double)
    for _ in range(REPEATS):
        x = leaf(1.0)
        f(x).backward()
        assert x.grad.item() == 32.0


def item_in_a_condition(wrap: Wrap) -> None:
    """A Python number taken from a tensor decides."""
    f = wrap(lambda x: x * 1 if x.item() > 0 else x * x)
    for _ in range(REPEATS):
        for value, slope in ((-2.0, -4.0), (2.0, 1.0)):
            x = leaf(value)
            f(x).backward()
            assert x.grad.item() == slope


def recursion_and_trees(wrap: Wrap) -> None:
    """Nested lists are trees: the structure of the argument is the structure of the graph."""

    def total(tree: Any) -> Any:
        return tree if isinstance(tree, tj.Tensor) else sum(total(t) ** 2 for t in tree)

    f = wrap(total)
    for _ in range(REPEATS):
        a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
        f([[a, b], c]).backward()  # (a^2 + b^2)^2 + c^2
        assert [t.grad.item() for t in (a, b, c)] == [20.0, 40.0, 6.0]


def sequences_of_any_length(wrap: Wrap) -> None:
    """A recurrent cell over as many steps as there are."""

    def run(steps: Any, w: tj.Tensor) -> Any:
        state = w * 0
        for x in steps:
            state = (state + x) * w
        return state

    f = wrap(run)
    for _ in range(REPEATS):
        for length in (1, 2, 4):
            w = leaf(2.0)
            f([tj.tensor(1.0)] * length, w).backward()  # w + w^2 + ... + w^length
            assert w.grad.item() == sum(k * 2.0 ** (k - 1) for k in range(1, length + 1))


def routing(wrap: Wrap) -> None:
    """A mixture of experts: only the expert that is chosen gets a gradient."""

    def route(x: tj.Tensor, scores: tj.Tensor, experts: Any) -> tj.Tensor:
        return x * experts[int(scores.argmax())]

    f = wrap(route)
    for _ in range(REPEATS):
        for chosen in range(3):
            experts = [leaf(float(k)) for k in range(3)]
            scores = tj.tensor([float(k == chosen) for k in range(3)])
            f(tj.tensor(5.0), scores, experts).backward()
            expected = [5.0 if k == chosen else None for k in range(3)]
            assert [None if e.grad is None else e.grad.item() for e in experts] == expected


def vector_output(wrap: Wrap) -> None:
    """A vector needs to be told what to multiply its Jacobian with."""
    f = wrap(lambda x: x * x)
    for _ in range(REPEATS):
        x = leaf(1.0, 2.0)
        y = f(x)
        raises("grad can be implicitly created only for scalar outputs", y.backward)
        y.backward(tj.ones_like(y))
        assert x.grad.tolist() == [2.0, 4.0]


def lifetime(wrap: Wrap) -> None:
    """A graph is used once, unless it is retained."""
    f = wrap(lambda x: x * x)
    for _ in range(REPEATS):
        x = leaf(3.0)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.item() == 12.0
        raises("backward through the graph a second time", y.backward)


def detached(wrap: Wrap) -> None:
    """`detach()` shares memory, not history; changes through it are noticed."""
    f = wrap(lambda x: x.exp())
    for _ in range(REPEATS):
        x = leaf(1.0, 2.0)
        y = f(x)
        shared = y.detach()
        assert not shared.requires_grad
        shared.zero_()
        assert y.tolist() == [0.0, 0.0]
        raises("modified by an inplace operation", y.sum().backward)


def grad_modes(wrap: Wrap) -> None:
    """Modes work around and inside functions, as context managers and as decorators."""
    f = wrap(lambda x: x * 2)
    frozen = tj.no_grad()(lambda x: f(x))
    for _ in range(REPEATS):
        x = leaf(1.0)
        with tj.no_grad():
            assert not f(x).requires_grad
            with tj.enable_grad():
                assert f(x).requires_grad
        with tj.set_grad_enabled(False):
            assert not f(x).requires_grad
        assert not frozen(x).requires_grad
        assert f(x).requires_grad
        with tj.inference_mode():
            fixed = f(x)
        raises("Inference tensors cannot be saved", lambda fixed=fixed, x=x: (x * fixed).sum())


def in_place(wrap: Wrap) -> None:
    """In-place changes are part of the graph, and refused where they would make gradients wrong."""

    def shifted(x: tj.Tensor) -> tj.Tensor:
        y = x * 2
        y.add_(1)
        return y * y

    f = wrap(shifted)
    for _ in range(REPEATS):
        x = leaf(1.0)
        f(x).backward()
        assert x.grad.item() == 12.0
        raises("a leaf Variable that requires grad", lambda x=x: x.add_(1))
        y = f(leaf(2.0)).exp()
        z = y * y
        y.add_(1)
        raises("modified by an inplace operation", z.backward)


def layers(wrap: Wrap) -> None:
    """nn.Linear is x W^T + b; gradients have the parameters' shapes; evaluation builds no graph."""
    tj.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    f = wrap(model)
    x, labels = tj.randn(5, 4), tj.tensor([0, 1, 1, 0, 1])
    first = model[0]
    assert first.weight.shape == (8, 4)
    assert tj.allclose(first(x), x @ first.weight.T + first.bias)
    for _ in range(REPEATS):
        model.zero_grad()
        nn.CrossEntropyLoss()(f(x), labels).backward()
        assert all(p.grad.shape == p.shape for p in model.parameters())
        model.eval()
        with tj.no_grad():
            assert not f(x).requires_grad
        model.train()


def higher_order(wrap: Wrap) -> None:
    """Gradients of gradients: x^3 has 3x^2, 6x and 6."""
    f = wrap(lambda x: x * x * x)
    for _ in range(REPEATS):
        x = leaf(2.0)
        (first,) = tj.autograd.grad(f(x), x, create_graph=True)
        (second,) = tj.autograd.grad(first, x, create_graph=True)
        (third,) = tj.autograd.grad(second, x)
        assert (first.item(), second.item(), third.item()) == (12.0, 12.0, 6.0)


BEHAVIOURS: tuple[Callable[[Wrap], None], ...] = (
    built_as_python_runs,
    structure_can_be_walked,
    leaves_accumulate,
    branches,
    loops,
    item_in_a_condition,
    recursion_and_trees,
    sequences_of_any_length,
    routing,
    vector_output,
    lifetime,
    detached,
    grad_modes,
    in_place,
    layers,
    higher_order,
)


def main() -> None:
    """Every behaviour, both ways."""
    for behaviour in BEHAVIOURS:
        for wrap in (lambda f: f, tj.compile):
            behaviour(wrap)
        title = behaviour.__name__.replace("_", " ")
        print(f"{title:<26}{(behaviour.__doc__ or '').splitlines()[0]}")


if __name__ == "__main__":
    main()
