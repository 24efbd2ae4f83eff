"""Grad modes as context managers and decorators, inference tensors, threads."""

from __future__ import annotations

import threading

import pytest

import tracejit as tj


def leaf(*values):
    return tj.tensor([float(v) for v in values], requires_grad=True)


def test_context_managers_nest_and_restore():
    x = leaf(1)
    with tj.no_grad():
        assert not tj.is_grad_enabled()
        assert not (x * 2).requires_grad
        with tj.enable_grad():
            assert (x * 2).requires_grad
        with tj.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not tj.is_grad_enabled()
    assert tj.is_grad_enabled()


def test_restored_after_an_error():
    with pytest.raises(KeyError), tj.no_grad():
        raise KeyError
    assert tj.is_grad_enabled()


def test_decorators():
    x = leaf(1)

    @tj.no_grad()
    def with_parentheses():
        return x * 2

    @tj.no_grad
    def bare():
        """Documented."""
        return x * 2

    @tj.set_grad_enabled(False)
    def chosen():
        return x * 2

    assert tj.is_grad_enabled()
    assert not with_parentheses().requires_grad
    assert not bare().requires_grad
    assert bare.__doc__ == "Documented."
    assert not chosen().requires_grad
    assert tj.is_grad_enabled()


def test_decorated_generator():
    @tj.no_grad()
    def states():
        sent = yield tj.is_grad_enabled()
        try:
            yield (sent, tj.is_grad_enabled())
        except ValueError:
            yield "caught"
        return "done"

    running = states()
    assert next(running) is False
    assert tj.is_grad_enabled()
    assert running.send(5) == (5, False)
    assert running.throw(ValueError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "done"


def test_set_grad_enabled_as_a_function():
    tj.set_grad_enabled(False)
    try:
        assert not tj.is_grad_enabled()
    finally:
        tj.set_grad_enabled(True)
    assert tj.is_grad_enabled()


@pytest.mark.parametrize("given", [1, 0.0, None, tj.tensor(True)])
def test_set_grad_enabled_takes_a_bool(given):
    with pytest.raises(TypeError, match=f"must be bool, not {type(given).__name__}"):
        tj.set_grad_enabled(given)
    assert tj.is_grad_enabled()


def test_recursion_of_a_decorated_function():
    @tj.no_grad()
    def depth(n):
        return tj.is_grad_enabled() if n == 0 else depth(n - 1)

    assert depth(5) is False
    assert tj.is_grad_enabled()


def test_modes_belong_to_their_thread():
    seen = []
    with tj.no_grad():
        thread = threading.Thread(target=lambda: seen.append(tj.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_mode():
    x = leaf(1, 2)
    with tj.inference_mode():
        assert tj.is_inference_mode_enabled()
        y = x * 2
        assert not y.requires_grad
        assert y.is_inference()
        y.add_(1)
    assert not tj.is_inference_mode_enabled()
    assert not (y * 2).is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y
    with pytest.raises(
        RuntimeError, match="Inplace update to inference tensor outside InferenceMode"
    ):
        y.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        y.requires_grad_()
    assert (x + y).requires_grad
    assert (x * y.clone()).requires_grad


def test_inference_mode_as_decorator_and_off():
    x = leaf(1)

    @tj.inference_mode()
    def run():
        with tj.inference_mode(False):
            assert (x * 2).requires_grad
        return x * 2

    assert run().is_inference()


@pytest.mark.parametrize("compiled", [False, True])
def test_inference_mode_off_enables_grad(compiled: bool):
    """As in PyTorch, inside ``no_grad`` too, and outside of it again as before."""

    def run(x):
        with tj.no_grad():
            with tj.inference_mode(False):
                y = x * x
            z = x * 2
        return y, z, tj.is_grad_enabled()

    run = tj.compile(run) if compiled else run
    for _ in range(3):
        x = leaf(3)
        y, z, enabled = run(x)
        y.sum().backward()
        assert x.grad.tolist() == [6]
        assert not z.requires_grad
        assert enabled


def test_views_of_normal_tensors_are_normal():
    x = tj.tensor([1.0, 2.0])
    with tj.inference_mode():
        assert not x[0:1].is_inference()
        assert (x + 1)[0:1].is_inference()


def test_no_grad_views_share_storage():
    x = leaf(1, 2)
    with tj.no_grad():
        x[0:1].mul_(5)
    assert x.tolist() == [5, 2]
    assert x.is_leaf
