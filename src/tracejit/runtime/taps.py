"""Convolutions over flat memory as program steps: native code for this CPU, made once and kept in the kernel store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..codegen.products.tap_few import (
    FEW_ROWS,
    few_products_text,
    few_scratch,
    few_weights_text,
    strip_vectors,
)
from ..codegen.products.tap_products import product_scratch, products_text
from ..codegen.products.tap_weights import weight_scratch, weights_text
from ..codegen.products.vector_machine import Machine, vector_machine
from ..passes.windows.strips import at_most
from ..sizes import call
from .ahead import NONE, Ahead
from .launcher import COARSE, RELEASE_GIL, Step, for_workers
from .machine_code.vector_modules import VectorModule, address

__all__ = ["TapStep", "Work", "scratch_bytes", "tap_module", "tap_step"]

#: An argument of a step: (slot, value).
Word = tuple[int, Any]

#: Multiply-adds worth a chunk of their own, and from which on a step lets other Python threads run.
_CHUNK_WORK, _RELEASE_WORK = 1 << 17, 1 << 21
_TEXTS = {
    "tap_products": products_text,
    "tap_weights": weights_text,
    "few_products": few_products_text,
    "few_weights": few_weights_text,
}


class Work(NamedTuple):
    """How much there is to do: in each of the groups, count (channels and taps) x positions x rows multiply-adds.

    Positions are those of ``planes``, each ``lines`` of ``width``.
    """

    groups: Any
    count: Any
    planes: Any
    lines: Any
    width: Any
    rows: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TapStep(Step):
    """A step that says what it does: op, dtype, work, and the bytes of both operands and the result."""

    name: str
    dtype: str
    work: Work
    moved: tuple[Any, Any, Any]


def tap_step(
    name: str,
    dtype: str,
    words: Sequence[Word],
    offsets: Sequence[int],
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``tap_products`` or ``tap_weights``, as ``name`` says.

    ``words`` are its arguments in the order of ``PRODUCT_WORDS`` or ``WEIGHT_WORDS``, ``offsets`` what comes after
    them, ``moved`` the bytes of operands and result, ``workers`` those that have a part of the scratch; its code may be
    compiled ``ahead``.

    >>> if vector_machine() is not None:
    ...     step = tap_step("tap_weights", "f32", [], [], Work(1, 144, 1, 3, 3, 16), (0, 0, 0), 2)
    ...     assert step.extent == (-1, -(-144 // vector_machine().rows))
    """
    found = vector_machine()
    assert found is not None, "planned for a machine that has native code"
    is_products = name == "tap_products"
    size = 4 if dtype == "f32" else 8
    code = code_of(name, work.rows)
    if code == "few_products":
        extent, grain, release = call(_divide_few, *_strip(found, size), *work)
    else:
        extent, grain, release = call(_divide, int(is_products), *_block(found, size), *work)
    flags = release + (0 if is_products else COARSE) + for_workers(workers)
    arguments = [*words, *((-1, offset) for offset in offsets)]
    return TapStep(
        address(tap_module(code, dtype), ahead),
        arguments,
        (-1, extent),
        grain,
        flags,
        name=name,
        dtype=dtype,
        work=work,
        moved=moved,
    )


def code_of(name: str, rows: Any) -> str:
    """The native code of an op for so many rows of a group.

    >>> code_of("tap_products", 64), code_of("tap_weights", 1)
    ('tap_products', 'few_weights')
    """
    return name.replace("tap_", "few_") if at_most(rows, FEW_ROWS) else name


def scratch_bytes(name: str, dtype: str, count: Any, rows: Any) -> Any:
    """Bytes that each worker needs, for so many channels and taps and rows of a group.

    >>> scratch_bytes("tap_weights", "f32", 9, 64) > scratch_bytes("tap_weights", "f32", 9, 1)
    True
    """
    found = vector_machine()
    assert found is not None, "planned for a machine that has native code"
    if code_of(name, rows) != name:
        return few_scratch(count)
    if name == "tap_weights":
        return weight_scratch(found, count)
    return product_scratch(found, 4 if dtype == "f32" else 8, count)


def _block(machine: Machine, nbytes: int) -> tuple[int, int]:
    """Rows of a block and positions of a strip."""
    return machine.rows, machine.vectors * machine.vector // nbytes


def _strip(machine: Machine, nbytes: int) -> tuple[int, int]:
    """Vectors of a strip of few rows, and the positions of one."""
    return strip_vectors(machine), machine.vector // nbytes


def _divide_few(
    strip: int, lanes: int, groups: int, count: int, planes: int, lines: int, width: int, rows: int
) -> tuple[int, int, int]:
    """The same for groups of few rows: units are strips of the positions of a group and plane.

    >>> _divide_few(8, 16, 64, 9, 4, 28, 28, 1)
    (1024, 74, 0)
    >>> _divide_few(8, 16, 64, 9, 4, 1, 300, 1)
    (768, 145, 0)
    """
    total = groups * count * planes * lines * width * rows
    vectors = -(-width // lanes) if lines == 1 else lines
    units = groups * planes * -(-vectors // strip)
    release = RELEASE_GIL if total >= _RELEASE_WORK else 0
    return units, max(1, _CHUNK_WORK * units // max(total, 1)), release


def _divide(
    is_products: int,
    block: int,
    strip: int,
    groups: int,
    count: int,
    planes: int,
    lines: int,
    width: int,
    rows: int,
) -> tuple[int, int, int]:
    """The parallel extent in units, its grain, and the flag for letting other Python threads run.

    Units are blocks of results: of a strip of positions, or for the gradient of the weight of all positions. Whole
    strips, which are laid out once, stay together where there are enough of them.

    >>> _divide(1, 8, 48, 1, 144, 16, 32, 32, 16)
    (684, 2, 1)
    >>> _divide(0, 8, 48, 1, 144, 16, 32, 32, 16)
    (18, 1, 1)
    """
    positions = planes * lines * width
    total = groups * count * positions * rows
    release = RELEASE_GIL if total >= _RELEASE_WORK else 0
    if not is_products:
        units = groups * -(-count // block)
        return units, max(1, _CHUNK_WORK * units // max(total, 1)), release
    strips, blocks = groups * -(-positions // strip), -(-rows // block)
    units = strips * blocks
    grain = max(1, _CHUNK_WORK * units // max(total, 1))
    if strips >= 16 or grain > blocks:
        grain = -(-grain // blocks) * blocks
    return units, grain, release


@cache
def tap_module(name: str, dtype: str) -> VectorModule:
    """The native code of that name for a dtype.

    >>> vector_machine() is None or tap_module("tap_weights", "f32").symbol == "tracejit_tap_weights"
    True
    """
    found = vector_machine()
    assert found is not None, "planned for a machine that has native code"
    return VectorModule(f"tracejit_{name}", _TEXTS[name](dtype, found))
