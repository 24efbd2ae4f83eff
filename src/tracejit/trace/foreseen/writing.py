"""Writing down what was foreseen: statements like those before, on other operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.graph import Value
from ...tensor import Tensor
from .site import Site

if TYPE_CHECKING:
    from ..recording.recorder import Recorder


def write_again(recorder: Recorder, waiting: list[tuple[Site, Sequence[Any], Tensor]]) -> None:
    """Write down operations in order, each with its operands and its result; ``waiting`` is empty afterwards."""
    roots, path, again = recorder.roots, recorder.path, recorder.builder.again
    shown: dict[int, Value] = {}  # the values of views
    nbytes = 0
    for site, operands, out in waiting:
        found: list[Any] = []
        values: list[Value] = []
        for x in operands:
            if isinstance(x, Tensor):
                value = roots.get(id(x))
                if value is None:
                    value = shown.get(id(x))
                    if value is None:
                        value = recorder.value_of(x)
                values.append(value)
                found.append(value)
            else:
                found.append(x)
        value = again(site.value, found, values, site.line)
        path.setdefault(value)
        if site.is_view:
            recorder.parents[id(out)] = operands[0], site.steps
            shown[id(out)] = value
        else:
            roots[id(out)] = value
        recorder.alive.tensors.append(out)
        nbytes += site.nbytes
    waiting.clear()
    recorder.alive.grown(nbytes)
    recorder.check_length()
