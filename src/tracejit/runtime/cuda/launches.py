"""Launches of device kernels as steps of the ordinary launcher, so that one native call queues a whole program.

A step of the launcher calls a native function with a block of words. For a device kernel that function is the one
written here: it points the driver at the words that are the kernel's parameters and calls ``cuLaunchKernel``. Nothing
is packed or converted per call beyond what the launcher does for any step; addresses, sizes and the stream are slots.

Where a kernel has several forms, every form is a step that looks at the addresses and launches itself only if it is the
one to be taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen.cuda.launch import BLOCK, Launch
from ..launcher import SERIAL, Step
from ..machine_code.loader import load_object

__all__ = ["launch_steps", "launcher_address"]

Argument = tuple[int, int]  # as in launcher.Step: slot and value, or -1 and a constant

#: Words before a kernel's parameters: function, threads of a block, stream, how many parameters and checks, wanted.
_HEAD = 6

_TEXT = f"""
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)

define i32 @tj_cuda_launch(ptr %args, i64 %lo, i64 %hi, i64 %worker) nounwind {{
entry:
  %function = load ptr, ptr %args
  %block.at = getelementptr i64, ptr %args, i64 1
  %block = load i32, ptr %block.at
  %stream.at = getelementptr i64, ptr %args, i64 2
  %stream = load ptr, ptr %stream.at
  %count.at = getelementptr i64, ptr %args, i64 3
  %count = load i64, ptr %count.at
  %checks.at = getelementptr i64, ptr %args, i64 4
  %checks = load i64, ptr %checks.at
  %wanted.at = getelementptr i64, ptr %args, i64 5
  %wanted = load i64, ptr %wanted.at
  %first = getelementptr i64, ptr %args, i64 {_HEAD}
  %pairs = getelementptr i64, ptr %first, i64 %count
  br label %check
check:
  %k = phi i64 [ 0, %entry ], [ %k.next, %look ]
  %bits = phi i64 [ 0, %entry ], [ %bits.next, %look ]
  %more = icmp ult i64 %k, %checks
  br i1 %more, label %look, label %decide
look:
  %pair = shl i64 %k, 1
  %address.at = getelementptr i64, ptr %pairs, i64 %pair
  %address = load i64, ptr %address.at
  %mask.at = getelementptr i64, ptr %address.at, i64 1
  %mask = load i64, ptr %mask.at
  %low = and i64 %address, %mask
  %bits.next = or i64 %bits, %low
  %k.next = add i64 %k, 1
  br label %check
decide:
  %fits = icmp eq i64 %bits, 0
  %when = icmp ne i64 %wanted, 0
  %go = icmp eq i1 %fits, %when
  br i1 %go, label %start, label %skip
start:
  %pointers = alloca ptr, i64 %count
  br label %point
point:
  %i = phi i64 [ 0, %start ], [ %i.next, %set ]
  %left = icmp ult i64 %i, %count
  br i1 %left, label %set, label %launch
set:
  %word = getelementptr i64, ptr %first, i64 %i
  %place = getelementptr ptr, ptr %pointers, i64 %i
  store ptr %word, ptr %place
  %i.next = add i64 %i, 1
  br label %point
launch:
  %grid = trunc i64 %hi to i32
  %code = call i32 @cuLaunchKernel(ptr %function, i32 %grid, i32 1, i32 1,
    i32 %block, i32 1, i32 1, i32 0, ptr %stream, ptr %pointers, ptr null)
  ret i32 %code
skip:
  ret i32 0
}}
"""

_addresses: dict[int, int] = {}
_lock = threading.Lock()


def launcher_address(launch_address: int) -> int:
    """The address of the native function that launches kernels through a ``cuLaunchKernel`` at ``launch_address``.

    >>> launcher_address(1) == launcher_address(1) != 0
    True
    """
    with _lock:
        if launch_address not in _addresses:
            from ...codegen.llvm import object_code

            imports = {"cuLaunchKernel": launch_address}
            address = load_object(object_code(_TEXT), "tj_cuda_launch", imports)
            _addresses[launch_address] = address
        return _addresses[launch_address]


def launch_steps(
    choices: Sequence[Launch],
    handles: Sequence[int],
    argument: Callable[[Any], Argument],
    stream: Argument,
    launch_address: int,
    grid: Argument | None = None,
) -> list[Step]:
    """The steps for one step of a kernel, whose ``choices`` were loaded as ``handles``.

    ``argument`` tells where a parameter comes from; ``stream`` is the stream's handle,
    ``grid`` how many blocks run where that is not for a launch to say. An error of the driver ends the
    program like a kernel's own code.

    >>> launch = Launch("k", "", (), 4)
    >>> [(step.extent, len(step.args)) for step in launch_steps([launch], [99], lambda p: (-1, 0), (0, 0), 1)]
    [((-1, 4), 6)]
    """
    function = launcher_address(launch_address)
    checks: list[Argument] = []
    steps = []
    for launch, handle in zip(choices, handles, strict=True):
        parameters = [argument(parameter) for parameter in launch.parameters]
        last = launch is choices[-1]
        if launch.aligned:
            checks = [
                word
                for found in launch.aligned
                for word in (parameters[found.position], (-1, found.multiple - 1))
            ]
        # The last choice is taken where the one before it is not.
        wanted = int(bool(launch.aligned) or not checks)
        assert last or launch.aligned, "only the last launch of a step fits all addresses"
        head = [(-1, handle), (-1, BLOCK), stream]
        numbers = [(-1, len(parameters)), (-1, len(checks) // 2), (-1, wanted)]
        words = [*head, *numbers, *parameters, *checks]
        steps.append(Step(function, words, grid or (-1, launch.grid), SERIAL))
    return steps
