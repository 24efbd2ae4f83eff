"""``tracejit cache``: what the kernel store holds, and emptying it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import output

if TYPE_CHECKING:
    import click


def command() -> click.Group:
    """The ``cache`` commands."""
    import click

    return click.Group(
        "cache",
        help="Look at or empty the store of compiled kernels.",
        commands=[
            click.Command("info", callback=_info, help="Where the store is and what it holds."),
            click.Command("clear", callback=_clear, help="Delete every stored kernel."),
        ],
        no_args_is_help=True,
    )


def rows() -> list[tuple[str, str]]:
    """Names and values that describe the store."""
    from ..runtime.store import kernel_store

    store = kernel_store()
    known = store.info()
    place = "in memory only" if known.directory is None else str(known.directory)
    return [
        ("cache", place),
        ("kernels stored", str(known.entries)),
        ("size", f"{output.size(known.bytes)} of at most {output.size(store.max_bytes)}"),
    ]


def _info() -> None:
    output.pairs(rows())


def _clear() -> None:
    import click

    from ..runtime.store import kernel_store

    store = kernel_store()
    before = store.info()
    store.clear()
    after = store.info()
    if after.entries:
        raise click.ClickException(
            f"{after.entries} kernels could not be deleted; check the permissions of {after.directory}"
        )
    click.echo(f"deleted {before.entries} kernels, {output.size(before.bytes)}")
