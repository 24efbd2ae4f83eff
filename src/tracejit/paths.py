"""Module paths that PyTorch has and this package does not: ``from tracejit.optim.adamw import AdamW`` finds the class.

Every path stands for the packages that define its names. They are made when the package is imported, from what is
loaded then (those of distributions with them); nothing here has a value of its own.
"""

from __future__ import annotations

import typing

from . import amp, autograd, jit, nn, optim, profiler, utils
from .autograd.handle import RemovableHandle
from .func import functional_call
from .made_modules import make_module
from .ops.table import FUNCTIONS

__all__: list[str] = []

_OPTIMIZERS = ("adadelta", "adamax", "nadam", "radam", "asgd", "rprop", "adamw", "sparse_adam")
_FUNCTIONAL = (
    *(
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "broadcast_tensors",
        "cartesian_prod",
    ),
    *("cdist", "chain_matmul", "einsum", "istft", "meshgrid", "norm", "split", "stft", "tensordot"),
    *("unique", "unique_consecutive"),
)
_MARKS = ("Final", "export", "ignore", "unused")


def _make_all() -> None:
    for name in ("autocast_mode", "grad_scaler"):
        make_module(f"amp.{name}", amp)
    for name in _OPTIMIZERS:
        make_module(f"optim.{name}", optim)
    for name in ("dataloader", "_utils", "_utils.collate"):
        make_module(f"utils.data.{name}", utils.data)
    make_module("nn.utils.stateless", functional_call=functional_call)
    make_module("utils.hooks", RemovableHandle=RemovableHandle)
    make_module("autograd.variable", Variable=autograd.Variable)
    make_module("autograd.anomaly_mode", autograd)
    make_module(
        "functional", **{name: FUNCTIONS[name] for name in _FUNCTIONAL if name in FUNCTIONS}
    )
    make_module("jit.annotations", typing)
    make_module("_jit_internal", typing, **{name: getattr(jit, name) for name in _MARKS})
    make_module("autograd.profiler", profiler)
    jit.ScriptModule = jit.RecursiveScriptModule = nn.Module  # type: ignore[attr-defined]


_make_all()
