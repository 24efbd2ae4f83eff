"""The straight-line Python of a call: generated for signatures whose one path has no guard.

What the general walk of a trace tree decides at every call is decided here once: which tensors the program reads, which
outputs it makes, what the backward node keeps. The text can be read with ``f.source()``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autograd.node import AccumulateGrad
from ..generated import define
from ..ir.graph import Value
from ..layout import layout_of
from ..tensor import Tensor
from .backward import CompiledBackward
from .segments import wrap_result
from .signature import unflatten
from .tree import Leaf
from .walk import FAILURES, Refused, show

if TYPE_CHECKING:
    from .entry import Entry


def generate(
    name: str, lines: Sequence[str], names: dict[str, Any], entry_point: str
) -> tuple[Any, str]:
    """Compile generated lines; returns the function and its text."""
    text = "\n".join(lines) + "\n"
    return define(text, f"{entry_point} {name}", entry_point, names), text


def make_holds(entry: Entry) -> Callable[[], bool]:
    """A function that checks the Python state and the captured tensors of an entry."""
    assert entry.guard is not None
    names: dict[str, Any] = {"guard": entry.guard.holds, "layout_of": layout_of}
    lines = ["def holds():", "    return (", "        guard()"]
    for i, (tensor, layout, requires_grad) in enumerate(entry.captured):
        names[f"c{i}"], names[f"l{i}"] = tensor, layout
        flag = "requires_grad" if tensor._base is not None else "_requires_grad"
        lines.append(f"        and (c{i}._layout is l{i} or layout_of(c{i}) is l{i})")
        lines.append(f"        and c{i}.{flag} is {requires_grad}")
    function, _ = generate(entry.owner.name, [*lines, "    )"], names, "holds")
    return function  # type: ignore[no-any-return]


def simple(entry: Entry) -> bool:
    """Can the call be written as a straight line?"""
    leaf = entry.root.leaf
    return leaf is not None and not leaf.recording.writes and not leaf.recording.random_calls


def make_replay(entry: Entry) -> tuple[Callable[[list[Tensor]], Any], str]:
    """The function that serves a call of an entry with a single straight segment."""
    return _ReplayWriter(entry).write()


class _ReplayWriter:
    """Writes ``replay(tensors)``."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        leaf = entry.root.leaf
        assert leaf is not None
        self.leaf: Leaf = leaf
        self.runner = entry.root.runner
        self.lines: list[str] = ["def replay(tensors):"]
        self.names: dict[str, Any] = {
            "run": self.runner.program.run,
            "make": Tensor._of_block,
            "leaf": leaf,
            "entry": entry,
            "CompiledBackward": CompiledBackward,
            "unflatten": unflatten,
            "show": show,
            "wrap_result": wrap_result,
            "Refused": Refused,
            "failures": FAILURES,
        }
        self.by_value: dict[Value, str] = {}

    def add(self, line: str) -> None:
        self.lines.append("    " + line)

    def write(self) -> tuple[Callable[[list[Tensor]], Any], str]:
        self.sources()
        self.run()
        self.add("entry.replays += 1")
        self.add("leaf.calls += 1")
        if self.leaf.backward and self.entry.key[0]:
            self.attach()
        self.results()
        return generate(self.entry.owner.name, self.lines, self.names, "replay")

    def sources(self) -> None:
        """Name every graph input."""
        for i, source in enumerate(self.entry.signature.sources):
            if source.kind == "argument":
                self.add(f"t{i} = tensors[{source.position}]")
            else:
                self.names[f"t{i}"] = source.tensor
            self.by_value[source.value] = f"t{i}"

    def run(self) -> None:
        """Run the program and wrap its results."""
        kinds = self.runner.results.kinds
        blocks = [f"b{i}" for i in range(len(kinds))] + (["pack"] if self.runner.pack else [])
        arguments = ", ".join(f"t{i}" for i in self.runner.reads)
        target = f"{', '.join(blocks)}{',' if len(blocks) == 1 else ''} = " if blocks else ""
        self.add("try:")
        self.add(f"    {target}run({arguments})")
        self.add("except failures as failure:")
        self.add("    raise Refused(str(failure)) from None")
        count = len(self.entry.signature.sources)
        names = {position: value for value, position in self.runner.positions.items()}
        for i, (kind, layout, how) in enumerate(kinds):
            self.names[f"k{i}"], self.names[f"l{i}"] = kind, layout
            block = how == "block"
            self.add(
                f"o{i} = make(b{i}, k{i}, l{i})"
                if block
                else f"o{i} = wrap_result(b{i}, k{i}, {how!r})"
            )
            self.by_value[names[count + i]] = f"o{i}"

    def attach(self) -> None:
        """Make the backward node."""
        backward = self.leaf.backward
        self.names["site"] = self.entry.site(self.leaf, self.runner)
        inputs = [self.by_value[v] for v in self.leaf.graph.inputs]
        edges = [
            self.edge(backward.gradient.wrt[i], inputs) for i in range(len(backward.gradient.wrt))
        ]
        saved = [self.saved(v) for v in backward.saved if v not in self.runner.pack]
        watched = (*backward.checked_inputs, *backward.checked_outputs, *backward.reread)
        checked = [self.by_value[v] for v in watched]
        versions = [f"(v{i}, v{i}.value)" for i in range(len(checked))]
        for i, name in enumerate(checked):
            self.add(f"v{i} = {name}._version")
        pack = "pack" if self.runner.pack else "None"
        self.add(
            f"node = CompiledBackward(site, {_tuple(edges)}, {_tuple(inputs)}, {_tuple(saved)}, {pack}, "
            f"{_tuple(versions)})"
        )
        shown = self.leaf.shown
        for number in self.leaf.wanted:
            name = self.by_value[shown[number]]
            self.add(f"{name}._requires_grad = True")
            self.add(f"{name}._grad_fn = node")
            if number:
                self.add(f"{name}._output_nr = {number}")

    def edge(self, position: int, inputs: Sequence[str]) -> str:
        """Where the gradient of an input goes; known beforehand for captured leaves."""
        source = next(
            s for s in self.entry.signature.sources if s.value is self.leaf.graph.inputs[position]
        )
        tensor = source.tensor
        if tensor is None or tensor._base is not None or tensor._grad_fn is not None:
            return f"{inputs[position]}._edge()"
        name = f"e{position}"
        self.names[name] = (AccumulateGrad.of(tensor), 0)
        return name

    def saved(self, value: Value) -> str:
        name = self.by_value[value]
        return f"{name}._alias()" if name.startswith("o") else name

    def results(self) -> None:
        """Return the outputs in the structure the function returned."""
        made: dict[int, str] = {}
        for i, recipe in enumerate(self.leaf.recording.outputs):
            if recipe.number in made:
                continue
            made[recipe.number] = self.by_value[recipe.value]
            if recipe.inference:
                self.add(f"{made[recipe.number]}._inference = True")
            if recipe.steps:
                self.names[f"r{i}"] = recipe
                self.add(f"y{i} = show(r{i}, {made[recipe.number]})")
                made[recipe.number] = f"y{i}"
        outputs = [made[recipe.number] for recipe in self.leaf.recording.outputs]
        structure = self.leaf.structure
        if structure is None:
            self.add(f"return {outputs[0]}")
            return
        self.names["structure"] = structure
        kind, children = structure if isinstance(structure, tuple) else (None, ())
        if kind in (tuple, list) and all(c is None for c in children):
            listing = _tuple(outputs) if kind is tuple else f"[{', '.join(outputs)}]"
            self.add(f"return {listing}")
        else:
            self.add(f"return unflatten(structure, iter({_tuple(outputs)}))")


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
