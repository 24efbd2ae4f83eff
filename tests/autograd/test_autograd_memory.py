"""Depth and memory: long chains, deep recursion, no reference cycles."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest

import tracejit as tj
from process_tools import printed


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


@pytest.fixture
def _no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_chain_of_50_000_operations():
    x = leaf(1)
    y = x
    for _ in range(50_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1]
    del y


def test_dropping_a_long_chain_without_backward():
    x = leaf(1)
    y = x
    for _ in range(50_000):
        y = y + x
    del y
    assert x.tolist() == [1]


def test_recursion_900_deep():
    code = """
import tracejit as tj
def f(x, n):
    return x if n == 0 else f(x * 1.0, n - 1) + 1.0
x = tj.tensor([1.0], requires_grad=True)
y = f(x, 900)
y.sum().backward()
assert y.item() == 901 and x.grad.item() == 1
print("deep")
"""
    assert printed(code) == "deep\n"


def _graph_dies(make):
    """Is everything freed by reference counts alone once the result of ``make`` is dropped?"""
    result = make()
    nodes, stack = [], [result.grad_fn]
    while stack:
        node = stack.pop()
        nodes.append(weakref.ref(node))
        stack += [e[0] for e in node.next_functions if e[0] is not None]
    del result, node, stack
    return all(reference() is None for reference in nodes)


@pytest.mark.usefixtures("_no_collector")
def test_graphs_have_no_cycles():
    x = leaf(1, 2)
    assert _graph_dies(lambda: (x.exp() * x.tanh()).sum())


@pytest.mark.usefixtures("_no_collector")
def test_graphs_with_views_changes_hooks_and_functions_have_no_cycles():
    class Exp(tj.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(x, result)
            return result

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[1]

    x = leaf(1, 2, 3)

    def make():
        y = Exp.apply(x) * 2
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        y[0:2].mul_(x[1:3])
        return y.exp().sum()

    assert _graph_dies(make)


@pytest.mark.usefixtures("_no_collector")
def test_backward_frees_saved_values_at_once():
    x = leaf(1, 2)
    h = x * 2
    alive = weakref.ref(h)
    y = (h * h).sum()
    del h
    assert alive() is not None
    y.backward()
    assert alive() is None


@pytest.mark.usefixtures("_no_collector")
def test_4_000_steps_leave_nothing_behind():
    w, x = leaf(0.5, -0.25), tj.tensor([1.0, 2.0])

    def step():
        loss = ((w * x).tanh() - 1).exp().sum()
        loss.backward()
        with tj.no_grad():
            w.sub_(w.grad * 1e-4)
        w.grad = None

    for _ in range(100):
        step()
    counts = [len(gc.get_objects())]
    for _ in range(2):
        for _ in range(4_000):
            step()
        counts.append(len(gc.get_objects()))
    # What steps leave behind every 4,000 of them leave; a thread of the package may add its own once.
    assert min(after - before for before, after in itertools.pairwise(counts)) < 50
