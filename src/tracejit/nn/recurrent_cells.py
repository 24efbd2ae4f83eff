"""Single steps of recurrent layers as modules: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dtypes import DType
from ..ops.functions.common import constant
from . import functional as F
from . import init
from .linear import empty_parameter
from .module import Module
from .recurrent_steps import KINDS, State, StepWeights

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """One step of a recurrence; use RNNCell, LSTMCell or GRUCell."""

    kind: ClassVar[str] = "RNN_TANH"
    parts: ClassVar[int] = 1
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = empty_parameter(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = empty_parameter(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            shift = empty_parameter(rows, device=device, dtype=dtype) if bias else None
            self.register_parameter(name, shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform on ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return (
            f"{self.input_size}, {self.hidden_size}"
            + ("" if self.bias is True else f", bias={self.bias}")
            + ("" if nonlinearity == "tanh" else f", nonlinearity={nonlinearity}")
        )

    def _kind(self) -> str:
        return self.kind

    def _states(self, x: Any, hx: Any, alone: bool) -> State:
        if hx is None:
            zeros = constant(0, x.dtype, (x.shape[0], self.hidden_size))
            return (zeros,) * self.parts
        given = tuple(hx) if self.parts > 1 else (hx,)
        for position, state in enumerate(given):
            if state.ndim not in (1, 2):
                raise ValueError(
                    f"{type(self).__name__}: Expected hx{f'[{position}]' * (self.parts > 1)} to be 1D or "
                    f"2D, got {state.ndim}D instead"
                )
        states = tuple(s.unsqueeze(0) if alone else s for s in given)
        for number, state in enumerate(states):
            if state.shape[0] != x.shape[0]:
                raise RuntimeError(
                    f"Input batch size {x.shape[0]} doesn't match hidden{number} batch size {state.shape[0]}"
                )
            if state.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{number} has inconsistent hidden_size: got {state.shape[1]}, expected {self.hidden_size}"
                )
        return states

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state for (N, input) or (input,)."""
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 1D or 2D, got {input.ndim}D instead"
            )
        alone = input.ndim == 1
        x = input.unsqueeze(0) if alone else input
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}"
            )
        states = self._states(x, hx, alone)
        gates = F.linear(x, self.weight_ih, self.bias_ih)
        step = KINDS[self._kind()][1]
        state = step(gates, states, StepWeights(self.weight_hh, self.bias_hh))
        state = tuple(s.squeeze(0) for s in state) if alone else state
        return state if self.parts > 1 else state[0]


class RNNCell(RNNCellBase):
    """h' = tanh(W x + b + V h + c), or relu, for (N, input) or (input,).

    >>> import tracejit as tj
    >>> tj.nn.RNNCell(3, 4)(tj.zeros(2, 3)).shape
    tracejit.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _kind(self) -> str:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return f"RNN_{self.nonlinearity.upper()}"


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (hidden, cell) for (N, input) or (input,).

    >>> import tracejit as tj
    >>> hidden, cell = tj.nn.LSTMCell(3, 4)(tj.zeros(2, 3))
    >>> hidden.shape, cell.shape
    (tracejit.Size([2, 4]), tracejit.Size([2, 4]))
    """

    kind, parts = "LSTM", 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)


class GRUCell(RNNCellBase):
    """One step of a GRU for (N, input) or (input,).

    >>> import tracejit as tj
    >>> tj.nn.GRUCell(3, 4)(tj.zeros(3)).shape
    tracejit.Size([4])
    """

    kind = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)
