"""Layers taken together, or out, in modules for inference: batch norm into convolutions, dropout away."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from .. import nn
from ..made_modules import make_module
from ..nn.utils.fusion import fuse_conv_bn_eval
from .graph_module import GraphModule
from .node import Node
from .tracer import Tracer, symbolic_trace

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

_PATTERNS = (
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


def _place(target: str) -> tuple[str, str]:
    """The path of what has an attribute, and its name."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Does a node call a layer of the second class with what one of the first class gives?

    >>> import tracejit as tj
    >>> model = tj.nn.Sequential(tj.nn.Linear(1, 1), tj.nn.ReLU())
    >>> nodes = list(tj.fx.symbolic_trace(model).graph.nodes)
    >>> matches_module_pattern((tj.nn.Linear, tj.nn.ReLU), nodes[2], dict(model.named_modules()))
    True
    """
    if not node.args:
        return False
    for kind, current in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if not isinstance(current.target, str) or type(modules.get(current.target)) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Have a node call another layer, in its place.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(tj.nn.Sequential(tj.nn.ReLU()))
    >>> replace_node_module(list(traced.graph.nodes)[1], dict(traced.named_modules()), tj.nn.Tanh())
    >>> traced
    Sequential(
      (0): Tanh()
    )
    """
    assert isinstance(node.target, str)
    parent, name = _place(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """The module with batch norms in the weights of the convolutions before them, for inference.

    A batch norm stays where the convolution's result is used elsewhere, too, or where it has no running statistics.
    ``no_trace`` takes a module that is a graph already.

    >>> import tracejit as tj
    >>> model = tj.nn.Sequential(tj.nn.Conv2d(1, 2, 1), tj.nn.BatchNorm2d(2)).eval()
    >>> [node.op for node in fuse(model).graph.nodes]
    ['placeholder', 'call_module', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    found: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(found.named_modules())
    graph = copy.deepcopy(found.graph)
    for pattern in _PATTERNS:
        for node in list(graph.nodes):
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(found, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """The module without layers that drop elements.

    >>> import tracejit as tj
    >>> [node.op for node in remove_dropout(tj.nn.Sequential(tj.nn.Dropout())).graph.nodes]
    ['placeholder', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(model)
    modules = dict(model.named_modules())
    for node in list(graph.nodes):
        if node.op == "call_module" and isinstance(modules.get(node.target), _DROPOUTS):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(model, graph)


make_module("fx.experimental.optimization", **{name: globals()[name] for name in __all__})
