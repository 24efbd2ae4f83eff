"""Programs written down as graphs that can be looked at, changed, and run: the interface of PyTorch's ``fx``.

A program is run on proxies, and what is done with these becomes the nodes of a graph. A branch or a loop that hangs on
a value cannot be written down like that, and is refused; :func:`tracejit.compile` records those.
"""

from ..made_modules import make_module
from . import (  # noqa: F401  (reached by their paths)
    codegen,
    experimental,
    folding,
    graph,
    graph_module,
    immutable_collections,
    interpreter,
    node,
    operator_schemas,
    parameters,
    passes,
    proxy,
    pytree_codegen,
    subgraph_rewriter,
    traceback,
    tracer,
    tracer_base,
    wrapping,
)
from .codegen import CodeGen
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .matching import InternalMatch, SubgraphMatcher
from .node import Node, has_side_effect, map_arg
from .parameters import PH
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern
from .tracer import ProxyableClassMeta, Tracer, symbolic_trace
from .wrapping import wrap

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

vars(proxy).update({name: getattr(tracer_base, name) for name in tracer_base.__all__})
make_module(
    "fx._symbolic_trace",
    parameters,
    tracer,
    wrapping,
    _assert_is_none=wrapping.assert_is_none,
    is_fx_symbolic_tracing=tracer.is_fx_tracing,
)
make_module("fx.passes.utils")
make_module(
    "fx.passes.utils.matcher_utils", SubgraphMatcher=SubgraphMatcher, InternalMatch=InternalMatch
)
