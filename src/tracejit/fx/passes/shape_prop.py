"""Runs a graph, and leaves with each node what shape its value had."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from ...memory_formats import channels_last, channels_last_3d, contiguous_format
from ...tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]

_FORMATS = ((contiguous_format, None), (channels_last, 4), (channels_last_3d, 5))


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """What is known of ``result``."""
    found: Any = result
    order = None
    for known, rank in _FORMATS if include_contiguity else ():
        fits = rank is None or found.ndim == rank
        if fits and found.is_contiguous(memory_format=known):
            order = known
            break
    stride = tuple(found.stride())
    return TensorMetadata(found.shape, found.dtype, found.requires_grad, stride, order, False, {})


class ShapeProp(Interpreter):
    """Leaves ``tensor_meta`` and ``type`` with each node.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda x: tj.relu(x).sum(0))
    >>> found = ShapeProp(traced).propagate(tj.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (2, 3), (3,), (3,)]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """What a node gives; ``RuntimeError`` that names it where it fails."""
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        seen: list[Tensor] = []

        def known(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            seen.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, known)
        if seen:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph for ``args``."""
        return super().run(*args)
