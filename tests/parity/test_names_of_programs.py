"""Names that programs import: linearize, make_tensor, averages of lists, collective operations of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.distributed as dist

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def pushed(of: Any) -> list[Any]:
    def f(x, w):
        return (x.sin() @ w).tanh(), x.sum()

    x, w = of.arange(6.0).reshape(2, 3) / 5, of.arange(12.0).reshape(3, 4) / 10
    values, push = of.func.linearize(f, x, w)
    tangents = [push(of.ones(2, 3), w * k) for k in (0.0, 1.0)]
    return [t.tolist() for row in (values, *tangents) for t in row]


@pytest.mark.filterwarnings("ignore")
def test_linearize() -> None:
    for expected, found in zip(pushed(torch), pushed(tj), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    weight = tj.ones(2, requires_grad=True)
    value, push = tj.func.linearize(lambda x: (x * x * weight).sum(), tj.ones(2))
    (value + push(tj.tensor([1.0, 0.0]))).backward()
    assert weight.grad.tolist() == [3.0, 1.0]


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "complex64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("options", [{}, {"noncontiguous": True}, {"low": 1, "high": 2}])
def test_values_for_tests(kind, options) -> None:
    found = [
        of.testing.make_tensor(3, 4, dtype=getattr(of, kind), device="cpu", **options)
        for of in (torch, tj)
    ]
    for x in found:
        assert tuple(x.shape) == (3, 4)
        parts = [x.real, x.imag] if "complex" in kind else [x]
        for part in parts:
            low, high = options.get("low", -9), options.get("high", 9)
            assert all(low <= float(v) <= high for v in part.flatten().tolist())
        assert x.is_contiguous() is not options.get("noncontiguous", False)
    with pytest.raises(ValueError, match="low"):
        tj.testing.make_tensor(2, dtype=tj.float32, device="cpu", low=2, high=1)
    plain = tj.testing.make_tensor((50,), dtype=tj.int64, device="cpu", exclude_zero=True)
    assert bool((plain != 0).all())


def averaged(of: Any) -> list[Any]:
    means = [of.ones(2), of.arange(3.0)]
    update = of.optim.swa_utils.get_swa_multi_avg_fn()
    for count in range(3):
        update(means, [of.ones(2) * count, of.ones(3)], of.tensor(count))
    return [m.tolist() for m in means]


def test_averages_of_lists() -> None:
    for expected, found in zip(averaged(torch), averaged(tj), strict=True):
        assert found == pytest.approx(expected)


def test_batch_norms_without_statistics() -> None:
    outcomes = []
    for of in (torch, tj):
        model = of.nn.Sequential(of.nn.BatchNorm1d(2), of.nn.ReLU())
        assert of.func.replace_all_batch_norm_modules_(model) is model
        outcomes.append(model(of.tensor([[1.0, 2.0], [3.0, 8.0]])).tolist())
        assert model.eval()[0].running_mean is None
    np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-5)


def test_one_process_has_it_all() -> None:
    with pytest.raises(ValueError, match="not been initialized"):
        dist.scatter(tj.zeros(2), [tj.ones(2)])
    dist.init_process_group("gloo")
    try:
        found = [tj.zeros(2) for _ in range(5)]
        dist.gather(tj.ones(2), found[:1])
        dist.scatter(found[1], [tj.ones(2)])
        dist.reduce_scatter(found[2], [tj.ones(2)])
        dist.reduce_scatter_tensor(found[3], tj.ones(1, 2))
        dist.all_to_all_single(found[4], tj.ones(2))
        assert [x.tolist() for x in found] == [[1.0, 1.0]] * 5
        assert dist.get_process_group_ranks() == [0]
    finally:
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="not part"):
        dist.get_global_rank(None, 1)


def test_versions_are_counted_by_hand() -> None:
    for of in (torch, tj):
        x = of.ones(2, requires_grad=True)
        y = x.exp()
        of.autograd.graph.increment_version(y)
        assert y._version == 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_sizes_are_numbers() -> None:
    expressions = (
        *("T.sym_max(1, 2.0)", "T.sym_min(1, 2)", "T.sym_max(3, 2.0)", "T.sym_int(2.7)"),
        *("T.sym_float(3)", "T.sym_not(True)", "T.sym_ite(True, 1, 2)", "T.sym_sum([1, 2])"),
    )
    for expression in expressions:
        expected, found = (eval(expression, {"T": of}) for of in (torch, tj))
        assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *(("linear", "LazyLinear"), ("conv", "LazyConv2d"), ("batchnorm", "LazyBatchNorm1d")),
        *(("pooling", "FractionalMaxPool2d"), ("instancenorm", "LazyInstanceNorm2d")),
    ],
)
def test_layers_under_their_paths(path, name) -> None:
    for place in (tj.nn.modules, getattr(tj.nn.modules, path)):
        assert getattr(place, name) is getattr(tj.nn, name)
    assert hasattr(getattr(torch.nn.modules, path), name)


def test_classes_before_parametrizations() -> None:
    for of in (torch, tj):
        before = of.nn.utils.parametrize.type_before_parametrizations
        layer = of.nn.Linear(2, 2)
        assert before(layer) is of.nn.Linear
        of.nn.utils.parametrizations.weight_norm(layer)
        assert before(layer) is of.nn.Linear
        assert of.ones(2)[0]._is_view()
        assert not of.ones(2)._is_view()


def test_questions_about_who_takes_functions_over() -> None:
    class Loud:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return None

    for of in (torch, tj):
        o, x = of.overrides, of.ones(1)
        assert [o.has_torch_function_unary(v) for v in (Loud(), x)] == [True, False]
        assert [o.has_torch_function_variadic(1, v) for v in (Loud(), x)] == [True, False]
        assert of.utils.dlpack.from_dlpack(x).tolist() == [1.0]
