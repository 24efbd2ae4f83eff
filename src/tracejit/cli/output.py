"""How commands show things: tables, code, times and sizes, and messages for missing packages."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """A console on the standard output of now; wide when that is a file, so that tables are not cut."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=120)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: the first column left, all others right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for number, name in enumerate(columns):
        if number == 0:  # the only one that may be long
            grid.add_column(name, overflow="fold")
        else:
            grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*map(Text, row))
    console().print(grid)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    import click

    known = list(rows)
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        click.echo(f"{name:<{width}}  {value}")


def heading(text: str) -> None:
    """Print the title of a section."""
    import click

    click.echo()
    click.secho(text, bold=True)


def code(text: str) -> None:
    """Print program text as it is: in colour on a terminal, never wrapped in a file."""
    import click

    here = console()
    if not here.is_terminal:
        click.echo(text)
        return
    from rich.syntax import Syntax

    here.print(Syntax(text, "python", background_color="default", word_wrap=False))


def duration(seconds: float) -> str:
    """Three significant digits and a fitting unit.

    >>> duration(0.00012345)
    '123 us'
    >>> duration(2.5)
    '2.50 s'
    """
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def _digits(value: float) -> str:
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def size(count: int) -> str:
    """Bytes in a fitting unit.

    >>> size(3 << 20)
    '3.0 MiB'
    """
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def require(package: str, distribution: str, purpose: str) -> Any:
    """Import an optional package, or end with a message that says what to install."""
    import click

    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != package.split(".")[0]:
            raise
        raise click.ClickException(
            f"{purpose} needs {distribution}, which is not installed.\n"
            f'Install it with:  pip install {distribution}   (or: pip install "tracejit[demo]")'
        ) from None


def check_place(path: Path | None) -> None:
    """End with the reason where a file cannot be written there: before the work that it is for, not after."""
    import click

    if path is not None and not (path.exists() or path.resolve().parent.is_dir()):
        raise click.ClickException(f"cannot write {path}: there is no folder {path.parent}")


def write_json(path: Path, content: Any) -> None:
    """Write JSON, or end with the reason why it cannot be written."""
    import click

    try:
        path.write_text(json.dumps(content, indent=2) + "\n")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
