"""``tracejit profile SCRIPT``: run a program and tell where the time of its compiled code goes."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import is_internal
from . import output

if TYPE_CHECKING:
    import click

_HELP = """Run SCRIPT with its ARGUMENTS and report on its compiled code: time, bytes and operations of every kernel,
its distance to what the machine can do, launches, allocations and threads. Options come before SCRIPT."""


def command() -> click.Command:
    """The ``profile`` command."""
    import click

    path = click.Path(dir_okay=False, path_type=Path)
    script = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.Command(
        "profile",
        callback=_run,
        help=_HELP,
        short_help="Run a program and show where its time goes.",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        params=[
            click.Argument(["script"], type=script),
            click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED),
            click.Option(
                ["--trace", "trace_path"], type=path, help="Write a trace file for Perfetto."
            ),
            click.Option(["--roofline", "roofline_path"], type=path, help="Draw a roofline plot."),
            click.Option(["--json", "json_path"], type=path, help="Write the figures as JSON."),
        ],
    )


def _run(
    script: Path,
    arguments: tuple[str, ...],
    trace_path: Path | None,
    roofline_path: Path | None,
    json_path: Path | None,
) -> None:
    import click

    from ..profiling import profile

    if roofline_path is not None:
        output.require("matplotlib", "matplotlib", "profile --roofline")
    for path in (trace_path, roofline_path, json_path):
        output.check_place(path)
    code: Any = 0
    with profile() as found, _as_main(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            code = end.code
        except Exception as error:  # noqa: BLE001  (the script's, shown as Python shows it)
            click.echo(_shown(error, script), err=True, nl=False)
            raise click.exceptions.Exit(1) from None
    click.echo()
    click.echo(str(found) if found.kernels else f"{script.name} ran no compiled kernel")
    try:
        if trace_path is not None:
            found.trace(trace_path)
        if roofline_path is not None:
            found.roofline(roofline_path)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"cannot write: {error}") from None
    if json_path is not None:
        output.write_json(json_path, found.to_dict())
    if code not in (None, 0):
        raise click.ClickException(f"{script.name} ended with exit code {code}")


def _shown(error: Exception, script: Path) -> str:
    """The traceback from the script on, without the frames of this package."""
    told = traceback.TracebackException.from_exception(error)
    frames = list(told.stack)
    begin = next((i for i, f in enumerate(frames) if f.filename == str(script)), 0)
    kept = [f for f in frames[begin:] if not is_internal(f.filename)]
    told.stack = traceback.StackSummary.from_list(kept)
    return "".join(told.format())


@contextmanager
def _as_main(script: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    """Arguments and import path as the script has them when Python runs it."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[0:0] = [str(script), *arguments], [str(script.resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
