"""``tracejit demo``: train a digits classifier eagerly and compiled, and show what was compiled."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import digits, output, timing

if TYPE_CHECKING:
    import click

_SCREEN = 40  # lines
_WARM_UP_SHARE = 10  # the first tenth of the steps is not steady: caches, recordings, compilations


@dataclass(frozen=True)
class Report:
    """What the demo found; times in seconds, differences relative.

    ``ratio`` compares the medians, ``ratio_fastest`` the fastest tenths, which other programs disturb least.
    """

    steps: int
    accuracy: dict[str, float]
    loss_difference: float
    step_time: dict[str, float]
    fastest_tenth: dict[str, float]
    ratio: float
    ratio_fastest: float
    warning: str | None
    first_calls: list[float]
    kernels: int
    graph: str
    kernel: str


def command() -> click.Command:
    """The ``demo`` command."""
    import click

    defaults = digits.Settings()
    many = click.IntRange(min=1)
    return click.Command(
        "demo",
        callback=_run,
        help="Train a classifier of handwritten digits, eagerly and compiled, and compare them.",
        short_help="Train a digits classifier both ways and compare.",
        params=[
            click.Option(["--epochs"], type=many, default=defaults.epochs, show_default=True),
            click.Option(["--hidden"], type=many, default=defaults.hidden, show_default=True),
            click.Option(["--batch"], type=many, default=defaults.batch, show_default=True),
            click.Option(
                ["--seed"],
                type=click.IntRange(min=0, max=2**32 - 1),
                default=defaults.seed,
                show_default=True,
            ),
            click.Option(
                ["--plot"],
                type=click.Path(dir_okay=False, path_type=Path),
                default=Path("tracejit-demo.png"),
                show_default=True,
                help="Where the picture goes.",
            ),
            click.Option(
                ["--device"],
                type=click.Choice(["cpu", "cuda"]),
                default=defaults.device,
                show_default=True,
                help="Where to train.",
            ),
            click.Option(["--no-plot"], is_flag=True, help="Write no picture."),
            click.Option(
                ["--json", "as_json"], is_flag=True, help="Print the figures as JSON only."
            ),
        ],
    )


def _run(
    epochs: int,
    hidden: int,
    batch: int,
    seed: int,
    plot: Path,
    device: str,
    no_plot: bool,
    as_json: bool,
) -> None:
    import click

    from ..cuda import init
    from ..errors import DeviceError

    if device == "cuda":
        try:
            init()
        except DeviceError as error:
            raise click.ClickException(error.advice) from None
    settings = digits.Settings(epochs=epochs, hidden=hidden, batch=batch, seed=seed, device=device)
    if not no_plot:
        output.require("matplotlib", "matplotlib", "The demo's plot (--no-plot leaves it out)")
        output.check_place(plot)
    data = digits.load(seed)
    warning = timing.busy()  # before training: afterwards the load is that of the demo itself
    runs = train(data, settings, progress=not as_json)
    report = summarise(data, runs[0], runs[1], warning)
    if as_json:
        click.echo(json.dumps({"settings": vars(settings), **vars(report)}, indent=2))
    else:
        _show(report)
    if not no_plot:
        from .plots import training_curves

        training_curves(plot, {r.name: r.losses for r in runs}, {r.name: r.seconds for r in runs})
        click.echo(f"plot: {plot}", err=as_json)


def train(data: digits.Digits, settings: digits.Settings, progress: bool) -> Any:
    """Both runs over the same batches, one after the other.

    Not in turn: the threads of eager's BLAS and those of compiled kernels would take each other's processors, and
    the times would be those of neither alone.
    """
    from rich.progress import track

    runs = digits.start(settings)
    for run in runs:
        epochs = range(settings.epochs)
        for epoch in track(epochs, run.name, console=output.console(), disable=not progress):
            for x, y in digits.batches(data, settings, epoch):
                run.step(x, y)
            run.schedule.step()
    return runs


def summarise(
    data: digits.Digits, eager: digits.Run, compiled: digits.Run, warning: str | None
) -> Report:
    """The figures of two finished runs."""
    skip = len(eager.seconds) // _WARM_UP_SHARE
    steady = {r.name: sorted(r.seconds[skip:]) for r in (eager, compiled)}
    times = {name: statistics.median(seconds) for name, seconds in steady.items()}
    program: Any = compiled.objective
    fastest = {name: seconds[len(seconds) // 10] for name, seconds in steady.items()}
    pairs = zip(eager.losses, compiled.losses, strict=True)
    graphs, kernels = program.graphs, program.kernels
    return Report(
        steps=len(eager.losses),
        accuracy={r.name: digits.accuracy(r, data) for r in (eager, compiled)},
        loss_difference=max(abs(a - b) / max(abs(a), 1e-12) for a, b in pairs),
        step_time=times,
        fastest_tenth=fastest,
        ratio_fastest=fastest["eager"] / fastest["compiled"],
        warning=warning,
        ratio=times["eager"] / times["compiled"],
        first_calls=compiled.seconds[:2],
        kernels=len(kernels),
        graph=str(graphs[0]) if graphs else "nothing was compiled",
        kernel=_most_telling(kernels),
    )


def _most_telling(kernels: Any) -> str:
    """The source of the longest kernel that fits a screen: it shows fusion best."""
    sources = sorted((k.source.rstrip() for k in kernels), key=lambda text: text.count("\n"))
    fitting = [text for text in sources if text.count("\n") < _SCREEN] or sources[:1]
    return fitting[-1] if fitting else "nothing was compiled"


def _show(report: Report) -> None:
    import click

    output.heading("the recorded program")
    output.code(report.graph)
    output.heading(f"one of its {report.kernels} kernels")
    output.code(report.kernel)
    output.heading("eager against compiled")
    names = ("eager", "compiled")
    rows = [
        ("test accuracy", *(f"{report.accuracy[n]:.4f}" for n in names)),
        ("time per step (median)", *(output.duration(report.step_time[n]) for n in names)),
        ("fastest tenth below", *(output.duration(report.fastest_tenth[n]) for n in names)),
    ]
    output.table("", ("", *names), rows)
    output.pairs(
        [
            ("steps", str(report.steps)),
            (
                "compiled is faster by",
                f"{report.ratio_fastest:.1f}x (fastest tenths), {report.ratio:.1f}x (medians)",
            ),
            ("largest loss difference", f"{report.loss_difference:.1e} relative, over all steps"),
            ("first compiled call", f"{output.duration(report.first_calls[0])} (records)"),
            *(
                ("second", f"{output.duration(s)} (compiles kernels)")
                for s in report.first_calls[1:]
            ),
        ]
    )
    if report.warning:
        click.echo(f"note: {report.warning}")
