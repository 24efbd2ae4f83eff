"""Listeners to functions, and classes of tensors that take functions over or answer for operators."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import overrides
from tracejit.fx import interception

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
BOTH = (torch, tj)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    interception.settle()


def heard(of: Any) -> list[tuple[str, int, list[str]]]:
    """What a mode is told of some calls."""
    found = []
    mode = import_module(f"{of.__name__}.overrides").TorchFunctionMode

    class Notes(mode):  # type: ignore[misc,valid-type]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found.append((func.__name__, len(args), sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))

    x = of.ones(3, 4, requires_grad=True)
    layers = of.nn.functional
    with Notes():
        _ = (
            x + 1,
            x.add(1),
            of.add(x, 1),
            layers.relu(x),
            x.sum(dim=1),
            x[0],
            of.zeros(3),
            2 * x,
            -x,
        )
        _ = layers.linear(x, x), of.stack([x, x]), x.detach().zero_(), layers.dropout(x), x @ x.t()
        _ = (
            x.view(12),
            x.size(),
            x.dim(),
            bool((x > 0).any()),
            x.sum().item(),
            layers.mse_loss(x, x),
        )
        _ = x.to(of.float64), x.reshape(12), x.clone().add_(1), of.cat([x, x]), x.mean(), x.max(1)
        _ = of.matmul(x, x.T), x / 2, x**2, abs(x), of.where(x > 0, x, x), of.sqrt(x), x.float()
    return found


def test_modes_are_told_of_functions_as_in_pytorch() -> None:
    assert heard(tj) == heard(torch)


def test_modes_may_answer_otherwise_and_are_not_entered_inside() -> None:
    class Doubles(overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            assert overrides._get_current_function_mode() is not self
            found = func(*args, **(kwargs or {}))
            return found * 2 if isinstance(found, tj.Tensor) else found

    with Doubles():
        assert tj.neg(tj.tensor([1.0])).tolist() == [-2.0]
        with Doubles():
            assert tj.neg(tj.tensor([1.0])).item() == -8.0  # the product, too
        with tj._C.DisableTorchFunction():
            assert tj.neg(tj.tensor([1.0])).item() == -1.0
    assert tj.neg(tj.tensor([1.0])).item() == -1.0


def kinds(of: Any) -> list[str]:
    mine = type("Mine", (of.Tensor,), {"__module__": "tests"})
    m = of.ones(2, 3).as_subclass(mine)
    found = [m + 1, m.sum(), of.add(m, 1), m[0], of.stack([m, m]), 1 + m, m.relu_(), m.max(1)[0]]
    found += [m.split(1)[0], m == m, m.detach(), m.to(of.float64), of.nn.functional.relu(m)]
    found += [of.nn.functional.linear(m, of.nn.Parameter(of.ones(2, 3))), m.as_subclass(of.Tensor)]
    return [type(x).__name__ for x in found]


def test_results_are_of_the_class_of_the_operands() -> None:
    assert kinds(tj) == kinds(torch)


def test_history_of_classes() -> None:
    for of in BOTH:
        mine = type("Mine", (of.Tensor,), {"__module__": "tests"})
        leaf = of.tensor([1.0, 2.0], requires_grad=True)
        y = (leaf * 2).as_subclass(mine)
        (y * y).sum().backward()
        assert leaf.grad.tolist() == [8.0, 16.0]


def classes(of: Any) -> list[Any]:
    """What classes with an answer of their own are asked, and what comes of it."""
    found: list[Any] = []

    class Logged(of.Tensor):  # type: ignore[misc,name-defined]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found.append((func.__name__, [t.__name__ for t in types]))
            return super().__torch_function__(func, types, args, kwargs)

    class Other:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func.__name__

    y = Logged([1.0, 2.0]) * 2 + 1
    found += [type(y).__name__, of.add(of.ones(1), Other()), of.nn.functional.relu(Other())]
    found += [of.ones(1) + Other(), of.stack([Other()])]
    return found


def test_classes_are_asked_as_in_pytorch() -> None:
    assert classes(tj) == classes(torch)


def test_nobody_answers() -> None:
    class Silent(tj.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match="returned NotImplemented"):
        tj.add(tj.ones(1), Silent([1.0]))


def wrapped(of: Any) -> tuple[list[str], list[Any]]:
    """What a class that answers for operators is asked, and what it gives."""
    asked: list[str] = []
    trees = import_module(f"{of.__name__}.utils._pytree")
    aliasing = import_module(f"{of.__name__}.utils._python_dispatch").return_and_correct_aliasing

    class Wrapped(of.Tensor):  # type: ignore[misc,name-defined]
        @staticmethod
        def __new__(cls: Any, inner: Any) -> Any:
            options = {"dtype": inner.dtype, "device": inner.device, "strides": inner.stride()}
            grad = inner.requires_grad
            return of.Tensor._make_wrapper_subclass(
                cls, inner.size(), requires_grad=grad, **options
            )

        def __init__(self, inner: Any) -> None:
            self.inner = inner.detach()

        __torch_function__ = of._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if "detach" not in str(func) and "clone" not in str(func):
                asked.append(str(func))
            args_in, kwargs_in = trees.tree_map_only(
                Wrapped, lambda x: x.inner, (args, kwargs or {})
            )
            out = func(*args_in, **kwargs_in)
            out = trees.tree_map_only(of.Tensor, Wrapped, out)
            return aliasing(func, args, kwargs or {}, out)

    a, w = Wrapped(of.arange(6.0).reshape(2, 3)), Wrapped(of.ones(4, 3, requires_grad=True))
    assert str(a.device) == "cpu"
    assert list(a.shape) == [2, 3]
    of.nn.functional.linear(a, w).relu().sum().backward()
    (of.nn.functional.softmax(a @ w.t(), -1) ** 2).sum().backward()
    b = Wrapped(of.ones(3))
    b.add_(1)
    b.mul_(a[0])
    results = [w.grad, a + 1, 1 + a, a.t(), a.view(6), of.cat([a, a]), a.max(1)[0], b]
    assert {type(x) for x in results} == {Wrapped}
    return asked, [*[x.inner.tolist() for x in results], a.sum().item()]


def test_classes_that_answer_for_operators() -> None:
    (theirs, expected), (ours, found) = wrapped(torch), wrapped(tj)
    assert ours == theirs
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_questions_about_functions() -> None:
    assert overrides.resolve_name(tj.nn.functional.conv2d) is not None
    assert overrides.resolve_name(tj.Tensor.add) == "tracejit.Tensor.add"
    assert overrides.is_tensor_method_or_property(tj.Tensor.add)
    assert not overrides.has_torch_function((tj.ones(1), tj.nn.Parameter(tj.ones(1))))
    assert tj.relu in overrides.get_overridable_functions()[tj]
