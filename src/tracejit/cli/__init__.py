"""The ``tracejit`` command: demo, inspect, profile, bench, info, cache.

Each command lives in a module of its own whose ``command()`` builds it. Everything heavy is imported when a command
runs, so ``tracejit --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: the command could not do what was asked; 2: a usage mistake; 130: interrupted. Mistakes end in one
    message on standard error, never in a traceback.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    tracejit ...
    0
    """
    import click

    try:
        code = _group().main(
            None if arguments is None else list(arguments),
            prog_name="tracejit",
            standalone_mode=False,
        )
    except click.ClickException as mistake:
        mistake.show()
        return mistake.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


def _group() -> click.Group:
    import click

    from . import bench, cache, demo, info, inspect, profile

    return click.Group(
        "tracejit",
        help="A tracing compiler for PyTorch-style Python.",
        commands=[m.command() for m in (demo, inspect, profile, bench, info, cache)],
        params=[_version_option()],
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        no_args_is_help=True,
    )


def _version_option() -> click.Option:
    import click

    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            from .info import version

            click.echo(f"tracejit {version()}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show the version and exit.",
    )
