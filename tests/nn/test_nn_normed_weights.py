"""Weights that are computed: parametrizations, weight norm, spectral norm; batch norm folded away."""

from __future__ import annotations

import copy

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn.utils import (
    fusion,
    parametrizations,
    parametrize,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def test_a_parametrized_weight_is_computed_and_learned():
    layer = nn.Linear(3, 3)
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert tj.equal(layer.weight, layer.weight.T)
    assert layer.parametrizations.weight.original is before
    assert sorted(dict(layer.named_parameters())) == ["bias", "parametrizations.weight.original"]
    layer(tj.ones(1, 3)).sum().backward()
    assert before.grad is not None
    assert isinstance(layer, nn.Linear)
    assert parametrize.is_parametrized(layer, "weight")


def test_assigning_goes_back_to_what_is_learned():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    layer.weight = tj.eye(3) * 2
    assert tj.equal(layer.weight, tj.eye(3) * 2)


def test_parametrizations_on_top_of_each_other_and_removed():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    symmetric = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert tj.equal(layer.weight, 2 * symmetric)
    parametrize.remove_parametrizations(layer, "weight")
    assert tj.equal(layer.weight, 2 * symmetric)
    assert type(layer) is nn.Linear
    assert not parametrize.is_parametrized(layer)
    assert layer.weight.requires_grad


def test_changing_the_shape_is_refused_unless_unsafe():
    class Row(nn.Module):
        def forward(self, x):
            return x[0]

    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(nn.Linear(3, 3), "weight", Row())
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(nn.Linear(3, 3), "missing", Doubled())


def test_cached_values_are_computed_once():
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


def test_both_weight_norms_agree_and_keep_the_weight():
    plain = nn.Conv1d(2, 3, 2)
    old, new = weight_norm(copy.deepcopy(plain)), parametrizations.weight_norm(copy.deepcopy(plain))
    assert tj.allclose(old.weight, plain.weight)
    assert tj.equal(old.weight, new.weight)
    assert tj.equal(old.weight_g, new.parametrizations.weight.original0)
    x = tj.randn(2, 2, 4)
    assert tj.allclose(old(x), plain(x), atol=1e-6)
    with pytest.raises(RuntimeError, match="two weight_norm"):
        weight_norm(old)
    assert type(remove_weight_norm(old)) is nn.Conv1d
    with pytest.raises(ValueError, match="not found"):
        remove_weight_norm(old)


@pytest.mark.parametrize("norm", [spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_has_the_largest_singular_value_one(norm):
    tj.manual_seed(0)
    layer = norm(nn.Linear(4, 3))
    for _ in range(60):
        layer(tj.ones(1, 4))
    weight = layer.eval().weight.detach().numpy()
    assert abs(float((weight @ weight.T).trace()) - 1.0) < 2.0
    v = tj.randn(4)
    for _ in range(200):
        v = nn.functional.normalize(layer.weight.detach().T @ (layer.weight.detach() @ v), dim=0)
    assert abs(float((layer.weight.detach() @ v).norm()) - 1.0) < 1e-4


def test_spectral_norm_removed():
    layer = spectral_norm(nn.Linear(4, 3))
    weight = layer.weight.detach()
    assert tj.equal(remove_spectral_norm(layer).weight.detach(), weight)
    assert type(layer) is nn.Linear
    with pytest.raises(ValueError, match="not found"):
        remove_spectral_norm(layer)


@pytest.mark.parametrize(
    "norm",
    [weight_norm, parametrizations.weight_norm, spectral_norm, parametrizations.spectral_norm],
)
def test_compiled_training_equals_eager(norm):
    tj.manual_seed(0)
    net = nn.Sequential(norm(nn.Linear(4, 6)), nn.Tanh(), norm(nn.Linear(6, 2)))
    losses = []
    for call in (lambda m: m, lambda m: tj.compile(m, strict=True)):
        own = nn.Sequential(norm(nn.Linear(4, 6)), nn.Tanh(), norm(nn.Linear(6, 2)))
        own.load_state_dict(net.state_dict())
        forward = call(own)
        opt = tj.optim.SGD(own.parameters(), lr=0.1)
        losses.append([])
        for _ in range(4):
            opt.zero_grad()
            loss = forward(tj.linspace(-1, 1, 12).reshape(3, 4)).square().mean()
            loss.backward()
            opt.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][0] != losses[0][-1]


@pytest.mark.parametrize("transpose", [False, True])
def test_batch_norm_folded_into_a_convolution(transpose):
    tj.manual_seed(0)
    conv = (nn.ConvTranspose1d if transpose else nn.Conv1d)(2, 3, 2)
    bn = nn.BatchNorm1d(3)
    bn(tj.randn(8, 3, 5) * 2 + 1)
    nn.init.normal_(bn.weight)
    nn.init.normal_(bn.bias)
    x = tj.randn(2, 2, 6)
    with pytest.raises(AssertionError, match="eval"):
        fusion.fuse_conv_bn_eval(conv, bn, transpose)
    conv.eval()
    bn.eval()
    fused = fusion.fuse_conv_bn_eval(conv, bn, transpose)
    assert tj.allclose(fused(x), bn(conv(x)), atol=1e-5)


def test_batch_norm_folded_into_a_linear_layer():
    layer, bn = nn.Linear(3, 2).eval(), nn.BatchNorm1d(2).eval()
    bn.running_mean.fill_(0.5)
    x = tj.randn(4, 3)
    assert tj.allclose(fusion.fuse_linear_bn_eval(layer, bn)(x), bn(layer(x)), atol=1e-5)


def test_what_was_learned_is_apart_from_the_weight_that_is_left():
    class Doubled(tj.nn.Module):
        def forward(self, x):
            return 2 * x

    layer = tj.nn.Linear(2, 1)
    before = layer.weight.tolist()
    tj.nn.utils.parametrize.register_parametrization(layer, "weight", Doubled())
    original = layer.parametrizations.weight.original
    seen = original.detach()
    tj.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is original
    assert layer.weight.tolist() == [[2 * x for x in before[0]]]
    assert seen.tolist() == before
