"""Planning Fourier transforms: native steps, one for each dimension, which a loop can hold, instead of library calls.

A result that is not finite ends the program, and eager code is asked: so these steps are only part of programs that may
be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...extents import hint
from ...ir.graph import Value
from ...ops import fourier
from ...ops.host_fourier import MODES, in_order, scale_of
from ...ops.shapes import numel
from ...passes.windows.strips import at_most, equal
from ..fourier import Transform, constants_address, has_kernel, is_many
from ..machine_code.promised import located
from ..machine_code.vector_modules import VectorModule, address
from .records import NamedStep, Slot

if TYPE_CHECKING:
    from .plan import Planner

__all__ = ["is_transformed", "plan_transform", "transform_modules"]

_OPS = frozenset({fourier.fourier, fourier.fourier_of_real, fourier.real_of_fourier})
_KINDS = {"f32": "f32", "c64": "f32", "f64": "f64", "c128": "f64"}


class _Along(NamedTuple):
    """A transform along one dimension of an array: before it there are ``outer`` elements, behind it ``inner``."""

    of: Transform
    outer: Any
    inner: Any


def is_transformed(value: Value) -> bool:
    """Is this a transform that kernels compute, on a host with vectors?

    What depends on sizes holds for those of present, and is decided.

    >>> from tracejit.ir import parse
    >>> text = "graph f(x: c64[22]) { %0: c64[22] = fourier(x, dims=(0,), norm='ortho', inverse=True) return %0 }"
    >>> is_transformed(parse(text).outputs[0])
    False
    """
    if value.op not in _OPS:
        return False
    x = value.value_operands[0]
    if x.spec.dtype.short not in _KINDS or not at_most(1, x.spec.numel):
        return False
    return all(
        equal(n, hint(n))
        and has_kernel(int(hint(n)), MODES[name] != "complex", dim < x.spec.ndim - 1)
        for name, dim, n in _one_by_one(value)
    )


def _one_by_one(value: Value) -> list[tuple[str, int, Any]]:
    """Which transforms it consists of, in order: the function, the dimension, and how many elements that has."""
    x, attributes = value.value_operands[0], value.attributes
    name = {fourier.fourier_of_real: "rfft", fourier.real_of_fourier: "irfft"}.get(value.op)
    name = name or ("ifft" if attributes["inverse"] else "fft")
    found = []
    for one, dim in in_order(name, attributes["dims"]):
        found.append((one, dim, attributes["count"] if one == "irfft" else x.spec.shape[dim]))
    return found


def _transforms(value: Value) -> list[_Along]:
    x, found = value.value_operands[0], list[_Along]()
    kind, shape, norm = _KINDS[x.spec.dtype.short], list(x.spec.shape), value.attributes["norm"]
    for name, dim, size in _one_by_one(value):
        n, inverse, mode = int(hint(size)), name[0] == "i", MODES[name]
        outer, inner = numel(tuple(shape[:dim])), numel(tuple(shape[dim + 1 :]))
        columns = not equal(inner, 1)
        scale = scale_of(n, norm, inverse)
        of = Transform(mode, kind, n, inverse, scale, columns, is_many(kind, outer))
        found.append(_Along(of, outer, inner))
        shape[dim] = n // 2 + 1 if mode == "of_real" else n
    return found


def transform_modules(value: Value) -> list[VectorModule]:
    """The native code that computes a value.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> text = "graph f(x: c64[16]) { %0: c64[16] = fourier(x, dims=(0,), norm='ortho', inverse=True) return %0 }"
    >>> graph = parse(text)
    >>> vector_machine() is None or transform_modules(graph.outputs[0])[0].symbol
    'tracejit_fourier_complex_row'
    """
    return [one.of.module() for one in _transforms(value)]


def plan_transform(planner: Planner, value: Value) -> None:
    """The steps that compute a value from an operand that lies row by row.

    >>> from tracejit.ir import parse
    >>> from tracejit.codegen.products.vector_machine import vector_machine
    >>> from tracejit.runtime.plan.plan import make_plan
    >>> text = "graph f(x: c64[16]) { %0: c64[16] = fourier(x, dims=(0,), norm='ortho', inverse=True) return %0 }"
    >>> graph = parse(text)
    >>> vector_machine() is None or [step.name for step in make_plan(graph, [(1,)], may_refuse=True).items]
    ['transform']
    """
    x, transforms = value.value_operands[0], _transforms(value)
    here, result = planner.where(x), planner.argument(planner.place(value), 0)
    between = result
    if transforms[-1].of.mode == "to_real" and len(transforms) > 1:
        between = _room(planner, value, x.spec.nbytes)
    for number, (of, outer, inner) in enumerate(transforms, 1):
        there = result if number == len(transforms) else between
        constants = [
            (-1, located(constants_address(*origin), "fourier", *origin))
            for origin in ((*of.words(), which) for which in "01")
        ]
        words = [here, there, *constants, *((-1, n) for n in of.numbers(outer, inner))]
        code = address(of.module(), planner.ahead)
        tiles = (-1, of.tiles(outer, inner))
        moved = (x.spec.nbytes, value.spec.nbytes)
        planner.items.append(NamedStep(code, words, tiles, of.grain, name="transform", moved=moved))
        here = there


def _room(planner: Planner, value: Value, nbytes: Any) -> tuple[int, int]:
    """Memory until the value is computed."""
    owner = (value, "spectrum")
    offset = planner.arena.take(nbytes, owner)
    planner.release(owner)
    return planner.argument(Slot("arena", 0, offset), 0)
