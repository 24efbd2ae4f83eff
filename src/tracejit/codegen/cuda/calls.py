"""Which calls that no fused kernel can take are kernels of their own on a device."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Value
from ..nest import Layout
from .along import goes_along_on_a_device, write_device_along
from .attention import attends, write_attention
from .convolution import convolves, write_convolution
from .launch import DeviceCode

__all__ = ["device_writer"]

DeviceWrite = Callable[[Value, Layout, Callable[[Value], Layout]], DeviceCode]


def device_writer(value: Value) -> DeviceWrite | None:
    """What prints the kernel of a library call, None for those that run the op's own body.

    >>> from tracejit.ir import parse
    >>> device_writer(parse("graph f(x: f32[2]) { %0: f32[2] = exp(x)  return %0 }").outputs[0])
    """
    if attends(value):
        return write_attention
    if convolves(value):
        return write_convolution
    if goes_along_on_a_device(value):
        return write_device_along
    return None
