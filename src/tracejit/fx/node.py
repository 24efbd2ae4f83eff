"""A node: one step of a graph, a link of the list that its steps form, and who uses what it gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import tracejit

from ..questions import _assert, typename
from .immutable_collections import immutable_dict, immutable_list
from .spelling import pretty_target, qualified_name, type_text

if TYPE_CHECKING:
    from .graph import Graph

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "Argument",
    "Node",
    "Target",
    "base_types",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]

#: What a node takes: nodes, numbers, text, dtypes, devices, and rows and dicts of these.
Argument = Any
#: What a node calls: a function, or the name of a method, module, attribute or parameter.
Target = Callable[..., Any] | str

LEGAL_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output")

#: Functions whose calls stay although nobody uses what they give.
_side_effectful_functions: set[Any] = {_assert, operator.setitem}


def _base_types() -> tuple[type, ...]:
    from .. import layout, memory_format
    from ..device import device
    from ..dtypes import DType
    from ..ops.mixin import Size
    from ..tensor import Tensor

    plain = (str, int, float, bool, complex, range, slice)
    return (*plain, DType, Tensor, device, memory_format, layout, Size)


base_types = _base_types()


@cache
def _random_functions() -> frozenset[Any]:
    """Functions that move on what later draws follow."""
    names = (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
        *("normal", "poisson", "bernoulli", "multinomial"),
    )
    return frozenset(getattr(tracejit, name) for name in names)


def has_side_effect(fn: F) -> F:
    """Have calls of ``fn`` stay in graphs although nobody uses what they give.

    >>> has_side_effect(len) is len
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """``a`` with ``fn`` of each leaf in its place; lists and dicts become such as nothing can be changed in.

    >>> map_aggregate([1, (2, {"a": 3})], lambda x: x + 1)
    [2, (3, {'a': 4})]
    """
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(x, fn) for key, x in a.items()})
    if isinstance(a, slice):
        parts = (a.start, a.stop, a.step)
        return slice(*(map_aggregate(x, fn) for x in parts))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """``a`` with ``fn`` of each node in its place.

    >>> map_arg([1, None], str)
    [1, None]
    """
    assert callable(fn), "fx.map_arg(a, fn): fn must be a callable"
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _text(arg: Any) -> str:
    """An argument as the text of a graph has it: nodes with a percent sign."""
    if isinstance(arg, list):
        return f"[{', '.join(map(_text, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_text, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_text(value)}' for key, value in arg.items())}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a graph: ``op`` says of what kind it is, ``target`` what it calls, ``args`` and ``kwargs`` with what.

    >>> import tracejit as tj
    >>> graph = tj.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> graph.call_function(tj.relu, (x,)).format_node()
    '%relu : [num_users=0] = call_function[target=tracejit.relu](args = (%x,), kwargs = {})'
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        wanted = "Callable" if op == "call_function" else "str"
        assert op in LEGAL_OPS or op == "root", f"op '{op}' is not in _legal_ops"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {typename(target)} "
                f"but a {wanted} is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._place = 0
        self._repr_fn: Callable[[Node], str] | None = None
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._take(args, kwargs)

    # --- what it takes ----------------------------------------------------------------------------------------

    def _take(self, args: Any, kwargs: Any) -> None:
        """Take these from now on; nodes among them know their users."""
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def seen(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(args, seen)
        self._kwargs = map_arg(kwargs, seen)

    @property
    def args(self) -> tuple[Argument, ...]:
        """What is taken by position; assigned as a whole."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._take(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """What is taken by name; assigned as a whole."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._take(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes it takes, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Take ``arg`` at a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Take ``arg`` at a position, and what was there and behind it one later."""
        assert 0 <= idx <= len(self.args), (
            f"insert_args index must be between 0 and len(self.args), got {idx}"
        )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Take ``arg`` by a name."""
        self.kwargs = {**self.kwargs, key: arg}

    # --- who uses it ------------------------------------------------------------------------------------------

    def _replace(self, old: Node, new: Node) -> None:
        """Take ``new`` wherever it takes ``old``."""

        def change(node: Node) -> Node:
            return new if node is old else node

        self._take(map_arg(self._args, change), map_arg(self._kwargs, change))

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take another node wherever it takes this one."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)
        self._replace(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have all users, or those that ``delete_user_cb`` says yes to, use another node; returns them."""
        if propagate_meta:
            assert not replace_with.meta, (
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                "but replace_with already has .meta keys"
            )
            replace_with.meta.update(self.meta)
        changed = [x for x in self.users if delete_user_cb is None or delete_user_cb(x)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- its place --------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node behind it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x`` to the place before this node."""
        assert self.graph is x.graph, "Attempting to move a Node into a different Graph"
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._moved(x)

    def append(self, x: Node) -> None:
        """Move ``x`` to the place behind this node."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        return self.graph._place_of(self) < self.graph._place_of(other)

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # --- what else is known of it -----------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that led to it, where these were recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Has it to stay although nobody uses what it gives?"""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            assert owner is not None, "self.graph.owning_module not set for purity check"
            return bool(getattr(owner.get_submodule(str(self.target)), "_is_impure", False))
        return self.op == "call_function" and (
            self.target in _side_effectful_functions or self.target in _random_functions()
        )

    def normalized_arguments(
        self,
        root: Any,
        arg_types: Any = None,
        kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Its arguments as the signature of what it calls has them, as a pair; None where that is not known."""
        from .operator_schemas import normalize_function, normalize_module

        given, target = (self.args, self.kwargs), self.target
        if self.op == "call_function" and callable(target):
            types = (arg_types, kwarg_types)
            return normalize_function(target, *given, *types, normalize_to_only_use_kwargs)
        if self.op == "call_module" and isinstance(target, str):
            return normalize_module(root, target, *given, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        """Have another name, like ``candidate``."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.rename(self, self.name)

    # --- as text ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    _pretty_print_target = staticmethod(pretty_target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """One line about it; parameters of a graph may be put into a list instead, and give None."""
        kind = f"{type_text(self.type)} " if self.type else ""
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            assert isinstance(self.target, str)
            if placeholder_names:
                name = self.target
                placeholder_names.append(
                    f"{name}{name}: {type_text(self.type)}" if self.type else name
                )
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{start}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{start}[target={pretty_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        target = pretty_target(self.target)
        return f"{start}[target={target}](args = {_text(self.args)}, kwargs = {_text(self.kwargs)})"


_get_qualified_name = qualified_name
_type_repr = type_text
