"""``tracejit bench``: eager against compiled over small real programs; with ``--peers``, against other systems."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..testing.workloads import WORKLOADS, Workload, runner
from . import output, peers
from .timing import busy, median_time, timed

if TYPE_CHECKING:
    import click

_BUDGET, _QUICK_BUDGET = 0.5, 0.05
_WARM_UP = 3
_COLUMNS = (
    "workload",
    "size",
    "eager",
    "compiled",
    "ratio",
    "first call",
    "second call",
    "kernels",
)


@dataclass(frozen=True)
class Row:
    """One workload at one size; times in seconds. ``ratio`` is eager time over compiled time."""

    workload: str
    size: int
    mode: str
    eager: float
    compiled: float
    ratio: float
    first_call: float
    second_call: float
    kernels: int
    compiled_calls: int


def command() -> click.Command:
    """The ``bench`` command."""
    import click

    path = click.Path(dir_okay=False, path_type=Path)
    return _command_class()(
        "bench",
        callback=_run,
        help="Time built-in workloads eagerly and compiled, side by side. Results are compared first.",
        params=[
            click.Option(["--quick"], is_flag=True, help="One small size of each workload."),
            click.Option(
                [peers.FLAG],
                is_flag=True,
                expose_value=False,
                help="Compare with PyTorch and JAX instead; see bench --peers --help for its options.",
            ),
            click.Option(
                ["--only", "names"],
                multiple=True,
                type=click.Choice([w.name for w in WORKLOADS]),
                help="Only this workload; may be repeated.",
            ),
            click.Option(["--json", "json_path"], type=path, help="Write the figures as JSON."),
            click.Option(["--plot", "plot_path"], type=path, help="Write a bar chart."),
        ],
    )


def _command_class() -> type[click.Command]:
    """A command that hands all arguments over once ``--peers`` is among them."""
    import click

    class Bench(click.Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            if peers.FLAG in args:
                ctx.exit(peers.run([x for x in args if x != peers.FLAG]))
            return super().parse_args(ctx, args)

    return Bench


def _run(
    quick: bool, names: tuple[str, ...], json_path: Path | None, plot_path: Path | None
) -> None:
    import click

    from .info import describe

    warning = busy()
    if plot_path is not None:
        output.require("matplotlib", "matplotlib", "bench --plot")
    chosen = [w for w in WORKLOADS if not names or w.name in names]
    rows = [
        measure(workload, size, _QUICK_BUDGET if quick else _BUDGET)
        for workload in chosen
        for size in ((workload.quick,) if quick else workload.sizes)
    ]
    output.table("eager against compiled (median time per call)", _COLUMNS, map(_cells, rows))
    if warning:
        click.echo(f"note: {warning}")
    if json_path is not None:
        figures = [asdict(row) for row in rows]
        output.write_json(json_path, {"machine": describe(), "warning": warning, "rows": figures})
    if plot_path is not None:
        from .plots import bar_chart

        bar_chart(plot_path, [f"{r.workload} {r.size:,}" for r in rows], [r.ratio for r in rows])


def measure(workload: Workload, size: int, budget: float) -> Row:
    """Run one workload both ways, compare the results, then time it both ways."""
    import tracejit as tj

    function, args = workload.make(tj, size)
    compiled = tj.compile(function)
    eager_call = runner(workload, tj, function, args)
    compiled_call = runner(workload, tj, compiled, args)
    _, first = timed(compiled_call)
    _, second = timed(compiled_call)
    _compare(workload, size)
    for _ in range(_WARM_UP):
        eager_call()
        compiled_call()
    before = compiled.stats.compiled_calls
    eager_time = median_time(eager_call, budget)
    compiled_time = median_time(compiled_call, budget)
    return Row(
        workload=workload.name,
        size=size,
        mode=workload.mode,
        eager=eager_time,
        compiled=compiled_time,
        ratio=eager_time / compiled_time,
        first_call=first,
        second_call=second,
        kernels=len(compiled.kernels),
        compiled_calls=compiled.stats.compiled_calls - before,
    )


def _compare(workload: Workload, size: int) -> None:
    """Values and gradients of a compiled run against an eager one: a wrong result has no speed."""
    import click
    import numpy as np

    import tracejit as tj

    eager, compiled = (_results(workload, size, tj, wrap) for wrap in (lambda f: f, tj.compile))
    for want, have in zip(eager, compiled, strict=True):
        scale = float(np.max(np.abs(want), initial=1.0))
        if not np.allclose(have, want, rtol=1e-4, atol=1e-5 * scale):
            raise click.ClickException(
                f"{workload.name} at size {size}: compiled and eager results differ by "
                f"{float(np.max(np.abs(have - want))):.2e}"
            )


def _results(workload: Workload, size: int, tj: Any, wrap: Any) -> list[Any]:
    """The result and every gradient of the second run, as arrays: a compiled function's first run is eager."""
    function, args = workload.make(tj, size)
    call = runner(workload, tj, wrap(function), args)
    call()
    result = call()
    tensors = [result, *(x.grad for x in args if x.grad is not None)]
    return [t.detach().numpy() for t in tensors]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.workload + ("" if row.compiled_calls else " (ran eagerly)"),
        f"{row.size:,}",
        output.duration(row.eager),
        output.duration(row.compiled),
        f"{row.ratio:.1f}x",
        output.duration(row.first_call),
        output.duration(row.second_call),
        str(row.kernels),
    )
