"""Backward programs that find that they cannot serve a pass: the graph is then run op by op, on what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.callbacks import KernelFailure
from .backward import InterpretedBackward

if TYPE_CHECKING:
    from ...tensor import Tensor
    from .backward import AnyProgram
    from .site import Site

__all__ = ["run_or_interpret"]


def run_or_interpret(
    site: Site, program: AnyProgram, values: Sequence[Any], pack: Any
) -> Sequence[Tensor | None]:
    """The gradients by a program, or op by op where it ends because a matrix or a result needs an exception.

    >>> f = tj.compile(lambda x: tj.fft.rfft(x).abs())
    >>> x = tj.tensor([1.0, 2.0, float("inf"), 4.0], requires_grad=True)
    >>> losses = [f(x).sum() for _ in range(3)]
    >>> losses[1].backward()
    >>> x.grad
    tensor([nan, nan, nan, nan])
    """
    try:
        found: Sequence[Tensor | None] = program.run(values, pack)
    except KernelFailure:
        found = InterpretedBackward(site.backward).run(values, pack)
        site.refused()
    return found
