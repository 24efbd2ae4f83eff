"""Module paths that PyTorch has and this package does not: ``from tracejit.optim.adamw import AdamW`` finds the class.

Every path stands for the packages that define its names. They are made when the package is imported, from what is
loaded then; nothing here has a value of its own.
"""

from __future__ import annotations

import sys
import typing
from types import ModuleType
from typing import Any

from . import amp, autograd, distributions, jit, nn, optim, profiler, utils
from .distributions import transforms as _transforms
from .func import functional_call
from .ops.table import FUNCTIONS

__all__: list[str] = []

_DISTRIBUTIONS = (
    *("bernoulli", "beta", "binomial", "categorical", "cauchy", "chi2", "continuous_bernoulli"),
    *("dirichlet", "exponential", "fishersnedecor", "gamma", "geometric", "gumbel", "half_cauchy"),
    *("half_normal", "independent", "inverse_gamma", "kl", "kumaraswamy", "laplace", "log_normal"),
    *("logistic_normal", "lowrank_multivariate_normal", "mixture_same_family", "multinomial"),
    *("multivariate_normal", "negative_binomial", "normal", "one_hot_categorical", "pareto"),
    *("poisson", "relaxed_bernoulli", "relaxed_categorical", "studentT", "uniform", "von_mises"),
    *("transformed_distribution", "weibull", "wishart"),
)
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


def _make(path: str, *sources: Any, **names: Any) -> None:
    """The module ``path`` below this package, with the public names of ``sources``, unless there is one."""
    full = f"{__package__}.{path}"
    parent, _, last = full.rpartition(".")
    if full in sys.modules:
        return
    made = ModuleType(full, f"What PyTorch keeps in ``torch.{path}``.")
    for source in sources:
        for name in getattr(source, "__all__", None) or _public(source):
            setattr(made, name, getattr(source, name))
    made.__dict__.update(names)
    sys.modules[full] = made
    if parent in sys.modules and not hasattr(sys.modules[parent], last):
        setattr(sys.modules[parent], last, made)


def _public(source: Any) -> list[str]:
    return [name for name in vars(source) if not name.startswith("_")]


def _make_all() -> None:
    for name in ("autocast_mode", "grad_scaler"):
        _make(f"amp.{name}", amp)
    for name in _DISTRIBUTIONS:
        _make(f"distributions.{name}", distributions, _transforms)
    for name in _OPTIMIZERS:
        _make(f"optim.{name}", optim)
    for name in ("dataloader", "_utils", "_utils.collate"):
        _make(f"utils.data.{name}", utils.data)
    _make("nn.utils.stateless", functional_call=functional_call)
    _make("autograd.variable", Variable=autograd.Variable)
    _make("autograd.anomaly_mode", autograd)
    _make("functional", **{name: FUNCTIONS[name] for name in _FUNCTIONAL if name in FUNCTIONS})
    _make("jit.annotations", typing)
    _make("_jit_internal", typing, **{name: getattr(jit, name) for name in _MARKS})
    _make("autograd.profiler", profiler)
    jit.ScriptModule = jit.RecursiveScriptModule = nn.Module  # type: ignore[attr-defined]


_make_all()
