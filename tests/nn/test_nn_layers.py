"""Layers, containers and losses: values against their formulae, shapes, errors, representations."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn


def array(*shape: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(actual, expected, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(
        actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance, strict=False
    )


# --- linear maps ---------------------------------------------------------------------------------


def test_linear_and_its_gradients():
    layer, x = nn.Linear(4, 2), array(3, 4)
    y = layer(tj.tensor(x))
    close(y, x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())
    y.sum().backward()
    close(layer.weight.grad, np.tile(x.sum(0), (2, 1)), 1e-5)
    assert layer.bias.grad.tolist() == [3.0, 3.0]
    assert repr(layer) == "Linear(in_features=4, out_features=2, bias=True)"
    bare = nn.Linear(4, 2, bias=False)
    assert bare.bias is None
    assert list(bare.state_dict()) == ["weight"]
    with pytest.raises(RuntimeError):
        layer(tj.tensor(array(3, 5)))


def test_linear_initial_values():
    tj.manual_seed(0)
    layer = nn.Linear(100, 300)
    bound = 1 / math.sqrt(100)
    for values in (layer.weight.detach().numpy(), layer.bias.detach().numpy()):
        assert np.abs(values).max() <= bound
        assert abs(values.std() - bound / math.sqrt(3)) < 0.1 * bound
    assert nn.Linear(0, 2)(tj.tensor(array(3, 0))).shape == (3, 2)
    assert nn.Linear(2, 3, dtype=tj.float64).weight.dtype is tj.float64
    with pytest.raises(RuntimeError):
        nn.Linear(2, 3, device="nowhere")


def test_embedding():
    table = nn.Embedding(5, 3, padding_idx=-1)
    assert table.padding_idx == 4
    assert table.weight[4].tolist() == [0.0, 0.0, 0.0]
    index = tj.tensor([[1, 4], [1, 0]])
    out = table(index)
    close(out, table.weight.detach().numpy()[index.numpy()])
    out.sum().backward()
    assert table.weight.grad[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0, 0.0]
    assert repr(table) == "Embedding(5, 3, padding_idx=4)"
    other = tj.nn.Embedding(5, 3, max_norm=1.5, norm_type=1, scale_grad_by_freq=True, sparse=True)
    shown = "Embedding(5, 3, max_norm=1.5, norm_type=1, scale_grad_by_freq=True, sparse=True)"
    assert repr(other) == shown
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=5)
    with pytest.raises(IndexError):
        table(tj.tensor([5]))
    frozen = nn.Embedding.from_pretrained(tj.tensor(array(4, 2)))
    assert not frozen.weight.requires_grad
    assert frozen(tj.tensor(3)).shape == (2,)


def test_shape_layers():
    x = tj.tensor(array(2, 3, 4))
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(2, (2, 2))(x).shape == (2, 3, 2, 2)
    assert nn.Identity(1, a=2)(x) is x
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"


# --- containers ----------------------------------------------------------------------------------


def test_sequential():
    a, b, c = nn.Tanh(), nn.ReLU(), nn.Identity()
    net = nn.Sequential(a, b, c)
    assert (net[0], net[-1], len(net), list(net)) == (a, c, 3, [a, b, c])
    assert list(net[1:]._modules) == ["1", "2"]
    assert isinstance(net[:2], nn.Sequential)
    net[1] = c
    assert net[1] is c
    del net[0]
    assert list(net._modules) == ["0", "1"]
    net.append(a).insert(0, b).extend([c])
    assert list(net) == [b, c, c, a, c]
    assert net.pop(0) is b
    assert len(nn.Sequential(a) + nn.Sequential(b, c)) == 3
    named = nn.Sequential(OrderedDict(one=a, two=b))
    assert named.two is b
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)


def test_module_list():
    a, b, c = nn.Tanh(), nn.ReLU(), nn.Linear(1, 1)
    layers = nn.ModuleList([a])
    layers += [b]
    layers.append(c).insert(-1, a)
    assert list(layers) == [a, b, a, c]
    assert list(layers[1:3]) == [b, a]
    del layers[1:3]
    assert list(layers) == [a, c]
    assert [n for n, _ in layers.named_parameters()] == ["1.weight", "1.bias"]
    assert len(layers + nn.ModuleList([b])) == 3
    with pytest.raises(IndexError):
        layers[2]
    with pytest.raises(TypeError, match="iterable"):
        layers.extend(3)


def test_module_dict():
    acts = nn.ModuleDict({"relu": nn.ReLU()})
    acts["lin"] = nn.Linear(1, 1)
    acts.update([("tanh", nn.Tanh())])
    assert list(acts) == ["relu", "lin", "tanh"]
    assert "lin" in acts
    assert isinstance(acts.pop("tanh"), nn.Tanh)
    assert [k for k, _ in acts.items()] == ["relu", "lin"]
    del acts["relu"]
    assert len(acts) == 1
    acts.clear()
    assert list(acts.values()) == []
    with pytest.raises(KeyError):
        acts["lin"]
    with pytest.raises(KeyError):
        acts["update"] = nn.ReLU()


def test_parameter_containers():
    values = nn.ParameterList([tj.tensor(array(2)), nn.Parameter(tj.tensor(array(3)))])
    values.append(tj.tensor(array(1)))
    assert [tuple(p.shape) for p in values.parameters()] == [(2,), (3,), (1,)]
    assert isinstance(values[0], nn.Parameter)
    assert list(values.state_dict()) == ["0", "1", "2"]
    values[-1] = tj.tensor(array(4))
    assert values[2].shape == (4,)
    kept = nn.ParameterList([tj.ones(1, 2), 3])
    line = "  (0): Parameter containing: [tracejit.float32 of size 1x2]"
    assert repr(kept) == f"ParameterList(\n  {line}\n    (1): Object of type: int\n)"
    assert repr(kept[:1]) == f"ParameterList({line})"
    line = "  (a): Parameter containing: [tracejit.FloatTensor of size 1x2]"
    assert repr(nn.ParameterDict({"a": tj.ones(1, 2)})) == f"ParameterDict({line})"
    named = nn.ParameterDict({"a": tj.tensor(array(2))})
    named["b"] = nn.Parameter(tj.tensor(array(1)))
    assert list(named.keys()) == ["a", "b"]
    assert list(named.state_dict()) == ["a", "b"]
    del named["a"]
    assert "a" not in named
    assert named.get("a", 5) == 5
    with pytest.raises(KeyError):
        named["a"]


def test_order_of_parameters_by_name():
    a, b, c = (nn.Parameter(tj.tensor(array(n))) for n in (1, 2, 3))
    plain = nn.ParameterDict(
        {"b": b, "c": c, "a": a}
    )  # a plain dict counts as unordered, as in PyTorch
    assert [name for name, _ in plain.named_parameters()] == ["a", "b", "c"]
    pairs = nn.ParameterDict([("b", b), ("a", a)])
    assert list(nn.ParameterDict(OrderedDict(pairs.items()))) == list(pairs) == ["b", "a"]
    assert list(reversed(pairs)) == ["a", "b"]
    assert list(pairs | plain) == list({"b": b} | pairs | plain) == ["b", "a", "c"]
    copied = pairs.copy()
    copied |= {"c": c}
    assert copied.popitem() == ("c", c)
    assert copied.setdefault("d", tj.ones(1)) is copied["d"]
    assert copied.setdefault("a", c) is a
    assert list(copied.fromkeys("xy", 5).items()) == [("x", 5), ("y", 5)]
    with pytest.raises(KeyError, match="dictionary is empty"):
        nn.ParameterDict().popitem()
    with pytest.raises(TypeError, match="iterable of key/value pairs, but got int"):
        nn.ParameterDict(5)
    with pytest.raises(ValueError, match="element #0 has length 3; 2 is required"):
        nn.ParameterDict([(1, 2, 3)])


# --- activations and normalisations --------------------------------------------------------------

sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
softplus = lambda x: np.log1p(np.exp(x))  # noqa: E731
FORMULAS = {
    "ReLU": ((), lambda x: np.maximum(x, 0), "ReLU()"),
    "Tanh": ((), np.tanh, "Tanh()"),
    "Sigmoid": ((), sigmoid, "Sigmoid()"),
    "SiLU": ((), lambda x: x * sigmoid(x), "SiLU()"),
    "GELU": (
        (),
        lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "GELU(approximate='none')",
    ),
    "LeakyReLU": ((0.1,), lambda x: np.where(x > 0, x, 0.1 * x), "LeakyReLU(negative_slope=0.1)"),
    "ReLU6": ((), lambda x: np.clip(x, 0, 6), "ReLU6()"),
    "ELU": ((2.0,), lambda x: np.where(x > 0, x, 2 * np.expm1(x)), "ELU(alpha=2.0)"),
    "CELU": ((2.0,), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), "CELU(alpha=2.0)"),
    "SELU": (
        (),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        "SELU()",
    ),
    "Mish": ((), lambda x: x * np.tanh(softplus(x)), "Mish()"),
    "Hardswish": ((), lambda x: x * np.clip(x + 3, 0, 6) / 6, "Hardswish()"),
    "Hardsigmoid": ((), lambda x: np.clip(x + 3, 0, 6) / 6, "Hardsigmoid()"),
    "Hardtanh": ((-0.5, 2.0), lambda x: np.clip(x, -0.5, 2), "Hardtanh(min_val=-0.5, max_val=2.0)"),
    "Softplus": ((), softplus, "Softplus(beta=1.0, threshold=20.0)"),
    "Softsign": ((), lambda x: x / (1 + abs(x)), "Softsign()"),
    "Tanhshrink": ((), lambda x: x - np.tanh(x), "Tanhshrink()"),
    "LogSigmoid": ((), lambda x: -softplus(-x), "LogSigmoid()"),
    "Hardshrink": ((0.3,), lambda x: np.where(abs(x) > 0.3, x, 0), "Hardshrink(0.3)"),
    "Softshrink": (
        (0.3,),
        lambda x: np.sign(x) * np.maximum(abs(x) - 0.3, 0),
        "Softshrink(0.3)",
    ),
    "Threshold": (
        (0.1, 9.0),
        lambda x: np.where(x > 0.1, x, 9),
        "Threshold(threshold=0.1, value=9.0)",
    ),
    "GLU": ((), lambda x: x[:, :3] * sigmoid(x[:, 3:]), "GLU(dim=-1)"),
    "PReLU": ((), lambda x: np.where(x > 0, x, 0.25 * x), "PReLU(num_parameters=1)"),
    "Softmax": (
        (1,),
        lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
        "Softmax(dim=1)",
    ),
    "LogSoftmax": (
        (1,),
        lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
        "LogSoftmax(dim=1)",
    ),
    "Softmin": ((1,), lambda x: np.exp(-x) / np.exp(-x).sum(1, keepdims=True), "Softmin(dim=1)"),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activation(name):
    arguments, formula, shown = FORMULAS[name]
    layer, x = getattr(nn, name)(*arguments), array(5, 6) * 2
    close(layer(tj.tensor(x)), formula(x.astype(np.float64)), 2e-6)
    assert repr(layer) == shown


def test_activation_in_place():
    x = tj.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]
    assert repr(nn.ReLU(inplace=True)) == "ReLU(inplace=True)"


def test_a_convolution_with_parameters_that_a_derived_layer_computes():
    class Scaled(nn.Conv2d):
        def forward(self, input):
            return self._conv_forward(input, self.weight * 2.0, None)

    layer = Scaled(2, 3, 3, padding=1, padding_mode="circular")
    x = tj.randn(1, 2, 5, 5)
    plain = nn.Conv2d.forward(layer, x) - layer.bias.reshape(3, 1, 1)
    assert tj.allclose(layer(x), 2.0 * plain, atol=1e-5)


def test_layer_norm():
    layer, x = nn.LayerNorm((2, 3)), array(4, 2, 3)
    flat = x.reshape(4, 6).astype(np.float64)
    expected = (flat - flat.mean(1, keepdims=True)) / np.sqrt(flat.var(1, keepdims=True) + 1e-5)
    close(layer(tj.tensor(x)), expected.reshape(x.shape), 2e-6)
    assert repr(layer) == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)"
    assert nn.LayerNorm(3, elementwise_affine=False).weight is None
    assert nn.LayerNorm(3, bias=False).bias is None


def test_rms_norm():
    layer, x = nn.RMSNorm(3, eps=1e-3), array(4, 3)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-3)
    close(layer(tj.tensor(x)), expected, 2e-6)
    assert repr(nn.RMSNorm(3)) == "RMSNorm((3,), eps=None, elementwise_affine=True)"


def test_group_norm():
    layer, x = nn.GroupNorm(2, 4), array(3, 4, 5)
    groups = x.reshape(3, 2, 10).astype(np.float64)
    mean, var = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
    close(layer(tj.tensor(x)), ((groups - mean) / np.sqrt(var + 1e-5)).reshape(x.shape), 2e-6)
    with pytest.raises(ValueError, match="divisible"):
        nn.GroupNorm(3, 4)


def test_dropout():
    tj.manual_seed(0)
    layer, x = nn.Dropout(0.25), tj.tensor(np.ones(10_000, np.float32))
    values = layer(x).numpy()
    assert set(np.unique(values)) == {0.0, np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 0.02
    assert layer.eval()(x).tolist() == x.tolist()
    assert repr(layer) == "Dropout(p=0.25, inplace=False)"
    with pytest.raises(ValueError, match="between 0 and 1, but got 2"):
        nn.Dropout(2.0)


# --- losses --------------------------------------------------------------------------------------


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_regression_losses(reduction):
    x, t = array(4, 3), array(4, 3, seed=1)
    d = (x - t).astype(np.float64)
    reduce = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction]
    cases = {
        nn.MSELoss(reduction=reduction): d**2,
        nn.L1Loss(reduction=reduction): abs(d),
        nn.SmoothL1Loss(reduction=reduction, beta=0.5): np.where(
            abs(d) < 0.5, d * d, abs(d) - 0.25
        ),
        nn.HuberLoss(reduction=reduction, delta=0.5): np.where(
            abs(d) < 0.5, d * d / 2, 0.5 * (abs(d) - 0.25)
        ),
    }
    for loss, expected in cases.items():
        close(loss(tj.tensor(x), tj.tensor(t)), reduce(expected), 2e-6)


def test_cross_entropy_and_nll():
    x, t = array(4, 3), np.array([0, 2, 1, 2])
    picked = -log_softmax(x.astype(np.float64))[np.arange(4), t]
    close(nn.CrossEntropyLoss()(tj.tensor(x), tj.tensor(t)), picked.mean())
    close(nn.CrossEntropyLoss(reduction="none")(tj.tensor(x), tj.tensor(t)), picked)
    weight = np.array([1.0, 2.0, 0.5], np.float32)
    weighted = nn.CrossEntropyLoss(tj.tensor(weight), ignore_index=1)
    kept = np.array([0, 1, 3])
    w = weight[t[kept]]
    close(weighted(tj.tensor(x), tj.tensor(t)), (picked[kept] * w).sum() / w.sum())
    assert list(weighted.state_dict()) == ["weight"]
    log_p = tj.tensor(log_softmax(x))
    close(nn.NLLLoss()(log_p, tj.tensor(t)), picked.mean())


def test_binary_losses():
    x, t = array(6), (array(6, seed=2) > 0).astype(np.float32)
    p = sigmoid(x.astype(np.float64))
    expected = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    close(nn.BCEWithLogitsLoss()(tj.tensor(x), tj.tensor(t)), expected.mean())
    close(nn.BCELoss()(tj.tensor(p.astype(np.float32)), tj.tensor(t)), expected.mean())
    scaled = -(3 * t * np.log(p) + (1 - t) * np.log(1 - p))
    loss = nn.BCEWithLogitsLoss(pos_weight=tj.tensor([3.0]))
    close(loss(tj.tensor(x), tj.tensor(t)), scaled.mean())


def test_kl_divergence():
    q, p = log_softmax(array(4, 3)), np.exp(log_softmax(array(4, 3, seed=1)))
    expected = (p * (np.log(p) - q)).sum() / 4
    close(nn.KLDivLoss(reduction="batchmean")(tj.tensor(q), tj.tensor(p)), expected, 1e-5)


def test_huber_refuses_a_delta():
    with pytest.raises(ValueError, match="delta must be positive"):
        nn.HuberLoss(delta=0.0)


@pytest.mark.filterwarnings("ignore:dropout2d. Received a 3D input")
@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "alpha_dropout"])
def test_dropout_of_nothing_is_the_input(name):
    x = tj.ones(2, 3, 4, requires_grad=True) * 2
    drop = getattr(nn.functional, name)
    assert drop(x, 0.0, training=True) is x
    assert drop(x, 0.0, training=True, inplace=True) is x
    assert int(x._version) == 0


@pytest.mark.filterwarnings("ignore:dropout2d. Received a 3D input")
def test_dropout_in_place_writes_its_input():
    for drop in (nn.functional.dropout, nn.functional.dropout1d, nn.functional.dropout2d):
        x = tj.ones(1, 64, 2)
        assert drop(x, 0.5, training=True, inplace=True) is x
        assert set(x.flatten().tolist()) == {0.0, 2.0}
    x = tj.ones(64)
    assert nn.Dropout(0.5, inplace=True)(x) is x
    assert nn.Dropout(0.0, inplace=True)(x) is x
