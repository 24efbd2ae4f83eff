"""Recurrent layers over sequences: RNN, LSTM, GRU; loops of table ops over time."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..dtypes import DType
from ..ops.functions.common import constant
from . import init
from .linear import empty_parameter
from .module import Module
from .recurrent_arguments import RecurrentArguments
from .recurrent_layers import LayerWeights, layers
from .recurrent_steps import KINDS, State
from .utils.masked import Padded
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


class RNNBase(RecurrentArguments, Module):
    """Layers of one kind of recurrence, in one or both directions; use RNN, LSTM or GRU.

    Parameters are ``weight_ih_l0`` (gates * hidden, input), ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0`` for layer
    0, with ``_reverse`` appended for the other direction; all start uniform on ±1/sqrt(hidden_size).
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        sizes = input_size, hidden_size, num_layers
        _check_sizes(mode, *sizes, dropout, proj_size, bias, batch_first)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                self._make(layer, suffix, device, dtype)
        self.reset_parameters()

    def _make(self, layer: int, suffix: str, device: Any, dtype: DType | None) -> None:
        rows = KINDS[self.mode][0] * self.hidden_size
        out = self.proj_size or self.hidden_size
        columns = self.input_size if layer == 0 else out * (1 + self.bidirectional)
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, columns),
            "weight_hh": (rows, out),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, name + suffix, empty_parameter(*shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Draw new values, uniform on ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters need not lie together."""

    def extra_repr(self) -> str:
        """Sizes and what is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        if not self.bias:
            parts.append("bias=False")
        if self.batch_first:
            parts.append("batch_first=True")
        if self.dropout:
            parts.append(f"dropout={self.dropout}")
        if self.bidirectional:
            parts.append("bidirectional=True")
        return ", ".join(parts)

    # --- running ----------------------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at every step, and the last state of every layer and direction."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead"
            )
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        self._check_rows(x)
        states = self._states(hx, x, x.shape[1], alone)
        x, last = self._layers(x, states, None)
        if alone:
            return x.squeeze(1), self._public(tuple(s.squeeze(1) for s in last))
        return x.transpose(0, 1) if self.batch_first else x, self._public(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        drops = self.dropout and self.training
        known = None if drops else Padded.behind(input.data, input.batch_sizes)
        rows, mask = (input.data, None) if known is None else (known.batch, known.mask.unsqueeze(2))
        sizes = [int(n) for n in input.batch_sizes.tolist()] if known is None else None
        self._check_rows(rows)
        samples = rows.shape[1] if sizes is None else sizes[0]
        states = self._states(hx, rows, samples, False)
        if hx is not None:
            states = self.permute_hidden(states, input.sorted_indices)
        x, last = self._layers(rows, states, sizes, mask)
        x = x if known is None else known.packed(x)
        last = self.permute_hidden(last, input.unsorted_indices)
        return input._replace(data=x), self._public(last)

    def _public(self, state: State) -> Any:
        return state if len(self.state_names) > 1 else state[0]

    def _states(self, hx: Any, x: Any, samples: int, alone: bool) -> State:
        """The initial state, (layers * directions, N, extent) each; zeros by default."""
        rows = self.num_layers * (1 + self.bidirectional)
        if hx is None:
            return tuple(constant(0, x.dtype, (rows, samples, n)) for n in self._sizes())
        given = tuple(hx) if len(self.state_names) > 1 else (hx,)
        for name, state, n in zip(self.state_names, given, self._sizes(), strict=True):
            if state.ndim != (2 if alone else 3):
                kind, rank = ("unbatched 2-D", "2-D") if alone else ("batched 3-D", "3-D")
                raise RuntimeError(
                    f"For {kind} input, hx should also be {rank} but got {state.ndim}-D tensor"
                )
            expected = (rows, n) if alone else (rows, samples, n)
            self.check_hidden_size(state, expected, f"Expected {name} size {{}}, got {{}}")
        return tuple(s.unsqueeze(1) for s in given) if alone else given

    def _layers(
        self, x: Any, states: State, sizes: list[int] | None, mask: Any = None
    ) -> tuple[Any, State]:
        suffixes = [s for layer in range(self.num_layers) for s in self._suffixes(layer)]
        weights = [LayerWeights(*self._given(suffix)) for suffix in suffixes]
        dropout = self.dropout if self.training else 0.0
        return layers(self.mode, weights, x, states, 1 + self.bidirectional, dropout, sizes, mask)

    def _given(self, suffix: str) -> list[Any]:
        return [getattr(self, name + suffix, None) for name in LayerWeights._fields]


def _check_sizes(
    mode: str,
    input_size: int,
    hidden_size: int,
    layers: int,
    dropout: float,
    proj_size: int,
    bias: bool,
    batch_first: bool,
) -> None:
    if mode not in KINDS:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if dropout > 0 and layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and num_layers={layers}",
            stacklevel=4,
        )


def _refuse_projections(kind: str, given: dict[str, Any]) -> None:
    """Say that ``kind`` has no ``proj_size``, by its error, and refuse other unknown options as any function does."""
    if "proj_size" in given:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    if given:
        name = next(iter(given))
        raise TypeError(f"{kind}.__init__() got an unexpected keyword argument {name!r}")


class RNN(RNNBase):
    """h' = tanh(W x + b + V h + c), or relu, for (T, N, input) or (T, input); ``batch_first``: (N, T, input).

    Raises ``ValueError`` or ``RuntimeError`` for sizes that do not fit.

    >>> import tracejit as tj
    >>> outputs, last = tj.nn.RNN(3, 4)(tj.zeros(5, 2, 3))
    >>> outputs.shape, last.shape
    (tracejit.Size([5, 2, 4]), tracejit.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        **projected: Any,
    ) -> None:
        _refuse_projections("RNN", projected)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory for (T, N, input) or (T, input); ``batch_first``: (N, T, input).

    The state is (hidden, cell); ``proj_size`` projects the hidden part. Raises ``ValueError`` or ``RuntimeError`` for
    sizes that do not fit. Source: Hochreiter and Schmidhuber, 1997.

    >>> import tracejit as tj
    >>> outputs, (hidden, cell) = tj.nn.LSTM(3, 4, bidirectional=True)(tj.zeros(5, 2, 3))
    >>> outputs.shape, cell.shape
    (tracejit.Size([5, 2, 8]), tracejit.Size([2, 2, 4]))
    """

    state_names = ("hidden[0]", "hidden[1]")

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape that the cell's part of the state for ``input`` should have."""
        return self._expected(input, batch_sizes, self.hidden_size)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    """Gated recurrent units for (T, N, input) or (T, input); ``batch_first``: (N, T, input).

    Raises ``ValueError`` or ``RuntimeError`` for sizes that do not fit. Source: Cho et al., 2014.

    >>> import tracejit as tj
    >>> tj.nn.GRU(3, 4, num_layers=2)(tj.zeros(5, 2, 3))[1].shape
    tracejit.Size([2, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        **projected: Any,
    ) -> None:
        _refuse_projections("GRU", projected)
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
