"""``TRACEJIT_DUMP=DIR``: the stages that are not passes, as text files beside those of the passes.

``<name>_path`` holds a recorded path, its gradient and the backward graph that reads saved values; ``<name>_program``
the kernels and the Python program of one straight piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import config
from ...passes.pipeline import StageDump
from ...runtime.program import Program

if TYPE_CHECKING:
    from ..tree.tree import Leaf


def dump_leaf(name: str, leaf: Leaf) -> None:
    """Write what was recorded, its gradient, and the partition."""
    if config.dump_directory is None:
        return
    dump = StageDump(f"{name}_path")
    dump.write("recorded", leaf.graph)
    if leaf.backward:
        dump.write("gradient", leaf.backward.gradient.graph)
        saved = ", ".join(v.name or repr(v) for v in leaf.backward.saved)
        dump.write("partition", f"# saved for backward: {saved}\n{leaf.backward.graph}")


def dump_program(name: str, program: Program) -> None:
    """Write the planned graph, the source of every kernel, and the text of the program."""
    if config.dump_directory is None:
        return
    dump = StageDump(f"{name}_program")
    dump.write("planned", program.plan.graph)
    for kernel in program.plan.kernels:
        dump.write(kernel.name, kernel.source)
    dump.write("program", program.source)
