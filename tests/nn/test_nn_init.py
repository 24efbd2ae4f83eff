"""Initial values and the helpers in nn.utils."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn import init
from tracejit.nn.utils import clip_grad


def empty(*shape: int):
    return nn.Parameter(tj.tensor(np.full(shape, np.nan, np.float32)))


def test_gains():
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("cubist")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", True)


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 500)),
        (lambda t: init.xavier_normal_(t), math.sqrt(2 / 500)),
        (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda t: init.kaiming_normal_(t, a=1.0, mode="fan_out"), math.sqrt(1 / 200)),
        (lambda t: init.uniform_(t, -1.0, 3.0), 4 / math.sqrt(12)),
        (lambda t: init.normal_(t, 1.0, 0.5), 0.5),
        (lambda t: init.trunc_normal_(t), 0.8796),
    ],
)
def test_spread(fill, std):
    tj.manual_seed(1)
    weight = empty(200, 300)
    assert fill(weight) is weight
    values = weight.detach().numpy()
    assert values.std() == pytest.approx(std, rel=0.02)
    assert weight.requires_grad
    assert weight.is_leaf


def test_trunc_normal_stays_inside():
    values = init.trunc_normal_(empty(1000), 1.0, 2.0, -1.0, 1.5).detach().numpy()
    assert values.min() >= -1
    assert values.max() <= 1.5
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(empty(3), 99.0)


def test_fans_count_the_receptive_field():
    weight = empty(4, 3, 5, 5)
    bound = math.sqrt(6 / (3 * 25 + 4 * 25))
    assert np.abs(init.xavier_uniform_(weight).detach().numpy()).max() <= bound
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(empty(3))
    with pytest.raises(ValueError, match="not supported"):
        init.kaiming_uniform_(empty(3, 3), mode="fan_both")
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_normal_(empty(0, 3))


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal(shape):
    values = init.orthogonal_(empty(*shape), gain=2.0).detach().numpy().reshape(shape[0], -1)
    small = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_constants():
    assert init.ones_(empty(2)).tolist() == [1.0, 1.0]
    assert init.zeros_(empty(2)).tolist() == [0.0, 0.0]
    assert init.eye_(empty(2, 3)).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert init.dirac_(empty(2, 1, 3), groups=2).tolist() == [[[0.0, 1.0, 0.0]]] * 2
    sparse = init.sparse_(empty(10, 4), 0.35).detach().numpy()
    assert ((sparse == 0).sum(0) == 4).all()
    with pytest.raises(ValueError, match="2 dimensions"):
        init.eye_(empty(3))


def with_grads(*rows):
    parameters = [empty(len(row)) for row in rows]
    for parameter, row in zip(parameters, rows, strict=True):
        parameter.grad = tj.tensor(row)
    return parameters


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("lie", ["plain", "turned", "large"])
def test_clipping_of_arrays_and_of_tensors(dtype, lie):
    """What NumPy does for plain gradients is what ops do for others."""
    rng = np.random.default_rng(0)
    kind = getattr(tj, dtype)
    values = [rng.standard_normal(s) for s in ((3, 4), (), (70_000,) if lie == "large" else (5,))]
    parameters = [tj.tensor(v).to(kind).requires_grad_() for v in values]
    for p, v in zip(parameters, values, strict=True):
        grad = tj.tensor(v).to(kind)
        p.grad = grad.t().contiguous().t() if lie == "turned" and grad.ndim == 2 else grad
    before = [p.grad.double().numpy().copy() for p in parameters]
    versions = [p.grad._version for p in parameters]
    total = nn.utils.clip_grad_norm_(parameters, 0.5)
    expected = math.sqrt(sum(float((g * g).sum()) for g in before))
    tolerance = 1e-2 if dtype == "bfloat16" else 1e-6
    assert total.dtype is (tj.float64 if dtype == "float64" else tj.float32)
    assert total.item() == pytest.approx(expected, rel=tolerance)
    for p, g, version in zip(parameters, before, versions, strict=True):
        np.testing.assert_allclose(p.grad.double().numpy(), g * 0.5 / expected, tolerance, 1e-7)
        assert p.grad._version == version + 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clipping_of_arrays_gives_the_numbers_of_ops(dtype, monkeypatch):
    found = []
    for plain in (True, False):
        if not plain:
            monkeypatch.setattr(clip_grad, "are_plain", lambda tensors: False)
        rng = np.random.default_rng(0)
        parameters = []
        for shape in ((300, 47), (), (9,), (1, 1000), (0, 3), (150_000,)):
            p = tj.zeros(shape, dtype=getattr(tj, dtype), requires_grad=True)
            p.grad = tj.tensor(rng.standard_normal(shape)).to(p.dtype)
            parameters.append(p)
        total = nn.utils.clip_grad_norm_(parameters, 0.7)
        found.append([total.numpy(), *(p.grad.numpy() for p in parameters)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_clipping_gradients_that_are_no_numbers():
    for bad in (math.nan, math.inf):
        p = tj.ones(2, requires_grad=True)
        p.grad = tj.tensor([bad, 1.0])
        total = nn.utils.clip_grad_norm_([p], 1.0)
        assert not math.isfinite(total.item())
        np.testing.assert_array_equal(
            p.grad.numpy(), [math.nan, math.nan if math.isnan(bad) else 0]
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [2.0, 1.0, 3.0, float("inf"), 0.0])
@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_clip_grad_norm_of_complex_gradients(power: float, how: str) -> None:
    """The sizes of complex numbers count, beside those of real ones."""
    rng = np.random.default_rng(3)
    gradients = [rng.normal(size=4) + 1j * rng.normal(size=4), rng.normal(size=3)]
    parameters = [nn.Parameter(tj.from_numpy(g) * 0) for g in gradients]
    clip = nn.utils.clip_grad_norm_
    clip = tj.compile(clip) if how == "compiled" else clip
    for _ in range(3):
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = tj.from_numpy(g.copy())
        total = clip(parameters, 0.5, power)
        norms = [np.linalg.norm(np.abs(g), power) for g in gradients]
        expected = np.linalg.norm(norms, power)
        assert total.dtype.is_floating_point
        factor = min(0.5 / (expected + 1e-6), 1.0)
        np.testing.assert_allclose(total.item(), expected, rtol=1e-6)
        for p, g in zip(parameters, gradients, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-6)


def test_clip_grad_norm():
    parameters = with_grads([3.0], [0.0, 4.0])
    norm = nn.utils.clip_grad_norm_([*parameters, empty(3)], 2.5)
    assert norm.item() == 5.0
    np.testing.assert_allclose(parameters[1].grad.numpy(), [0.0, 2.0], rtol=1e-6)
    assert nn.utils.clip_grad_norm_(parameters, 100.0).item() == pytest.approx(2.5, rel=1e-6)
    np.testing.assert_allclose(parameters[0].grad.numpy(), [1.5], rtol=1e-6)
    assert nn.utils.clip_grad_norm_([empty(1)], 1.0).item() == 0.0


@pytest.mark.parametrize(
    ("norm_type", "expected"), [(1.0, 7.0), (math.inf, 4.0), (3.0, 91 ** (1 / 3))]
)
def test_other_norms(norm_type, expected):
    norm = nn.utils.clip_grad_norm_(with_grads([3.0], [-4.0]), 1.0, norm_type)
    assert norm.item() == pytest.approx(expected, rel=1e-6)


def test_clip_refuses_nonfinite_on_request():
    parameters = with_grads([math.nan])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert math.isnan(nn.utils.clip_grad_norm_(parameters, 1.0).item())


def test_clip_grad_value():
    (parameter,) = with_grads([-3.0, 0.5, 9.0])
    nn.utils.clip_grad_value_(parameter, 1.0)
    assert parameter.grad.tolist() == [-1.0, 0.5, 1.0]


def test_vector_and_back():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(vector.detach() * 2, layer.parameters())
    again = nn.utils.parameters_to_vector(layer.parameters())
    assert again.tolist() == (vector * 2).tolist()
    with pytest.raises(RuntimeError, match="9 elements"):
        nn.utils.vector_to_parameters(tj.tensor([1.0]), layer.parameters())
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.utils.vector_to_parameters([1.0], layer.parameters())
