"""Recurrent layers on sequences of many lengths: from the third signature on, one loop serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from trap_tools import Stage, check

nn, F, rnn = tj.nn, tj.nn.functional, tj.nn.utils.rnn

KINDS = (nn.RNN, nn.LSTM, nn.GRU)
#: Lengths and batches of the calls; two signatures are recorded as they are, the third one for all others.
CALLS = ((4, 3), (6, 3), (5, 3), (7, 3), (3, 3), (2, 3), (9, 3), (4, 3), (8, 3))
BATCHES = ((5, 2), (5, 3), (5, 4), (5, 6), (5, 3), (5, 2))
BOTH = ((5, 2), (6, 3), (4, 4), (3, 5), (7, 2), (6, 3))
RECORDED = 3


def values(*shape: int, dtype: Any = tj.float64) -> Any:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    return tj.tensor(drawn.tolist(), dtype=dtype)


def walking(
    layer: Callable[[], Any], calls: Any, gradients: bool = True
) -> Callable[[Stage], None]:
    """A story of calls of a layer, with gradients of everything."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        made = layer().double()

        def f(x: Any) -> Any:
            out, last = made(x)
            return out * 2, last

        compiled = stage.compile(f)
        for steps, samples in calls:
            x = values(steps, samples, 2).requires_grad_(gradients)
            stage.call(compiled, x, wrt=list(made.parameters()))

    return scenario


def passed(stage: Stage, result: Any, wrt: Any) -> None:
    """A pass from one result: its gradients, or how it is refused."""
    for x in wrt:
        x.grad = None
    try:
        result.backward(tj.ones_like(result))
    except RuntimeError as error:
        stage.note("refused", str(error).split("operation: ")[0])
    else:
        stage.note("gradients", [x.grad for x in wrt])


@pytest.mark.parametrize("kind", KINDS)
def test_lengths(kind: Any) -> None:
    check(walking(lambda: kind(2, 3), CALLS), compiled=6, recorded=RECORDED)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("calls", [BATCHES, BOTH])
@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind: Any, calls: Any) -> None:
    """Few steps stay straight where their number is the same."""
    check(walking(lambda: kind(2, 3), calls), compiled=3, recorded=RECORDED)


@pytest.mark.parametrize("few", [1, 2, 3])
def test_batches_of_few_steps(few: int) -> None:
    calls = [(few, n) for n in (2, 3, 4, 6, 5)]
    check(walking(lambda: nn.LSTM(2, 3), calls), compiled=2, recorded=RECORDED)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(2, 3, num_layers=2, bidirectional=True),
        lambda: nn.LSTM(2, 3, proj_size=2, bidirectional=True),
        lambda: nn.GRU(2, 3, bias=False, bidirectional=True),
        lambda: nn.RNN(2, 3, nonlinearity="relu", num_layers=3),
    ],
)
def test_layers(layer: Callable[[], Any]) -> None:
    check(walking(layer, CALLS), compiled=6, recorded=RECORDED)


def test_without_gradients() -> None:
    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.LSTM(2, 3, bidirectional=True)

        def f(x: Any) -> Any:
            with tj.no_grad():
                found, last = layer(x)
            return found + 1, last

        compiled = stage.compile(f)
        for steps, samples in CALLS:
            stage.call(
                compiled, values(steps, samples, 2, dtype=tj.float32), wrt=[layer.bias_hh_l0]
            )

    check(scenario, compiled=6, recorded=RECORDED)


def test_first_states_and_batch_first() -> None:
    """States that are given take gradients; one of two sequences is walked to its end."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        encoder = nn.LSTM(2, 3, batch_first=True).double()
        decoder = nn.LSTM(2, 3, batch_first=True).double()
        head = nn.Linear(3, 2).double()

        def f(x: Any, y: Any, h: Any, c: Any) -> Any:
            _, state = encoder(x, (h, c))
            out, state = decoder(y, state)
            return F.mse_loss(head(out), y), state

        compiled = stage.compile(f)
        for steps, samples in BOTH:
            x = values(samples, steps, 2)
            y = values(samples, steps + samples, 2)
            h, c = (
                values(1, samples, 3).requires_grad_(),
                values(1, samples, 3).cos().requires_grad_(),
            )
            wrt = [*encoder.parameters(), *decoder.parameters(), *head.parameters()]
            stage.call(compiled, x, y, h, c, wrt=wrt)

    check(scenario, compiled=3, recorded=RECORDED)


def test_dropout_between_layers() -> None:
    """The masks are those of eager execution."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.GRU(2, 3, num_layers=2, dropout=0.5)
        compiled = stage.compile(lambda x: layer(x)[0].sum())
        for steps, samples in CALLS:
            x = values(steps, samples, 2, dtype=tj.float32)
            stage.call(compiled, x, wrt=list(layer.parameters()))
        stage.note("next", tj.rand(3))

    check(scenario, compiled=6, recorded=RECORDED)


def test_alone_and_other_dtypes() -> None:
    """A sequence without a batch; half precision has no native loops and is recorded for each length."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer, half = nn.RNN(2, 3), nn.RNN(2, 3).bfloat16()
        alone = stage.compile(lambda x: layer(x)[0].exp())
        rounded = stage.compile(lambda x: half(x)[0].exp())
        for steps, _ in CALLS:
            x = values(steps, 2, dtype=tj.float32)
            stage.call(alone, x, wrt=list(layer.parameters()))
            stage.call(rounded, x.bfloat16())

    check(scenario, compiled=6)


def test_a_walk_beside_a_loop_of_the_user() -> None:
    """The user's loop is Python's: such functions are recorded for each length."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer, cell = nn.LSTM(2, 3), nn.GRUCell(3, 3)

        def f(x: Any) -> Any:
            out, _ = layer(x)
            h = out[0] * 0
            for step in out:
                h = cell(step, h)
            return h

        compiled = stage.compile(f)
        for steps, samples in CALLS:
            stage.call(
                compiled, values(steps, samples, 2, dtype=tj.float32), wrt=[layer.bias_hh_l0]
            )

    check(scenario)


def test_whole_steps_and_gradients_of_gradients() -> None:
    """A pass inside goes through the steps that ran: no recording for all lengths can hold it."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.LSTM(2, 3).double()
        optimizer = tj.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = stage.compile(step)
        twice = stage.compile(lambda x: layer(x)[0].square().mean())
        for steps, samples in CALLS:
            x = values(steps, samples, 2)
            stage.call(compiled, x, wrt=list(layer.parameters()))
            x = x.clone().requires_grad_()
            (grad,) = tj.autograd.grad(twice(x), x, create_graph=True)
            stage.backward([grad.square().sum()], [x, *layer.parameters()])

    check(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_passes_free_and_refuse_what_eager_ones_do(kind: Any) -> None:
    """Passes from single results, one after the other, and after what was kept has been changed."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = kind(2, 3).double()

        def f(x: Any, *state: Any) -> Any:
            out, last = layer(x, state[0] if len(state) == 1 else state)
            return out, *(last if isinstance(last, tuple) else (last,))

        compiled = stage.compile(f)
        for number, (steps, samples) in enumerate(CALLS * 4):
            count = 2 if kind is nn.LSTM else 1
            given = [values(1, samples, 3).requires_grad_(number % 2 > 0) for _ in range(count)]
            x = values(steps, samples, 2).requires_grad_(number % 3 > 0)
            results = compiled(x, *given)
            wrt = [x, *given, *layer.parameters()]
            if number % 5 == 3:
                with tj.no_grad():
                    (x, given[0], layer.weight_hh_l0, layer.weight_ih_l0)[number % 4].mul_(1.5)
            order = (results[-1], results[0], results[number % len(results)])
            for result in order if number % 2 else reversed(order):
                passed(stage, result, wrt)

    check(scenario, compiled=12)


def test_checkpointed_walks_and_hooks_of_saved_tensors() -> None:
    """What asks for every step is given them: such functions are recorded for each length, or run eagerly."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.GRU(2, 3).double()
        packed: list[int] = []

        def kept(x: Any) -> Any:
            return tj.utils.checkpoint.checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)

        def hooked(x: Any) -> Any:
            with tj.autograd.graph.saved_tensors_hooks(
                lambda x: packed.append(x.numel()) or x, lambda x: x
            ):
                return layer(x)[0]

        for f in (stage.compile(kept), stage.compile(hooked)):
            for steps, samples in CALLS:
                x = values(steps, samples, 2).requires_grad_()
                stage.call(f, x, wrt=list(layer.parameters()))
        stage.note("packed", list(packed))

    check(scenario, reason="it changes Python state: the length of closure variable 'packed'")


def test_longest_first_and_empty_batches() -> None:
    steps = [(40, 3), (50, 3), (60, 3), (2, 3), (3, 3), (1, 3), (1, 2), (5, 0), (6, 3)]
    calls = [*steps, (7, 3), (8, 4), (9, 2), (41, 5)]
    check(walking(lambda: nn.GRU(2, 3), calls), compiled=6, recorded=7)


def test_the_loop_is_told_in_words() -> None:
    layer = nn.LSTM(2, 3)
    f = tj.compile(lambda x: layer(x)[0].sum())
    for steps, samples in CALLS:
        f(values(steps, samples, 2, dtype=tj.float32))
    assert f.stats.recordings == RECORDED
    assert "n0 times" in str(f.explain())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layers", [{}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_batches_as_long_as_their_longest(kind: Any, layers: dict[str, Any]) -> None:
    """Lengths are told, and the batch's own length is another in every call: padding is never looked at."""

    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = kind(2, 3, **layers).double()

        def f(x: Any, n: Any) -> Any:
            packed = rnn.pack_padded_sequence(x, n, enforce_sorted=False)
            out, last = layer(packed)
            return rnn.pad_packed_sequence(out)[0], last

        compiled = stage.compile(f)
        for number, (steps, samples) in enumerate(CALLS):
            drawn = np.random.default_rng(number).integers(1, steps + 1, samples)
            drawn[number % samples] = steps
            x = values(steps, samples, 2)
            for i, n in enumerate(drawn):
                x[n:, i] = float("nan")
            stage.call(compiled, x.requires_grad_(), tj.tensor(drawn), wrt=list(layer.parameters()))

    check(scenario, compiled=5, recorded=4)


def test_packed_batches_refused_as_eagerly() -> None:
    def scenario(stage: Stage) -> None:
        tj.manual_seed(1)
        layer = nn.GRU(2, 3).double()

        def f(x: Any, n: Any, total: int) -> Any:
            packed = rnn.pack_padded_sequence(x, n)
            return rnn.pad_packed_sequence(layer(packed)[0], total_length=total)

        compiled = stage.compile(f)
        wrong = [[1, 2, 3], [2, 2, 0], [9, 1, 1], [3, 2], [4, 4, 4]]
        for k in range(24):
            given = wrong[k // 2 % 5] if k % 2 else [3 - k % 3, 1 + (k % 3 == 0), 1]
            stage.call(compiled, values(3 + k % 4, 3, 2), tj.tensor(given), 3)

    check(scenario, compiled=1)
