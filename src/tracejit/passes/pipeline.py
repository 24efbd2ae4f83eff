"""The order of passes over one graph, with their times and, on request, every stage as text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from .. import config
from ..ir.graph import Graph
from .draws_inside import draws_inside
from .extremes import extremes
from .loops.optimize import optimize_loops
from .products.complex_parts import complex_parts
from .products.dots import dots
from .products.half_products import half_products
from .products.half_sums import half_sums
from .products.pair_products import pair_products
from .products.small_products import small_products
from .products.transposed_products import transposed_products
from .simplify.cse import cse
from .simplify.dead_code import dead_code
from .simplify.drop_copies import drop_copies
from .simplify.fold import fold
from .simplify.piecewise import piecewise
from .simplify.simplify import simplify
from .windows.convolutions import convolutions
from .windows.depthwise import depthwise
from .windows.epilogues import epilogues
from .windows.patches import patches
from .windows.pooling import pooling
from .windows.taps import taps


@dataclass(frozen=True)
class Pass:
    """A named step of the pipeline.

    ``final`` ones run only on graphs that are not differentiated any more, ``host`` ones only on those for the CPU,
    ``device`` ones only on those for a GPU. ``outside`` ones do not run on bodies of loops: they look into these
    themselves, once nothing more leaves the loops. The one that ``leads_inside`` is told the number of the GPU, too.
    """

    name: str
    run: Callable[..., Graph]
    final: bool = False
    host: bool = False
    device: bool = False
    outside: bool = False
    leads_inside: bool = False

    def serves(self, final: bool, device: int, inside: bool) -> bool:
        """Does this step run on graphs of such a kind, for the GPU of this number (-1: the host)?"""
        here = not self.host if device >= 0 else not self.device
        return here and (final or not self.final) and not (inside and self.outside)


PASSES = (
    Pass("cse", cse),
    Pass("draws_inside", draws_inside, final=True, device=True),
    Pass("drop_copies", drop_copies, final=True),
    Pass("fold", fold),
    Pass("simplify", simplify),
    Pass("complex_parts", complex_parts, final=True, host=True),
    Pass("half_sums", half_sums, final=True),
    Pass("half_products", half_products, final=True, host=True),
    Pass("extremes", extremes, final=True, host=True),
    Pass("loops", optimize_loops, final=True, leads_inside=True),
    Pass("transposed_products", transposed_products, final=True),
    Pass("patches", patches, final=True, host=True),
    Pass("taps", taps, final=True, host=True),
    Pass("epilogues", epilogues, final=True, host=True),
    Pass("dots", dots, final=True, host=True, outside=True),
    Pass("small_products", small_products, final=True, host=True, outside=True),
    Pass("convolutions", convolutions, final=True, host=True),
    Pass("pair_products", pair_products, final=True, host=True, outside=True),
    Pass("depthwise", depthwise, final=True, device=True),
    Pass("pooling", pooling, final=True),
    Pass("piecewise", piecewise, final=True, host=True),
    Pass("dead_code", dead_code),
)


def run_passes(
    graph: Graph,
    *,
    final: bool = True,
    device: int = -1,
    inside: bool = False,
    timings: MutableMapping[str, float] | None = None,
    check: Callable[[Graph], Graph] | None = None,
) -> Graph:
    """``graph`` after every pass, in order.

    ``final=False`` for a graph that will still be differentiated; gradients agree with eager execution to the bit only
    if differentiation comes first, since merging equal values merges their gradients. ``device`` is the number of the
    GPU it is for, -1 for the host. ``inside`` says that it is the body of a loop. ``timings`` receives the seconds
    each pass took, added to what is there. ``check`` (the verifier, in tests) is called on the result of every pass.
    With ``TRACEJIT_DUMP=DIR`` every stage is written to ``DIR/<graph name>/NN_<pass>.txt``.

    >>> from tracejit.ir import parse, verify
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = mul(x, 1) %1: f32[2] = exp(%0) return %1 }")
    >>> seconds = {}
    >>> len(run_passes(graph, timings=seconds, check=verify).body)
    1
    >>> sorted(seconds) == sorted(step.name for step in PASSES if not step.device)
    True
    """
    dump = StageDump(graph.name) if config.dump_directory else None
    if dump is not None:
        dump.write("input", graph)
    for step in PASSES:
        if not step.serves(final, device, inside):
            continue
        start = perf_counter()
        graph = step.run(graph, device) if step.leads_inside else step.run(graph)
        if timings is not None:
            timings[step.name] = timings.get(step.name, 0.0) + perf_counter() - start
        if check is not None:
            check(graph)
        if dump is not None:
            dump.write(step.name, graph)
    return graph


class StageDump:
    """Numbered text files, one per stage, in a directory of the graph's own."""

    def __init__(self, name: str) -> None:
        assert config.dump_directory is not None
        plain = re.sub(r"[^\w.-]", "_", name) or "graph"
        base = Path(config.dump_directory)
        base.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            self.directory = base / (f"{plain}_{number}" if number else plain)
            try:
                self.directory.mkdir()
            except FileExistsError:
                continue
            break
        self.numbers = itertools.count()

    def write(self, stage: str, graph: object) -> None:
        """Write ``graph`` as the next stage."""
        path = self.directory / f"{next(self.numbers):02d}_{stage}.txt"
        path.write_text(f"{graph}\n", encoding="utf-8")
