"""A machine that executes PTX text on NumPy arrays: all threads of a launch at once, each with a counter of its own.

It shows what the *compiled* form of a kernel computes where there is no GPU, and refuses what a GPU would fault on
or leave undefined: accesses out of bounds or misaligned, reads of what was never written, divergent barriers and
shuffles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import ptx_instructions as instructions
from ptx_instructions import REGISTERS, UnknownInstructionError
from ptx_parser import Instruction, Kernel, parse
from simulator_memory import Memory

Array = Any
WARP = 32
BARRIER, SHUFFLE = 1, 2
#: Instructions after which threads do not simply go on.
TURNS = ("bra", "ret", "bar", "barrier", "shfl")
#: Buffers lie this far apart, so that an address tells its buffer.
SPACING = 1 << 36


class MachineError(Exception):
    """What a GPU would fault on, or give no defined result for."""


@cache
def literal(text: str, kind: str) -> Any:
    """The bits of a number in an instruction of some type."""
    dtype = np.dtype(instructions.TYPES["b32" if kind.endswith("x2") else kind])
    if found := re.fullmatch(r"0([fd])([0-9A-F]+)", text):
        return (np.uint32 if found[1] == "f" else np.uint64)(int(found[2], 16))
    if dtype == np.bool_:
        return np.bool_(int(text) != 0)
    bits = int(text.rstrip("U"), 0) & ((1 << (8 * dtype.itemsize)) - 1)
    return np.dtype(f"u{dtype.itemsize}").type(bits)


class Machine:
    """The state of one launch."""

    def __init__(self, kernel: Kernel, grid: int, block: int, arguments: Sequence[Any]) -> None:
        if kernel.block and kernel.block != block:
            raise MachineError(f"the kernel needs blocks of {kernel.block} threads, not {block}")
        self.kernel, self.grid, self.block = kernel, grid, block
        count = grid * block
        self.pcs = np.zeros(count, np.int64)
        self.waiting = np.zeros(count, np.int8)  # at nothing, a barrier, a shuffle
        self.buffers: list[Array] = []
        self.starts: list[int] = []
        self.parameters: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        size = sum(size for _, size in kernel.shared.values())
        self.shared = np.zeros((grid, size), np.uint8)
        self.written = np.zeros((grid, size), bool)
        for (name, kind), argument in zip(kernel.parameters, arguments, strict=True):
            self.parameters[name] = self.argument(argument, kind)
        self.tables = {name: self.place(table) for name, table in kernel.constants.items()}

    def place(self, array: Array, misaligned: int = 0) -> int:
        """Map an array's memory; its address."""
        self.buffers.append(array.reshape(-1).view(np.uint8))
        self.starts.append(len(self.buffers) * SPACING + misaligned)
        return self.starts[-1]

    def argument(self, argument: Any, kind: str) -> Array:
        """A parameter's bits: an array is placed in memory."""
        if isinstance(argument, np.ndarray):
            return np.array(self.place(argument), np.uint64)
        if isinstance(argument, Memory):
            start = self.place(argument.array, argument.misaligned)
            return np.array(start - argument.misaligned + argument.address, np.uint64)
        if kind in ("f32", "f64"):
            return np.asarray(argument, instructions.TYPES[kind]).view(f"u{int(kind[1:]) // 8}")
        return np.array(int(argument) & ((1 << int(kind[1:])) - 1), f"u{int(kind[1:]) // 8}")

    # --- registers -------------------------------------------------------------------------------------------------

    def read(self, text: str, threads: Array, kind: str) -> Array:
        """An operand of some threads: a register, a special register, a literal or an address."""
        if text.startswith("%") and text not in SPECIAL:
            return self.register(text)[threads]
        if text in SPECIAL:
            return SPECIAL[text](self, threads).astype(np.uint32)
        if text in self.kernel.shared:
            bits: Any = np.uint64(self.kernel.shared[text][0])
        elif text in self.tables:
            bits = np.uint64(self.tables[text])
        else:
            bits = literal(text, kind)
        return np.full(len(threads), bits)

    def register(self, name: str) -> Array:
        """A register of all threads. LLVM computes with undefined values whose results nobody uses: they are poison."""
        if name not in self.values:
            dtype = np.dtype(
                REGISTERS[self.kernel.registers[name.lstrip("%").rstrip("0123456789")]]
            )
            poison = np.full(len(self.pcs) * dtype.itemsize, 0xA5, np.uint8)
            self.values[name] = poison.view(dtype) if dtype != np.bool_ else poison > 0
        return self.values[name]

    def write(self, name: str, threads: Array, bits: Array) -> None:
        """Set a register of some threads."""
        if name == "_":
            return
        register = self.register(name)
        if (
            bits.dtype != register.dtype
        ):  # sub-word loads extend; a wider register takes what it is given
            bits = instructions.raw(bits, register.dtype.itemsize).astype(
                register.dtype, copy=False
            )
        register[threads] = bits

    # --- the clock -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute until every thread has returned."""
        with np.errstate(all="ignore"):
            while True:
                runnable = (self.pcs >= 0) & (self.waiting == 0)
                if runnable.any():
                    pc = int(self.pcs[runnable].min())
                    here = self.pcs == pc
                    others = self.pcs[runnable & ~here]
                    meets = int(others.min()) if len(others) else len(self.kernel.code)
                    self.straight(pc, np.nonzero(runnable & here)[0], meets)
                elif self.waiting.any():
                    if not self.exchange():
                        self.release()
                else:
                    return

    def exchange(self) -> bool:
        """Carry out the shuffles for which every thread of a warp has come; were there any?"""
        waiting = (self.waiting == SHUFFLE).reshape(-1, WARP)
        if not waiting.any():
            return False
        pcs = self.pcs.reshape(-1, WARP)
        ready = waiting.all(1) & (pcs == pcs[:, :1]).all(1)
        if not ready.any():
            raise MachineError("not all threads of a warp take part in a shuffle")
        for pc in np.unique(pcs[ready, 0]).tolist():
            threads = np.nonzero(np.repeat(ready & (pcs[:, 0] == pc), WARP))[0]
            self.shuffle(self.kernel.code[pc], threads)
            self.pcs[threads] = pc + 1
            self.waiting[threads] = 0
        return True

    def release(self) -> None:
        """All threads of a block have come to the barrier; or some have left without it."""
        waiting = (self.waiting == BARRIER).reshape(self.grid, self.block)
        pcs = self.pcs.reshape(self.grid, self.block)
        if (waiting.any(1) & ~waiting.all(1)).any():
            raise MachineError("some threads of a block wait at a barrier that others never reach")
        if (waiting.any(1) & (pcs != pcs[:, :1]).any(1)).any():
            raise MachineError("threads of a block wait at different barriers")
        self.pcs[self.waiting == BARRIER] += 1
        self.waiting[:] = 0

    def straight(self, pc: int, threads: Array, meets: int) -> None:
        """The instructions of threads that stand at one, until they part or wait or come to where others are."""
        while True:
            self.step(pc, threads)
            pc += 1
            if pc >= meets or self.kernel.code[pc - 1].opcode.split(".")[0] in TURNS:
                return

    def step(self, pc: int, threads: Array) -> None:
        """One instruction of the threads that stand at it."""
        instruction = self.kernel.code[pc]
        self.pcs[threads] = pc + 1
        if instruction.guard:
            threads = threads[self.values[instruction.guard][threads] != instruction.negated]
        if len(threads):
            try:
                self.execute(instruction, threads, pc)
            except MachineError as error:
                raise MachineError(f"{error}: {instruction.line}") from None

    def execute(self, instruction: Instruction, threads: Array, pc: int) -> None:
        """What an instruction does to the threads whose guard holds."""
        name, *modifiers = instruction.opcode.split(".")
        if name == "bra":
            self.pcs[threads] = self.kernel.labels[instruction.operands[0]]
        elif name == "ret":
            self.pcs[threads] = -1
        elif name in ("bar", "barrier"):
            self.pcs[threads] = pc
            self.waiting[threads] = BARRIER
        elif name == "shfl":
            self.pcs[threads] = pc
            self.waiting[threads] = SHUFFLE
        elif name in ("ld", "st"):
            self.memory(name == "ld", modifiers, instruction.operands, threads)
        elif name == "cvta" or (name == "mov" and not instruction.operands[1].startswith("{")):
            self.move(instruction, modifiers, threads)
        elif name == "mov":
            parts = self.parts(instruction.operands[1])
            size = int(modifiers[-1][1:]) // 8 // len(parts)
            columns = [self.read(p, threads, f"b{8 * size}").astype(f"u{size}") for p in parts]
            self.write(
                instruction.operands[0],
                threads,
                np.stack(columns, 1).view(f"u{size * len(parts)}")[:, 0],
            )
        else:
            target, *sources = instruction.operands
            found = [
                self.read(s, threads, self.operand_kind(name, modifiers, i))
                for i, s in enumerate(sources)
            ]
            result = instructions.compute(instruction.opcode, found)
            self.write(target, threads, result)

    @staticmethod
    def operand_kind(name: str, modifiers: Sequence[str], position: int) -> str:
        """The type in which a literal operand is read."""
        if name in ("shl", "shr", "bfe", "shf", "prmt") and position > 0:
            return "u32"
        if name == "bfi" and position > 1:
            return "u32"
        if name == "selp" and position == 2:
            return "pred"
        if name == "setp" and position == 2:
            return "pred"
        if name == "mad" and modifiers[0] == "wide" and position == 2:
            return f"{modifiers[-1][0]}{2 * int(modifiers[-1][1:])}"
        return modifiers[-1]

    @staticmethod
    def parts(text: str) -> list[str]:
        return [p.strip() for p in text.strip("{}").split(",")]

    def move(self, instruction: Instruction, modifiers: Sequence[str], threads: Array) -> None:
        """A copy; or one register split into several."""
        target, source = instruction.operands
        bits = self.read(source, threads, modifiers[-1])
        if not target.startswith("{"):
            self.write(target, threads, bits)
            return
        names = self.parts(target)
        pieces = np.ascontiguousarray(bits).view(f"u{bits.dtype.itemsize // len(names)}")
        for position, name in enumerate(names):
            self.write(name, threads, pieces.reshape(len(threads), -1)[:, position])

    # --- memory ----------------------------------------------------------------------------------------------------

    def memory(
        self, load: bool, modifiers: Sequence[str], operands: Sequence[str], threads: Array
    ) -> None:
        """A load or store of one, two or four elements."""
        space, kind = modifiers[0], modifiers[-1]
        count = int(next((m[1:] for m in modifiers if m in ("v2", "v4")), 1))
        text, place = operands if load else reversed(operands)
        names = self.parts(text) if count > 1 else [text]
        size = np.dtype(instructions.TYPES[kind]).itemsize
        if space == "param":
            bits = self.parameters[place.strip("[]")]
            self.write(text, threads, np.broadcast_to(bits, len(threads)))
            return
        addresses = self.addresses(place, threads)
        if (addresses % np.uint64(size * count)).any():
            raise MachineError(f"misaligned access of {size * count} bytes")
        for position, name in enumerate(names):
            at = addresses + np.uint64(size * position)
            if load:
                bits = self.fetch(space, at, size, threads)
                self.write(name, threads, bits.view(instructions.TYPES[kind]))
            else:
                bits = instructions.typed(self.read(name, threads, kind), f"b{8 * size}")
                self.store(space, at, bits, threads)

    def addresses(self, place: str, threads: Array) -> Array:
        found = re.fullmatch(r"\[([%\w]+)(?:\+?(-?\d+))?\]", place)
        assert found is not None, place
        base = self.read(found[1], threads, "u64").astype(np.uint64)
        return base + np.uint64(int(found[2] or 0) & ((1 << 64) - 1))

    def fetch(self, space: str, addresses: Array, size: int, threads: Array) -> Array:
        if space == "shared":
            blocks, at = self.shared_place(addresses, size, threads)
            if not self.written.reshape(self.grid, -1, size)[blocks, at].all():
                raise MachineError("shared memory is read before it is written")
            return self.shared.reshape(self.grid, -1).view(f"u{size}")[blocks, at]
        result = np.zeros(len(threads), f"u{size}")
        for number, chosen, at in self.places(space, addresses, size):
            found = self.buffers[number][at[:, None] + np.arange(size)]
            result[chosen] = found.view(f"u{size}")[:, 0]
        return result

    def store(self, space: str, addresses: Array, bits: Array, threads: Array) -> None:
        size = bits.dtype.itemsize
        if space == "shared":
            blocks, at = self.shared_place(addresses, size, threads)
            self.shared.view(f"u{size}")[blocks, at] = bits
            self.written.reshape(self.grid, -1, size)[blocks, at] = True
            return
        for number, chosen, at in self.places(space, addresses, size):
            self.buffers[number][at[:, None] + np.arange(size)] = (
                np.ascontiguousarray(bits[chosen]).view(np.uint8).reshape(-1, size)
            )

    def shared_place(self, addresses: Array, size: int, threads: Array) -> tuple[Array, Array]:
        if (addresses + np.uint64(size) > self.shared.shape[1]).any():
            raise MachineError("shared memory is accessed out of bounds")
        return threads // self.block, (addresses // np.uint64(size)).astype(np.int64)

    def places(self, space: str, addresses: Array, size: int) -> list[tuple[int, Array, Array]]:
        """For every buffer touched: which threads, and at which of its bytes."""
        if space != "global":
            raise UnknownInstructionError(f"memory space {space}")
        starts = np.array(self.starts, np.int64)
        order = np.argsort(starts)
        below = np.searchsorted(starts[order], addresses.astype(np.int64), "right") - 1
        if (below < 0).any():
            raise MachineError("access out of bounds")
        numbers = order[below]
        found = []
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            offsets = addresses[chosen].astype(np.int64) - self.starts[number]
            if (offsets < 0).any() or (offsets + size > len(self.buffers[number])).any():
                raise MachineError("access out of bounds")
            found.append((number, chosen, offsets))
        return found

    def shuffle(self, instruction: Instruction, threads: Array) -> None:
        """Exchange between the threads of whole warps."""
        operands = instruction.operands
        if instruction.opcode != "shfl.sync.bfly.b32" or operands[3:] != ("31", "-1"):
            raise UnknownInstructionError(instruction.line)
        values = np.zeros(len(self.pcs), np.uint32)
        values[threads] = self.read(operands[1], threads, "b32")
        lanes = self.read(operands[2], threads, "b32").astype(np.int64)
        self.write(operands[0], threads, values[threads ^ lanes])


SPECIAL = {
    "%tid.x": lambda machine, threads: threads % machine.block,
    "%ctaid.x": lambda machine, threads: threads // machine.block,
    "%nctaid.x": lambda machine, threads: np.full(len(threads), machine.grid),
}


def launch(text: str, grid: int, block: int, *arguments: Any) -> None:
    """Run PTX's one kernel; arrays are memory, everything else is passed by value."""
    Machine(parse(text), grid, block, arguments).run()
