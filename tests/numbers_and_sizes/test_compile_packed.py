"""Packed sequences in compiled functions: one recording serves batches of any lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check

nn, F, rnn = tj.nn, tj.nn.functional, tj.nn.utils.rnn

KINDS = (nn.RNN, nn.LSTM, nn.GRU)


def lengths(k: int, samples: int, steps: int, dtype: Any = tj.int64) -> Any:
    found = np.random.default_rng(k).integers(1, steps + 1, samples)
    return tj.tensor(found.tolist(), dtype=dtype)


def batch(k: int, *shape: int, gaps: Any = None) -> Any:
    """Random values; NaN after the end of each sequence (T, N) where ``gaps`` has lengths."""
    values = np.random.default_rng(k + 100).standard_normal(shape)
    if gaps is not None:
        for i, n in enumerate(gaps.tolist()):
            values[n:, i] = np.nan
    return tj.tensor(values.tolist(), dtype=tj.float64)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("layers", [{}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers(kind: Any, layers: dict[str, Any]) -> None:
    """Values, gradients and last states; what lies beyond the end of a sequence is never looked at."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = kind(2, 3, **layers).double()

        def f(x: Any, n: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, n, enforce_sorted=False)
            out, last = layer(packed)
            padded, counts = rnn.pad_packed_sequence(out, padding_value=-1.0)
            return padded, counts, last, out.data, out.batch_sizes

        compiled = stage.compile(f)
        for k in range(7):
            n = lengths(k, 4, 5)
            x = batch(k, 5, 4, 2, gaps=n).requires_grad_()
            stage.call(compiled, x, n, wrt=list(layer.parameters()))

    check(scenario, compiled=5, recorded=2)


def test_first_batches_states_and_projections() -> None:
    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.LSTM(2, 3, batch_first=True, proj_size=2).double()

        def f(x: Any, n: Any, h: Any, c: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
            out, last = layer(packed, (h, c))
            return rnn.pad_packed_sequence(out, batch_first=True)[0], last

        compiled = stage.compile(f)
        for k in range(6):
            n = lengths(k, 3, 4, tj.int32)
            stage.call(compiled, batch(k, 3, 4, 2), n, batch(k, 1, 3, 2), batch(k + 1, 1, 3, 3))

    check(scenario, compiled=4, recorded=2)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (6, 1), (4, 2)])
def test_shapes(shape: tuple[int, int]) -> None:
    """One step, one sequence; rows of more or fewer dimensions; lengths in total."""

    def scenario(stage: Stage) -> None:
        def f(x: Any, n: Any) -> Any:
            found = []
            for part in (x, x[..., 0], x.unsqueeze(-1).long()):
                packed = rnn.pack_padded_sequence(part, n, enforce_sorted=False)
                found += [packed, *rnn.pad_packed_sequence(packed)]
                for total in (shape[0], shape[0] + 2):
                    found.append(rnn.pad_packed_sequence(packed, total_length=total)[0])
            return found

        compiled = stage.compile(f)
        for k in range(7):
            stage.call(compiled, batch(k, *shape, 2), lengths(k, shape[1], shape[0]))

    check(scenario, compiled=3)


def test_sorted_lengths_and_errors() -> None:
    """What eager code refuses is refused alike, and other batches stay compiled."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.GRU(2, 3).double()

        def f(x: Any, n: Any, total: int) -> Any:
            packed = rnn.pack_padded_sequence(x, n)
            return rnn.pad_packed_sequence(layer(packed)[0], total_length=total)

        compiled = stage.compile(f)
        wrong = [[1, 2, 3], [2, 2, 0], [9, 1, 1], [3, 2], [4, 4, 4]]
        for k in range(20):
            given = wrong[k // 2 % 5] if k % 2 else [3 - k % 3, 1 + (k % 3 == 0), 1]
            stage.call(compiled, batch(k, 4, 3, 2), tj.tensor(given), 3)

    check(scenario, compiled=6)


def test_lengths_that_are_returned_are_new() -> None:
    f = tj.compile(
        lambda x, n: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, n), batch_first=True)
    )
    for _ in range(3):
        given = tj.tensor([3, 2])
        _, found = f(tj.ones(3, 2), given)
        assert tj.equal(found, given)
        found.zero_()
        assert given.tolist() == [3, 2]


def test_whole_step() -> None:
    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer, head = nn.LSTM(2, 3).double(), nn.Linear(3, 2).double()
        optimizer = tj.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.05)

        def step(x: Any, n: Any, y: Any) -> Any:
            optimizer.zero_grad()
            out, (h, _) = layer(rnn.pack_padded_sequence(x, n, enforce_sorted=False))
            padded, counts = rnn.pad_packed_sequence(out)
            mean = padded.sum(0) / counts.unsqueeze(1)
            loss = F.cross_entropy(head(h[-1] + mean), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = stage.compile(step)
        for k in range(7):
            n = lengths(k, 4, 6)
            stage.call(compiled, batch(k, 6, 4, 2, gaps=n), n, tj.tensor([0, 1, 1, 0]))
            stage.note("weights", [*layer.parameters(), *head.parameters()])

    check(scenario, compiled=4)


def test_rows_that_are_changed_are_taken_apart_again() -> None:
    """Packed rows may be written to, or be computed anew, as between an embedding and a layer."""

    def scenario(stage: Stage) -> None:
        def changed(x: Any, n: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, n, enforce_sorted=False)
            packed.data.mul_(2)
            return rnn.pad_packed_sequence(packed)

        def replaced(x: Any, n: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, n, enforce_sorted=False)
            return rnn.pad_packed_sequence(packed._replace(data=packed.data.sin()))

        for function in (changed, replaced):
            compiled = stage.compile(function)
            for k in range(4):
                stage.call(compiled, batch(k, 4, 3, 2), lengths(k, 3, 4))

    check(scenario, compiled=6, recorded=2)


def test_dropout_between_layers_draws_as_it_does_eagerly() -> None:
    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.GRU(2, 3, num_layers=2, dropout=0.5).double()

        def f(x: Any, n: Any) -> Any:
            return layer(rnn.pack_padded_sequence(x, n, enforce_sorted=False))[1]

        compiled = stage.compile(f)
        for k in range(8):
            layer.train(k < 4)
            stage.call(compiled, batch(k, 4, 3, 2), lengths(k, 3, 4))

    check(scenario, compiled=2, reason="tolist()")


@pytest.mark.parametrize("option", ["strict", "verify"])
def test_strict_and_verified(option: str) -> None:
    layer = nn.LSTM(2, 3).double()

    def f(x: Any, n: Any) -> Any:
        out, _ = layer(rnn.pack_padded_sequence(x, n, enforce_sorted=False))
        return rnn.pad_packed_sequence(out)[0]

    compiled = tj.compile(f, **{option: True})
    for k in range(5):
        found = compiled(batch(k, 5, 3, 2), lengths(k, 3, 5))
        expected = f(batch(k, 5, 3, 2), lengths(k, 3, 5))
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-12)
    assert compiled.stats.compiled_calls == 4


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("side", ["right", "left"])
def test_sequences_of_any_lengths_are_padded_by_one_recording(batch_first, side):
    rng = np.random.default_rng(0)
    scale = tj.ones(2, requires_grad=True)

    def batch(first, second, *others):
        rows = [first * scale, second * 2, *others]
        wide = rnn.pad_sequence(rows, batch_first, -1.5, side)
        words = rnn.pad_sequence([x.long()[:, 0] for x in rows], batch_first, 7, side)
        mixed = rnn.pad_sequence([first.double(), second], batch_first, 0.25, side)
        return wide, words, mixed, (wide * wide).sum()

    f = tj.compile(batch)
    for _ in range(24):
        xs = [tj.tensor(rng.normal(size=(n, 2)).astype("f4")) for n in rng.integers(2, 30, 5)]
        found, expected = f(*xs), batch(*xs)
        for x, y in zip(found, expected, strict=True):
            assert (x.dtype, x.stride()) == (y.dtype, y.stride())
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5)
        slopes = [tj.autograd.grad(results[3], scale)[0].numpy() for results in (found, expected)]
        np.testing.assert_allclose(*slopes, rtol=1e-4)
    assert f.stats.recordings <= 6
