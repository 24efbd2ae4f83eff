"""Packed sequences as arguments of compiled functions: sequences of other lengths are no other recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}


def packed(lengths: Any, rows: Any, requires_grad: bool = False) -> PackedSequence:
    found = pack_padded_sequence(rows, tj.tensor(lengths), batch_first=True, enforce_sorted=False)
    return found._replace(data=found.data.clone().requires_grad_(requires_grad))


def batches(count: int, kind: str = "rows") -> Any:
    random = np.random.default_rng(1)
    for i in range(count):
        lengths = random.integers(2, 9, size=3 + (i > 6)).tolist()
        shape = (len(lengths), 9)
        yield lengths, tj.randn(*shape, 4) if kind == "rows" else tj.randint(0, 7, shape)


def tensors(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in tensors(part)]
    return [] if value is None else [value]


def check(compiled: Any, function: Any, *arguments: Any) -> None:
    ours, theirs = tensors(compiled(*arguments)), tensors(function(*arguments))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype, a.requires_grad) == (b.shape, b.dtype, b.requires_grad)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_lengths_of_packed_arguments_vary(name: str, both_ways: bool) -> None:
    layer = CELLS[name](4, 5, num_layers=1 + both_ways, bidirectional=both_ways)

    def run(x: Any) -> Any:
        out, last = layer(x)
        return out, last, pad_packed_sequence(out, padding_value=-1.0)

    compiled = tj.compile(run)
    for lengths, rows in batches(12):
        check(compiled, run, packed(lengths, rows))
    assert compiled.stats.recordings <= 4, compiled.explain()
    assert compiled.stats.compiled_calls >= 8, compiled.explain()


def test_rows_that_are_computed_of_packed_ones() -> None:
    layer, table = nn.GRU(4, 5), nn.Embedding(7, 4)

    def run(x: Any) -> Any:
        made = PackedSequence(table(x.data), *x[1:])
        return pad_packed_sequence(layer(made)[0], batch_first=True)

    compiled = tj.compile(run)
    for lengths, words in batches(12, "words"):
        check(compiled, run, packed(lengths, words))
    assert compiled.stats.compiled_calls >= 8, compiled.explain()


def test_gradients_reach_packed_rows_and_weights() -> None:
    layer = nn.LSTM(4, 5)
    compiled = tj.compile(lambda x: layer(x)[0].data.square().sum())
    for lengths, rows in batches(10):
        found = []
        for function in (compiled, lambda x: layer(x)[0].data.square().sum()):
            given = packed(lengths, rows, requires_grad=True)
            layer.zero_grad()
            function(given).backward()
            found.append([given.data.grad, *[p.grad for p in layer.parameters()]])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-4)
    assert compiled.stats.compiled_calls >= 6, compiled.explain()


def test_padding_alone() -> None:
    compiled = tj.compile(lambda x: pad_packed_sequence(x, total_length=10, padding_value=2.0))
    for lengths, rows in batches(8):
        given = packed(lengths, rows)
        check(compiled, lambda x: pad_packed_sequence(x, total_length=10, padding_value=2.0), given)
    with pytest.raises(ValueError, match="total_length=10"):
        compiled(packed([11, 2], tj.randn(2, 11, 4)))


def test_states_that_do_not_fit_and_sizes_that_are_none() -> None:
    layer = nn.GRU(4, 5)
    compiled = tj.compile(lambda x, h: layer(x, h)[1])
    for n in (3, 4, 3, 5, 2):
        given = packed([n + 3, n, 2], tj.randn(3, n + 3, 4))
        check(compiled, lambda x, h: layer(x, h)[1], given, tj.randn(1, 3, 5))
        with pytest.raises(RuntimeError) as expected:
            layer(given, tj.randn(1, 4, 5))
        with pytest.raises(RuntimeError) as raised:
            compiled(given, tj.randn(1, 4, 5))
        assert str(raised.value) == str(expected.value)
    for sizes in ([2, 3, 1], [3, 2, 2], [3, 0, 3]):  # no packed sequence has these
        odd = PackedSequence(tj.randn(6, 4), tj.tensor(sizes))
        outcomes = []
        for function in (layer, compiled):
            try:
                function(odd, tj.zeros(1, sizes[0], 5))
            except Exception as error:  # noqa: BLE001
                outcomes.append(type(error))
            else:
                outcomes.append(type(None))
        assert outcomes[0] is outcomes[1]
