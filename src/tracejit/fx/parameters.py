"""The parameters of a graph: placeholders for those of a function, and values for those that are told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..errors import warn
from ..questions import _assert
from ..tensor import Tensor
from ..utils import trees as pytree
from .node import base_types
from .pytree_codegen import PyTreeCodeGen, PyTreeInfo
from .wrapping import assert_is_none

if TYPE_CHECKING:
    from .tracer import Tracer

__all__ = ["PH", "PHBase", "PHWithMeta", "placeholders"]

_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """In values that are told, what stays a parameter."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """The same with a key, and with attributes that the node gets."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def _with_plain_parameters(function: FunctionType, count: int) -> FunctionType:
    """The function with ``*args`` and ``**kwargs`` as parameters like others: nothing is packed, or unpacked."""
    code: CodeType = function.__code__
    code = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~_REST,
    )
    defaults, cells = function.__defaults__, function.__closure__
    return FunctionType(code, function.__globals__, function.__name__, defaults, cells)


def declared(function: Any, name: str) -> Any:
    """The type that a function declares; this package's own functions have theirs as text, of which tensors count."""
    kind = inspect.get_annotations(inspect.unwrap(function)).get(name)
    if not str(function.__module__).startswith("tracejit."):
        return kind
    return Tensor if kind == "Tensor" else None


def _default(parameters: Any, name: str) -> tuple[Any, ...]:
    default = parameters[name].default
    return () if default is inspect.Parameter.empty else (default,)


class _Parameters:
    """Makes the parameters of one graph."""

    def __init__(self, tracer: Tracer, function: FunctionType) -> None:
        self.tracer, self.function = tracer, function
        self.known = inspect.signature(function).parameters
        self.told: dict[str, Any] | None = None

    def of(self, name: str) -> Any:
        """What the function gets for a parameter."""
        if self.told is not None and name in self.told:
            return self._told(name)
        default = () if name[0] == "*" else _default(self.known, name)
        kind = declared(self.function, name)
        return self.tracer.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _told(self, name: str) -> Any:
        """The value that is told, whose parts are parameters that have to be those of the trace, or stay open."""
        assert self.told is not None
        count = 0

        def part(value: Any) -> Any:
            nonlocal count
            count += 1
            default = _default(self.known, name)
            made = self.tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                _hand_over(value, made.node)
                return made
            self._hold(name, value, made)
            return value

        return pytree.tree_map(part, self.told[name])

    def _hold(self, name: str, value: Any, made: Any) -> None:
        """Have the graph check that a parameter is what it was told to be."""
        start = f"{name} has been specialized to have value"
        if type(value) is bool or (type(value) in base_types and not isinstance(value, Tensor)):
            _assert(made == value, f"{start} {value} but got another value")
        elif value is None:
            given = (made, f"{start} None but got another value")
            self.tracer.create_proxy("call_function", assert_is_none, given, {})
        else:
            warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                "It is up to the user to make sure that your inputs match the inputs you specialized the "
                "function with."
            )


def _hand_over(value: PHBase, node: Any) -> None:
    """Attributes that a program gave to what stands for a parameter, to its node."""
    if value is PH:
        return
    for name in dir(value):
        found = getattr(value, name)
        if not callable(found) and not name.startswith("__") and not hasattr(node, name):
            setattr(node, name, found)


def placeholders(
    tracer: Tracer, root_fn: Any, is_module: bool, concrete_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """The function to run, and what to run it on; parts of values that are told become parameters of their own.

    >>> import tracejit as tj
    >>> tracer = tj.fx.Tracer()
    >>> tracer.graph = tj.fx.Graph()
    >>> placeholders(tracer, lambda x, y: x + y, False, None)[1]
    [Proxy(x), Proxy(y)]
    """
    function: Any = inspect.unwrap(root_fn)
    code = function.__code__
    total, names = code.co_argcount + code.co_kwonlyargcount, list(code.co_varnames)
    if is_module and not total:
        raise RuntimeError("``self`` argument cannot be part of *args expansion!")
    args: list[Any] = [tracer.root] if is_module else []
    if isinstance(concrete_args, tuple) and concrete_args and code.co_flags & _REST and total == 1:
        for place, value in enumerate(concrete_args):
            made = tracer.create_proxy("placeholder", f"input_{place}", (), {})
            if isinstance(value, PHBase):
                _hand_over(value, made.node)
            args.append(made)
        return root_fn, args
    found = _Parameters(tracer, function)
    own = names[len(args) : total]
    if isinstance(concrete_args, tuple):
        if len(own) != len(concrete_args):
            raise RuntimeError(
                f"Tracing expected {len(own)} arguments but got {len(concrete_args)} concrete arguments"
            )
        concrete_args = dict(zip(own, concrete_args, strict=True))
    found.told = concrete_args
    args += [found.of(name) for name in own]
    if code.co_kwonlyargcount or code.co_flags & _REST:
        rest = iter(names[total:])
        if code.co_flags & inspect.CO_VARARGS:
            args.append(found.of(f"*{next(rest)}"))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            args.append(found.of(f"**{next(rest)}"))
        root_fn = _with_plain_parameters(root_fn, len(args))
    return _flat(tracer, root_fn, args, names[:total])


def _flat(
    tracer: Tracer, root_fn: Any, args: list[Any], names: list[str]
) -> tuple[Callable[..., Any], list[Any]]:
    """The function of the leaves of its arguments, where some of these are containers."""
    leaves, spec = pytree.tree_flatten(tuple(args))
    if all(child.is_leaf() for child in spec.children_specs):
        return root_fn, args
    codegen = PyTreeCodeGen(PyTreeInfo(names, spec, None))
    tracer.graph._codegen = codegen

    def flat(*leaves: Any):  # type: ignore[no-untyped-def]
        result = root_fn(*pytree.tree_unflatten(list(leaves), spec))
        found, form = pytree.tree_flatten(result)
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=form)
        return found

    return flat, leaves
