"""LLVM assembly that runs a kernel on what a step of a convolution has just computed, while that is in the caches.

The kernel is one that goes through (samples, rows, positions), or through all elements. It is given a box of some rows
of a sample and some positions.
"""

from __future__ import annotations

from ..ir_text import FunctionText, Variable

__all__ = ["AFTER_WORDS", "Following", "after"]

#: Words of the kernel, to which the step's word ``after`` leads: its function, how many arguments it has, which of them
#: is the number of positions (-1 where it goes through all elements), and the positions of a plane. For each argument
#: follow its value and how many bytes further on it is for each position.
AFTER_WORDS = 4
#: Elements that a kernel is given at once, if there are as many: short runs of positions take longer.
_TOGETHER = 1 << 15


def after() -> str:
    """The function that calls the kernel for some rows, numbered on from sample to sample, and positions.

    >>> after().startswith("define internal void @after(")
    True
    """
    f = FunctionText(
        "internal void @after(ptr %words, i64 %first, i64 %rows, i64 %place, i64 %length, i64 %worker)",
        "nounwind noinline",
    )
    function = f.make("load ptr, ptr %words")
    count, inner, plane = (f.word("%words", n) for n in range(1, AFTER_WORDS))
    local = f.make(f"alloca i64, i64 {count}, align 16")
    last = f.sum("%first", "%rows")

    def run(low: str, high: str) -> None:
        f.make(f"call i32 {function}(ptr {local}, i64 {low}, i64 {high}, i64 %worker)")

    with f.loop(0, count) as k:
        entry = f.at("%words", f.sum(f.product(k, 2), AFTER_WORDS), "i64")
        moved = f.sum(f.word(entry, 0), f.product(f.word(entry, 1), "%place"))
        f.put(moved, f.at(local, k, "i64"))
    flat = f.compare("slt", inner, 0)
    with f.when(f.make(f"xor i1 {flat}, true")):
        f.put("%length", f.at(local, inner, "i64"))
        run("%first", last)
    whole = f.make(f"and i1 {flat}, {f.compare('eq', '%length', plane)}")
    with f.when(whole):
        run(f.product("%first", plane), f.product(last, plane))
    with f.when(f.make(f"xor i1 {whole}, {flat}")), f.loop("%first", last) as row:
        low = f.sum(f.product(row, plane), "%place")
        run(low, f.sum(low, "%length"))
    f.add("ret void")
    return f.finish()


class Following:
    """What a worker has computed and no kernel has run on: boxes that follow each other go together.

    >>> f = FunctionText("void @f(ptr %args)")
    >>> following = Following(f, {"after": "%n"})
    >>> following.add(("0", "8"), ("0", "49"))
    >>> following.end()
    >>> sum("call void @after(" in line for line in f.lines)
    3
    """

    def __init__(self, f: FunctionText, a: dict[str, str]) -> None:
        self.f, self.there = f, f.compare("sgt", a["after"], 0)
        self.words = f.at("%args", a["after"], "i64")
        self.box = [f.variable("i64", 0) for _ in range(4)]

    def add(self, rows: tuple[str, str], positions: tuple[str, str]) -> None:
        """Some rows of a sample and some positions have been computed: each the first one and how many."""
        f, (first, count, place, length) = self.f, self.box
        with f.when(self.there):
            further = self._follows((first, count), rows, (place, length), positions)
            more = self._follows((place, length), positions, (first, count), rows)
            with f.when(f.make(f"xor i1 {f.make(f'or i1 {further}, {more}')}, true")):
                self._run()
                for variable, value in zip(self.box, (*rows, positions[0], "0"), strict=True):
                    variable.set(value)
            with f.when(more):
                count.set(f.sum(count.get(), rows[1]))
            with f.when(f.make(f"xor i1 {more}, true")):
                length.set(f.sum(length.get(), positions[1]))
            with f.when(f.compare("sge", f.product(length.get(), count.get()), _TOGETHER)):
                self._run()
                for variable in (count, length):
                    variable.set(0)

    def _follows(
        self,
        one: tuple[Variable, Variable],
        same: tuple[str, str],
        other: tuple[Variable, Variable],
        new: tuple[str, str],
    ) -> str:
        """Is what is new the same along one side of the box, and does it follow along the other?"""
        f = self.f
        found = f.compare("eq", f.sum(other[0].get(), other[1].get()), new[0])
        for variable, value in zip(one, same, strict=True):
            found = f.make(f"and i1 {found}, {f.compare('eq', variable.get(), value)}")
        return found

    def end(self) -> None:
        """Nothing follows."""
        with self.f.when(self.there):
            self._run()

    def _run(self) -> None:
        f, length = self.f, self.box[3].get()
        with f.when(f.compare("sgt", length, 0)):
            given = ", ".join(f"i64 {variable.get()}" for variable in self.box)
            f.add(f"call void @after(ptr {self.words}, {given}, i64 %worker)")
