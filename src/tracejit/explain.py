"""``f.explain()`` and ``f.code_for(line)``: what was recorded, compiled and run eagerly, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .captured_names import names_of_tensors
from .errors import describe_line
from .extents import is_symbolic, text_of
from .ir.graph import Value
from .ir.loops import body_of, is_loop, is_open
from .trace.replay.fetching import waits
from .trace.rounds.counters import ENDLESS
from .trace.tree.presumed import presumed

if TYPE_CHECKING:
    from .inspection import Inspection
    from .trace.entry import Entry
    from .trace.tree.tree import Segment


@dataclass(frozen=True)
class Explanation:
    """A report on one compiled function; ``str()`` prints it, ``signatures`` holds the same facts as dictionaries.

    >>> import tracejit as tj
    >>> f = tj.compile(lambda x: x + 1)
    >>> _ = f(tj.ones(3)), f(tj.ones(4))
    >>> [s["history"] for s in f.explain().signatures]
    [['the first call'], ['x: now f32[4], before f32[3]']]
    """

    name: str
    stats: Any
    signatures: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, function: Inspection) -> Explanation:
        """The report on ``function`` as it stands."""
        signatures = [
            _describe(entry, number)
            for entries in list(function.entries.values())
            for number, entry in enumerate(entries)
        ]
        reasons = list(function.reasons)
        constants = [*function.uses.constants(), *function.shapes.constants]
        return cls(function.name, function.stats, signatures, reasons, constants)

    @property
    def graph_count(self) -> int:
        """How many signatures were recorded."""
        return len(self.signatures)

    @property
    def break_reasons(self) -> list[str]:
        """Why calls or parts of them run eagerly."""
        return self.reasons

    @property
    def graph_break_count(self) -> int:
        """How many reasons there are for that."""
        return len(self.reasons)

    def __str__(self) -> str:
        stats = self.stats
        lines = [
            f"{self.name}: {stats.calls} calls, {stats.compiled_calls} compiled, "
            f"{stats.eager_calls} eager, {stats.recordings} recorded"
        ]
        for found in self.signatures:
            lines += _signature_lines(found)
        lines += [f"  constant: {reason}" for reason in self.constants]
        lines += [f"  ran eagerly: {reason}" for reason in self.reasons]
        return "\n".join(lines)

    __repr__ = __str__


def _signature_lines(found: dict[str, Any]) -> list[str]:
    lines = [f"  signature ({', '.join(found['inputs'])}){found['variant']}"]
    lines += [f"    recorded: {reason}" for reason in found["history"]]
    lines += [f"    varies: {name}" for name in found["varying"]]
    if found["eager"]:
        return [*lines, f"    runs eagerly: {found['eager']}"]
    lines.append(
        f"    {found['paths']} path(s), {found['kernels']} kernel(s), {found['launches']} launch(es), "
        f"{found['replays']} replays"
    )
    if found["device"] >= 0:
        lines.append(
            f"    on cuda:{found['device']}: a call waits for the device at {found['waits']} guard(s) or check(s)"
            f"{found['presumed']}{found['graphs']}"
        )
    lines += [f"    {choice}" for choice in found["choices"]]
    if found["captured"]:
        lines.append(f"    captured: {', '.join(found['captured'])}")
    if found["behind"]:
        lines.append(f"    {found['behind']}")
    lines += [f"    unseen branches run eagerly: {reason}" for reason in found["closed"]]
    lines += [f"    not guarded: {limit}" for limit in found["limits"]]
    return [*lines, *(f"    {line}" for line in found["tree"])]


def _describe(entry: Entry, number: int) -> dict[str, Any]:
    programs = list(entry.programs())
    segments = [s for s in entry.root.segments() if s.runner is not None]
    sources = [s for s in entry.signature.sources if s.kind not in ("argument", "cell")]
    return {
        "inputs": [f"{n}: {t}" for n, t in zip(entry.names, entry.types, strict=True)],
        "variant": f" under Python state {number + 1}" if number else "",
        "paths": len(entry.root.leaves()),
        "kernels": len({k.keys for p in programs for k in p.plan.kernels}),
        "launches": sum(s.runner.program.plan.launches for s in segments),
        "replays": entry.replays,
        "device": entry.signature.device,
        "waits": waits(entry.root.runner) if segments else 0,
        "presumed": _presumed(entry) if segments else "",
        "graphs": _graphs(programs),
        "choices": _choices(entry),
        "captured": _captured(entry, sources),
        "tree": _tree(entry.root, 0),
        "history": list(entry.history),
        "varying": [
            *(entry.number_names[i] for i in entry.varying),
            *(place.name for place in (entry.guard.places if entry.guard is not None else ())),
        ],
        "eager": entry.failure,
        "closed": entry.shut_ways(),
        "behind": entry.behind.describe() if entry.behind is not None else "",
        "limits": list(entry.guard.limits) if entry.guard is not None else [],
    }


def _captured(entry: Entry, sources: Sequence[Any]) -> list[str]:
    """Tensors from outside: their names in graphs and in the program, and their types; how many numbers."""
    known = names_of_tensors(entry.owner.function)
    found, numbers = [], 0
    for source in sources:
        if source.kind == "number":
            numbers += 1
            continue
        name = known.get(id(source.tensor))
        found.append(f"{source.value.name}{f' ({name})' if name else ''}: {source.value.spec}")
    return [*found, *([f"{numbers} number(s)"] if numbers else [])]


def _presumed(entry: Entry) -> str:
    """What is queued on a device before a guard was read, in words."""
    count = presumed(entry.root.runner) if entry.signature.device >= 0 else 0
    return f", and once for as many as come out as they last did ({count} can)" if count else ""


def _graphs(programs: Sequence[Any]) -> str:
    """How many programs are started as a whole, in words."""
    count = sum(bool(p.captured is not None and p.captured.graphs) for p in programs)
    return f"; {count} of {len(programs)} program(s) run as CUDA graphs" if count else ""


#: How ops that could be computed in several ways are, on a device.
_WAYS = {
    "attention": "in tiles, scores are not stored",
    **dict.fromkeys(
        ("convolution", "convolution_input", "convolution_weight"),
        "in squares, windows are not stored; sums of products where groups have one channel",
    ),
}


def _choices(entry: Entry) -> list[str]:
    """What was chosen for operations that a device could compute in several ways, with the user's lines."""
    if entry.signature.device < 0:
        return []
    from .codegen.cuda.attention import attends

    found: dict[str, None] = {}
    for segment in entry.root.segments():
        for value in segment.statements:
            way = _WAYS.get(value.op.name) if value.op is not None else None
            if way is not None and value.op is not None:
                if value.op.name == "attention" and not attends(value):
                    way = "by its definition, a part of the rows at a time"
                where = f"   {describe_line(*value.line)}" if value.line else ""
                found[f"{value.op.name}: {way}{where}"] = None
    return list(found)


def _tree(segment: Segment, depth: int) -> list[str]:
    """One line per segment and guard, children indented."""
    pad = "  " * depth
    lines = [f"{pad}{len(segment.statements)} operations"]
    lines += [f"{pad}  {_loop(value)}" for value in segment.statements if is_loop(value)]
    if segment.leaf is not None:
        joined = len(segment.leaf.recording.joined)
        lines += [f"{pad}{joined} guards, looked at together"] if joined else []
        lines.append(f"{pad}return ({segment.leaf.calls} replays)")
    if segment.finding is not None:
        where = describe_line(*segment.finding.line) if segment.finding.line else ""
        lines.append(f"{pad}{segment.finding.op.name} ({segment.calls} replays)   {where}")
        for child in segment.children.values():
            lines += _tree(child, depth)
    if segment.choices is not None:
        lines = lines[:-1]
        for key, child in segment.children.items():
            decided = segment.choices[key].decisions
            lines.append(f"{pad}when {' and '.join(map(str, decided))}:")
            lines += _tree(child, depth + 1)
    if segment.guard is not None:
        where = describe_line(*segment.guard.line) if segment.guard.line else ""
        lines.append(f"{pad}guard ({segment.calls} replays)   {where}")
        for outcome, child in segment.children.items():
            lines.append(f"{pad}  when {_outcome(outcome)}:")
            lines += _tree(child, depth + 2)
    for outcome, end in segment.raises.items():
        if outcome is not None:
            lines.append(f"{pad}  when {_outcome(outcome)}:")
        lines.append(f"{pad}    {end}: runs eagerly ({end.calls} calls)")
    return lines


def _outcome(key: Any) -> str:
    """What a guard found, as Python writes it."""
    kind, value = key
    return repr(float.fromhex(value)) if kind == "float" else str(value)


def _loop(loop: Value) -> str:
    """A loop in words."""
    count, where = loop.attributes["count"], describe_line(*loop.line) if loop.line else ""
    times = f"{count} times" if count < ENDLESS else "any number of times"
    if is_symbolic(count):
        # Rounds that an open loop counted are as many as it had, whatever their number is called.
        times = f"{text_of(count)} times" if loop.attributes["items"] else "as many times"
    if is_open(loop):
        times = (
            f"until {loop.attributes['until']}, at most {times}"
            if count < ENDLESS
            else f"until {loop.attributes['until']}"
        )
    return f"loop of {len(body_of(loop).body)} operations, {times}   {where}".rstrip()


def lines_for(function: Inspection, line: int, file: str | None) -> list[str]:
    """The kernel lines whose comment names ``file`` (by default, the function's own) and ``line``."""
    code = getattr(function.function, "__code__", None)
    wanted = file if file is not None else getattr(code, "co_filename", None)
    name = r"[^\s:]+" if wanted is None else re.escape(Path(wanted).name)
    pattern = re.compile(rf"#.*\s{name}:{line}(?!\d)")
    texts = [text for kernel in function.kernels for text in kernel.source.splitlines()]
    return [text.strip() for text in texts if pattern.search(text)]
