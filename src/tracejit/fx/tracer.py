"""The tracer: runs a program on proxies, and decides which modules it goes into."""

from __future__ import annotations

import copy
import inspect
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from ..nn.containers import Sequential
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor import Tensor
from ..utils.trees import TreeSpec
from . import interception
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .parameters import declared, placeholders
from .proxy import ParameterProxy, Proxy
from .tracer_base import Scope, ScopeContextManager, TracerBase
from .wrapping import Patcher, find_proxy

__all__ = ["ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace"]

#: What a node cannot hold: the module keeps it, by a name of its own.
_KEPT = {Tensor: "_tensor_constant", TreeSpec: "_tree_spec_constant"}
_CONSTANTS = tuple(_KEPT)
_proxyable: dict[type, None] = {}
#: How many programs are being written down.
_depth = [0]


def is_fx_tracing() -> bool:
    """Is a program being written down?

    >>> is_fx_tracing()
    False
    """
    return _depth[0] > 0


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """The class of classes whose objects may be made of proxies: making one is then a node.

    >>> import tracejit as tj
    >>> class Pair(metaclass=ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> traced = tj.fx.symbolic_trace(lambda x: Pair(x, 1).left)
    >>> [node.name for node in traced.graph.nodes], traced(3)
    (['x', 'pair', 'getattr_1', 'output'], 3)
    """

    def __init__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> None:
        _proxyable.setdefault(cls)
        super().__init__(name, bases, names)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object, or a node that makes one of proxies."""
        proxy = find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Writes down what a module or a function does.

    Classes derived from it may leave other modules as they are (``is_leaf_module``), answer for branches and loops
    (``to_bool``, ``iter``, ``keys``), and change nodes as they come (``create_node``, ``create_arg``,
    ``create_proxy``).

    >>> import tracejit as tj
    >>> model = tj.nn.Sequential(tj.nn.Linear(2, 3), tj.nn.ReLU())
    >>> [node.target for node in Tracer().trace(model).nodes]
    ['input', '0', '1', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids = {
            *(id(f) for f in autowrap_functions),
            *(
                id(f)
                for module in autowrap_modules
                for name, f in vars(module).items()
                if not name.startswith("_") and callable(f)
            ),
        }
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._tracing = False

    _tracing: bool
    root: Module
    tensor_attrs: dict[Any, str]
    _counts: ClassVar[dict[str, int]] = {}

    # --- values that are no nodes ------------------------------------------------------------------------------

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the module has nothing by yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Any:
        """What a node holds for a value; parameters, buffers, modules and other tensors are the module's by a name."""
        found = self._of_the_module(a)
        if found is not None:
            return self.create_node("get_attr", found, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            given = tuple(self.create_arg(x) for x in a)
            return self.create_node("call_function", type(a), given, {})
        for kind, prefix in _KEPT.items():
            if isinstance(a, kind):
                return self._kept(a, prefix)
        if type(a) in _proxyable:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _of_the_module(self, a: Any) -> str | None:
        """The path of a parameter, a buffer or a module; ``NameError`` for a parameter of another."""
        if isinstance(a, Parameter):
            path = _path_of(a, self.root.named_parameters())
            if path is None:
                raise NameError("parameter is not a member of this module")
            return path
        if isinstance(a, Tensor):
            return _path_of(a, self.root.named_buffers())
        if isinstance(a, Module):
            return _path_of(a, self.root.named_modules())
        return None

    def _kept(self, a: Any, prefix: str) -> Node:
        """A constant, as an attribute of the module."""
        key = _key(a)
        name = self.tensor_attrs.get(key)
        if not name:
            name = self.tensor_attrs[key] = self.get_fresh_qualname(prefix)
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    def _find_constants(self, module: Module, path: tuple[str, ...] = ()) -> None:
        for name, value in vars(module).items():
            if isinstance(value, _CONSTANTS):
                self.tensor_attrs[_key(value)] = ".".join((*path, name))
        for name, child in module.named_children():
            self._find_constants(child, (*path, name))

    # --- modules -----------------------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Does a call of ``m`` become one node? As it is, all layers of this package but ``Sequential`` do."""
        return type(m).__module__.startswith("tracejit.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the one that is written down. Raises ``NameError`` where it has none."""
        known = self.submodule_paths
        path = known.get(mod) if known else _path_of(mod, self.root.named_modules())
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a module gives: a node, or what ``forward`` gives when it is run on the proxies."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            key = f"{path}@{count}" if count else path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = count + 1
            if self.is_leaf_module(m, path):
                found = self.create_proxy("call_module", path, args, kwargs)
            else:
                found = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        return found

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a module that runs finds by a name: proxies for parameters, one for each."""
        paths: Iterable[tuple[str, Any]]
        if isinstance(attr_val, Parameter):
            paths = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            paths = self.root.named_buffers()
        else:
            return attr_val
        path = _path_of(attr_val, paths)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            known: dict[str, Any] = {}
            if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                constant = self.param_shapes_constant and isinstance(attr_val, Parameter)
                known["proxy_factory_fn"] = (
                    (lambda node: ParameterProxy(self, node, path, attr_val)) if constant else None
                )
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, **known)
        return parameter_proxy_cache[path]

    # --- the run -----------------------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function that is run, and what it is run on."""
        return placeholders(self, root_fn, is_module, concrete_args)

    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """The graph of what ``root`` does. Arguments with values in ``concrete_args`` are no parameters of it.

        Raises `TraceError` where the program has to know a value.
        """
        function = self._begin(root)
        interception.take()
        _depth[0] += 1
        before, self._tracing = self._tracing, True
        try:
            names = function.__globals__
            run, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
            with Patcher() as patcher:
                self._patch(patcher)
                patcher.functions(names, self._autowrap_function_ids)
                for module in self._autowrap_search:
                    patcher.functions(vars(module), self._autowrap_function_ids)
                result = self.create_arg(run(*args))
            returned = declared(run, "return")
            self.create_node("output", "output", (result,), {}, type_expr=returned)
            self.submodule_paths = None
        finally:
            self._tracing = before
            _depth[0] -= 1
            interception.release()
            interception.settle()
        return self.graph

    def _begin(self, root: Any) -> FunctionType:
        """A new graph, and the function that is written down."""
        if isinstance(root, Module):
            name = self.traced_func_name
            assert hasattr(type(root), name), (
                f"traced_func_name={name} doesn't exist in {type(root).__name__}"
            )
            self.root, function = root, getattr(type(root), name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: path for path, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(function, "__code__", None)
        if code is not None:
            names = ("co_name", "co_filename", "co_firstlineno")
            self.graph._co_fields = {name: getattr(code, name) for name in names}
        self.tensor_attrs = {}
        self._find_constants(self.root)
        assert isinstance(function, FunctionType), f"Expected FunctionType, got {type(function)}"
        return function

    def _patch(self, patcher: Patcher) -> None:
        """Have calls and attributes of modules come to this tracer, and those of wrapped functions."""
        found: Any = Module.__getattr__
        called: Any = Module.__call__
        proxies: dict[str, Proxy] = {}

        def attribute(module: Module, name: str) -> Any:
            return self.getattr(name, found(module, name), proxies)

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return called(module, *args, **kwargs)

            names = getattr(getattr(module, "forward", module), "__globals__", {})
            patcher.functions(names, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patcher.attribute(Module, "__getattr__", attribute)
        patcher.attribute(Module, "__call__", call)
        patcher.wrapped()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            apart = name == "_autowrap_search"  # modules, of which there are no copies
            made.__dict__[name] = copy.copy(value) if apart else copy.deepcopy(value, memo)
        return made


def _key(constant: Any) -> Any:
    return constant if isinstance(constant, Tensor) else id(constant)


def _path_of(value: Any, paths: Iterable[tuple[str, Any]]) -> str | None:
    return next((path for path, one in paths if one is value), None)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: Any = None) -> GraphModule:
    """A module that does what ``root`` does, as a graph that can be looked at and changed.

    Raises `TraceError` where ``root`` has to know a value: in a branch on one, for instance.

    >>> import tracejit as tj
    >>> print(symbolic_trace(lambda x, y: tj.relu(x + y)).code.strip())
    def forward(self, x, y):
        add = x + y;  x = y = None
        relu = tracejit.relu(add);  add = None
        return relu
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
