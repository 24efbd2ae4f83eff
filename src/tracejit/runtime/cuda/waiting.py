"""Reading a truth that a device computed from native code: how open loops learn whether there is another round.

The step at the end of a round copies one byte to memory of the host and waits for it. So the launcher looks at a word
of the host as it does for loops of the host, and Python is not asked between rounds.
"""

from __future__ import annotations

from functools import lru_cache

from ..launcher import RELEASE_GIL, SERIAL, Step
from ..machine_code.loader import load_object

__all__ = ["PLACE", "is_read", "read_step"]

Argument = tuple[int, int]  # as in launcher.Step

#: Where the byte lies in a call's status word, behind what kernels say there.
PLACE = 8

_TEXT = """
declare i32 @cuMemcpyDtoHAsync_v2(ptr, ptr, i64, ptr)
declare i32 @cuStreamSynchronize(ptr)

define i32 @tj_cuda_read(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {
entry:
  %from = load ptr, ptr %args
  %to.at = getelementptr i64, ptr %args, i64 1
  %to = load ptr, ptr %to.at
  %stream.at = getelementptr i64, ptr %args, i64 2
  %stream = load ptr, ptr %stream.at
  %copied = call i32 @cuMemcpyDtoHAsync_v2(ptr %to, ptr %from, i64 1, ptr %stream)
  %fine = icmp eq i32 %copied, 0
  br i1 %fine, label %wait, label %failed
failed:
  ret i32 %copied
wait:
  %waited = call i32 @cuStreamSynchronize(ptr %stream)
  ret i32 %waited
}
"""


@lru_cache(maxsize=4)
def _function(copy: int, wait: int) -> int:
    from ...codegen.llvm import object_code

    imports = {"cuMemcpyDtoHAsync_v2": copy, "cuStreamSynchronize": wait}
    return load_object(object_code(_TEXT), "tj_cuda_read", imports)


def read_step(
    source: Argument, increment: tuple[int, int], place: Argument, stream: Argument, *driver: int
) -> Step:
    """The step that waits for the byte at ``source``, which moves on by ``increment``, and copies it to ``place``.

    ``driver`` are the addresses of ``cuMemcpyDtoHAsync`` and ``cuStreamSynchronize``. Other threads run meanwhile.

    >>> step = read_step((0, 64), (0, 32), (3, PLACE), (2, 0), 1, 1)
    >>> step.args, step.increments[0]
    (((0, 64), (3, 8), (2, 0)), (0, 32))
    """
    still = (0, 0)
    words, moving = (source, place, stream), (increment, still, still)
    return Step(_function(*driver), words, (-1, 1), SERIAL, RELEASE_GIL, moving)


def is_read(step: Step) -> bool:
    """Does a step of a device's program read a truth, and neither launch a kernel nor multiply?

    >>> is_read(read_step((0, 64), (0, 32), (3, PLACE), (2, 0), 1, 1))
    True
    """
    return len(step.args) == 3
