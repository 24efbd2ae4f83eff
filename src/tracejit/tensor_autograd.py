"""The autograd methods of tensors: gradients, hooks, leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .autograd import backward as run_backward
from .autograd.handle import RemovableHandle, registry
from .autograd.node import next_number
from .errors import ArgumentError, AutogradError, user_line, warn
from .mirrored import Mirrored, StandIn
from .modes import MODES
from .retired import retire
from .tensor_core import TensorCore, Version

if TYPE_CHECKING:
    from .dtypes import DType
    from .tensor import Tensor


class AutogradMethods(TensorCore):
    """``requires_grad``, ``grad``, ``backward``, ``detach``, hooks."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """True when operations on this tensor are recorded; so it is for every view of one that requires grad."""
        base = self._base
        return self._requires_grad or (base is not None and base._requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise AutogradError("requires_grad must be a bool")
        if value and not self.is_leaf:
            raise AutogradError("you can only change requires_grad flags of leaf variables.")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Start (or stop) recording operations on this leaf, in place.

        Raises ``RuntimeError`` for integer tensors, and for non-leaves when False.

        >>> import tracejit as tj
        >>> tj.tensor([1.0]).requires_grad_()
        tensor([1.], requires_grad=True)
        """
        this: Any = self
        if not self.is_leaf:
            if not requires_grad:
                raise AutogradError(
                    "you can only change requires_grad flags of leaf variables.",
                    "If you want to use a computed variable in a subgraph that doesn't require "
                    "differentiation use var_no_grad = var.detach().",
                )
            return this  # type: ignore[no-any-return]
        if requires_grad and not self.dtype.is_differentiable:
            raise AutogradError("only Tensors of floating point dtype can require gradients")
        if requires_grad and self._inference and not MODES.inference:
            raise AutogradError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        if MODES.recorder is not None and requires_grad != self._requires_grad:
            MODES.recorder.leaf_made(self)
        self._requires_grad = bool(requires_grad)
        self._rebound()
        return this  # type: ignore[no-any-return]

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward``; None before, and for non-leaves without ``retain_grad``.

        Assigning checks shape and dtype: ``RuntimeError`` when they differ.
        """
        if MODES.recorder is not None:
            MODES.recorder.gradient_read(self)
        if self._grad is None and self._grad_fn is not None and not self._retains_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
                "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
                "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
                f"instead. ({user_line()})",
                UserWarning,
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, TensorCore):
                raise ArgumentError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise AutogradError("can't assign Variable as its own grad")
            if value.dtype is not self.dtype:
                raise AutogradError(
                    f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with "
                    f"dtype '{self.dtype.name}'. Please ensure that the gradient and the tensor have "
                    "the same dtype"
                )
            if value.spec.shape != self.spec.shape:
                raise AutogradError(
                    f"attempting to assign a gradient of size '{list(value.spec.shape)}' to a tensor of "
                    f"size '{list(self.spec.shape)}'. Please ensure that the gradient and the tensor "
                    "are the same size"
                )
        if MODES.recorder is not None:
            MODES.recorder.gradient_set(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | dict[Any, Tensor] | None = None,
    ) -> None:
        """Accumulate the gradient of this tensor into the ``.grad`` of the leaves it was made from.

        ``gradient`` (this tensor's shape) may be left out for a tensor with one element. ``retain_graph`` (default:
        ``create_graph``) keeps what was saved for another pass; ``create_graph`` records the pass itself, for higher
        derivatives; ``inputs`` restricts accumulation to these tensors. ``RuntimeError`` when nothing requires
        grad, when the graph was freed, or when ``gradient`` is missing or has another shape.

        >>> import tracejit as tj
        >>> x = tj.tensor(2.0, requires_grad=True)
        >>> (x * x + 3 * x + 1).backward()
        >>> x.grad
        tensor(7.)
        """
        this: Any = self
        node = self._grad_fn
        if node is not None and node.ends_in_leaves:
            plain = gradient is None and inputs is None and not create_graph and not retain_graph
            if plain and node.into_leaves(this):
                return
        if create_graph:
            warn(
                "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
                "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
                "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters "
                "to None after use to break the cycle and avoid the leak."
            )
        run_backward(this, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in ``.grad`` during ``backward``; nothing happens for leaves."""
        if not self.requires_grad:
            raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
        if self._grad_fn is None:
            return
        if MODES.recorder is not None:
            MODES.recorder.gradient_retained(self)
        self._retains_grad = True
        self._grad_fn.retain(self._output_nr, self)  # type: ignore[arg-type]

    @property
    def retains_grad(self) -> bool:
        """True for a non-leaf whose ``.grad`` is kept."""
        return self._retains_grad

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` when the gradient of this tensor is known; what it returns (if anything) replaces it.

        >>> import tracejit as tj
        >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if self._grad_fn is not None:
            handle = self._grad_fn.register_tensor_hook(self._output_nr, hook)
            if MODES.recorder is not None:
                MODES.recorder.hook_registered(self, hook, handle)
            return handle
        if MODES.recorder is not None:
            MODES.recorder.unsupported("register_hook() inside a compiled function")
        if self._hooks is None:
            self._hooks = registry()
        return RemovableHandle(self._hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was added to this leaf's ``.grad``."""
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if self._grad_fn is not None:
            raise AutogradError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = registry()
        return RemovableHandle(self._post_accumulate_hooks, hook)

    @property
    def _version(self) -> int:
        """How often this tensor's storage was written to in place; ``RuntimeError`` for inference tensors."""
        if self._inference:
            raise AutogradError("Inference tensors do not track version counter.")
        return self._writes.value

    def detach(self) -> Tensor:
        """The same values without history; shares storage with this tensor.

        >>> import tracejit as tj
        >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
        """
        if self._array is None and not isinstance(self._block, StandIn):
            self._array = self.array  # both must show one array
        other = self._alias()
        if self._stands_for_samples():
            other._block = other._block.detached()
        elif MODES.recorder is not None:
            MODES.recorder.detach(self, other)
        return other

    def detach_(self) -> Tensor:
        """Forget this tensor's history, making it a leaf; ``RuntimeError`` for views."""
        this: Any = self
        if self._base is not None:
            raise AutogradError("Can't detach views in-place. Use detach() instead.")
        if not self._requires_grad:
            return this  # type: ignore[no-any-return]
        if MODES.recorder is not None:
            MODES.recorder.detach_in_place(self)
        if self._grad_fn is not None:
            self._detached = next_number()
        self._requires_grad, self._grad_fn, self._output_nr = False, None, 0
        self._writes.history += 1
        self._history = self._writes.history
        self._rebound()
        return this  # type: ignore[no-any-return]

    @property
    def data(self) -> Tensor:
        """The same values without history and with a version count of its own: changes through it go unnoticed."""
        other = self.detach()
        other._writes = Version()
        other._writes.read_only = self._writes.read_only
        return other

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, TensorCore):
            raise ArgumentError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        self._check_data(value.dtype)
        if value.array is self.array and value.spec == self.spec:
            return  # what ``x.data -= 1`` ends with: it was written in place
        if MODES.recorder is not None:
            MODES.recorder.data_set(self, value)
        before = self._array, self._block
        array = None if type(value._block) is Mirrored else value.array
        self._array, self._block, self._pointer = array, value._block, value._pointer
        self._type, self._layout = value._type, value._layout
        self._other_memory()
        retire(*before)

    def _check_data(self, dtype: DType) -> None:
        if self._requires_grad and not dtype.is_differentiable:
            raise AutogradError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )

    def _is_view(self) -> bool:
        """Is this a view of another tensor?"""
        return self._base is not None

    def is_inference(self) -> bool:
        """True for tensors made in :class:`inference_mode`."""
        return self._inference
