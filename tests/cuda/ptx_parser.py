"""Reading PTX text: one kernel with its parameters, memory, labels and instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from ptx_instructions import UnknownInstructionError

Array = Any


@dataclass(frozen=True)
class Instruction:
    """One instruction: its guard, its opcode and its operands as text."""

    opcode: str
    operands: tuple[str, ...]
    guard: str
    negated: bool
    line: str


@dataclass
class Kernel:
    """A parsed entry point."""

    name: str
    parameters: list[tuple[str, str]] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    block: int = 0


_INSTRUCTION = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.]*)\s*(.*);$", re.S | re.I)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")


@lru_cache(maxsize=256)
def parse(text: str) -> Kernel:
    """The one entry point of a PTX module, which nobody changes: it is parsed once for all its launches."""
    kernel = Kernel("")
    for full in text.splitlines():
        # A register that is only written has a scope of its own.
        scoped = re.match(r"\{ \.reg \.b\d+ tmp; (.*) \}$", full.strip())
        line = re.sub(r"\btmp\b", "_", scoped[1]) if scoped else full.strip()
        if found := re.match(r"\.visible \.entry (\w+)\(", line):
            kernel.name = found[1]
        elif found := re.match(r"\.param \.(\w+).*? (\w+),?$", line):
            kernel.parameters.append((found[2], found[1]))
        elif found := re.match(r"\.reqntid (\d+)", line):
            kernel.block = int(found[1])
        elif found := re.match(r"\.reg \.(\w+)\s+%(\w+?)<\d+>;", line):
            kernel.registers[found[2]] = found[1]
        elif found := re.match(r"\.shared \.align \d+ \.b8 (\w+)\[(\d+)\];", line):
            start = sum(size for _, size in kernel.shared.values())
            kernel.shared[found[1]] = (-(-start // 16) * 16, -(-int(found[2]) // 16) * 16)
        elif found := re.match(r"\.global .*\.b(\d+) (\w+)\[\d+\] = \{(.*)\};", line):
            words = [int(w, 0) for w in found[3].split(",")]
            kernel.constants[found[2]] = np.array(words, f"u{int(found[1]) // 8}")
        elif found := re.match(r"(\$\w+):$", line):
            kernel.labels[found[1]] = len(kernel.code)
        elif re.match(r"(\.(version|target|address_size|pragma|minnctapersm)\b.*|[(){}]|)$", line):
            continue
        elif found := _INSTRUCTION.match(line):
            operands = tuple(_OPERAND.findall(found[4]))
            kernel.code.append(
                Instruction(found[3], operands, found[2] or "", found[1] == "!", line)
            )
        else:
            raise UnknownInstructionError(line)
    return kernel
