"""What optimizers written for PyTorch import from ``torch.optim.optimizer`` besides the base class.

Steps are ordinary Python, recorded or not, so whatever asks for another implementation while compiling gets the plain
one: tensors are updated one by one, and what is compiled becomes few kernels anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from .. import dtypes
from ..autograd.grad_mode import set_grad_enabled
from ..device import device as Device
from ..ops.table import FUNCTIONS
from ..scripting import unchanged
from ..tensor import Tensor
from ..utils._foreach_utils import _get_fused_kernels_supported_devices
from .maths import sqrt

__all__ = [
    *("Args", "DeviceDict", "DeviceDtypeDict", "GlobalOptimizerPostHook", "GlobalOptimizerPreHook"),
    *("Kwargs", "ParamsT", "StateDict", "params_t", "required", "_RequiredParameter"),
    *("_capturable_doc", "_differentiable_doc", "_foreach_doc", "_fused_doc", "_maximize_doc"),
    *("_params_doc", "_default_to_fused_or_foreach", "_device_dtype_check_for_fused"),
    *("_disable_dynamo_if_unsupported", "_dispatch_sqrt", "_get_capturable_supported_devices"),
    *("_get_scalar_dtype", "_get_value", "_stack_if_compiling", "_to_scalar"),
    *("_use_grad_for_differentiable", "_view_as_real"),
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]
StateDict: TypeAlias = dict[str, Any]
DeviceDict: TypeAlias = dict[Device | None, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[Device, dtypes.DType] | None, Tensor]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
params_t: TypeAlias = ParamsT  # as it was spelled before
GlobalOptimizerPreHook: TypeAlias = Callable[[Any, Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook: TypeAlias = Callable[[Any, Args, Kwargs], None]

_params_doc = "params (iterable): parameters, pairs of names and parameters, or dicts of groups"
_foreach_doc = "foreach (bool, optional): update all parameters together (default: None)"
_fused_doc = "fused (bool, optional): use the fused implementation (default: None)"
_capturable_doc = "capturable (bool, optional): keep step counts on the device (default: False)"
_differentiable_doc = "differentiable (bool, optional): record the update itself (default: False)"
_maximize_doc = "maximize (bool, optional): follow the gradient upwards (default: False)"


class _RequiredParameter:
    """The default of a hyperparameter that must be given."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _use_grad_for_differentiable(func: F) -> F:
    """A method of an optimizer that has a history only where ``defaults["differentiable"]`` says so.

    >>> import tracejit as tj
    >>> class Asked:
    ...     defaults = {"differentiable": False}
    ...     step = _use_grad_for_differentiable(lambda self: tj.is_grad_enabled())
    >>> Asked().step()
    False
    """

    @functools.wraps(func)
    def with_mode(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return with_mode  # type: ignore[return-value]


def _get_value(x: Any) -> Any:
    """The number in a tensor with one element; anything else as it is.

    >>> import tracejit as tj
    >>> _get_value(tj.tensor(2.0)), _get_value(3)
    (2.0, 3)
    """
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: T) -> T:
    """``x`` itself: lists stay lists.

    >>> _stack_if_compiling([1, 2])
    [1, 2]
    """
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The square root of a tensor or a number.

    >>> _dispatch_sqrt(4.0)
    2.0
    """
    return sqrt(x)


def _to_scalar(x: Any) -> Any:
    """A tensor without its dimensions of size 1; anything else as it is.

    >>> import tracejit as tj
    >>> _to_scalar(tj.ones(1)), _to_scalar(0.5)
    (tensor(1.), 0.5)
    """
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Put views of real and imaginary parts in place of complex tensors, and of what the other lists have beside them.

    >>> import tracejit as tj
    >>> params, grads = [tj.ones(2, dtype=tj.complex64), tj.ones(1)], [tj.ones(2).cfloat(), tj.ones(1)]
    >>> _view_as_real(params, grads); [x.shape for x in (*params, *grads)]
    [tracejit.Size([2, 2]), tracejit.Size([1]), tracejit.Size([2, 2]), tracejit.Size([1])]
    """
    complex_ones = [index for index, x in enumerate(params) if x.dtype.is_complex]
    for row in (params, *state_and_grads):
        for index in complex_ones:
            row[index] = FUNCTIONS["view_as_real"](row[index])


def _get_scalar_dtype(is_fused: bool | None = None) -> dtypes.DType:
    """The dtype of step counts: double precision where that is the default, and no program counts.

    >>> _get_scalar_dtype()
    tracejit.float32
    """
    double = dtypes.get_default_dtype() is dtypes.float64 and not is_fused
    return dtypes.float64 if double else dtypes.float32


def _default_to_fused_or_foreach(
    params: Sequence[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether to take a fused or a list implementation where nothing is said: neither, whatever is asked.

    >>> _default_to_fused_or_foreach([], False)
    (False, False)
    """
    return False, False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raises ``RuntimeError`` for a parameter that is no floating-point tensor on a supported device.

    >>> import tracejit as tj
    >>> _device_dtype_check_for_fused(tj.ones(2))
    """
    kinds = [
        x for x in _get_fused_kernels_supported_devices() if x != "cuda" or not cuda_unsupported
    ]
    if p.device.type not in kinds or not p.dtype.is_floating_point:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {kinds} but {p.dtype} and {p.device.type}"
        )


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The kinds of device whose optimizers may keep step counts beside the parameters.

    >>> _get_capturable_supported_devices()
    ['cuda']
    """
    return ["cuda"]


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """A decorator without effect: what runs in compiled code is what runs anywhere.

    >>> _disable_dynamo_if_unsupported(single_tensor_fn=min)(max) is max
    True
    """
    return unchanged
