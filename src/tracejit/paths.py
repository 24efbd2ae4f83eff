"""Module paths that PyTorch has and this package does not: ``from tracejit.optim.adamw import AdamW`` finds the class.

Every path stands for the packages that define its names. They are made when the package is imported, from what is
loaded then (those of distributions with them); nothing here has a value of its own.
"""

from __future__ import annotations

import contextlib
import sys
import typing
import warnings
from collections.abc import Callable
from typing import Any

from . import (
    amp,
    autograd,
    control_flow,
    nn,
    optim,
    overrides,
    profiler,
    quantization,
    scans,
    scripting,
    utils,
)
from .aten import ATEN
from .autograd.function import FunctionNode
from .autograd.handle import RemovableHandle
from .cuda import seeds
from .func import functional_call
from .made_modules import make_module
from .nn import lazy, parallel, recurrent_functions, reductions, scattering, uninitialized
from .ops.functions import (
    checked_systems,
    exponents,
    factorizations,
    histograms,
    linear_algebra,
    older,
    reflections,
    return_types,
    systems,
)
from .ops.table import FUNCTIONS
from .scripting import unchanged
from .tensor import Tensor
from .utils import flat_buffers
from .utils.data import loader
from .utils.data.collate import np_str_obj_array_pattern, pinned_batch

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
    *("unique", "unique_consecutive", "broadcast_shapes", "pca_lowrank", "svd_lowrank"),
    *("lu", "unravel_index"),
)
_MARKS = ("Final", "export", "ignore", "unused")


def _boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """One function of two: which runs, its own argument tells."""

    def either(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if len(args) > arg_index else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    either.__name__, either.__module__ = func_name, module_name
    return either


def _unserializable_hook(f: Any) -> Any:
    """Mark a hook that is left out where its tensor is written to a file."""
    f.__torch_unserializable__ = True
    return f


def _warn_if_has_hooks(tensor: Any) -> None:
    """Warn of hooks of a tensor that a file would not have."""
    for hook in (tensor._hooks or {}).values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


_HOOK_MARKS = {"unserializable_hook": _unserializable_hook, "warn_if_has_hooks": _warn_if_has_hooks}


def _is_fake(x: object) -> bool:
    """Is this a tensor that only pretends to have values? Compiled code records real runs, so there are none."""
    return False


def _results() -> dict[str, Any]:
    """Classes of results by the names of the functions that give them."""
    f = factorizations
    found = {
        "linalg_cholesky_ex": checked_systems.Factor,
        "linalg_eig": f.GeneralEigen,
        "linalg_inv_ex": f.Inverse,
        "linalg_ldl_factor": f.PackedLDL,
        "linalg_ldl_factor_ex": f.PackedLDLInfo,
        "linalg_lu": f.LUFactors,
        "linalg_lu_factor": f.PackedLU,
        "linalg_lu_factor_ex": f.PackedLUInfo,
        "linalg_solve_ex": f.Solution,
        "frexp": exponents.MantissaAndExponent,
        "geqrf": reflections.Reflections,
        "histogram": histograms.Histogram,
        "linalg_eigh": linear_algebra.Eigen,
        "linalg_lstsq": systems.LeastSquares,
        "linalg_svd": linear_algebra.SingularValues,
        "lu_unpack": f.LUFactors,
        "svd": older.Decomposition,
        "triangular_solve": systems.TriangularSolution,
    }
    for name in ("linalg_qr", "qr"):
        found[name] = linear_algebra.Factors
    for name in ("linalg_slogdet", "slogdet"):
        found[name] = linear_algebra.SignAndLogarithm
    return found


def _make_all() -> None:
    for name in ("autocast_mode", "grad_scaler"):
        make_module(f"amp.{name}", amp)
    for name in _OPTIMIZERS:
        make_module(f"optim.{name}", optim)
    _make_data()
    sys.modules["tracejit.ops"].aten = ATEN  # type: ignore[attr-defined]
    make_module("nn.utils.stateless", functional_call=functional_call)
    make_module("_utils", flat_buffers)
    make_module("return_types", return_types, **_results())
    make_module("_higher_order_ops", control_flow, scans)
    make_module("_higher_order_ops.associative_scan", scans)
    make_module("nn._reduction", reductions)
    make_module("_VF", recurrent_functions)
    make_module("_subclasses")
    make_module(
        "_subclasses.fake_tensor", is_fake=_is_fake, unset_fake_temporarily=contextlib.nullcontext
    )
    sys.modules["tracejit"].torch = sys.modules["tracejit"]  # type: ignore[attr-defined]  # by this name in itself
    make_module("utils.hooks", RemovableHandle=RemovableHandle, **_HOOK_MARKS)
    make_module("autograd.variable", Variable=autograd.Variable)
    make_module("autograd.anomaly_mode", autograd)
    make_module(
        "functional", **{name: FUNCTIONS[name] for name in _FUNCTIONAL if name in FUNCTIONS}
    )
    make_module("cuda.random", seeds)
    make_module("cuda.amp.grad_scaler", GradScaler=amp.GradScaler)
    make_module("cuda.amp.autocast_mode", amp.on_cuda.amp)
    sys.modules["tracejit.autograd.function"].FunctionCtx = FunctionNode  # type: ignore[attr-defined]
    marks = {name: getattr(scripting, name) for name in _MARKS}
    others = ("_overload", "_overload_method", "_copy_to_script_wrapper")
    marks.update(dict.fromkeys(others, unchanged))
    make_module("_jit_internal", typing, boolean_dispatch=_boolean_dispatch, **marks)
    make_module("ao", quantization=quantization)
    make_module("ao.quantization", quantization)
    make_module("autograd.profiler", profiler, EventList=profiler.Averages)
    make_module("nn.modules.lazy", lazy)
    for name in ("distributed", "data_parallel"):
        make_module(f"nn.parallel.{name}", parallel)
    make_module("nn.parallel.scatter_gather", scattering)
    asked = {name: getattr(overrides, name) for name in overrides.__all__ if "_torch_f" in name}
    sys.modules["tracejit.nn.functional"].__dict__.update(asked, _Reduction=reductions)
    sys.modules["tracejit.nn.parallel"].__dict__.update(
        gather=scattering.gather, scatter=scattering.scatter
    )
    for name in uninitialized.__all__:
        setattr(sys.modules["tracejit.nn.parameter"], name, getattr(uninitialized, name))


def _make_data() -> None:
    make_module("utils.data._utils", utils.data)
    own = {"np_str_obj_array_pattern": np_str_obj_array_pattern}
    make_module("utils.data._utils.collate", utils.data.collate, **own)
    walks = {
        w.__name__: w
        for w in (
            loader._BaseDataLoaderIter,
            loader._SingleProcessDataLoaderIter,
            loader._MultiProcessingDataLoaderIter,
        )
    }
    make_module("utils.data.dataloader", utils.data, **walks)
    make_module("utils.data._utils.pin_memory", pin_memory=pinned_batch)
    make_module(
        "utils.data._utils.worker",
        _generate_state=loader.seeds_of_worker,
        _worker_info=None,
        get_worker_info=loader.get_worker_info,
    )


def names_of_jit() -> dict[str, Any]:
    """What ``torch.jit`` has besides the marks of :mod:`tracejit.scripting`.

    >>> names_of_jit()["ScriptModule"].__name__
    'Module'
    """
    make_module("jit.annotations", typing, **{f"BroadcastingList{n}": list for n in (1, 2, 3)})
    decorators = ("_overload", "_overload_method", "_script_if_tracing")
    return {
        "Error": scripting.Error,
        "TracerWarning": scripting.TracerWarning,
        "isinstance": scripting.is_of_type,
        **dict.fromkeys(decorators, unchanged),
        **dict.fromkeys(("ScriptModule", "RecursiveScriptModule"), nn.Module),
        "annotations": sys.modules[f"{__package__}.jit.annotations"],
    }


_make_all()
make_module("_tensor", Tensor=Tensor)
