"""Convolution, normalisation, recurrent and attention layers: names, sizes and formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

RNG = np.random.default_rng(29)

KEYS: dict[str, tuple[Any, list[str]]] = {
    "conv": (nn.Conv2d(2, 4, 3), ["weight", "bias"]),
    "batch norm": (
        nn.BatchNorm2d(3),
        ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"],
    ),
    "lstm": (
        nn.LSTM(2, 3, bidirectional=True, bias=False),
        ["weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"],
    ),
    "cell": (nn.GRUCell(2, 3), ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]),
    "attention": (
        nn.MultiheadAttention(4, 2),
        ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"],
    ),
    "attention of other sizes": (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=2, bias=False, add_bias_kv=True),
        [
            *("q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k", "bias_v"),
            "out_proj.weight",
        ],
    ),
}


@pytest.mark.parametrize("name", KEYS)
def test_names_of_the_state(name: str) -> None:
    module, expected = KEYS[name]
    assert list(module.state_dict()) == expected


def test_printed_form() -> None:
    assert repr(nn.Conv2d(4, 8, 3, 2, padding=1, groups=2, bias=False)) == (
        "Conv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, bias=False)"
    )
    assert repr(nn.MaxPool2d(2)) == (
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.LSTM(3, 4, 2, batch_first=True)) == "LSTM(3, 4, num_layers=2, batch_first=True)"
    assert repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"


def test_initial_values_are_within_their_bounds() -> None:
    for module, fan_in in ((nn.Conv2d(4, 64, 3), 36), (nn.Conv2d(8, 64, 3, groups=4), 18)):
        for values in (module.weight.detach(), module.bias.detach()):
            assert float(values.abs().max()) <= fan_in**-0.5
            assert float(values.abs().max()) > 0.8 * fan_in**-0.5
    lstm = nn.LSTM(3, 16)
    assert all(float(p.detach().abs().max()) <= 0.25 for p in lstm.parameters())


@pytest.mark.parametrize("momentum", [0.1, 0.4, None])
def test_running_statistics(momentum: float | None) -> None:
    layer = nn.BatchNorm1d(3, momentum=momentum)
    mean, var = np.zeros(3), np.ones(3)
    for batch in range(1, 4):
        x = RNG.standard_normal((6, 3, 5)).astype(np.float32)
        layer(tj.tensor(x))
        share = 1 / batch if momentum is None else momentum
        mean = (1 - share) * mean + share * x.mean((0, 2))
        var = (1 - share) * var + share * x.var((0, 2), ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-5, atol=1e-6)
    assert int(layer.num_batches_tracked) == 3
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    expected = (x - mean) / np.sqrt(var + layer.eps)
    np.testing.assert_allclose(layer.eval()(tj.tensor(x)).detach().numpy(), expected, rtol=1e-4)
    assert int(layer.num_batches_tracked) == 3
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0.0] * 3


def test_untracked_statistics_are_those_of_the_batch() -> None:
    layer = nn.BatchNorm2d(2, track_running_stats=False).eval()
    x = RNG.standard_normal((3, 2, 4, 4))
    out = layer.double()(tj.tensor(x)).detach().numpy()
    np.testing.assert_allclose(out.mean((0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(out.var((0, 2, 3)), 1, rtol=1e-4)


def test_instances_are_tracked_by_their_means() -> None:
    layer = nn.InstanceNorm1d(2, track_running_stats=True, momentum=0.5).double()
    x = RNG.standard_normal((3, 2, 6))
    layer(tj.tensor(x))
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.5 * x.mean(2).mean(0))
    expected = 0.5 + 0.5 * x.var(2, ddof=1).mean(0)
    np.testing.assert_allclose(layer.running_var.numpy(), expected)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def values(module: Any) -> dict[str, Any]:
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def test_lstm_formula() -> None:
    layer = nn.LSTM(3, 4).double()
    p = values(layer)
    x = RNG.standard_normal((5, 2, 3))
    h, c = np.zeros((2, 4)), np.zeros((2, 4))
    outputs = []
    for step in x:
        gates = step @ p["weight_ih_l0"].T + h @ p["weight_hh_l0"].T
        gates = gates + p["bias_ih_l0"] + p["bias_hh_l0"]
        i, f, g, o = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    out, (last, cell) = layer(tj.tensor(x))
    np.testing.assert_allclose(out.detach().numpy(), outputs, rtol=1e-12)
    np.testing.assert_allclose(last.detach().numpy()[0], h, rtol=1e-12)
    np.testing.assert_allclose(cell.detach().numpy()[0], c, rtol=1e-12)


def test_layers_are_cells_step_by_step() -> None:
    for kind in ("RNN", "LSTM", "GRU"):
        layer, cell = getattr(nn, kind)(3, 4), getattr(nn, f"{kind}Cell")(3, 4)
        cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
        x, state = tj.randn(5, 2, 3), None
        for step in x:
            state = cell(step, state)
        hidden = state[0] if kind == "LSTM" else state
        np.testing.assert_allclose(
            hidden.detach().numpy(), layer(x)[0][-1].detach().numpy(), rtol=1e-5, atol=1e-6
        )


def test_directions_and_packing() -> None:
    layer = nn.GRU(3, 4, bidirectional=True)
    lengths = [2, 5, 3]
    x = tj.randn(3, 5, 3)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, last = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
    assert last.tolist() == lengths
    for row, n in enumerate(lengths):
        alone, _ = layer(x[row, :n])
        np.testing.assert_allclose(
            out[row, :n].detach().numpy(), alone.detach().numpy(), rtol=1e-5, atol=1e-6
        )
        assert float(out[row, n:].detach().abs().sum()) == 0.0


def test_attention_formula() -> None:
    layer = nn.MultiheadAttention(6, 2, batch_first=True).double()
    p = values(layer)
    x = RNG.standard_normal((2, 4, 6))
    joint = x @ p["in_proj_weight"].T + p["in_proj_bias"]
    q, k, v = (a.reshape(2, 4, 2, 3).swapaxes(1, 2) for a in np.split(joint, 3, -1))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(3)
    scores = np.where(np.triu(np.ones((4, 4), bool), 1), -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = (weights @ v).swapaxes(1, 2).reshape(2, 4, 6)
    out = out @ p["out_proj.weight"].T + p["out_proj.bias"]
    mask = tj.tensor(np.triu(np.ones((4, 4), bool), 1))
    given = tj.tensor(x)
    found, attention = layer(given, given, given, attn_mask=mask)
    np.testing.assert_allclose(found.detach().numpy(), out, rtol=1e-10)
    np.testing.assert_allclose(attention.detach().numpy(), weights.mean(1), rtol=1e-10)
    lean, nothing = layer(given, given, given, attn_mask=mask, need_weights=False)
    assert nothing is None
    np.testing.assert_allclose(lean.detach().numpy(), out, rtol=1e-10)


def test_a_model_learns() -> None:
    tj.manual_seed(0)
    images = RNG.standard_normal((16, 1, 8, 8)).astype(np.float32)
    labels = tj.tensor((images[:, 0, :4].mean((1, 2)) > images[:, 0, 4:].mean((1, 2))) * 1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 2),
    )
    optimizer = tj.optim.Adam(model.parameters(), lr=0.02)
    loss_of = nn.CrossEntropyLoss()
    first = None
    for _ in range(40):
        optimizer.zero_grad()
        loss = loss_of(model(tj.tensor(images)), labels)
        loss.backward()
        optimizer.step()
        first = float(loss) if first is None else first
    assert float(loss) < 0.1 * first
