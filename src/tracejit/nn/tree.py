"""The tree of modules: walking it, changing all of it (dtype, mode, gradients), printing it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from .. import dtypes
from ..autograd.slots import gradient_of, set_gradient
from ..device import check_device
from ..dtypes import DType
from ..modes import MODES
from ..ops.elementwise import cast
from ..ops.table import FUNCTIONS
from ..retired import retire
from ..tensor import Tensor
from .printing import module_repr
from .structure import changed

if TYPE_CHECKING:
    from .module import Module
    from .parameter import Parameter

T = TypeVar("T", bound="ModuleTree")


class ModuleTree:
    """What a module does over itself and all modules below it."""

    training: bool
    # Annotations that `typing.get_type_hints` can look up: programs ask modules for theirs.
    _parameters: dict[str, Any]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]

    # --- walking ----------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it with dotted names, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it, each once unless ``remove_duplicate=False``."""
        found = self.named_modules(remove_duplicate=remove_duplicate)
        return (module for _, module in found)

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules directly below with their names, each once."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules directly below, each once."""
        return (module for _, module in self.named_children())

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        own = [(prefix, self)]
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else own
        )
        for path, module in modules:
            for name, member in getattr(module, table).items():
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names; a shared one appears once unless ``remove_duplicate=False``."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters of this module and (with ``recurse``) of all below it."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers of this module and (with ``recurse``) of all below it."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """The module at a dotted path; ``AttributeError`` naming the part that is missing."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at a dotted path whose parent exists; ``strict`` wants one to be there already."""
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError("Cannot set the submodule without a target name!")
        parent = self.get_submodule(path)
        if hasattr(parent, name) and not isinstance(getattr(parent, name), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def _get_member(self, target: str, table: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in getattr(module, table):
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Any:
        """The parameter at a dotted path; ``AttributeError`` when there is none."""
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Any:
        """The buffer at a dotted path; ``AttributeError`` when there is none."""
        return self._get_member(target, "_buffers", "a buffer")

    # --- changing everything ----------------------------------------------------------------------------------

    def apply(self: T, fn: Callable[[Any], Any]) -> T:
        """Call ``fn`` on every module below and then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self: T, mode: bool = True) -> T:
        """Set training mode here and below (dropout drops, batch statistics move)."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        if self.training is not mode:
            self.training = mode
        for (
            child
        ) in self.children():  # some keep parts as they are: batch statistics that stay frozen
            child.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Set ``requires_grad`` of every parameter."""
        for module in self.modules():
            for parameter in module._parameters.values():
                if parameter is not None and parameter.requires_grad != requires_grad:
                    parameter.requires_grad_(requires_grad)
                    changed(module)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of every parameter, or overwrite them with zeros."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replace the values of every parameter and buffer by ``fn`` of them; the objects stay the same.

        A module that has other tensors replaces them in an ``_apply`` of its own.
        """
        conversion = fn if isinstance(fn, _Conversion) else _Conversion(fn)
        for child in self.children() if recurse else ():
            child._apply(conversion)
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if tensor is not None and conversion.replaces(tensor):
                changed(self)
        return self

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move to a device without copying numbers: parameters and buffers get memory that holds nothing yet.

        >>> import tracejit as tj
        >>> layer = tj.nn.Linear(3, 2, device="meta").to_empty(device="cpu")
        >>> layer.weight.device, layer.weight.requires_grad
        (device(type='cpu'), True)
        """
        make = FUNCTIONS["empty_like"]
        return self._apply(lambda t: make(t, device=device), recurse)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Convert parameters and buffers: ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``.

        Only floating point and complex members change dtype. Raises ``TypeError`` for other dtypes.
        """
        dtype, device = _wanted(args, kwargs)
        if dtype is not None and not dtype.is_differentiable:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype!r}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )
        if dtype is None and device is None:
            return self
        return self._apply(_to(dtype, device, True))

    def type(self: T, dst_type: Any) -> T:
        """Convert every parameter and buffer to ``dst_type``: a dtype, a type of tensors, or its name."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self: T) -> T:
        """Floating point members as float32; complex ones stay."""
        return self._apply(_to(dtypes.float32))

    def double(self: T) -> T:
        """Floating point members as float64; complex ones stay."""
        return self._apply(_to(dtypes.float64))

    def half(self: T) -> T:
        """Floating point members as float16; complex ones stay."""
        return self._apply(_to(dtypes.float16))

    def bfloat16(self: T) -> T:
        """Floating point members as bfloat16; complex ones stay."""
        return self._apply(_to(dtypes.bfloat16))

    def cpu(self: T) -> T:
        """Everything on the CPU."""
        return self._apply(_to(None, check_device("cpu")))

    def cuda(self: T, device: Any = None) -> T:
        """Everything on a GPU; ``RuntimeError`` where there is none."""
        return self._apply(_to(None, check_device("cuda" if device is None else device)))

    # --- printing ---------------------------------------------------------------------------------------------

    def share_memory(self: T) -> T:
        """The module itself: values travel to other processes as copies."""
        return self

    def extra_repr(self) -> str:
        """What ``repr`` shows in the parentheses after the name."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return module_repr(self)


def clear_grad(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a gradient, or overwrite it with zeros after cutting it from its history."""
    if set_to_none:  # unread: a recorded run does not depend on what was there
        if MODES.recorder is not None or parameter._grad is not None:
            set_gradient(parameter, None)
        return
    grad = gradient_of(parameter)
    if grad is None:
        return
    if grad.grad_fn is not None:
        grad = grad.detach()
        parameter.grad = grad
    grad.zero_()


class _Conversion:
    """A function of tensors that gives each its new values once, however many modules share it."""

    def __init__(self, fn: Callable[[Tensor], Tensor]) -> None:
        self.fn = fn
        self.found: dict[int, tuple[Tensor, bool]] = {}  # by identity; the tensors stay meanwhile

    def __call__(self, tensor: Tensor) -> Tensor:
        return self.fn(tensor)

    def replaces(self, tensor: Tensor) -> bool:
        """Are the values of ``tensor`` new ones, by now?"""
        if id(tensor) not in self.found:
            self.found[id(tensor)] = tensor, _replace(tensor, self.fn)
        return self.found[id(tensor)][1]


def _to(
    dtype: DType | None, device: Any = None, complex_too: bool = False
) -> Callable[[Tensor], Tensor]:
    """The conversion of tensors to a dtype, where they are floating point (or complex), and a device."""

    def convert(t: Tensor) -> Tensor:
        moved: Tensor = t if device is None else t.to(device)
        changes = t.dtype.is_floating_point or (complex_too and t.dtype.is_complex)
        return cast(moved, dtype=dtype) if changes and dtype not in (None, t.dtype) else moved

    return convert


def _replace(tensor: Tensor, fn: Callable[[Tensor], Tensor]) -> bool:
    """Give ``tensor`` (and its gradient) the values ``fn`` makes of it; True when they are new."""
    plain = tensor.detach()
    new = fn(plain)
    if new is plain:
        return False
    tensor._check_data(new.dtype)
    _take_values(tensor, new)
    if tensor._grad is not None:
        _take_values(tensor._grad, fn(tensor._grad.detach()))
    return True


def _take_values(tensor: Tensor, new: Tensor) -> None:
    if MODES.recorder is not None:  # as an assignment to .data
        MODES.recorder.data_set(tensor, new)
    before = tensor._array, tensor._block
    tensor._array, tensor._block, tensor._pointer = new._array, new._block, new._pointer
    tensor._type, tensor._layout, tensor._writes = new._type, new._layout, new._writes
    tensor._accumulate = None  # its node knows the old type
    tensor._other_memory()
    retire(*before)


def _wanted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[DType | None, Any]:
    """The dtype and the device among the arguments of ``to``; the device is checked."""
    dtype: DType | None = kwargs.get("dtype")
    device = kwargs.get("device")
    for value in args:
        if isinstance(value, DType):
            dtype = value
        elif isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, bool):  # non_blocking
            continue
        elif value is not None:
            device = value
    return dtype, None if device is None else check_device(device)
