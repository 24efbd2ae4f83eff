"""Custom operators: a function under a name, with what is registered for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from . import ops as _package
from .autograd.function import Function
from .autograd.grad_mode import no_grad
from .modes import MODES
from .schemas import Schema
from .tensor import Tensor
from .trace.state.operators import note

__all__ = ["OPERATORS", "CustomOpDef", "Kernel", "operator_of", "split_name"]

Kernel = Callable[..., Any]
#: Operators by their names.
OPERATORS: dict[str, CustomOpDef] = {}
#: Dispatch keys whose function has a history of its own.
_WITH_HISTORY = ("CompositeImplicitAutograd", "Autograd", "AutogradCPU", "AutogradCUDA")
_PLAIN = ("CPU", "CUDA", "CompositeExplicitAutograd")


class CustomOpDef:
    """An operator: call it like the function. Made by :func:`custom_op` and :meth:`Library.define`."""

    def __init__(self, namespace: str, schema: Schema) -> None:
        self._namespace = namespace
        self._schema = schema
        self._name = self.__name__ = schema.name
        self._qualname = f"{namespace}::{schema.name}"
        self._kernels: dict[str, Kernel] = {}
        self._registered: list[Kernel] = []  # in order, replaced ones too
        self._fake: Kernel | None = None
        self._autograd: type[Function] | None = None
        OPERATORS[self._qualname] = self
        _publish(namespace, schema.name, self)

    @property
    def default(self) -> CustomOpDef:
        """The one overload that there is."""
        return self

    @property
    def _opoverload(self) -> CustomOpDef:
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function for the device of the tensors; ``NotImplementedError`` where there is none."""
        given, named = self._schema.bind(args, kwargs)
        tensors = [x for x in _flat((given, named)) if isinstance(x, Tensor)]
        kernel = self._kernel_for(tensors)
        if MODES.recorder is not None:
            note(MODES.recorder, self._qualname, self._registered, kernel)
        if self._has_history(kernel):
            return kernel(*given, **named)
        if not MODES.grad or not any(x.requires_grad for x in tensors):
            return self._run(kernel, given, named)
        if self._schema.mutated:
            return self._run(kernel, given, named)
        return self._function().apply(kernel, named, *given)

    def _has_history(self, kernel: Kernel) -> bool:
        """Is what this function computes recorded by autograd as it is?"""
        return any(self._kernels.get(key) is kernel for key in _WITH_HISTORY)

    def _kernel_for(self, tensors: Sequence[Tensor]) -> Kernel:
        for key in _WITH_HISTORY:
            if key in self._kernels and (key.startswith("Comp") or MODES.grad):
                return self._kernels[key]
        if self._fake is not None and any(x.is_meta for x in tensors):
            return self._fake
        where = "CUDA" if any(x.is_cuda for x in tensors) else "CPU"
        for key in (where, "CompositeExplicitAutograd"):
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(
            f"Could not run '{self._qualname}' with arguments from the '{where}' backend: nothing is registered for it"
        )

    def _run(self, kernel: Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        with no_grad():
            result = kernel(*args, **kwargs)
        known = {id(x) for x in _flat((args, kwargs)) if isinstance(x, Tensor)}
        for position, x in enumerate(_flat(result)):
            if isinstance(x, Tensor) and id(x) in known:
                raise RuntimeError(
                    f"{self._qualname} (with implementation in {kernel.__module__}): The output of this custom "
                    f"operator ({position}) must not also be an input to this custom operator and may not alias any "
                    "inputs to this custom operator or other returns. Please return a clone of the offending output "
                    "tensor(s)."
                )
        return result

    def _function(self) -> type[Function]:
        if self._autograd is None:
            self._autograd = _with_gradient(self, None, None)
        return self._autograd

    # --- what is registered ------------------------------------------------------------------------------------------

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Kernel | None = None, /
    ) -> Kernel:
        """The function for tensors on some devices (None: on all)."""

        def register(kernel: Kernel) -> Kernel:
            self._registered.append(kernel)
            names = (device_types,) if isinstance(device_types, str) else device_types
            for name in ("CompositeExplicitAutograd",) if names is None else names:
                self._kernels[name if name in (*_PLAIN, *_WITH_HISTORY) else name.upper()] = kernel
            return kernel

        return register if fn is None else register(fn)

    def register_fake(self, fn: Kernel, /) -> Kernel:
        """What results look like, told by a function that makes empty ones."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Kernel, /, *, setup_context: Kernel | None = None
    ) -> None:
        """The gradient: ``backward(ctx, *grads)``, after ``setup_context(ctx, inputs, output)`` kept what it needs."""
        if self._schema.mutated:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._qualname}"
            )
        self._autograd = _with_gradient(self, backward, setup_context)
        self._registered.append(backward)

    def register_vmap(self, func: Kernel | None = None, /) -> Any:
        """Kept for others: batches go through the function's own operations."""
        return (lambda f: f) if func is None else func

    register_torch_dispatch = register_vmap


def _with_gradient(
    operator: CustomOpDef, backward: Kernel | None, setup: Kernel | None
) -> type[Function]:
    """The function of autograd that an operator is: its first arguments are no tensors."""
    keywords = [
        p.name for p in operator._schema.signature.parameters.values() if p.kind is p.KEYWORD_ONLY
    ]

    class Operator(Function):
        """One operator, with its gradient."""

        @staticmethod
        def forward(kernel: Kernel, named: dict[str, Any], *args: Any) -> Any:
            """Run the function."""
            return operator._run(kernel, args, named)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            """Keep what the gradient needs."""
            _, named, *args = inputs
            if setup is None:
                return
            if keywords:
                setup(ctx=ctx, inputs=tuple(args), keyword_only_inputs=named, output=output)
            else:
                setup(ctx=ctx, inputs=tuple(args), output=output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            """The gradient that was registered."""
            if backward is None:
                raise RuntimeError(
                    f"Trying to backward through {operator._qualname} but no autograd formula was registered. "
                    "Please use register_autograd to add one."
                )
            found = backward(ctx, *grads)
            return (None, None, *(found if isinstance(found, tuple) else (found,)))

    Operator.__name__ = Operator.__qualname__ = (
        f"GeneratedBackwardFor_{operator._namespace}_{operator._name}"
    )
    return Operator


def _flat(value: Any) -> list[Any]:
    """What is in tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in _flat(part)]
    return (
        [x for part in value.values() for x in _flat(part)] if isinstance(value, dict) else [value]
    )


def _publish(namespace: str, name: str, operator: CustomOpDef) -> None:
    """``ops.namespace.name`` is the operator."""
    space = getattr(_package, namespace, None)
    if not isinstance(space, SimpleNamespace):
        if space is not None:
            return  # a module of this package
        space = SimpleNamespace()
        setattr(_package, namespace, space)
    setattr(space, name, operator)


def split_name(qualname: str) -> tuple[str, str]:
    """The namespace and the name of ``namespace::name``; ``ValueError`` for another form.

    >>> split_name("docs::twice")
    ('docs', 'twice')
    """
    namespace, mark, name = qualname.partition("::")
    if not mark or not namespace or not name:
        raise ValueError(
            f"Expected `qualname` to be of the form `namespace::name` but got {qualname}."
        )
    return namespace, name.removesuffix(".default")


def operator_of(op: Any) -> CustomOpDef:
    """The operator called so; ``RuntimeError`` where there is none.

    >>> operator_of("docs::missing")
    Traceback (most recent call last):
    RuntimeError: operator docs::missing does not exist: define it first
    """
    if isinstance(op, CustomOpDef):
        return op
    found = OPERATORS.get("::".join(split_name(op)))
    if found is None:
        raise RuntimeError(f"operator {op} does not exist: define it first")
    return found
