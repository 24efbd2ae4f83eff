"""A graph: nodes in the order in which they run, and how to add, move and remove them, and to write them as code."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import warn
from ..nn.module import Module
from ..nn.parameter import Parameter
from .codegen import CodeGen, PythonCode
from .immutable_collections import immutable_dict
from .lint import lint
from .namespace import CUSTOM_BUILTINS, Namespace, snake_case
from .node import Argument, Node, Target, map_arg
from .node_list import InsertPoint, NodeList
from .pytree_codegen import PyTreeCodeGen, PyTreeInfo
from .snippets import INPLACE, OPERATORS, REFLECTABLE, format_target
from .spelling import base_name

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

log = logging.getLogger(__name__)

_Namespace, _PyTreeCodeGen, _PyTreeInfo = Namespace, PyTreeCodeGen, PyTreeInfo
_snake_case, _format_target, _custom_builtins = snake_case, format_target, CUSTOM_BUILTINS
magic_methods, inplace_methods, reflectable_magic_methods = OPERATORS, INPLACE, REFLECTABLE


class Graph:
    """Steps of a program, each a `Node`.

    >>> import tracejit as tj
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> found = graph.output(graph.call_function(tj.relu, (x,)))
    >>> graph.lint()
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        relu = tracejit.relu(x);  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._in_order = True
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs it, if there is one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    # --- nodes -------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Any:
        """All nodes, in order."""
        return NodeList(self)

    def _moved(self, node: Node) -> None:
        """A node has another place: numbers follow when somebody asks for them, except at the end."""
        if node._next is self._root and self._in_order:
            node._place = node._prev._place + 1
        else:
            self._in_order = False

    def _place_of(self, node: Node) -> int:
        if not self._in_order:
            for place, one in enumerate(self.nodes, 1):
                one._place = place
            self._in_order = True
        return node._place

    def output_node(self) -> Node:
        """The node that returns."""
        node = next(iter(reversed(self.nodes)))
        assert node.op == "output", f"Expected output node, got op={node.op}"
        found: Node = node
        return found

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, or those of it that call ``target``."""
        assert op != "call_function" or target is not None, (
            "target must not be None for call_function op"
        )
        return [x for x in self.nodes if x.op == op and (target is None or x.target == target)]

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node, at the place where new ones go."""
        assert not args or isinstance(args, tuple), f"args must be a tuple, got {type(args)}"
        assert not kwargs or isinstance(kwargs, dict), f"kwargs must be a dict, got {type(kwargs)}"
        candidate = self._target_to_str(target) if name is None else name
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args or (), kwargs or immutable_dict(), type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nobody uses; ``RuntimeError`` for one that somebody does."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} "
                f"users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn(f"erase_node({to_erase}) on an already erased node")
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True  # who walks along the nodes may be there
        self._len -= 1
        to_erase._take(
            map_arg(to_erase._args, lambda _: None), map_arg(to_erase._kwargs, lambda _: None)
        )

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A node like ``node``, of this graph, that takes what ``arg_transform`` gives for what that one takes."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copies of all nodes of ``g`` but those in ``val_map``, which is told the others; gives what ``g`` returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], lambda n: val_map[n])
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        copied: dict[Node, Any] = {}
        found = made.graph_copy(self, copied, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        made._co_fields = dict(self._co_fields)
        if found is not None:
            value, before = found
            made.output(value, type_expr=before.type).meta = copy.copy(before.meta)
        return made

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Have new nodes go before one, or before all; at once, and for as long as the context lasts."""
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Have new nodes go behind one, or behind all, as ``inserting_before`` does."""
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        return InsertPoint(self, n.append)

    # --- nodes by kind -----------------------------------------------------------------------------------------

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """A parameter of the function."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """What the module has by a path of names: a parameter, a buffer or a module."""
        if self.owning_module is not None and not _has(self.owning_module, qualified_name):
            warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! "
                "Call GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add "
                "the necessary Parameter, or nn.Module.register_buffer to add the necessary buffer"
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a module that the module has by a path of names."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node(
            "call_function", the_function, args, kwargs, name=name, type_expr=type_expr
        )

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the function returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    # --- as a whole --------------------------------------------------------------------------------------------

    def lint(self) -> None:
        """``RuntimeError`` where nodes are used before they run, or name what the module does not have."""
        lint(self)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nobody uses and has no effect; was there any?"""
        self.lint()
        removed = set()
        for node in reversed(self.nodes):
            stays = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not stays and not node.users:
                self.erase_node(node)
                removed.add(node.name)
        if removed:
            log.info("The following nodes were dead code eliminated: %s", removed)
        return self._clean_inside() or bool(removed)

    def _clean_inside(self) -> bool:
        """The same in graphs that this one takes as values."""
        from .graph_module import GraphModule

        taken, changed = {x.target for x in self.find_nodes(op="get_attr")}, False
        for name, child in self.owning_module.named_children() if self.owning_module else ():
            if name in taken and isinstance(child, GraphModule):
                changed |= child.graph.eliminate_dead_code()
                child.recompile()
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # --- as code and text --------------------------------------------------------------------------------------

    def _target_to_str(self, target: Target) -> str:
        """What a node is named for."""
        if callable(target):
            return snake_case(base_name(target))
        assert isinstance(target, str), f"Expected target to be str, got {type(target)}"
        magic = target.startswith("__") and target.endswith("__")
        return snake_case(target[2:-2] if magic else target)

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as a function, in which ``root_module`` is what the module is called.

        ``verbose`` code tells the types of values; ``include_stride`` and ``include_device`` more of them.
        """
        namespace = Namespace()
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, **options
            )
        finally:
            for node, function in zip(nodes, before, strict=True):
                node._repr_fn = function

    def __str__(self) -> str:
        names: list[str] = []
        lines = [node.format_node(names) for node in self.nodes]
        return "\n    ".join([f"graph({', '.join(names)}):", *filter(None, lines)])

    def print_tabular(self) -> None:
        """Print a table of the nodes."""
        heads = ("opcode", "name", "target", "args", "kwargs")
        rows = [(n.op, n.name, n.target, n.args, n.kwargs) for n in self.nodes]
        texts = [heads, *(tuple(map(str, row)) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        texts.insert(1, tuple("-" * width for width in widths))
        for row in texts:
            cells = (x.ljust(width) for x, width in zip(row, widths, strict=True))
            sys.stdout.write("  ".join(cells).rstrip() + "\n")

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have another one write the code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Have the lines of generated code changed: ``make_transformer`` gets who does that so far, gives who will.

        It is in force at once, and to its end where it is used as a context.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return until()

    def process_inputs(self, *args: Any) -> Any:
        """What nodes get when the function is called with ``args``."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function returns when nodes give ``out``."""
        return self._codegen.process_outputs(out)


def _has(owner: Module, path: str) -> bool:
    """Does a module have a parameter, a buffer or a module by a path?"""
    inner, _, name = path.rpartition(".")
    try:
        module = owner.get_submodule(inner)
    except AttributeError:
        warn(f"Failed to fetch module {inner}!")
        return False
    found = getattr(module, name, None)
    return isinstance(found, (Module, Parameter)) or name in module._buffers
