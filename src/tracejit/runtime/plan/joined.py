"""Kernels that join the step of a convolution: they run on what it has just computed, box by box.

A kernel that goes through the elements of a convolution's result (a normalisation's scale and shift, an activation, a
sum with what is kept beside it) would read all of it again when it has left the caches. The kernels are ordinary ones:
those that go through (samples, rows, positions), or through all elements as one, can be given any box of these. What
they compute is written over the convolution's result where nothing else reads that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...codegen.kernel import Function, KernelCode, Number, Pointer
from ...codegen.nest import Layout
from ...ir.graph import Value
from ...ops.shapes import numel
from ...ops.taps import tap_products
from ...passes.fusion.groups import Call, Group, Schedule, looks_up, picks_from_row, root
from ...passes.windows.strips import equal
from ..assembly import Placed
from ..launcher import Step
from ..taps import TapStep
from ..tiled.tile_runs import made_by, read_by
from .overwrite import same_points
from .records import Slot
from .views import Layouts

if TYPE_CHECKING:
    from .plan import Planner

_LOOPS = re.compile(r"\bfor (\w+) in range\(([^)]*)\):")
_PLACES = re.compile(r"\b(\w+)\[([^\]]*)\]")


def join(planner: Planner, placed: Placed) -> dict[Group | Call, Group]:
    """Kernels that are the first to read convolutions' results; each is put right behind its convolution."""
    schedule, found = planner.schedule, dict[Group | Call, Group]()
    if not planner.tiles or planner.runs:
        return found
    steps, waits = list(schedule.steps), placed.before
    for step in reversed(schedule.steps):
        if not isinstance(step, Call) or not _may_be_followed(step.value, planner.layouts):
            continue
        at = steps.index(step)
        reader = next((n for n in range(at + 1, len(steps)) if _reads(steps[n], step.value)), None)
        if reader is None:
            continue
        group = steps[reader]
        if not isinstance(group, Group) or group in found.values() or not _goes_by_points(group):
            continue
        between = (value for other in steps[at + 1 : reader] for value in made_by(other))
        if any(step.value is x for value in between for x in waits.get(value, ())):
            continue  # it writes over what the convolution reads
        steps[at:reader] = [*steps[at + 1 : reader], step]
        found[step] = group
    planner.schedule = Schedule(schedule.graph, tuple(steps), schedule.outputs)
    return found


def _may_be_followed(value: Value, layouts: Layouts) -> bool:
    """Is this a product of taps in memory of its own, and no gradient in parts of few rows?"""
    return value.op is tap_products and layouts(value).root is value


def _reads(step: Group | Call, value: Value) -> bool:
    return any(root(x) is value for x in read_by(step))


def _goes_by_points(group: Group) -> bool:
    return not group.reduced and not any(looks_up(v) or picks_from_row(v) for v in group.values)


def written_over(planner: Planner) -> None:
    """Note which results are written over those of convolutions that only their kernel reads."""
    shown = set(map(root, planner.graph.outputs))
    for call, group in planner.joined.items():
        assert isinstance(call, Call)
        value = call.value
        readers = [step for step in planner.schedule.steps if _reads(step, value)]
        if value in shown or readers != [group]:
            continue
        for result in planner.schedule.outputs[group]:
            free = result not in planner.overwrites and result not in planner.doubled
            own = planner.layouts(result).root is result and result not in planner.packed
            if free and own and same_points(group, result, value, planner.layouts):
                planner.overwrites[result] = value
                _lie_in(planner.layouts, result, planner.layouts(value))
                if result in planner.output_roots:
                    planner.windows[value] = Slot("output", planner.output_roots[result])
                break


def _lie_in(layouts: Layouts, result: Value, lie: Layout) -> None:
    """A result lies like this, and so do the views of it that are known: its memory is in use as long as they are."""
    for value, known in list(layouts.found.items()):
        if known is not None and known.root is result:
            layouts.found[value] = Layout(lie.root, lie.offset + known.offset, known.strides)


def plan_joined(planner: Planner, call: Group | Call) -> int:
    """Append the steps of a convolution and its kernel: one for both, if the kernel is such a one; gives two."""
    assert isinstance(call, Call)
    group = planner.joined[call]
    code = planner.codes[group]
    around, planner.items, planner.held = planner.items, [], []
    planner.plan_step(call)
    number = len(planner.items)
    planner.plan_step(group)
    made, kernel = planner.items[:number], planner.items[number:]
    planner.items, held, planner.held = around, planner.held, None
    both, last = None, made[-1] if made else None
    if isinstance(last, TapStep) and not _spoils(planner, call.value, group):
        both = _with_kernel(last, code, kernel, call.value)
    planner.items += [*made[:-1], both] if both is not None else [*made, *kernel]
    for owner in held:
        planner.arena.give(owner)
    return 2


def _spoils(planner: Planner, value: Value, group: Group) -> bool:
    """Does a kernel write to memory that the convolution reads?"""
    read = {planner.layouts(x).root for x in value.value_operands}
    return any(planner.layouts(x).root in read for x in planner.schedule.outputs[group])


def _with_kernel(
    step: TapStep, code: KernelCode, steps: Sequence[Any], value: Value
) -> TapStep | None:
    """The step of a convolution, and after it the only one of a kernel; None where that does not go through boxes."""
    kernel = steps[0]
    if len(steps) != 1 or not isinstance(kernel, Step):
        return None
    function, shape = code.functions[0], value.spec.shape
    plane = numel(shape[2:])
    if step.after < 0 or _is_in_parts(value) or not _has_pointers(function):
        return None
    names = list(function.named_parameters)
    inner = _inner(function, value, plane)
    if inner is None:
        return None
    moved = dict.fromkeys(names, 0)
    if inner:
        for name, at in _places(function):
            terms, parameter = at.split(" + "), function.named_parameters[name]
            assert isinstance(parameter, Pointer)
            if inner[0] in terms:
                moved[name] = parameter.value.spec.dtype.itemsize
            elif inner[0] in re.findall(r"\w+", at):
                return None
    position = names.index(inner[1]) if inner else -1
    words: list[tuple[int, Any]] = [(-1, kernel.fn_address), (-1, len(kernel.args)), (-1, position)]
    words += [(-1, plane)]
    for name, word in zip(names, kernel.args, strict=True):
        words += [word, (-1, moved[name])]
    args = list(step.args)
    args[step.after] = (-1, len(args))
    return replace(step, args=[*args, *words], joined=kernel)


def _places(function: Function) -> list[tuple[str, str]]:
    """The parameters that a kernel reads and writes, and where."""
    found = _PLACES.findall(function.statements)
    return [(name, at) for name, at in found if name in function.named_parameters]


def _is_in_parts(value: Value) -> bool:
    return any(s != 1 for s in value.attributes["spread"])


def _has_pointers(function: Function) -> bool:
    """Are its parameters addresses and numbers, and does it read each place in one way?"""
    parameters = function.named_parameters
    if not all(isinstance(p, Pointer | Number) for p in parameters.values()):
        return False
    ways: dict[str, set[str]] = {}
    for name, at in _places(function):
        ways.setdefault(name, set()).add(at)
    return all(len(way) == 1 for way in ways.values())


def _inner(function: Function, value: Value, plane: Any) -> tuple[str, str] | tuple[()] | None:
    """The loop over positions of a kernel that goes through (samples, rows, positions), and the name of its extent.

    Nothing where it goes through all elements as one, None where it does something else.
    """
    loops = _LOOPS.findall(function.statements)
    samples, rows = value.spec.shape[:2]
    parameters = function.named_parameters
    index = _index_of(function, value)
    if index is None:
        return None
    if loops == [("i0", "lo, hi")]:
        return () if equal(function.extent, samples * rows * plane) and index == ["i0"] else None
    if len(loops) != 2 or not equal(function.extent, samples * rows):
        return None
    (outer, run), (inner, extent) = loops
    if not equal(_number(parameters, extent), plane):
        return None
    strides: dict[str, Any] = {outer: plane}
    if run == f"{outer}_begin, {outer}_end":
        strides["run"] = rows * plane
        modulus = re.search(rf"\b{outer}_begin = row % (\w+)$", function.source, re.M)
        if modulus is None or not equal(_number(parameters, modulus[1]), rows):
            return None
    elif run != "lo, hi":
        return None
    expected = {inner}
    for name, stride in strides.items():
        term = next((t for t in index if t.startswith(f"{name} * ")), None)
        if term is None:
            continue
        if not equal(_number(parameters, term.removeprefix(f"{name} * ")), stride):
            return None
        expected.add(term)
    known = set(index) == expected and (len(expected) == 1 + len(strides))
    return (inner, extent) if known else None


def _index_of(function: Function, value: Value) -> Sequence[str] | None:
    """The terms of the place where a kernel reads the convolution's result."""
    names = {
        name
        for name, p in function.named_parameters.items()
        if isinstance(p, Pointer) and root(p.value) is value and not p.written
    }
    ways = {at for name, at in _places(function) if name in names}
    return next(iter(ways)).split(" + ") if len(ways) == 1 else None


def _number(parameters: dict[str, Any], name: str) -> Any:
    """The number that a name or digits stand for."""
    if name.isdigit():
        return int(name)
    found = parameters.get(name)
    return found.bits if isinstance(found, Number) else -1
