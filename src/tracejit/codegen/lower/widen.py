"""Innermost loops as vector code, made here rather than by LLVM's vectoriser.

The body of a loop is straight-line text for one element. Here it is printed for as many elements as fit into a
register, several registers at a time, and once more with a mask for the elements that are left. What does not depend on
the element is computed once before. A kernel whose innermost loops are all of this kind needs few of LLVM's passes,
which is most of the time of a compilation.

The results are those of the loop, element by element. A loop may carry sums and the like from round to round where its
text says `name += value` or `name = maximum(name, value)`; those are gathered in the lanes and folded at the end.

What a round reads of the counter has gone through an assembly statement without instructions. LLVM's code generator
then takes it for any number, and does not try ways of counting one address for each array instead (its loop strength
reduction), which is more than half of code generation where loops are many, and gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tracejit.codegen.lower.body import BITS, Body, Loop, body_of
from tracejit.codegen.lower.carried import IN_TURN, CarriedLanes, is_sum
from tracejit.codegen.lower.front import Front, across, shifted
from tracejit.codegen.lower.instructions import FAILED, Instruction, NotWidened, is_literal
from tracejit.codegen.lower.meetings import pairs_to_compare
from tracejit.codegen.lower.rounds import Rounds, Target

__all__ = ["Loop", "NotWidened", "VectorLoop", "transparent", "vector_loop", "widened"]

#: A number, about which nothing is known that is known of its operand.
OPAQUE = 'asm "", "=r,0"'
_OPAQUE_CALL = re.compile(rf"call i64 {re.escape(OPAQUE)}\(i64 (%[\w.]+)\)")
#: Elements that lie apart and are reached with one mask.
_REACHED = 16
T = TypeVar("T", bound="VectorLoop")


def transparent(text: str) -> str:
    """LLVM text without those assembly statements, for code generation that tries nothing with counters anyway.

    >>> transparent('  %at = call i64 asm "", "=r,0"(i64 %i)')
    '  %at = add i64 %i, 0'
    """
    return _OPAQUE_CALL.sub(r"add i64 \1, 0", text)


def widened(
    loop: Loop,
    target: Target,
    text_of: Callable[[str], str],
    vector_bits: int,
    lacking: Iterable[str],
) -> list[str]:
    """The lines of a loop in vector code; they end in a block of their own, whose label is the last line.

    `text_of` gives the text of a library function by name, `lacking` names instructions that the target has not.
    Raises `NotWidened` where the loop is none of this kind.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> kernel = lower_kernel('''
    ... def fill(out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(lo, hi):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... ''', "fill", noalias=True, vector_bits=256, lacking=(), widen=256)
    >>> "store <8 x float> splat (float 0x3FF8000000000000)" in kernel.text
    True
    """
    return vector_loop(VectorLoop, loop, target, text_of, vector_bits, lacking).lines()


def vector_loop(
    kind: type[T],
    loop: Loop,
    target: Target,
    text_of: Callable[[str], str],
    vector_bits: int,
    lacking: Iterable[str],
) -> T:
    """What prints a loop as vector code, of a class for that; for the rest as :func:`widened`.

    >>> from tracejit.codegen.lower.lower import lower_kernel
    >>> source = '''
    ... def k(out: "f32*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    ...     for i in range(0, 3):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... '''
    >>> lower_kernel(source, "k", noalias=True, vector_bits=256, lacking=(), widen=256).widened
    False
    """
    if is_literal(loop.start) and is_literal(loop.stop):
        raise NotWidened("as many rounds in every call, which LLVM writes out if they are few")
    body = body_of(loop, text_of, lacking)
    if body.steps and body.reads_what_it_stored():
        raise NotWidened("what was stored, some steps apart, is read again")
    usual = body.usual(loop.interleave)
    if usual.divides():
        raise NotWidened("a division of integers, or by the C library")
    # What exceptions take may need several registers for the lanes of one.
    lanes = vector_bits // max(BITS[type_] for type_ in usual.memory_types())
    if any(is_sum(carried) for carried in body.carried):
        lanes = max(lanes, IN_TURN)
    printer = kind(loop, body, usual, target, text_of, lanes)
    if vector_bits < 512 and min(BITS[type_] for type_ in body.memory_types()) < 32:
        # Masks of bytes and words came with the vectors of 512 bits.
        if not body.carried:
            printer.one_by_one = True
        elif body.steps or body.has_places() or max(BITS[t] for t in body.moved_types()) < 32:
            # LLVM takes as many of them as fill a register, which pays where they are all there is.
            raise NotWidened("folds of small numbers alone, or that lie apart")
        else:
            printer.least_masked = 32
    if body.has_places() and lanes > _REACHED:
        if body.carried:
            raise NotWidened("folds of small numbers that lie apart")
        printer.one_by_one = True
    if body.exits and (printer.one_by_one or lanes == 1):
        raise NotWidened("checks of elements that are done one by one")
    return printer


class VectorLoop(CarriedLanes):
    """Prints a loop as blocks: before, main (all parts), join, between, rest (what is left), end, done.

    Long rows may go through rest first, too (`front`). Where an array is streamed, there are two of main, one of which
    writes past the caches. Where the body makes usual choices, main computes what is usual, and so does a block before
    the rest, the tail; both leave everything from the first exception on to what follows.
    """

    def __init__(
        self,
        loop: Loop,
        body: Body,
        usual: Body,
        target: Target,
        text_of: Callable[[str], str],
        lanes: int,
    ) -> None:
        super().__init__(body, target, lanes, loop.counter, text_of)
        self.loop, self.usual = loop, usual
        self.pairs = pairs_to_compare(body)
        self.one_by_one = body.better_one_by_one()
        self.streamed = self._streamed()
        self.front: Front | None = None

    def lines(self) -> list[str]:
        """All lines, from the branch into the loop to the label after it."""
        name, loop = self.name, self.loop
        if not (self.one_by_one or self.pairs or self.lanes == 1):
            address = shifted(loop, self.body, self.usual)
            self.front = None if address is None else Front(self, loop, address)
        self.hoist()
        starts = [self.start(carried) for carried in self.body.carried]
        mains = [self.main("main", starts)]
        if self.streamed:
            mains.append(self.main("stream", []))
        join = [f"{name}.join:"]
        stop, lasts = self._exits(join, mains)
        joined = [
            self.joined(join, carried, parts)
            for carried, parts in zip(self.body.carried, lasts, strict=True)
        ]
        between = [f"  br label %{name}.between", f"{name}.between:"]
        blocks = [f"%{name}.before", f"%{name}.join"]
        between += self.meeting(f"%{name}.from", "i64", [loop.start, stop], blocks)
        so_far = self.meetings(between, dict(zip(blocks, (starts, joined), strict=True)))
        between.append(f"  %{name}.left = icmp slt i64 %{name}.from, {loop.stop}")
        tail = self._tail(so_far)
        first = "rest" if tail is None else "tail"
        between.append(f"  br i1 %{name}.left, label %{name}.{first}, label %{name}.end")
        ends = {f"%{name}.between": so_far}
        if tail is not None:
            between += tail.lines
            ends[f"%{name}.tail.usual"] = [tail.values[c.last][0] for c in self.usual.carried]
            so_far = [tail.values[c.first][0] for c in self.usual.carried]
        rest = self.rest(so_far, first != "rest")
        last = f"%{name}.rest.usual" if rest.guarded else f"%{name}.rest"
        ends[last] = [rest.values[c.last][0] for c in self.body.carried]
        end = [f"{name}.failed:", FAILED] if self.body.exits else []
        end.append(f"{name}.end:")
        sums = self.meetings(end, ends)
        self.fold_lanes(end, sums)
        end += [f"  br label %{name}.done", f"{name}.done:"]
        bodies = [line for main in reversed(mains) for line in main.lines]
        entry = self._entry()
        if self.front is not None:
            rest.lines[1:1] = self.front.rest()
            rest.lines += self.front.over()
        return [*entry, *bodies, *join, *between, *rest.lines, *end]

    def _exits(self, lines: list[str], mains: Sequence[Rounds]) -> tuple[str, list[list[str]]]:
        """Where the rounds of main stopped, and what they left in every part of what is carried."""
        stop = f"%{self.name}.stop"
        usual = [mains[0].values[carried.last] for carried in self.usual.carried]
        if not mains[0].guarded:
            return stop, usual
        blocks = [f"%{self.name}.{which}" for which in ("main", "stream")[: len(mains)]]
        ends = [f"{block}.usual" for block in blocks]
        here = f"%{self.name}.here"
        counters = [*[stop] * len(mains), *[f"{block}.i" for block in blocks]]
        lines += self.meeting(here, "i64", counters, [*ends, *blocks])
        found = []
        for carried, lasts in zip(self.usual.carried, usual, strict=True):
            firsts = mains[0].values[carried.first]
            refs = [f"%{self.target.fresh('carried')}" for _ in lasts]
            type_ = self.spell(carried.fold.type)
            for ref, last, first in zip(refs, lasts, firsts, strict=True):
                lines += self.meeting(ref, type_, [last, first], [*ends, *blocks])
            found.append(refs)
        return here, found

    def _entry(self) -> list[str]:
        """What runs before the rounds; printed last, for they add to what they need of it."""
        name, loop, apart, choice = self.name, self.loop, self._apart(), self._choice()
        return [
            f"  %{name}.count = sub nsw i64 {loop.stop}, {loop.start}",
            f"  %{name}.any = icmp sgt i64 %{name}.count, 0",
            f"  br i1 %{name}.any, label %{name}.before, label %{name}.done",
            f"{name}.before:",
            *self.before,
            *apart,
            f"  %{name}.whole = and i64 %{name}.span, {-self.together}",
            f"  %{name}.several = icmp ne i64 %{name}.whole, 0",
            f"  br i1 %{name}.several, label %{name}.choose, label %{name}.between",
            f"{name}.choose:",
            *choice,
        ]

    @property
    def together(self) -> int:
        """Elements that a round of main does."""
        return self.lanes * self.loop.interleave

    def _streamed(self) -> list[Instruction]:
        """The addresses of elements that are written past the caches."""
        if self.body.carried or self.pairs or self.one_by_one:
            return []
        return [
            at
            for which, at in self.body.accesses()
            if which == "store"
            and self.body.kind(at.result) == "address"
            and self.target.is_streamed(at.operands[0])
            and not self.body.reads(at.result)
        ]

    def _choice(self) -> list[str]:
        """Where main begins and stops, and which one it is: one that streams if vectors do not lie across lines."""
        name, lines, fits = self.name, list[str](), "true"
        start, count = self.loop.start, f"%{name}.whole"
        if self.front is not None:
            gap = self.front.measure(lines)
            start = self.emit(lines, f"add nsw i64 {start}, {gap}")
            left = self.emit(lines, f"sub nsw i64 %{name}.span, {gap}")
            count = self.emit(lines, f"and i64 {left}, {-self.together}")
        for at in self.streamed:
            _, before = across(self, lines, at, start)
            aligned = self.emit(lines, f"icmp eq i64 {before}, 0")
            fits = self.emit(lines, f"and i1 {fits}, {aligned}")
        if self.front is None:
            lines.append(f"  %{name}.stop = add nsw i64 {start}, {count}")
        else:
            stop = self.emit(lines, f"add nsw i64 {start}, {count}")
            lines += self.front.enter(start, stop, fits if self.streamed else "")
            fits = f"%{name}.fits"
        which = f"i1 {fits}, label %{name}.stream, label" if self.streamed else "label"
        return [*lines, f"  br {which} %{name}.main"]

    def _apart(self) -> list[str]:
        """How many elements go together: one, should what is written be read elsewhere in the same loop."""
        name, lines = self.name, list[str]()
        apart = [self._distance(lines, written, other) for written, other in self.pairs]
        if not apart:
            return [f"  %{name}.span = add nsw i64 %{name}.count, 0"]
        every = apart[0]
        for ref in apart[1:]:
            every = self.emit(lines, f"and i1 {every}, {ref}")
        lines.append(f"  %{name}.span = select i1 {every}, i64 %{name}.count, i64 0")
        lines.append(f"  %{name}.limit = select i1 {every}, i64 {self.lanes}, i64 1")
        return lines

    def _distance(self, lines: list[str], written: str, other: str) -> str:
        """Are the elements of two indices into one array apart, over the whole loop?"""
        rounds = Rounds(self, lines, self.loop.start, 1, 1, None)
        a, b = rounds.linear(written), rounds.linear(other)
        distance = self.emit(lines, f"sub nsw i64 {a}, {b}")
        back = self.emit(lines, f"sub nsw i64 0, {distance}")
        count = f"%{self.name}.count"
        ahead = self.emit(lines, f"icmp sge i64 {distance}, {count}")
        behind = self.emit(lines, f"icmp sge i64 {back}, {count}")
        return self.emit(lines, f"or i1 {ahead}, {behind}")

    def main(self, which: str, starts: Sequence[str]) -> Rounds:
        """The rounds that fill all lanes of all parts: "main", or "stream" past the caches."""
        parts = self.loop.interleave
        at = f"%{self.name}.{which}.at"
        rounds = Rounds(self, [], at, parts, self.lanes, None, self.usual)
        if which == "stream":
            rounds.streamed = dict.fromkeys(
                [at.result for at in self.streamed], self.target.note("!{i32 1}")
            )
        several = [[start] * parts for start in starts]
        origin = (self.loop.start, f"%{self.name}.choose")
        if self.front is not None:
            origin = (f"%{self.name}.begin", f"%{self.name}.enter")
        ends = ([origin], f"%{self.name}.stop", "join")
        self.finish(rounds, which, several, self.lanes * parts, ends)
        return rounds

    def _tail(self, starts: Sequence[str]) -> Rounds | None:
        """Rounds of what is left, with a mask, as long as choices come out as usual; None where there are none."""
        if not self.usual.checks or self.one_by_one or self.pairs:
            return None
        counter, lines = f"%{self.name}.tail.at", list[str]()
        mask, left = self.mask(lines, counter, self.loop.stop)
        rounds = Rounds(self, lines, counter, 1, self.lanes, mask, self.usual)
        rounds.left = left
        ends = ([(f"%{self.name}.from", f"%{self.name}.between")], self.loop.stop, "end")
        self.finish(rounds, "tail", [[start] for start in starts], self.lanes, ends, "rest")
        return rounds

    def rest(self, starts: Sequence[str], after_tail: bool) -> Rounds:
        """The rounds of what is left, with a mask or one by one; those in front of main, too."""
        name, counter, lines = self.name, f"%{self.name}.rest.at", list[str]()
        stop, then = self.loop.stop, "end"
        origins = [(f"%{name}.from", f"%{name}.between")]
        if after_tail:
            origins = [(f"%{name}.tail.i", f"%{name}.tail")]
        if self.front is not None:
            origins.append((self.loop.start, f"%{name}.choose"))
            stop, then = f"%{name}.rest.begin", "over"
        mask, left = (None, "") if self.one_by_one else self.mask(lines, counter, stop)
        rounds = Rounds(self, lines, counter, 1, self.lanes if mask else 1, mask)
        rounds.left = left
        step = 1 if mask is None else f"%{name}.limit" if self.pairs else self.lanes
        several = [[start] for start in starts]
        self.finish(rounds, "rest", several, step, (origins, stop, then), "failed")
        return rounds

    def finish(
        self,
        rounds: Rounds,
        which: str,
        starts: Sequence[Sequence[str]],
        step: int | str,
        ends: tuple[list[tuple[str, str]], str, str],
        otherwise: str = "",
    ) -> None:
        """Make rounds a block: what they carry, the counter, and the way back.

        `ends`: where the counter starts by the block that it comes from, where it stops, and the block after that; the
        block after a check that failed is that one, too, if there is no other.
        """
        block = f"%{self.name}.{which}"
        origins, stop, then = ends
        for carried in self.body.carried:
            rounds.values[carried.first] = [
                f"%{self.target.fresh('acc')}" for _ in range(rounds.parts)
            ]
        rounds.run()
        last_block = block
        if rounds.guarded:
            last_block = f"{block}.usual"
            holds = rounds.check()
            rounds.lines.append(
                f"  br i1 {holds}, label {last_block}, label %{self.name}.{otherwise or then}"
            )
            rounds.lines.append(f"{last_block[1:]}:")
            rounds.store()
        counts, blocks = zip(*origins, (f"{block}.next", last_block), strict=True)
        head = [f"{block[1:]}:", *self.meeting(f"{block}.i", "i64", counts, blocks)]
        for carried, firsts in zip(rounds.body.carried, starts, strict=True):
            type_ = self.spell(carried.fold.type)
            now, following = rounds.values[carried.first], rounds.values[carried.last]
            for ref, first, last in zip(now, firsts, following, strict=True):
                head += self.meeting(ref, type_, [first, last], blocks)
        head.append(f"  {block}.at = call i64 {OPAQUE}(i64 {block}.i)")
        rounds.lines[:0] = head
        rounds.lines += [
            f"  {block}.next = add nsw i64 {block}.i, {step}",
            f"  {block}.more = icmp slt i64 {block}.next, {stop}",
            f"  br i1 {block}.more, label {block}, label %{self.name}.{then}",
        ]

    def mask(self, lines: list[str], counter: str, stop: str) -> tuple[str, str]:
        """Which lanes hold an element, and how many: those below what is left, less than the rounds before take."""
        left = self.emit(lines, f"sub nsw i64 {stop}, {counter}")
        if self.pairs:
            limit = f"%{self.name}.limit"
            few = self.emit(lines, f"icmp slt i64 {left}, {limit}")
            left = self.emit(lines, f"select i1 {few}, i64 {left}, i64 {limit}")
        type_ = "i32" if self.lanes <= 16 else "i16"
        narrow = self.emit(lines, f"trunc i64 {left} to {type_}")
        every = self.spread(lines, narrow, type_)
        numbers = ", ".join(f"{type_} {lane}" for lane in range(self.lanes))
        return self.emit(lines, f"icmp ult {self.spell(type_)} <{numbers}>, {every}"), narrow
