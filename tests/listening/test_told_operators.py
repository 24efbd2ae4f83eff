"""Listeners to operators: what they are told, in PyTorch's words, and that nothing changes because of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import listened_expressions as shared
import tracejit as tj
from tracejit.fx import interception
from tracejit.utils import _python_dispatch as dispatching
from tracejit.utils._python_dispatch import TorchDispatchMode

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = ("rand", "normal_", "uniform_", "bernoulli", "multinomial")


@pytest.mark.parametrize("expression", shared.EXPRESSIONS)
def test_operators_are_those_of_pytorch(expression: str) -> None:
    expected, found = shared.told(torch, expression), shared.told(tj, expression)
    assert found[0] == expected[0]
    assert found[1] == expected[1]
    if not any(word in expression for word in RANDOM):
        for theirs, ours in zip((expected[2], *expected[3]), (found[2], *found[3]), strict=True):
            np.testing.assert_allclose(
                np.array(ours, dtype=complex), np.array(theirs, dtype=complex), rtol=1e-4, atol=1e-5
            )


def test_values_are_those_without_a_listener() -> None:
    for expression in shared.EXPRESSIONS:
        tj.manual_seed(3)
        found = shared.told(tj, expression)[2]
        names = shared.values(tj)
        tj.manual_seed(3)
        expected = eval(expression, names)
        expected = expected.tolist() if isinstance(expected, tj.Tensor) else expected
        np.testing.assert_allclose(
            np.array(found, dtype=complex), np.array(expected, dtype=complex), rtol=1e-6, atol=1e-7
        )


class Notes(TorchDispatchMode):
    """Notes names, and does ``act`` with results."""

    def __init__(self, act: Any = None) -> None:
        super().__init__()
        self.names: list[str] = []
        self.act = act

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        found = func(*args, **(kwargs or {}))
        return found if self.act is None else self.act(func, found)


def test_the_innermost_mode_is_told_first_and_what_it_calls_goes_to_the_next() -> None:
    def twice(func: Any, found: Any) -> Any:
        return found * 2

    with Notes() as outer, Notes(twice) as inner:
        assert dispatching._get_current_dispatch_mode() is inner
        assert dispatching._get_current_dispatch_mode_stack() == [outer, inner]
        found = tj.ones(2).sin()
    assert outer.names == [
        "aten.ones.default",
        "aten.mul.Tensor",
        "aten.sin.default",
        "aten.mul.Tensor",
    ]
    assert inner.names == ["aten.ones.default", "aten.sin.default"]
    np.testing.assert_allclose(found.tolist(), 2 * np.sin([2.0, 2.0]), rtol=1e-6)
    assert dispatching._get_current_dispatch_mode() is None
    assert not interception.intercepting()


def test_a_listener_that_changes_results_has_gradients_of_the_operators() -> None:
    def halved(func: Any, found: Any) -> Any:
        return found.detach().clone() * 0.5

    x = tj.tensor([1.0, 2.0], requires_grad=True)
    with Notes(halved):
        y = x.exp()
    y.sum().backward()
    np.testing.assert_allclose(y.tolist(), 0.5 * np.exp([1.0, 2.0]), rtol=1e-6)
    np.testing.assert_allclose(
        x.grad.tolist(), 0.5 * np.exp([1.0, 2.0]), rtol=1e-6
    )  # by the result
    x.grad = None
    with Notes(halved):  # without a rule as operators: the function's own, of what it was given
        y = x.sinc()
    y.sum().backward()
    z = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.sinc(z).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), z.grad.tolist(), rtol=1e-5)


def test_errors_leave_everything_as_it_was() -> None:
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise KeyError(str(func))

    with pytest.raises(KeyError, match=r"aten\.add\.Tensor"), Fails():
        tj.add(tj.tensor([1.0]), 1)
    assert (tj.tensor([1.0], requires_grad=True) + 1).requires_grad
    with pytest.raises(RuntimeError), Notes():
        tj.mm(tj.ones(2, 3), tj.ones(2, 3))
    assert not interception.intercepting()


def test_gradients_in_a_backward_pass_outside_are_computed_without_listeners() -> None:
    x = tj.tensor([0.5, 2.0], requires_grad=True)
    with Notes() as notes:
        y = (tj.nn.functional.softmax(x, 0) * x).sum()
    before = list(notes.names)
    (first,) = tj.autograd.grad(y, x, create_graph=True)
    (second,) = tj.autograd.grad(first.sum(), x)
    assert notes.names == before
    z = torch.tensor([0.5, 2.0], requires_grad=True)
    (theirs,) = torch.autograd.grad((torch.softmax(z, 0) * z).sum(), z, create_graph=True)
    (theirs_second,) = torch.autograd.grad(theirs.sum(), z)
    np.testing.assert_allclose(first.tolist(), theirs.tolist(), rtol=1e-5)
    np.testing.assert_allclose(second.tolist(), theirs_second.tolist(), rtol=1e-4, atol=1e-6)


def test_printing_and_copies_to_numpy_are_told_to_nobody() -> None:
    x = tj.tensor([1.0, 2.0])
    with Notes() as notes:
        assert repr(x) == "tensor([1., 2.])"
        assert x.tolist() == list(x.numpy())
        assert f"{x}" == "tensor([1., 2.])"
    assert notes.names == []


def test_compiled_functions_run_as_they_are_written_and_say_why() -> None:
    @tj.compile
    def f(x: Any) -> Any:
        return (x * 2).sin().sum()

    x = tj.arange(4.0)
    expected = [f(x).item() for _ in range(3)][-1]
    with Notes() as notes:
        assert f(x).item() == pytest.approx(expected)
    assert notes.names == [
        *("aten.mul.Tensor", "aten.sin.default", "aten.sum.default"),
        "aten._local_scalar_dense.default",
    ]
    assert "a mode is told of every operation" in str(f.explain())
    assert f(x).item() == pytest.approx(expected)


def test_a_mode_inside_a_compiled_function_is_entered_at_every_call() -> None:
    notes = Notes()

    @tj.compile
    def f(x: Any) -> Any:
        with notes:
            y = x * 2
        return y + 1

    for _ in range(3):
        assert f(tj.ones(1)).item() == 3.0
    assert notes.names == ["aten.mul.Tensor"] * 3


def test_operators_tell_what_they_are() -> None:
    for name, form in (
        ("add", "Tensor"),
        ("mm", "default"),
        ("add_", "Tensor"),
        ("view", "default"),
    ):
        theirs = getattr(getattr(torch.ops.aten, name), form)
        ours = getattr(getattr(tj.ops.aten, name), form)
        assert (str(ours), ours.name(), ours.__name__) == (
            str(theirs),
            theirs.name(),
            theirs.__name__,
        )
        assert ours.namespace == theirs.namespace
        assert ours._schema.is_mutable == theirs._schema.is_mutable
        assert ours.is_view == theirs.is_view
        assert str(ours.overloadpacket) == str(theirs.overloadpacket)
        names = [x.name for x in theirs._schema.arguments]
        assert [x.name for x in ours._schema.arguments] == names


UNUSUAL = [
    "v @ m",
    "F.linear(v, m.t(), v5)",
    "T.msort(a)",
    "T.cat([T.zeros(0, requires_grad=True), v])",
    "a.norm(float('inf'), 1)",
    "a.norm(0)",
    "a.norm(3, 0)",
    "F.softmin(a, 0, dtype=T.float64)",
    "a.unfold(1, 2, 1)",
    "F.conv3d(vol, w3, padding='same')",
    "T.native_layer_norm(a, (4,), v, v, 0.5)[0]",
    "T.native_group_norm(seq, None, None, 2, 3, 8, 3, 0.5)[2]",
    "F.interpolate(seq, scale_factor=0.7, mode='nearest')",
    "v.sum().mean(0)",
    "a.clone().t_().mul_(2)",
    "a.clone().squeeze_().exp_()",
    "a.clone().unsqueeze_(0).add_(b)",
    "T.stft(T.ones(64) * a.sum(), 16, return_complex=True).abs()",
    "a.var(unbiased=False)",
    "a.renorm(2, 0, 0.5)",
    "a.cumprod(1).logcumsumexp(0)",
    "a.diag()",
    "(a + b.sin()).corrcoef()",
    "a.clone().fill_diagonal_(0.5)",
    "F.selu(a.detach().clone(), inplace=True) * b",
]


@pytest.mark.parametrize("expression", UNUSUAL)
def test_unusual_calls_give_the_same_with_a_listener(expression: str) -> None:
    results = []
    for mode in (None, Notes()):
        names = shared.values(tj)
        if mode is not None:
            mode.__enter__()
        try:
            y = eval(expression, names)
            (y * y).sum().backward()
        finally:
            if mode is not None:
                mode.__exit__(None, None, None)
        leaves = [x for x in names.values() if isinstance(x, tj.Tensor) and x.grad is not None]
        results.append([y.tolist(), *[x.grad.tolist() for x in leaves]])
    assert len(results[0]) == len(results[1])
    for x, z in zip(*results, strict=True):
        np.testing.assert_allclose(np.array(z), np.array(x), rtol=1e-4, atol=1e-5)
