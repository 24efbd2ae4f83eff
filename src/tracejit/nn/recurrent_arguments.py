"""What recurrent layers, and layers derived from them, ask about their arguments and weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..modes import MODES


class RecurrentArguments:
    """Names and shapes of a recurrent layer: of its weights, of its input and of its state.

    >>> import tracejit as tj
    >>> layer = tj.nn.LSTM(2, 3)
    >>> layer._all_weights
    [['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']]
    >>> layer.get_expected_hidden_size(tj.zeros(5, 4, 2), None)
    (1, 4, 3)
    """

    state_names: ClassVar[tuple[str, ...]] = ("hidden",)
    input_size: int
    hidden_size: int
    num_layers: int
    proj_size: int
    bias: bool
    batch_first: bool
    bidirectional: bool

    # --- weights ----------------------------------------------------------------------------------------------

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        return (f"_l{layer}", *((f"_l{layer}_reverse",) if self.bidirectional else ()))

    @property
    def _all_weights(self) -> list[list[str]]:
        """The names of the parameters of each layer and direction."""
        kinds = ["weight_ih", "weight_hh"]
        kinds += ["bias_ih", "bias_hh"] if self.bias else []
        kinds += ["weight_hr"] if self.proj_size else []
        suffixes = [s for layer in range(self.num_layers) for s in self._suffixes(layer)]
        return [[kind + suffix for kind in kinds] for suffix in suffixes]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters, and what took the place of some."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Iterable[Any]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            if weight is not getattr(self, name, None):
                setattr(self, name, weight)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # --- arguments --------------------------------------------------------------------------------------------

    def _sizes(self) -> tuple[int, ...]:
        """The extent of each part of the state."""
        out = self.proj_size or self.hidden_size
        return (out, self.hidden_size)[: len(self.state_names)]

    def _check_rows(self, x: Any) -> None:
        """``ValueError`` for items of another dtype than the weights, ``RuntimeError`` for other sizes."""
        own = self._flat_weights[0].dtype
        if x.dtype is not own and MODES.autocast is None:
            raise ValueError(
                f"RNN input dtype ({x.dtype!r}) does not match weight dtype ({own!r}). Convert input: "
                f"input.to({own!r}), or convert model: model.to({x.dtype!r})"
            )
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{x.shape[-1]}"
            )

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """``RuntimeError`` for a batch of sequences (packed ones: with ``batch_sizes``) that does not fit."""
        expected = 3 if batch_sizes is None else 2
        if input.ndim != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.ndim}")
        self._check_rows(input)

    def _expected(self, input: Any, batch_sizes: Any, extent: int) -> tuple[int, int, int]:
        samples = input.shape[0 if self.batch_first else 1]
        if batch_sizes is not None:
            samples = int(batch_sizes[0])
        return self.num_layers * (1 + self.bidirectional), samples, extent

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape that the state for ``input`` should have."""
        return self._expected(input, batch_sizes, self._sizes()[0])

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: Any, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """``RuntimeError`` for a state of another shape than expected."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """``RuntimeError`` for an input or a state that does not fit."""
        self.check_input(input, batch_sizes)
        states = hidden if len(self.state_names) > 1 else (hidden,)
        for name, state, extent in zip(self.state_names, states, self._sizes(), strict=True):
            expected = self._expected(input, batch_sizes, extent)
            self.check_hidden_size(state, expected, f"Expected {name} size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """The state with its samples in another order (None: the same)."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(state.index_select(1, permutation) for state in hx)
        return hx.index_select(1, permutation)
