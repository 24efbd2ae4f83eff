"""A module whose ``forward`` is generated from a graph, again whenever the graph is another one."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import traceback
from pathlib import Path
from typing import Any

from ..nn.module import Module
from .attributes import copy_attribute, function_of, get_attribute, import_block, put_attribute
from .codegen import PythonCode
from .graph import Graph
from .pytree_codegen import PyTreeCodeGen

__all__ = ["GraphModule", "reduce_graph_module"]

_get_attr, _assign_attr, _copy_attr = get_attribute, put_attribute, copy_attribute
_PACKAGE = str(Path(__file__).parent.parent)
#: The module of classes made here: their ``forward`` changes, so that compiled code must not count on it.
_GENERATED = "fx_generated"
#: Hooks that a copy has, too.
_KEPT_HOOKS = ("state_pre", "state_post", "load_pre", "load_post")
_NODE_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


class _Bare(Module):
    """Attributes of a module whose graph is still to be found, or told."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _indented(text: str) -> str:
    """All lines but the first four further in; nothing in those that have only spaces."""
    first, *others = text.split("\n")
    return "\n".join([first, *(f"    {line}" if line.strip() else "" for line in others)])


class GraphModule(Module):
    """Runs a graph: ``code`` shows how; ``recompile()`` after the graph was changed.

    ``root`` has what nodes name: a module, or a dict of paths.

    >>> import tracejit as tj
    >>> graph = tj.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> found = graph.output(graph.call_module("twice", (x,)))
    >>> class Double(tj.nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> GraphModule({"twice": Double()}, graph)(tj.ones(2))
    tensor([2., 2.])
    """

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """An object of a class of its own, which has the ``forward``."""
        own: Any = next(c for c in cls.__mro__ if c.__qualname__ != "GraphModuleImpl")
        module = _GENERATED if own is GraphModule else own.__module__
        names = {"__qualname__": "GraphModuleImpl", "__module__": module}
        return Module.__new__(type("GraphModuleImpl", (own,), names))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        for name in _NODE_HOOKS:
            setattr(self, name, [])
        paths = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self._take_from(root, paths)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for path in sorted(paths, key=lambda p: p.count(".")):
                put_attribute(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer = graph._tracer_cls
        known = tracer is not None and "<locals>" not in tracer.__qualname__
        self._tracer_cls = tracer if known else None
        self._tracer_extras = graph._tracer_extras or {}

    def _take_from(self, root: Module, paths: list[str]) -> None:
        self.training = root.training
        if isinstance(root, _Bare):
            for named in (root._modules, root._buffers, root._parameters):
                for name in named:
                    copy_attribute(root, self, name)
        for path in paths:
            copy_attribute(root, self, path)

    # --- the graph ---------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """What runs; assigning another one makes the code of that."""
        found: Graph = self._graph
        return found

    @graph.setter
    def graph(self, graph: Graph) -> None:
        assert isinstance(graph, Graph), f"Expected a Graph instance, but got {type(graph)}"
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python that runs."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated!")
        found: str = self._code
        return found

    def recompile(self) -> PythonCode:
        """Make the code of the graph as it is now."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code, self._lineno_map = made.src, made._lineno_map
        self._prologue_start = made._prologue_start
        cls: Any = type(self)
        cls.forward = function_of(made.src, made.globals, self._graph._co_fields)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; where that fails, the line of the generated code is told on standard error."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            _tell(error)
            raise

    # --- modules inside ----------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module by a path, and those on the way to it; False where something else is in the way."""
        *outer, name = target.split(".")
        module: Module = self
        for part in outer:
            inside = getattr(module, part, None)
            if inside is None:
                inside = Module()
                setattr(module, part, inside)
            if not isinstance(inside, Module):
                return False
            module = inside
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module by a path; False where there is none."""
        *outer, name = target.split(".")
        module: Any = self
        for part in outer:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out all modules that no node names, nor one around or inside of them."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(itertools.accumulate(parts, lambda path, name: f"{path}.{name}"))
            if node.op == "call_module":
                try:
                    inside = self.get_submodule(node.target)
                except AttributeError:
                    continue
                used.update(f"{node.target}.{name}" for name, _ in inside.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # --- copies and files --------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made: GraphModule = type(self).__new__(type(self))
        memo[id(self)] = made
        bare = _Bare(copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_hooks"}, memo))
        GraphModule.__init__(made, bare, bare.__dict__["_graph"], type(self).__name__)
        for name in _NODE_HOOKS:
            setattr(made, name, copy.deepcopy(self.__dict__.get(name, []), memo))
        if self._hooks is not None:
            own = made._own_hooks()
            for kind in _KEPT_HOOKS:
                getattr(own, kind).update(getattr(self._hooks, kind))
        made.meta = bare.__dict__.get("meta", {})
        for name, value in made.meta.get("_user_preserved_attributes", {}).items():
            setattr(made, name, value)
        for hook in self.__dict__.get("_deepcopy_hooks", ()):
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = self.meta
        return made

    def __reduce__(self) -> Any:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_hooks")}
        body["_graphmodule_cls_name"] = type(self).__name__
        return reduce_graph_module, (body, import_block(self.recompile().globals))

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write the module as a package: its code, and files of what is in it."""
        from .folders import write

        write(self, Path(folder), module_name)

    # --- as text -----------------------------------------------------------------------------------------------

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **_: Any,
    ) -> str:
        """The code of this module and of those with graphs inside, with the types of values; printed, and returned."""
        text = _readable(self, self._get_name(), include_stride, include_device)
        if print_output:
            sys.stdout.write(f"{text}\n")
        return text

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])


def _readable(module: GraphModule, name: str, strides: bool, devices: bool) -> str:
    code = module.graph.python_code(
        "self", verbose=True, include_stride=strides, include_device=devices
    )
    text = _indented(f"class {name}(tracejit.nn.Module):\n" + code.src.lstrip("\n"))
    inner = [
        _readable(child, inside, strides, devices)
        for inside, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return text + _indented("\n".join(["", *inner]))


def _tell(error: Exception) -> None:
    """Say at which line of generated code an error was raised, if it was at one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    if not own or "eval_with_key" not in own[-1].filename or hasattr(error, "_told_line"):
        return
    number, lines = own[-1].lineno or 0, linecache.getlines(own[-1].filename)
    start = f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:"
    marker = f"{'~' * len(own[-1].line or '')}~~~ <--- HERE"
    before, behind = (
        "".join(lines[max(number - 2, 0) : number]),
        "\n".join(lines[number : number + 2]),
    )
    sys.stderr.write("\n".join([traceback.format_exc(), start, before, marker, behind]) + "\n")


def reduce_graph_module(body: dict[str, Any], imports: str) -> GraphModule:
    """A module from its attributes and its code, whose graph is traced from that.

    >>> import tracejit as tj
    >>> made, parts = tj.fx.symbolic_trace(lambda x: x + 1).__reduce__()
    >>> made(*parts)(2)
    3
    """
    from .tracer import Tracer

    forward = function_of(f"{imports}\n{body['_code']}", {})
    bare: Any = type("_Bare", (_Bare,), {"forward": forward})(body)
    base: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(base):  # type: ignore[misc]
        """Goes into no module: the graph names those that it called."""

        def is_leaf_module(self, *_: Any) -> bool:
            return True

    graph = KeepModules().trace(bare, **body.get("_tracer_extras", {}))
    graph._tracer_cls = base
    made = GraphModule(bare, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    made.meta = body.get("meta", {})
    return made
