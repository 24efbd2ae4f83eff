"""Numbers in the Python of a call: read and computed in the lines before the program that needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..numbers.clocks import TRIALS, is_clock, told_afterwards
from ..numbers.numbers import (
    ANY,
    LATE,
    Number,
    NumberGuard,
    TypeChangedError,
    cell_maker,
    item_of,
    outcome_key,
)
from ..recording.inputs import Source
from ..tree.tree import Leaf

if TYPE_CHECKING:
    from ..tree.segments import Runner


class NumberLines:
    """The part of a writer of replays that writes lines about numbers."""

    names: dict[str, Any]
    by_value: dict[Any, str]

    def __init__(self, sources: Sequence[Source]) -> None:
        self.number_names: dict[Number, str] = {}
        self.cells: dict[Number, list[int]] = {}
        self.afterwards: list[Number] = []
        self.fetched: dict[Any, str] = {}  # arrays of the host with numbers of a device
        for i, source in enumerate(sources):
            if source.number is not None:
                self.cells.setdefault(source.number, []).append(i)
                self.names[f"cell{i}"] = cell_maker(source.value.spec)

    def array_of(self, value: Any) -> str:
        """The array of a value of which a number is read; on the host where it was fetched."""
        return self.fetched.get(value) or f"{self.by_value[value]}.array"

    def add(self, line: str) -> None:
        """Write a line."""
        raise NotImplementedError

    def empty_cells(self, known: Sequence[Number]) -> None:
        """Something of the right type in the cells that a path may not fill; of ``known`` numbers all do."""
        for number in [n for n in self.cells if n not in known]:
            for i in self.cells[number]:
                self.names[f"empty{i}"] = self.names[f"cell{i}"](0)
                self.add(f"t{i} = empty{i}")

    def number_lines(self, runner: Runner) -> None:
        """Read and compute the numbers of a segment that its program, or its guard, waits for, and fill their cells."""
        segment, self.afterwards = runner.segment, []
        if any(map(is_clock, segment.numbers)):
            guarded = [segment.guard.value] if isinstance(segment.guard, NumberGuard) else []
            self.afterwards = told_afterwards(segment.numbers, [*self.cells, *guarded])
        numbers = [x for x in segment.numbers if x not in self.afterwards]
        if not numbers:
            return
        self.add("try:")
        for number in numbers:
            name = self.number_line(number, "    ")
            if number.may_change:
                self.names["TypeChangedError"] = TypeChangedError
                self.add(f"    if type({name}) is not {self.bind_object(number.kind)}:")
                self.add("        raise TypeChangedError('another type')")
            for i in self.cells.get(number, ()):
                self.add(f"    t{i} = cell{i}({name})")
        self.add("except failures as failure:")
        self.add("    raise Refused(str(failure)) from None")

    def number_line(self, number: Number, indent: str) -> str:
        """The line that gives a number its name."""
        name = self.number_names.setdefault(number, f"n{len(self.number_names)}")
        self.add(f"{indent}{name} = {self.number_text(number)}")
        return name

    def lines_afterwards(self) -> None:
        """Read the clocks that are read when the program of a segment has run, and compute what hangs on them."""
        if not any(number.name == "truediv" for number in self.afterwards):
            for number in self.afterwards:
                self.number_line(number, "")
            return
        self.names["trials"] = range(TRIALS)
        self.add("for trial in trials:")
        self.add("    try:")
        for number in self.afterwards:
            self.number_line(number, " " * 8)
        self.add("    except ZeroDivisionError:")
        self.add("        continue")
        self.add("    break")
        self.add("else:")
        self.add("    raise ZeroDivisionError('a clock stands still')")

    def number_text(self, number: Number) -> str:
        """How a call gets a number."""
        if number.name == "argument":
            return f"numbers[{number.at}]"
        if number.name == "item":
            self.names["item_of"] = item_of
            return f"item_of({self.array_of(number.at)})"
        if number.name == "place":
            text: str = number.at.check.source(self.bind_object)
            return text
        return number.text(self.bind_object)

    def bind_object(self, x: Any) -> str:
        """A name or a literal for an operand, a constant or an object."""
        if isinstance(x, Number) and x.name == LATE:
            return f"{self.bind_object(x.at)}()"
        if isinstance(x, Number):
            return self.number_names[x]
        if type(x) in (int, bool) or (type(x) is float and math.isfinite(x)):
            return f"({x!r})"
        name = f"x{id(x)}"
        self.names[name] = x
        return name

    def outcomes(self, guard: NumberGuard, children: Sequence[Any]) -> list[str]:
        """The conditions under which each child of a guard on a number is taken."""
        name = self.number_names[guard.value]
        if all(kind == "bool" for kind, _ in children):
            equals = "is" if guard.value.kind is bool else "=="  # NumPy's truth values
            return [f"{name} {equals} {bool(value)}" for _, value in children]
        self.names["outcome_key"] = outcome_key
        self.add(f"outcome = outcome_key({name})")
        return [f"outcome == {outcome!r}" for outcome in children]

    def store_lines(self, leaf: Leaf) -> None:
        """Leave numbers in places of the Python state."""
        for place, x in leaf.recording.stores:
            self.add(f"{self.bind_object(place.store)}({self.bind_object(x)})")

    def merged(self, leaf: Leaf, outputs: Sequence[str]) -> list[str]:
        """The results in order: tensors, and the numbers among them."""
        found = list(outputs)
        for i, x in leaf.recording.numbers:
            found.insert(i, self.bind_object(x))
        return found


def conditions_on_item(children: Sequence[Any]) -> list[str]:
    """The conditions, in order, under which each child of a guard on a tensor is taken."""
    return ["True" if outcome == ANY else f"outcome == {outcome!r}" for outcome in children]
