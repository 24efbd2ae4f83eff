"""Convolutions over flat memory as program steps: native code for this CPU, made once and kept in the kernel store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..codegen.products.tap_abreast import ABREAST_WORDS, abreast_text
from ..codegen.products.tap_abreast_weights import abreast_weights_text
from ..codegen.products.tap_few import FEW_PRODUCT_WORDS, few_products_text
from ..codegen.products.tap_few_weights import few_weights_text
from ..codegen.products.tap_memory import COPIED_LINES, memory_text
from ..codegen.products.tap_outputs import OUTPUT_WORDS, outputs_text
from ..codegen.products.tap_products import PRODUCT_WORDS, product_scratch, products_text
from ..codegen.products.tap_weights import weight_scratch, weights_text
from ..codegen.products.vector_machine import Machine, vector_machine
from ..sizes import call
from .ahead import NONE, Ahead
from .launcher import COARSE, RELEASE_GIL, Step, for_workers
from .machine_code.vector_modules import VectorModule, address

__all__ = [
    "SIZES",
    "TapStep",
    "Work",
    "all_products",
    "code_step",
    "memory_step",
    "scratch_bytes",
    "shared_units",
    "tap_module",
    "tap_step",
    "this_machine",
]

#: An argument of a step: (slot, value).
Word = tuple[int, Any]

#: Multiply-adds worth a chunk of their own, and from which on a step lets other Python threads run.
_CHUNK_WORK, _RELEASE_WORK = 1 << 17, 1 << 21
#: Elements that are copied in the time of this many multiply-adds.
_COPY_WORK = 8
SIZES = {"f32": 4, "f64": 8}
#: Where the word ``after`` is among those of a step.
_AFTER = {
    "tap_products": PRODUCT_WORDS.index("after"),
    "few_products": FEW_PRODUCT_WORDS.index("after"),
    "abreast_products": ABREAST_WORDS.index("after"),
    "output_products": OUTPUT_WORDS.index("after"),
}
_TEXTS = {
    "tap_products": products_text,
    "tap_weights": weights_text,
    "few_products": few_products_text,
    "few_weights": few_weights_text,
    "tap_memory": memory_text,
    "abreast_products": abreast_text,
    "abreast_weights": abreast_weights_text,
    "output_products": outputs_text,
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
    """A step that says what it does: op, dtype, work, and the bytes of both operands and the result.

    A kernel may run on what it has just computed: that of the step ``joined``, to which the word ``after`` leads (-1
    where there is no such word).
    """

    name: str
    dtype: str
    work: Work
    moved: tuple[Any, Any, Any]
    after: int = -1
    joined: Step | None = None


def code_step(
    code: str,
    dtype: str,
    words: Sequence[Word],
    division: tuple[Any, ...],
    work: Work,
    moved: tuple[Any, Any, Any],
    ahead: Ahead,
    name: str = "",
    flags: int = 0,
) -> TapStep:
    """A step of native code, of so many units, a grain, and a flag.

    >>> if vector_machine() is not None:
    ...     step = code_step("few_weights", "f32", [], (64, 8, 0), Work(64, 9, 1, 7, 7, 1), (0, 0, 0), NONE)
    ...     assert (step.name, step.extent, step.grain) == ("few_weights", (-1, 64), 8)
    """
    extent, grain, release = division
    return TapStep(
        address(tap_module(code, dtype), ahead),
        list(words),
        (-1, extent),
        grain,
        release + flags,
        name=name or code,
        dtype=dtype,
        work=work,
        moved=moved,
        after=_AFTER.get(code, -1),
    )


def tap_step(
    name: str,
    dtype: str,
    words: Sequence[Word],
    work: Work,
    moved: tuple[Any, Any, Any],
    workers: int,
    ahead: Ahead = NONE,
) -> TapStep:
    """The step of ``tap_products`` or ``tap_weights``, as ``name`` says, for groups of many rows.

    ``words`` are its arguments in the order of ``PRODUCT_WORDS`` or ``WEIGHT_WORDS``, ``moved`` the bytes of operands
    and result, ``workers`` those that have a part of the scratch; its code may be compiled ``ahead``.

    >>> if vector_machine() is not None:
    ...     step = tap_step("tap_weights", "f32", [], Work(1, 144, 1, 3, 3, 16), (0, 0, 0), 2)
    ...     assert step.extent == (-1, -(-144 // vector_machine().rows))
    """
    found = this_machine()
    is_products = name == "tap_products"
    division = call(_divide, int(is_products), *_block(found, SIZES[dtype]), *work)
    flags = (0 if is_products else COARSE) + for_workers(workers)
    return code_step(name, dtype, words, division, work, moved, ahead, flags=flags)


def memory_step(
    dtype: str,
    words: Sequence[Word],
    sizes: tuple[Any, Any, Any],
    moved: tuple[Any, Any, Any],
    ahead: Ahead = NONE,
) -> TapStep:
    """The step that copies what windows see: so many planes, lines of a plane, and elements of a line.

    >>> if vector_machine() is not None:
    ...     step = memory_step("f32", [], (6, 18, 18), (0, 0, 0))
    ...     assert step.extent == (-1, 12)
    """
    planes, lines, row = sizes
    units = planes * -(-lines // COPIED_LINES)
    division = call(shared_units, units, planes * lines * row * _COPY_WORK)
    work = Work(0, 0, planes, lines, row, 0)
    return code_step("tap_memory", dtype, words, division, work, moved, ahead)


def scratch_bytes(name: str, dtype: str, count: Any) -> Any:
    """Bytes that each worker needs for groups of many rows, for so many channels and taps.

    >>> scratch_bytes("tap_weights", "f32", 9) > 9 * 8
    True
    """
    if name == "tap_weights":
        return weight_scratch(this_machine(), count)
    return product_scratch(this_machine(), SIZES[dtype], count)


def this_machine() -> Machine:
    """The vectors of this machine, for which there is native code.

    >>> vector_machine() is None or this_machine() == vector_machine()
    True
    """
    found = vector_machine()
    assert found is not None, "planned for a machine that has native code"
    return found


def all_products(work: Work) -> Any:
    """How many multiply-adds all of the work is.

    >>> all_products(Work(2, 9, 1, 7, 7, 3))
    2646
    """
    total = 1
    for number in work:
        total = total * number
    return total


def shared_units(units: int, total: int) -> tuple[int, int, int]:
    """The parallel extent in units, its grain, and the flag for letting other Python threads run.

    >>> shared_units(1024, 1 << 21)
    (1024, 64, 1)
    """
    release = RELEASE_GIL if total >= _RELEASE_WORK else 0
    return units, max(1, _CHUNK_WORK * units // max(total, 1)), release


def _block(machine: Machine, nbytes: int) -> tuple[int, int]:
    """Rows of a block and positions of a strip."""
    return machine.rows, machine.vectors * machine.vector // nbytes


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
    if not is_products:
        return shared_units(groups * -(-count // block), total)
    strips, blocks = groups * -(-positions // strip), -(-rows // block)
    units, grain, release = shared_units(strips * blocks, total)
    if strips >= 16 or grain > blocks:
        grain = -(-grain // blocks) * blocks
    return units, grain, release


@cache
def tap_module(name: str, dtype: str) -> VectorModule:
    """The native code of that name for a dtype.

    >>> vector_machine() is None or tap_module("tap_weights", "f32").symbol == "tracejit_tap_weights"
    True
    """
    return VectorModule(f"tracejit_{name}", _TEXTS[name](dtype, this_machine()))
