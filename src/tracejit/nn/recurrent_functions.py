"""Recurrent layers and their single steps as functions of their weights, as PyTorch has them at the top.

``lstm(input, hx, params, has_biases, ...)`` takes a batch, ``lstm(data, batch_sizes, hx, params, ...)`` packed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from ..tensor import Tensor
from . import functional as F
from .recurrent_layers import LayerWeights, layers
from .recurrent_steps import KINDS, State, StepWeights
from .utils.masked import Padded

__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]

_OPTIONS = ("params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
_BATCH = ("input", "hx", *_OPTIONS, "batch_first")
_PACKED = ("data", "batch_sizes", "hx", *_OPTIONS)


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """``rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``, or packed.

    >>> import tracejit as tj
    >>> weights = [tj.ones(1, 1), tj.zeros(1, 1)]
    >>> tj.rnn_tanh(tj.ones(2, 1, 1), tj.zeros(1, 1, 1), weights, False, 1, 0.0, False, False, False)[1]
    tensor([[[0.7616]]])
    """
    return _run("rnn_tanh", "RNN_TANH", args, kwargs)


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """As ``rnn_tanh``, with the positive part.

    >>> import tracejit as tj
    >>> weights = [tj.ones(1, 1), tj.ones(1, 1)]
    >>> tj.rnn_relu(tj.ones(2, 1, 1), tj.zeros(1, 1, 1), weights, False, 1, 0.0, False, False, False)[1]
    tensor([[[2.]]])
    """
    return _run("rnn_relu", "RNN_RELU", args, kwargs)


def gru(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """As ``rnn_tanh``, of gated recurrent units.

    >>> import tracejit as tj
    >>> weights = [tj.ones(3, 1), tj.zeros(3, 1)]
    >>> tj.gru(tj.ones(1, 1, 1), tj.zeros(1, 1, 1), weights, False, 1, 0.0, False, False, False)[1]
    tensor([[[0.2048]]])
    """
    return _run("gru", "GRU", args, kwargs)


def lstm(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """As ``rnn_tanh``, of long short-term memory: ``hx`` is a pair, and so are the last two of the three results.

    >>> import tracejit as tj
    >>> weights, start = [tj.ones(4, 1), tj.zeros(4, 1)], tj.zeros(1, 1, 1)
    >>> tj.lstm(tj.ones(1, 1, 1), (start, start), weights, False, 1, 0.0, False, False, False)[2]
    tensor([[[0.5568]]])
    """
    return _run("lstm", "LSTM", args, kwargs)


def _run(name: str, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    packed = "batch_sizes" in kwargs or (len(args) > 3 and isinstance(args[3], (tuple, list)))
    names = _PACKED if packed else _BATCH
    given = dict(zip(names, args, strict=False)) | kwargs
    if given.keys() != set(names) or len(args) + len(kwargs) != len(names):
        kinds = ", ".join(type(x).__name__ for x in (*args, *kwargs.values()))
        raise ArgumentError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), but expected one of:\n"
            f" * ({', '.join(_PACKED)})\n * ({', '.join(_BATCH)})\n"
        )
    states = _states(name, mode, given["hx"])
    x = given["data" if packed else "input"]
    directions = 2 if given["bidirectional"] else 1
    weights = _weights(mode, given, directions * given["num_layers"], states)
    dropout = float(given["dropout"]) if given["train"] else 0.0
    how = (directions, dropout)
    if packed:
        return _run_packed(mode, weights, x, given["batch_sizes"], states, how)
    x = x.transpose(0, 1) if given["batch_first"] else x
    if x.ndim != 3 or any(s.ndim != 3 for s in states):
        raise RuntimeError(f"{name}: input and hidden states should have three dimensions")
    if not x.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    _check_batch(states, x.shape[1])
    found, end = layers(mode, weights, x, states, *how, None)
    return found.transpose(0, 1) if given["batch_first"] else found, *end


def _run_packed(
    mode: str,
    weights: Sequence[LayerWeights],
    x: Any,
    batch_sizes: Any,
    states: State,
    how: tuple[int, float],
) -> tuple[Any, ...]:
    known = None if how[1] else Padded.of(x)
    if known is None:
        sizes = [int(n) for n in batch_sizes.tolist()]
        _check_batch(states, sizes[0])
        found, end = layers(mode, weights, x, states, *how, sizes)
        return found, *end
    mask = known.mask.unsqueeze(2)
    _check_batch(states, known.batch.shape[1])
    found, end = layers(mode, weights, known.batch, states, *how, None, mask)
    return known.packed(found), *end


def _states(name: str, mode: str, hx: Any) -> State:
    if mode != "LSTM":
        return (hx,)
    if isinstance(hx, Tensor):
        raise ArgumentError(f"{name}(): argument 'hx' must be tuple of Tensors, not Tensor")
    if len(hx) != 2:
        raise RuntimeError(f"{name} expects two hidden states")
    return tuple(hx)


def _check_batch(states: State, samples: int) -> None:
    for state in states:
        if state.shape[1] != samples:
            raise RuntimeError(
                f"The size of the hidden state ({state.shape[1]}) must match that of the batch ({samples}) at "
                "dimension 1"
            )


def _weights(mode: str, given: dict[str, Any], rows: int, states: State) -> list[LayerWeights]:
    """The parameters of each layer and direction from all of them in a row."""
    params = list(given["params"])
    biases = bool(given["has_biases"])
    projected = mode == "LSTM" and states[0].shape[-1] != states[1].shape[-1]
    count = 2 + 2 * biases + projected
    if len(params) % count:
        raise RuntimeError("got an incorrect number of RNN parameters")
    if len(params) != rows * count:
        raise RuntimeError("Expected more weights in stacked_rnn")
    if states[0].shape[0] != rows:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    found = []
    for first in range(0, len(params), count):
        own = params[first : first + count]
        last = own.pop() if projected else None
        shifts = own[2:] if biases else (None, None)
        found.append(LayerWeights._make([*own[:2], *shifts, last]))
    return found


def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of ``rnn_tanh``. Raises ``RuntimeError`` for sizes that do not fit.

    >>> import tracejit as tj
    >>> tj.rnn_tanh_cell(tj.ones(1, 1), tj.zeros(1, 1), tj.ones(1, 1), tj.ones(1, 1))
    tensor([[0.7616]])
    """
    return _step("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """One step of ``rnn_relu``. Raises ``RuntimeError`` for sizes that do not fit.

    >>> import tracejit as tj
    >>> tj.rnn_relu_cell(tj.ones(1, 1), tj.ones(1, 1), tj.ones(1, 1), tj.ones(1, 1))
    tensor([[2.]])
    """
    return _step("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """One step of ``gru``. Raises ``RuntimeError`` for sizes that do not fit.

    >>> import tracejit as tj
    >>> tj.gru_cell(tj.ones(1, 1), tj.zeros(1, 1), tj.ones(3, 1), tj.ones(3, 1))
    tensor([[0.2048]])
    """
    return _step("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """One step of ``lstm``, a pair from a pair. Raises ``RuntimeError`` for sizes that do not fit.

    >>> import tracejit as tj
    >>> start = tj.zeros(1, 1)
    >>> tj.lstm_cell(tj.ones(1, 1), (start, start), tj.ones(4, 1), tj.ones(4, 1))[1]
    tensor([[0.5568]])
    """
    hidden, cell = _step("LSTM", input, _states("lstm_cell", "LSTM", hx), w_ih, w_hh, b_ih, b_hh)
    return hidden, cell


def _step(
    mode: str, input: Any, states: State, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any
) -> State:
    gates, step = KINDS[mode]
    if any(x.ndim != 2 for x in (input, *states)):
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}"
        )
    for number, state in enumerate(states):
        if state.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size {state.shape[0]}"
            )
    rows = gates * states[0].shape[1]
    if w_ih.shape[0] != rows:
        raise RuntimeError(
            f"weight_ih first dim must be {gates} * hidden_size = {rows}, but got {w_ih.shape[0]}"
        )
    return step(F.linear(input, w_ih, b_ih), states, StepWeights(w_hh, b_hh))
