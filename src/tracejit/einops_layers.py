"""``einops`` as layers: ``from tracejit.einops_layers import Rearrange, Reduce, EinMix``.

They are what ``einops.layers.torch`` has for models of PyTorch, with the same arguments, as modules of this package.
Where PyTorch is not installed, that module has them too. ``einops`` is imported when the first of them is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .nn import Module, Parameter
from .ops.functions.einsum import einsum
from .ops.functions.factories import zeros

LAYERS = ("EinMix", "Rearrange", "Reduce")


def __getattr__(name: str) -> Any:
    if name not in LAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _classes()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *LAYERS})


def _apply(self: Any, input: Any) -> Any:
    return self._apply_recipe(input)


def _create_parameters(
    self: Any, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
) -> None:
    self.weight = Parameter(zeros(weight_shape).uniform_(-weight_bound, weight_bound))
    self.bias = None
    if bias_shape is not None:
        self.bias = Parameter(zeros(bias_shape).uniform_(-bias_bound, bias_bound))


def _create_rearrange_layers(
    self: Any, pre_pattern: Any, pre_lengths: Any, post_pattern: Any, post_lengths: Any
) -> None:
    arrange = _classes()["Rearrange"]
    pairs = (pre_pattern, pre_lengths), (post_pattern, post_lengths)
    self.pre_rearrange, self.post_rearrange = (
        None if pattern is None else arrange(pattern, **lengths) for pattern, lengths in pairs
    )


def _mix(self: Any, input: Any) -> Any:
    if self.pre_rearrange is not None:
        input = self.pre_rearrange(input)
    result = einsum(self.einsum_pattern, input, self.weight)
    if self.bias is not None:
        result = result + self.bias
    return result if self.post_rearrange is None else self.post_rearrange(result)


_APPLIED: dict[str, Any] = {"forward": _apply}
_MIXED: dict[str, Any] = {
    "_create_parameters": _create_parameters,
    "_create_rearrange_layers": _create_rearrange_layers,
    "forward": _mix,
}


@cache
def _classes() -> dict[str, type]:
    """The layers: patterns are read, and mistakes in them told, by the classes that all layers of ``einops`` have."""
    layers, mix = import_module("einops.layers"), import_module("einops.layers._einmix")
    bases: dict[str, tuple[Any, dict[str, Any], str]] = {
        "Rearrange": (layers.RearrangeMixin, _APPLIED, "``einops.rearrange`` as a layer."),
        "Reduce": (layers.ReduceMixin, _APPLIED, "``einops.reduce`` as a layer."),
        "EinMix": (mix._EinmixMixin, _MIXED, "``einops.einsum`` with learned weights as a layer."),
    }
    return {
        name: type(name, (reads, Module), {**own, "__doc__": text, "__module__": __name__})
        for name, (reads, own, text) in bases.items()
    }
