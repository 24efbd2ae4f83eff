"""The stable order of many short rows at once: Batcher's network of comparisons, a lane of a vector for each row.

Which elements are compared does not depend on what they are, so that as many rows as a register has lanes go through
it together. Elements become words without a sign that stand in the same order. Those of 32 bits get their position
behind them, and no two words are equal; to those of 64 bits the position is a word of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir_text import FunctionText
from ..products.vector_kind import Kind
from ..products.vector_machine import Machine
from .batches import Batch, batch_module

__all__ = ["ORDER_SYMBOL", "order_module"]

ORDER_SYMBOL = "tracejit_order"
#: Arrays: rows, positions. Numbers: elements of a row, the largest power of two below it, the first place that is
#: asked for and how many, all bits for descending order or none.
_ARRAYS, _NUMBERS = 2, 5
_MORE = """declare <{n} x i64> @llvm.umin.v{n}i64(<{n} x i64>, <{n} x i64>)
declare <{n} x i64> @llvm.umax.v{n}i64(<{n} x i64>, <{n} x i64>)"""


def order_module(dtype: str, machine: Machine) -> str:
    """The module with the kernel over rows of "f32", "i32", "f64" or "i64".

    >>> order_module("i32", Machine(64, 8, 3)).count(f"define i32 @{ORDER_SYMBOL}(")
    1
    """
    lanes = machine.vector // 8
    read = Kind(f"f{dtype[1:]}", Machine(lanes * int(dtype[1:]) // 8, 1, 1))
    written = Kind("f64", Machine(machine.vector, 1, 1))

    def write(batch: Batch) -> None:
        _Network(batch, dtype, read).write()

    module = batch_module(read, ORDER_SYMBOL, _ARRAYS, _NUMBERS, write, written)
    return "\n".join([_MORE.format(n=lanes), module])


class _Network:
    """The kernel of one dtype."""

    def __init__(self, batch: Batch, dtype: str, read: Kind) -> None:
        self.batch, self.dtype, self.read, self.lanes = batch, dtype, read, read.lanes
        self.rows, self.out, self.n, self.top, self.first, self.count, self.turned = batch.words
        self.f: FunctionText = batch.f
        self.words = f"<{self.lanes} x i64>"
        self.truths = f"<{self.lanes} x i1>"
        self.keys = batch.scratch
        self.places = self.f.at(self.keys, self.n, self.words)
        self.is_short = dtype.endswith("32")

    def write(self) -> None:
        """Take the rows, sort their words, give positions."""
        f = self.f
        room = self.batch.room_of(self.n)
        taken = f.at(self.keys, f.sum(room, room), self.words)
        self.batch.take(self.rows, self.n, taken)
        turned = self._spread(self.turned, "i64")
        with f.loop(0, self.n) as i:
            self._begin(taken, i, turned)
        exchange = self._exchange_words if self.is_short else self._exchange_pairs
        self._compare_all(exchange)
        if self.is_short:
            with f.loop(self.first, f.sum(self.first, self.count)) as i:
                at = f.at(self.keys, i, self.words)
                low = self._constant("i64", (1 << 32) - 1)
                self._store(f.make(f"and {self.words} {self._load(at)}, {low}"), at)
        found = self.keys if self.is_short else self.places
        self.batch.give(f.at(found, self.first, self.words), self.count, self.out)

    def _begin(self, taken: str, i: str, turned: str) -> None:
        """Make words of the elements number i."""
        f = self.f
        rank = self._rank(f.at(taken, i, self.read.vector))
        place, at = self._spread(i, "i64"), f.at(self.keys, i, self.words)
        if not self.is_short:
            self._store(f.make(f"xor {self.words} {rank}, {turned}"), at)
            self._store(place, f.at(self.places, i, self.words))
            return
        wide = f.make(f"zext <{self.lanes} x i32> {rank} to {self.words}")
        high = f.make(f"xor {self.words} {wide}, {turned}")
        high = f.make(f"shl {self.words} {high}, {self._constant('i64', 32)}")
        self._store(f.make(f"or {self.words} {high}, {place}"), at)

    def _rank(self, at: str) -> str:
        """A word that stands where an element does: zeros are equal, what is no number is behind infinity."""
        f, bits = self.f, 32 if self.is_short else 64
        kind = f"i{bits}"
        words, sign = f"<{self.lanes} x {kind}>", self._constant(kind, -(1 << (bits - 1)))
        if self.dtype[0] == "i":
            whole = f.make(f"load {words}, ptr {at}")
            return f.make(f"xor {words} {whole}, {sign}")
        vector, scalar = self.read.vector, self.read.scalar
        x = f.make(f"load {vector}, ptr {at}")
        none = f.make(f"fcmp uno {vector} {x}, {x}")
        x = f.make(f"fadd {vector} {x}, zeroinitializer")
        nan = f"<{', '.join([f'{scalar} 0x7FF8000000000000'] * self.lanes)}>"
        x = f.make(f"select {self.truths} {none}, {vector} {nan}, {vector} {x}")
        whole = f.make(f"bitcast {vector} {x} to {words}")
        mask = f.make(f"ashr {words} {whole}, {self._constant(kind, bits - 1)}")
        mask = f.make(f"or {words} {mask}, {sign}")
        return f.make(f"xor {words} {whole}, {mask}")

    def _compare_all(self, exchange: Callable[[str, str], None]) -> None:
        """Merge exchange (Knuth, volume 3, algorithm 5.2.2 M), for any number of elements.

        Powers of two and distances that become smaller are counted from below, as negative numbers.
        """
        f = self.f
        power = f.variable("i64", f.difference(0, self.top))
        with f.as_long(power, 0) as less:
            p = f.difference(0, less)
            apart, q, r = f.variable("i64", less), f.variable("i64", self.top), f.variable("i64", 0)
            with f.as_long(apart, 0) as closer:
                distance = f.difference(0, closer)
                last = f.difference(self.n, distance)
                with f.loop(r.get(), last, f.sum(p, p)) as base:
                    self._compare_row(exchange, base, f.least(f.sum(base, p), last), distance)
                now = q.get()
                apart.set(f.difference(p, now))
                q.set(f.make(f"lshr i64 {now}, 1"))
                r.set(p)
            power.set(f.difference(0, f.make(f"lshr i64 {p}, 1")))

    def _compare_row(
        self, exchange: Callable[[str, str], None], start: str, stop: str, distance: str
    ) -> None:
        with self.f.loop(start, stop) as i:
            exchange(i, self.f.sum(i, distance))

    def _exchange_words(self, i: str, j: str) -> None:
        low, high = (self.f.at(self.keys, k, self.words) for k in (i, j))
        a, b = self._load(low), self._load(high)
        for name, at in (("umin", low), ("umax", high)):
            call = f"call {self.words} @llvm.{name}.v{self.lanes}i64"
            self._store(self.f.make(f"{call}({self.words} {a}, {self.words} {b})"), at)

    def _exchange_pairs(self, i: str, j: str) -> None:
        f, words = self.f, self.words
        at = [[f.at(base, k, words) for k in (i, j)] for base in (self.keys, self.places)]
        (a, b), (c, d) = ([self._load(x) for x in pair] for pair in at)
        less = f.make(f"icmp ult {words} {b}, {a}")
        equal = f.make(f"icmp eq {words} {b}, {a}")
        before = f.make(f"icmp ult {words} {d}, {c}")
        tied = f.make(f"and {self.truths} {equal}, {before}")
        wrong = f.make(f"or {self.truths} {less}, {tied}")
        for (x, y), (low, high) in zip(((a, b), (c, d)), at, strict=True):
            for yes, no, place in ((y, x, low), (x, y, high)):
                chosen = f"select {self.truths} {wrong}, {words} {yes}, {words} {no}"
                self._store(f.make(chosen), place)

    def _constant(self, kind: str, value: int) -> str:
        return f"<{', '.join([f'{kind} {value}'] * self.lanes)}>"

    def _spread(self, word: str, kind: str) -> str:
        vector = f"<{self.lanes} x {kind}>"
        one = self.f.make(f"insertelement {vector} poison, {kind} {word}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.f.make(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def _load(self, at: str) -> str:
        return self.f.make(f"load {self.words}, ptr {at}")

    def _store(self, value: str, at: str) -> None:
        self.f.add(f"store {self.words} {value}, ptr {at}")
