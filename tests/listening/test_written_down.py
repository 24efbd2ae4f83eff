"""Functions written down as operators, layers folded, and what listeners make possible besides: against PyTorch."""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.utils import _contextlib, _mode_utils

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _values(of: Any) -> dict[str, Any]:
    x = of.arange(6.0).reshape(2, 3) / 6
    return {"x": x, "w": of.ones(4, 3), "T": of, "F": of.nn.functional}


FUNCTIONS = [
    "lambda x, w: F.linear(x, w).relu().sum()",
    "lambda x: x.sin() + 1",
    "lambda x: x.max(1)[0]",
    "lambda x: (x.split(1)[0], x.t())",
    "lambda x: x.clone().add_(1).mul_(2)",
    "lambda x: {'values': x.sort(1)[0]}",
    "lambda x: F.softmax(x, -1).sigmoid()",
    "lambda x: F.layer_norm(x, (3,)).mean(0)",
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_graphs_read_as_those_of_pytorch(text: str) -> None:
    codes = []
    for of in (torch, tj):
        names = _values(of)
        function = eval(text, names)
        given = [names["x"]] + ([names["w"]] if "w" in text.split(":")[0] else [])
        graph = import_module(f"{of.__name__}.fx.experimental.proxy_tensor").make_fx(function)(
            *given
        )
        codes.append(graph.code.replace("tracejit", "torch").strip())
        found, expected = graph(*given), function(*given)
        if isinstance(found, of.Tensor):
            np.testing.assert_allclose(found.tolist(), expected.tolist(), rtol=1e-6)
    assert codes[1] == codes[0]


def test_gradients_parameters_and_nested_arguments_are_written_down() -> None:
    make_fx = tj.fx.experimental.make_fx
    layer = tj.nn.Linear(3, 2)

    def gradient(batch: dict[str, Any]) -> Any:
        x = batch["x"].detach().requires_grad_()
        loss = tj.nn.functional.softmax(layer(x) * batch["w"][0], -1).pow(2).sum()
        return tj.autograd.grad(loss, x)[0]

    batch = {"x": tj.ones(2, 3), "w": [tj.tensor(0.5)]}
    graph = make_fx(gradient)(batch)
    assert "_softmax_backward_data" in graph.code
    assert "_param_constant0" in graph.code
    other = {"x": tj.arange(6.0).reshape(2, 3), "w": [tj.tensor(2.0)]}
    np.testing.assert_allclose(
        graph(other).tolist(), gradient(other).tolist(), rtol=1e-4, atol=1e-6
    )


def test_operators_are_taken_apart_by_a_table() -> None:
    table = {tj.ops.aten.gelu.default: lambda x, **_: x * x.sigmoid()}
    graph = tj.fx.experimental.make_fx(tj.nn.functional.gelu, table)(tj.ones(2))
    names = [node.target._opname for node in graph.graph.nodes if node.op == "call_function"]
    assert names == ["sigmoid", "mul"]
    for options in ({"tracing_mode": "symbolic"}, {"pre_dispatch": True}):
        with pytest.raises(NotImplementedError, match="sizes in graphs are numbers"):
            tj.fx.experimental.make_fx(tj.neg, **options)


def test_norms_fold_into_convolutions() -> None:
    def folded(of: Any) -> tuple[str, list[str]]:
        nn = of.nn
        model = nn.Sequential(
            nn.Conv2d(1, 2, 3, bias=False),
            nn.BatchNorm2d(2),
            nn.Dropout(),
            nn.Conv2d(2, 2, 1),
            nn.ReLU(),
        )
        model(of.ones(2, 1, 6, 6) * of.arange(6.0))
        model.eval()
        x = of.arange(36.0).reshape(1, 1, 6, 6)
        tools = import_module(f"{of.__name__}.fx.experimental.optimization")
        found = tools.fuse(model)
        np.testing.assert_allclose(found(x).tolist(), model(x).tolist(), rtol=1e-4, atol=1e-5)
        return found.code + tools.remove_dropout(model).code, [
            name for name, _ in found.named_parameters()
        ]

    assert folded(tj) == folded(torch)


def test_functions_of_layers_are_those_at_the_top() -> None:
    for name in tj.nn.functional.SHARED:
        assert getattr(torch, name) is getattr(torch.nn.functional, name)
        assert getattr(tj, name) is getattr(tj.nn.functional, name)
    x = tj.ones(2)
    for name in ("softmax", "log_softmax", "softmin"):
        assert getattr(tj.nn.functional, name)(x, 0, _stacklevel=5).shape == x.shape


def test_what_was_kept_may_be_written_to() -> None:
    for of in (torch, tj):
        graphs = of.autograd.graph
        x = of.tensor([1.0, 2.0], requires_grad=True)
        with graphs.allow_mutation_on_saved_tensors():
            y = x * 3
            z = y**2 + y.exp()
            y[0] = 7.0
            y.mul_(2)
            z.sum().backward()
            with (
                pytest.raises(RuntimeError, match="cannot be nested"),
                graphs.allow_mutation_on_saved_tensors(),
            ):
                pass
        np.testing.assert_allclose(
            x.grad.tolist(), [3 * (6 + np.exp(3)), 3 * (12 + np.exp(6))], rtol=1e-5
        )
        with graphs.allow_mutation_on_saved_tensors():
            z = (x * x).sum()
        with pytest.raises(AssertionError, match="outside of the"):
            z.backward()


def test_contexts_as_decorators() -> None:
    entered = []

    @contextlib.contextmanager
    def noted() -> Any:
        entered.append("in")
        try:
            yield
        finally:
            entered.append("out")

    def steps() -> Any:
        yield from (1, 2)

    assert list(_contextlib.context_decorator(noted, steps)()) == [1, 2]
    assert entered == ["in", "out"] * 3
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        _contextlib.context_decorator(noted, int)

    class Twice(_contextlib._NoParamDecoratorContextManager):
        def __enter__(self) -> None:
            entered.append("twice")

        def __exit__(self, *_: Any) -> None:
            pass

    @Twice
    def nothing() -> int:
        return 3

    assert (nothing(), entered[-1]) == (3, "twice")


def test_layers_of_the_dispatcher() -> None:
    core = tj._C
    keys = core.DispatchKeySet(core.DispatchKey.Python) | core.DispatchKeySet(
        core.DispatchKey.Autograd
    )
    with core._ExcludeDispatchKeyGuard(keys):
        assert not (tj.ones(1, requires_grad=True) * 2).requires_grad
    with pytest.raises(NotImplementedError, match="CUDA"):
        core._ExcludeDispatchKeyGuard(core.DispatchKeySet(core.DispatchKey.CUDA))
    assert {t.name for t in tj.Tag} == {t for t in dir(torch.Tag) if t[0] != "_"} - {
        "name",
        "value",
    }
    with _mode_utils.no_dispatch():
        assert tj.ones(1).item() == 1


class Point:
    """A class of a program."""

    def __init__(self, x: float) -> None:
        self.x = x


def test_collating_by_classes() -> None:
    for of in (torch, tj):
        collating = import_module(f"{of.__name__}.utils.data._utils.collate")

        def points(batch: Any, *, collate_fn_map: Any = None, of: Any = of) -> Any:
            return of.tensor([p.x for p in batch])

        table = {Point: points, **collating.default_collate_fn_map}
        found = collating.collate([(Point(1.0), "a"), (Point(2.0), "b")], collate_fn_map=table)
        assert found[0].tolist() == [1.0, 2.0]
        assert list(found[1]) == ["a", "b"]
        with pytest.raises(TypeError, match="default_collate: batch must contain"):
            collating.default_collate([object()])
