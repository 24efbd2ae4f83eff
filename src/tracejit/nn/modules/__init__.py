"""Layers under the module paths PyTorch keeps them in, as ``from tracejit.nn.modules.batchnorm import BatchNorm2d``.

Every path is made from the file of this package that defines the layers. Base classes that programs test for with
``isinstance`` (``_BatchNorm``, ``_ConvNd``, ``_Loss``, ...) have PyTorch's names here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...made_modules import empty_module
from .. import (
    activation,
    adaptive_softmax,
    attention,
    bags,
    batchnorm,
    channel_dropout,
    containers,
    convolution,
    dropout,
    fractional_pooling,
    global_hooks,
    lazy,
    linear,
    loss,
    margin_loss,
    normalization,
    padding,
    parameter_containers,
    pooling,
    printing,
    recurrent,
    recurrent_cells,
    resizing,
    softmax,
    state,
    transformer,
    transformer_layers,
)
from .. import module as module_file
from ..parameter import Parameter
from . import utils as utils
from .activation_names import _get_activation_fn

_CONTAINERS = (containers, parameter_containers)
_SOURCES: dict[str, tuple[ModuleType, ...]] = {
    "activation": (activation, softmax, attention, channel_dropout),
    "adaptive": (adaptive_softmax,),
    "batchnorm": (batchnorm, lazy),
    "channelshuffle": (resizing,),
    "container": _CONTAINERS,
    "conv": (convolution, lazy),
    "distance": (margin_loss,),
    "dropout": (channel_dropout, dropout),
    "flatten": (linear,),
    "fold": (resizing,),
    "instancenorm": (batchnorm, lazy),
    "linear": (linear, attention, lazy),
    "loss": (loss, margin_loss),
    "module": (module_file, global_hooks),
    "normalization": (normalization, batchnorm),
    "padding": (padding,),
    "pixelshuffle": (resizing,),
    "pooling": (pooling, fractional_pooling),
    "rnn": (recurrent, recurrent_cells),
    "sparse": (linear, bags),
    "transformer": (transformer, transformer_layers),
    "upsampling": (resizing,),
}
_NAMES: dict[str, dict[str, Any]] = {
    "batchnorm": {"_BatchNorm": batchnorm._BatchNorm, "_NormBase": batchnorm._RunningNorm},
    "conv": {"_ConvNd": convolution._Convolution, "_ConvTransposeNd": convolution._ConvTranspose},
    "instancenorm": {"_InstanceNorm": batchnorm._InstanceNorm},
    "dropout": {"_DropoutNd": dropout.Dropout},
    "loss": {"_Loss": loss._Loss, "_WeightedLoss": loss._WeightedLoss},
    "module": {
        "_EXTRA_STATE_KEY_SUFFIX": state.EXTRA,
        "_IncompatibleKeys": state._IncompatibleKeys,
        "_addindent": printing.indent,
    },
    "normalization": {"_shape_t": int | list[int] | tuple[int, ...]},
    "pooling": {
        "_AdaptiveAvgPoolNd": pooling._Adaptive,
        "_AdaptiveMaxPoolNd": pooling._AdaptiveMax,
        "_AvgPoolNd": pooling._AvgPool,
        "_MaxPoolNd": pooling._MaxPool,
        "_MaxUnpoolNd": pooling._MaxUnpool,
    },
    "transformer": {
        "_get_activation_fn": _get_activation_fn,
        "_get_clones": transformer._copies,
    },
}


def _make(name: str) -> ModuleType:
    """The module that stands for one of PyTorch's files."""
    made = empty_module(f"{__name__}.{name}", f"What PyTorch keeps in ``torch.nn.modules.{name}``.")
    for source in _SOURCES[name]:
        for public in getattr(source, "__all__", ()) or _classes(source):
            setattr(made, public, getattr(source, public))
    made.__dict__.update(_NAMES.get(name, {}), Parameter=Parameter)
    return made


def _classes(source: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(source).items()
        if isinstance(value, type) and value.__module__ == source.__name__ and name[0] != "_"
    ]


_MADE = {name: _make(name) for name in _SOURCES}
globals().update(_MADE)
for _made in _MADE.values():
    globals().update({n: v for n, v in vars(_made).items() if isinstance(v, type)})

__all__ = sorted({*_MADE, "utils"})
