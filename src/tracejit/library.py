"""Operators with names: a Python function that programs find under ``namespace::name``, with a gradient of its own.

A custom operator runs the function it stands for. Nothing inside has a history; what is registered as its gradient
is the backward of an :class:`autograd.Function`, which compiled functions follow like any other. What it would do on
devices that there are none of (``register_fake``) is kept and asked for tensors without memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from .operators import OPERATORS, CustomOpDef, Kernel, operator_of, split_name
from .schemas import Schema, infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]


def custom_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: str | Collection[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Wrap a function, annotated with types, into an operator called ``namespace::name``.

    ``mutates_args`` are the names of the tensors it writes to. Raises ``ValueError`` where annotations are missing.

    >>> import tracejit as tj
    >>> @custom_op("docs::twice", mutates_args=())
    ... def twice(x: tj.Tensor) -> tj.Tensor:
    ...     return x + x
    >>> twice.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = tj.ones(2, requires_grad=True)
    >>> tj.ops.docs.twice(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def wrap(function: Kernel) -> CustomOpDef:
        namespace, own = split_name(name)
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(namespace, Schema.of(f"{own}{text[text.index('(') :]}"))
        made.__doc__, made.__module__ = function.__doc__, function.__module__
        made.register_kernel(device_types, function)
        return made

    return wrap if fn is None else wrap(fn)


def triton_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: str | Collection[str],
    schema: str | None = None,
) -> Any:
    """As :func:`custom_op`, for a function that launches kernels of Triton, each inside of :func:`wrap_triton`.

    >>> import tracejit as tj
    >>> @triton_op("docs::shifted", mutates_args=())
    ... def shifted(x: tj.Tensor) -> tj.Tensor:
    ...     return x + 1
    >>> shifted(tj.ones(1))
    tensor([2.])
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """A kernel of Triton, to be launched as it is: ``kernel[grid](...)``. Raises ``RuntimeError`` for anything else.

    >>> wrap_triton(abs)
    Traceback (most recent call last):
    RuntimeError: wrap_triton only works on functions annotated with triton.jit or triton.autotune
    """
    if type(triton_kernel).__module__.partition(".")[0] != "triton":
        raise RuntimeError(
            "wrap_triton only works on functions annotated with triton.jit or triton.autotune"
        )
    return triton_kernel


class Library:
    """Defines operators of a namespace, or gives more of their functions.

    ``kind`` is "DEF", "FRAGMENT" or "IMPL". Raises ``ValueError`` for another one.

    >>> import tracejit as tj
    >>> lib = Library("docs_library", "DEF")
    >>> lib.define("halved(Tensor x, *, float by=2.0) -> Tensor")
    'halved'
    >>> lib.impl("halved", lambda x, *, by: x / by, "CompositeImplicitAutograd")
    >>> tj.ops.docs_library.halved(tj.ones(1))
    tensor([0.5000])
    """

    def __init__(
        self, ns: str, kind: Literal["DEF", "FRAGMENT", "IMPL"] | str, dispatch_key: str = ""
    ) -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError("Unsupported kind: ", kind)
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._defined: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Define an operator by its schema; its name."""
        found = Schema.of(schema)
        self._defined.append(CustomOpDef(self.ns, found)._qualname)
        return found.name

    def impl(
        self, op_name: Any, fn: Kernel, dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Give the function of an operator for a dispatch key; ``RuntimeError`` where no operator has that name."""
        own = getattr(op_name, "_name", op_name).partition("::")[2] or getattr(
            op_name, "_name", op_name
        )
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        operator = operator_of(f"{self.ns}::{own.removesuffix('.default')}")
        if key == "Meta":
            operator.register_fake(fn)
        else:
            operator.register_kernel(key, fn)

    def _destroy(self) -> None:
        """Take the operators away."""
        for qualname in self._defined:
            OPERATORS.pop(qualname, None)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define an operator by its name and what it takes and gives.

    >>> import tracejit as tj
    >>> define("docs::thrice", "(Tensor x) -> Tensor")
    >>> impl("docs::thrice", "cpu", lambda x: x * 3)
    >>> tj.ops.docs.thrice(tj.ones(1))
    tensor([3.])
    """
    namespace, own = split_name(qualname)
    CustomOpDef(namespace, Schema.of(f"{own}{schema}"))


def impl(
    qualname: str,
    types: str | Sequence[str],
    func: Kernel | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Give the function of an operator for kinds of devices ("default": all); a decorator without ``func``.

    >>> define("docs::same", "(Tensor x) -> Tensor")
    >>> impl("docs::same", "default", lambda x: x.clone())
    """

    def register(function: Kernel) -> None:
        names = (types,) if isinstance(types, str) else types
        keys = ["CompositeExplicitAutograd" if name == "default" else name for name in names]
        operator_of(qualname).register_kernel(keys, function)

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Kernel | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Give the function of an operator for kinds of devices; see :meth:`CustomOpDef.register_kernel`.

    >>> import tracejit as tj
    >>> define("docs::four", "(Tensor x) -> Tensor")
    >>> _ = register_kernel("docs::four", "cpu", lambda x: x * 4)
    >>> tj.ops.docs.four(tj.ones(1))
    tensor([4.])
    """
    operator = operator_of(op)
    return (
        operator.register_kernel(device_types)
        if func is None
        else operator.register_kernel(device_types, func)
    )


def register_fake(op: Any, func: Kernel | None = None, /, *, lib: Any = None, **_: Any) -> Any:
    """Tell what results of an operator look like; a decorator without ``func``.

    >>> import tracejit as tj
    >>> define("docs::alike", "(Tensor x) -> Tensor")
    >>> _ = register_fake("docs::alike", lambda x: tj.empty_like(x))
    """
    operator = operator_of(op)
    return operator.register_fake if func is None else operator.register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Kernel, /, *, setup_context: Kernel | None = None, lib: Any = None
) -> None:
    """Give the gradient of an operator; see :meth:`CustomOpDef.register_autograd`.

    >>> define("docs::six", "(Tensor x) -> Tensor")
    >>> register_autograd("docs::six", lambda ctx, grad: grad * 6)
    """
    operator_of(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Kernel | None = None, /, *, lib: Any = None) -> Any:
    """Kept for others; see :meth:`CustomOpDef.register_vmap`.

    >>> define("docs::seven", "(Tensor x) -> Tensor")
    >>> register_vmap("docs::seven", len) is len
    True
    """
    return (
        operator_of(op).register_vmap(func) if func is not None else operator_of(op).register_vmap()
    )


class _Sizes:
    """Sizes that only data tells: what ``register_fake`` functions ask for them."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """The least size there may be."""
        return min


def get_ctx() -> Any:
    """What functions of :func:`register_fake` ask for sizes that only data tells.

    >>> get_ctx().new_dynamic_size()
    0
    """
    return _Sizes()
