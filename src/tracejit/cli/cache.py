"""``tracejit cache``: what the stores of kernels and plans hold, and emptying them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import output

if TYPE_CHECKING:
    import click

    from ..runtime.machine_code.store import KernelStore


def command() -> click.Group:
    """The ``cache`` commands."""
    import click

    return click.Group(
        "cache",
        help="Look at or empty the stores of compiled kernels and of plans.",
        commands=[
            click.Command("info", callback=_info, help="Where the stores are and what they hold."),
            click.Command(
                "list",
                callback=_list,
                help="The stored kernels, those used last first.",
                params=[
                    click.Option(
                        ["--limit"],
                        type=click.IntRange(min=1),
                        default=50,
                        show_default=True,
                        help="At most so many.",
                    )
                ],
            ),
            click.Command("clear", callback=_clear, help="Delete every stored kernel and plan."),
        ],
        no_args_is_help=True,
    )


def rows() -> list[tuple[str, str]]:
    """Names and values that describe the stores."""
    from ..runtime.machine_code.store import kernel_store, plan_store

    found = [("cache", _place(kernel_store()))]
    for name, store in (("kernels", kernel_store()), ("plans", plan_store())):
        known = store.info()
        size = f"{output.size(known.bytes)} of at most {output.size(store.max_bytes)}"
        found.append((f"{name} stored", f"{known.entries}, {size}"))
    return found


def _place(store: KernelStore) -> str:
    return "in memory only" if store.directory is None else str(store.directory)


def _info() -> None:
    output.pairs(rows())


def _list(limit: int) -> None:
    import datetime as dt

    from ..runtime.machine_code.store import kernel_store

    store = kernel_store()
    rows = [
        (
            names_in(store.get(key) or b""),
            output.size(size),
            dt.datetime.fromtimestamp(used).strftime("%Y-%m-%d %H:%M"),
            key[:16],
        )
        for key, size, used in store.recent(limit)
    ]
    output.table("", ("kernel", "size", "used", "key"), rows)
    left = store.info().entries - len(rows)
    if left > 0:
        output.console().print(f"and {left} more")


def names_in(data: bytes) -> str:
    """The functions of an object file, without the part of their names that is the key; ``-`` where it cannot be read.

    >>> names_in(b"")
    '-'
    """
    from ..codegen.replaceable import unpacked
    from ..runtime.machine_code.elf import MalformedObjectError, is_elf, symbols

    first = unpacked(data)
    if first is not None:
        data = first[0]
    if not is_elf(data):
        return "-"
    try:
        defined, _ = symbols(data)
    except MalformedObjectError:
        return "-"
    names = [re.sub(r"_[0-9a-f]{16}$", "", name) for name in defined if "." not in name]
    return ", ".join(sorted(names)) or "-"


def _clear() -> None:
    import click

    from ..runtime.machine_code.store import kernel_store, plan_store

    for name, store in (("kernels", kernel_store()), ("plans", plan_store())):
        before = store.info()
        store.clear()
        after = store.info()
        if after.entries:
            raise click.ClickException(
                f"{after.entries} {name} could not be deleted; check the permissions of {after.directory}"
            )
        click.echo(f"deleted {before.entries} {name}, {output.size(before.bytes)}")
