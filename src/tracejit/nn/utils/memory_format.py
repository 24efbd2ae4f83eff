"""Weights of convolutions in another order in memory: a hint that programs give, as `memory_formats` says."""

from __future__ import annotations

from typing import TypeVar

from ...memory_formats import memory_format as MemoryFormat
from ..module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_M = TypeVar("_M", bound=Module)


def convert_conv2d_weight_memory_format(module: _M, memory_format: MemoryFormat) -> _M:
    """``module``, whose convolutions over images may have their weights in another order; here they stay in rows.

    >>> import tracejit as tj
    >>> net = tj.nn.Sequential(tj.nn.Conv2d(2, 3, 3))
    >>> tj.nn.utils.convert_conv2d_weight_memory_format(net, tj.channels_last) is net
    True
    """
    del memory_format
    return module


def convert_conv3d_weight_memory_format(module: _M, memory_format: MemoryFormat) -> _M:
    """``module``, whose convolutions over volumes may have their weights in another order; here they stay in rows.

    >>> import tracejit as tj
    >>> layer = tj.nn.Conv3d(2, 3, 1)
    >>> tj.nn.utils.convert_conv3d_weight_memory_format(layer, tj.channels_last_3d) is layer
    True
    """
    del memory_format
    return module
