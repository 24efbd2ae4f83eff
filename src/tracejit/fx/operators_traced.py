"""Functions as graphs of operators: what a run of them is told, written down (`make_fx`)."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from ..listening.stack import LISTENERS
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor import Tensor
from ..utils import trees as pytree
from ..utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .pytree_codegen import PyTreeCodeGen, PyTreeInfo

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes every operator down that it is told of.

    Tensors are known by their memory and how they show it: what is hidden from its own history is still the same.
    """

    def __init__(self, root: Module, decompositions: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.graph = Graph()
        self.root, self.decompositions = root, decompositions
        self.known: dict[Any, tuple[Tensor, Node]] = {}
        self.constants: dict[str, int] = {}

    @staticmethod
    def _key(x: Tensor) -> Any:
        return (
            id(x._writes),
            x.data_ptr() if x.numel() else id(x),
            tuple(x.shape),
            x.stride(),
            x.dtype,
        )

    def track(self, value: Any, node: Node) -> None:
        """The tensors of ``value`` are what ``node`` gives, those of a row its items."""
        if isinstance(value, Tensor):
            self.known[self._key(value)] = value, node
        elif isinstance(value, (tuple, list)):
            for number, part in enumerate(value):
                if isinstance(part, (Tensor, tuple, list)):
                    self.track(part, self.graph.call_function(operator.getitem, (node, number)))

    def node_of(self, x: Any) -> Any:
        """The node of a tensor; that of an attribute, for one that no operator made. Anything else as it is."""
        if not isinstance(x, Tensor):
            return x
        found = self.known.get(self._key(x))
        if found is not None:
            return found[1]
        kind = "_param_constant" if isinstance(x, Parameter) else "_tensor_constant"
        number = self.constants.get(kind, 0)
        self.constants[kind] = number + 1
        setattr(self.root, f"{kind}{number}", x)
        node = self.graph.get_attr(f"{kind}{number}")
        self.known[self._key(x)] = x, node
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Write it down, and run it."""
        kwargs = kwargs or {}
        other = self.decompositions.get(func, self.decompositions.get(func.overloadpacket))
        if other is not None:
            with self:
                found = other(*args, **kwargs)
            if found is not NotImplemented:
                return found
        given, named = pytree.tree_map(self.node_of, (args, kwargs))
        name = func._opname
        node = self.graph.call_function(func, tuple(given), named, name=name)
        out = func(*args, **kwargs)
        self.track(out, node)
        return out


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """What writes operators down at present; None where nothing does.

    >>> get_proxy_mode()
    """
    return next(
        (m for m in reversed(LISTENERS.dispatch) if isinstance(m, ProxyTorchDispatchMode)), None
    )


def _names(function: Callable[..., Any], count: int) -> list[tuple[str, Any]]:
    """The parameters that so many arguments are given to, with their defaults."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    single = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [(p.name, p.default) for p in parameters if p.kind in single][:count]
    found += [
        (f"arg_{i}" if found else f"arg{i}", inspect.Parameter.empty)
        for i in range(len(found), count)
    ]
    return found


def _is_nested(x: Any) -> bool:
    return isinstance(x, (tuple, list, dict)) or not pytree.tree_structure(x).is_leaf()


def _taken(
    mode: ProxyTorchDispatchMode, names: list[tuple[str, Any]], args: Any
) -> tuple[list[str], Any]:
    """Parameters of the graph for all arguments; the names of those of the function, and the form of nested ones."""
    if not any(map(_is_nested, args)):
        for (name, default), value in zip(names, args, strict=True):
            node = mode.graph.placeholder(f"{name}_1", default_value=default)
            mode.track(value, node)
        return [], None
    own = [name for name, _ in names]
    for number, leaf in enumerate(pytree.tree_leaves(tuple(args)), 1):
        mode.track(leaf, mode.graph.placeholder(f"{own[0]}_{number}"))
    return own, pytree.tree_structure(tuple(args))


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:
    """A function of the arguments of ``f`` that runs it, and gives the graph of the operators that were called.

    What ``f`` does with tensors is in the graph, gradients too, for sizes, numbers and branches as they were in that
    run. Tensors from outside are attributes of the result. ``decomposition_table`` has functions for operators that
    are to be written down as what these call. ``tracing_mode="fake"`` runs ``f`` with the values, too; options of
    what nodes tell of lines and modules, which they do not, change nothing. Raises ``NotImplementedError`` for
    ``tracing_mode="symbolic"`` and ``pre_dispatch``, since sizes of a graph are numbers and functions are operators
    in it (``tj.compile`` serves other sizes), and for ``proxy_module_inputs``.

    >>> import tracejit as tj
    >>> graph = make_fx(lambda x: tj.nn.functional.relu(x) + 1)(tj.ones(2))
    >>> print(graph.code.strip())
    def forward(self, x_1):
        relu = tracejit.ops.aten.relu.default(x_1);  x_1 = None
        add = tracejit.ops.aten.add.Tensor(relu, 1);  relu = None
        return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
    if tracing_mode == "symbolic" or pre_dispatch:
        what = "pre_dispatch=True" if pre_dispatch else 'tracing_mode="symbolic"'
        raise NotImplementedError(f"make_fx: {what} is not there; sizes in graphs are numbers")
    if proxy_module_inputs:
        raise NotImplementedError("make_fx: modules among arguments are not written down")
    del _allow_non_fake_inputs, _allow_fake_constant, _error_on_data_dependent_ops
    del record_module_stack, record_stack_traces, _disable_torch_fn_metadata_mode

    def traced(*args: Any) -> GraphModule:
        root = Module()
        mode = ProxyTorchDispatchMode(root, decomposition_table or {})
        own, spec = _taken(mode, _names(f, len(args)), args)
        with _disable_current_modes(), mode:
            out = f(*args)
        leaves, form = pytree.tree_flatten(out)
        nodes = [mode.node_of(x) for x in leaves]
        if spec is None:
            mode.graph.output(pytree.tree_unflatten(nodes, form))
        else:
            mode.graph.output(nodes)
            mode.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(own, spec, form)))
        _drop_unused(mode.graph)
        found = GraphModule(root, mode.graph, getattr(f, "__name__", type(f).__name__))
        found.recompile()
        return found

    return traced


def _drop_unused(graph: Graph) -> None:
    """Take out operators that only make what nobody uses; what writes, draws or asks for numbers stays."""
    for node in reversed(list(graph.nodes)):
        schema = getattr(node.target, "_schema", None)
        pure = schema is not None and not schema.is_mutable and node.op == "call_function"
        if pure and not node.users and node.target._opname not in ("_local_scalar_dense", "equal"):
            graph.erase_node(node)
