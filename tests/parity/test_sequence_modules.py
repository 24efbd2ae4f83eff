"""Recurrent and attention modules against PyTorch, batched, alone and packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from module_tools import copy_state, flat, normal, pair, run, tensors
from parity_tools import array, close, same_error, torch

import tracejit as tj

# PyTorch says when it does not use nested tensors.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

# --- recurrence ---------------------------------------------------------------------------------

RECURRENT: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 2, "batch_first": True},
    {"bidirectional": True},
    {"num_layers": 3, "bidirectional": True, "batch_first": True},
]


@pytest.mark.parametrize("options", RECURRENT, ids=str)
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent(name: str, options: dict[str, Any]) -> None:
    ours, theirs = pair(name, (3, 5), options)
    assert [[p.shape for p in row] for row in ours.all_weights] == [
        [tuple(p.shape) for p in row] for row in theirs.all_weights
    ]
    run(ours, theirs, normal(4, 6, 3))
    run(ours, theirs, normal(4, 3))
    rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    samples = 4 if options.get("batch_first") else 6
    state = normal(rows, samples, 5)
    given = (state, state * 0.5) if name == "LSTM" else state
    x = normal(4, 6, 3)
    ours_out = ours(tj.tensor(x), tensors(tj, given))
    for a, b in zip(
        flat(ours_out), flat(theirs(torch.tensor(x), tensors(torch, given))), strict=True
    ):
        close(a, b)


def test_relu_recurrence_and_projection() -> None:
    run(*pair("RNN", (3, 5), {"nonlinearity": "relu"}), normal(4, 2, 3))
    run(
        *pair("LSTM", (3, 5), {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
        normal(4, 2, 3),
    )


def test_dropout_between_layers() -> None:
    ours, theirs = pair("LSTM", (3, 5), {"num_layers": 2, "dropout": 0.5})
    run(ours.eval(), theirs.eval(), normal(4, 2, 3))
    ours.train()
    x = tj.tensor(normal(4, 2, 3))
    assert not np.allclose(array(ours(x)[0]), array(ours(x)[0]))
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        tj.nn.LSTM(3, 5, dropout=0.5)


@pytest.mark.parametrize("options", RECURRENT, ids=str)
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_packed_sequences(name: str, options: dict[str, Any], enforce_sorted: bool) -> None:
    ours, theirs = pair(name, (3, 5), options)
    lengths = [5, 3, 3, 1] if enforce_sorted else [3, 1, 5, 3]
    x = normal(4, 5, 3)
    sides = []
    for of, module in ((tj, ours), (torch, theirs)):
        utils = of.nn.utils.rnn
        leaf = of.tensor(x.copy()).requires_grad_()
        packed = utils.pack_padded_sequence(leaf, lengths, True, enforce_sorted)
        outputs, state = module(packed)
        padded, counts = utils.pad_packed_sequence(outputs, batch_first=True)
        (padded * padded).sum().backward()
        sides.append(([padded, *flat(state)], counts.tolist(), leaf.grad))
    (a_out, a_counts, a_grad), (b_out, b_counts, b_grad) = sides
    assert a_counts == b_counts == lengths
    for a, b in zip(a_out, b_out, strict=True):
        close(a, b, 1e-8)
    close(a_grad, b_grad, 1e-8)


def test_padding_and_packing() -> None:
    parts = [normal(n, 2) for n in (4, 2, 1)]
    sides = []
    for of in (tj, torch):
        utils = of.nn.utils.rnn
        tensors = [of.tensor(p) for p in parts]
        packed = utils.pack_sequence(tensors)
        found = [packed.data, packed.batch_sizes, *utils.unpack_sequence(packed)]
        found.append(utils.pad_sequence(tensors, True, -1.0))
        found.append(utils.pad_sequence(tensors, padding_side="left"))
        found.extend(utils.pad_packed_sequence(packed, total_length=6, padding_value=9.0))
        sides.append(found)
    for a, b in zip(*sides, strict=True):
        close(a, b)
    for bad in ([1, 0], [1, 2], [1]):
        same_error(lambda t, _, bad=bad: t.nn.utils.rnn.pack_padded_sequence(t.zeros(3, 2), bad))


CELLS = [
    ("RNNCell", {}),
    ("RNNCell", {"nonlinearity": "relu"}),
    ("LSTMCell", {}),
    ("GRUCell", {"bias": False}),
]


@pytest.mark.parametrize(("name", "options"), CELLS, ids=str)
def test_cell(name: str, options: dict[str, Any]) -> None:
    ours, theirs = pair(name, (3, 5), options)
    run(ours, theirs, normal(2, 3))
    run(ours, theirs, normal(3))
    state = normal(2, 5)
    given = (state, state * 0.5) if name == "LSTMCell" else state
    x = normal(2, 3)
    found = flat(ours(tj.tensor(x), tensors(tj, given)))
    for a, b in zip(found, flat(theirs(torch.tensor(x), tensors(torch, given))), strict=True):
        close(a, b)


def test_refusals_of_recurrence() -> None:
    same_error(lambda t, _: t.nn.LSTM(3, 5)(t.zeros(2, 3, 4, 5)))
    same_error(lambda t, _: t.nn.LSTM(3, 5)(t.zeros(4, 2, 4)))
    same_error(lambda t, _: t.nn.GRU(3, 5)(t.zeros(4, 2, 3), t.zeros(2, 5)))
    same_error(lambda t, _: t.nn.GRU(3, 5)(t.zeros(4, 2, 3), t.zeros(1, 3, 5)))
    same_error(lambda t, _: t.nn.RNN(3, 0))
    same_error(lambda t, _: t.nn.RNN(3, 5, nonlinearity="sine"))
    same_error(lambda t, _: t.nn.LSTM(3, 5, proj_size=6))
    same_error(lambda t, _: t.nn.LSTM(3, 5, dropout=2))
    same_error(lambda t, _: t.nn.RNNCell(3, 5)(t.zeros(1, 2, 3)))
    same_error(lambda t, _: t.nn.RNNCell(3, 5)(t.zeros(2, 4)))
    same_error(lambda t, _: t.nn.LSTMCell(3, 5)(t.zeros(2, 3), (t.zeros(2, 4), t.zeros(2, 4))))


# --- attention ----------------------------------------------------------------------------------

ATTENTION: list[dict[str, Any]] = [
    {},
    {"bias": False, "batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True, "add_bias_kv": True, "batch_first": True},
]


def upper(n: int, m: int) -> Any:
    return np.triu(np.ones((n, m), bool), 1)


@pytest.mark.parametrize("options", ATTENTION, ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention(options: dict[str, Any], need_weights: bool) -> None:
    ours, theirs = pair("MultiheadAttention", (8, 2), options)
    x = normal(4, 4, 8)
    padding = np.zeros((4, 4), bool)
    padding[1, 2:] = True
    for given in (
        {},
        {"attn_mask": upper(4, 4)},
        {"attn_mask": np.where(upper(4, 4), -2.0, 0.3)},
        {"key_padding_mask": padding},
        {"key_padding_mask": padding, "attn_mask": np.repeat(upper(4, 4)[None], 8, 0)},
    ):
        run(ours, theirs, x, x * 0.5, x + 1.0, need_weights=need_weights, **given)
    for module, of in ((ours, tj), (theirs, torch)):
        module.same = of.tensor(x)
    close(
        ours(ours.same, ours.same, ours.same)[0], theirs(theirs.same, theirs.same, theirs.same)[0]
    )
    run(ours, theirs, x[:, 0], x[:, 1], x[:, 2], average_attn_weights=False)


def test_attention_of_other_sizes() -> None:
    ours, theirs = pair("MultiheadAttention", (8, 4), {"kdim": 3, "vdim": 5})
    run(ours, theirs, normal(4, 2, 8), normal(6, 2, 3), normal(6, 2, 5))
    same_error(lambda t, _: t.nn.MultiheadAttention(8, 3))
    same_error(
        lambda t, _: t.nn.MultiheadAttention(8, 2)(t.zeros(2, 3, 8), t.zeros(3, 8), t.zeros(3, 8))
    )
    same_error(lambda t, _: t.nn.MultiheadAttention(8, 2)(*[t.zeros(2, 3, 6)] * 3))


BLOCKS: list[dict[str, Any]] = [
    {},
    {"batch_first": True, "activation": "gelu"},
    {"norm_first": True, "bias": False},
]


@pytest.mark.parametrize("options", BLOCKS, ids=str)
def test_transformer_layers(options: dict[str, Any]) -> None:
    options = {**options, "dropout": 0.0}
    ours, theirs = pair("TransformerEncoderLayer", (8, 2, 12), options)
    run(ours, theirs, normal(4, 4, 8))
    run(ours, theirs, normal(4, 4, 8), src_mask=upper(4, 4))
    ours, theirs = pair("TransformerDecoderLayer", (8, 2, 12), options)
    run(ours, theirs, normal(4, 4, 8), normal(4, 4, 8))
    run(ours, theirs, normal(4, 4, 8), normal(4, 4, 8), tgt_mask=upper(4, 4))


def test_transformer_stacks() -> None:
    stacks = []
    for of in (tj, torch):
        layer = of.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        stacks.append(of.nn.TransformerEncoder(layer, 2, of.nn.LayerNorm(8)).double())
    assert repr(stacks[0]) == repr(stacks[1])
    copy_state(*stacks)
    run(*stacks, normal(2, 5, 8), mask=upper(5, 5))
    ours, theirs = pair("Transformer", (8, 2, 2, 2, 12), {"dropout": 0.0})
    run(ours, theirs, normal(5, 2, 8), normal(4, 2, 8), tgt_mask=upper(4, 4))
    mask = tj.nn.Transformer.generate_square_subsequent_mask(4)
    close(mask, torch.nn.Transformer.generate_square_subsequent_mask(4))
    same_error(lambda t, _: t.nn.TransformerEncoderLayer(8, 2, activation="sine"))
