"""In which order the instructions of a long body stand: so that those next to each other do not wait for one another.

A processor looks a few hundred instructions ahead. Within that window a logarithm is one chain of operations, each of
which waits for the one before, and the exponential that could fill the gaps stands behind it. List scheduling (Graham
1969) moves it there: time passes as the vector units take instructions in, and of those whose operands are ready the
one with the longest way to the end comes next. Where many values are alive, what ends some of them is preferred,
because what does not fit into registers goes through memory.

Operations and their operands stay what they are, and so do the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.codegen.lower.instructions import Instruction

__all__ = ["scheduled"]

#: Bodies with fewer instructions fit into the window several times over.
_LONG = 60
#: So many are looked at at a time: four times what a processor looks ahead, while the time grows with the square.
_WINDOW = 512
#: Registers, which the values that are alive share; where there are fewer, memory takes part sooner.
_REGISTERS = 32
#: Instructions that a cycle takes in, of vectors as wide as there are.
_UNITS = 2
#: Cycles until a result is there, by opcode or intrinsic, where they are not `_LATENCY`; Intel's and AMD's are alike.
_LATENCIES = {
    "getelementptr": 0,
    "bitcast": 0,
    "load": 6,
    "fdiv": 13,
    "llvm.sqrt": 16,
    "llvm.rint": 8,
    "llvm.ldexp": 8,
    "llvm.fabs": 1,
    "llvm.copysign": 1,
}
_LATENCY, _LATENCY_OF_BITS = 4, 1
_BITS = frozenset(
    "add sub and or xor shl lshr ashr select usually fneg zext sext trunc".split()  # noqa: SIM905
)
#: Instructions of the machine, where they are not one.
_COSTS = {"getelementptr": 0, "bitcast": 0, "load": 0, "store": 0, "fdiv": 4, "llvm.sqrt": 4}
_COSTS |= {"llvm.rint": 2, "llvm.ldexp": 3}
#: What takes no register of its own: LLVM reads memory where the value is used.
_IN_PLACE = frozenset(["getelementptr", "bitcast", "load"])


def scheduled(instructions: Sequence[Instruction], parts: int) -> list[Instruction]:
    """The instructions of a body in a better order, if they are many; `parts` vectors are computed side by side.

    Every instruction comes after those that it depends on; nothing is moved across a store.

    >>> chain = [Instruction(f"%a{i + 1}", "fmul", "float", ("float",), (f"%a{i}",)) for i in range(40)]
    >>> other = [Instruction(f"%b{i + 1}", "fmul", "float", ("float",), (f"%b{i}",)) for i in range(40)]
    >>> [i.result for i in scheduled(chain + other, 1)][:4]
    ['%a1', '%b1', '%a2', '%b2']
    """
    if len(instructions) < _LONG:
        return list(instructions)
    windows = range(0, len(instructions), _WINDOW)
    return [i for at in windows for i in _Scheduler(instructions[at : at + _WINDOW], parts).run()]


class _Scheduler:
    """The state of one list scheduling; instructions are numbers here."""

    def __init__(self, instructions: Sequence[Instruction], parts: int) -> None:
        self.instructions, self.parts = instructions, parts
        self.needs = _dependences(instructions)
        self.users: list[list[int]] = [[] for _ in instructions]
        for number, needed in enumerate(self.needs):
            for each in needed:
                self.users[each].append(number)
        names = [".".join(i.callee.split(".")[:2]) or i.opcode for i in instructions]
        self.latencies = [_latency(name) for name in names]
        self.costs = [_COSTS.get(name, 1) for name in names]
        self.in_register = [name not in _IN_PLACE for name in names]
        self.heights = self._heights()
        self.waits_for = [len(needed) for needed in self.needs]
        self.ready_at = [0.0] * len(instructions)
        self.uses_left = [len(users) for users in self.users]

    def _heights(self) -> list[int]:
        """Cycles from the beginning of each instruction to the end of all."""
        heights = list(self.latencies)
        for number in range(len(heights) - 1, -1, -1):
            for user in self.users[number]:
                way = self.latencies[number] + heights[user]
                heights[number] = max(heights[number], way)
        return heights

    def run(self) -> list[Instruction]:
        """All instructions in their new order."""
        now, alive, order = 0.0, 0, []
        waiting = [number for number, count in enumerate(self.waits_for) if not count]
        while waiting:
            ready = [number for number in waiting if self.ready_at[number] <= now]
            if not ready:
                now = min([self.ready_at[number] for number in waiting])
                continue
            if alive * self.parts < _REGISTERS:
                chosen = min(ready, key=self._by_height)
            else:
                chosen = min(ready, key=self._by_growth)
            alive += self._growth(chosen)
            now += self.parts * self.costs[chosen] / _UNITS
            waiting.remove(chosen)
            waiting += self._take(chosen, now)
            order.append(self.instructions[chosen])
        return order

    def _by_height(self, number: int) -> tuple[int, int]:
        return -self.heights[number], number

    def _by_growth(self, number: int) -> tuple[int, int, int]:
        return self._growth(number), -self.heights[number], number

    def _growth(self, number: int) -> int:
        """How many more values are alive after an instruction."""
        made = int(self.in_register[number] and bool(self.users[number]))
        ended = [n for n in self.needs[number] if self.uses_left[n] == 1 and self.in_register[n]]
        return made - len(ended)

    def _take(self, number: int, now: float) -> list[int]:
        """Note that an instruction comes next; what waited for nothing else."""
        for needed in self.needs[number]:
            self.uses_left[needed] -= 1
        freed = []
        there = now + self.latencies[number]
        for user in self.users[number]:
            self.ready_at[user] = max(self.ready_at[user], there)
            self.waits_for[user] -= 1
            if not self.waits_for[user]:
                freed.append(user)
        return freed


def _latency(name: str) -> int:
    return _LATENCIES.get(name, _LATENCY_OF_BITS if name in _BITS else _LATENCY)


def _dependences(instructions: Sequence[Instruction]) -> list[set[int]]:
    """What each instruction comes after: its operands; loads after the last store, stores after all before them."""
    defined: dict[str, int] = {}
    last_store = -1
    since: list[int] = []
    needs: list[set[int]] = []
    for number, instruction in enumerate(instructions):
        needed = {defined[operand] for operand in instruction.operands if operand in defined}
        if instruction.opcode in ("load", "store"):
            if last_store >= 0:
                needed.add(last_store)
            if instruction.opcode == "store":
                needed.update(since)
                last_store, since = number, []
            else:
                since.append(number)
        if instruction.result:
            defined[instruction.result] = number
        needs.append(needed)
    return needs
