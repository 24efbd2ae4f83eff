"""``tracejit build``: kernels for a GPU, compiled on a machine that need not have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import output, target

if TYPE_CHECKING:
    import click

_HELP = """Compile the kernels of a function for GPUs and keep them in the store.

TARGET is MODULE:FUNCTION or FILE.py:FUNCTION. The function is run once on the CPU, with one --args for each parameter
or with the example_inputs of its module; sizes may differ later. No GPU and no driver are needed. A machine with a GPU
that uses the same store (TRACEJIT_CACHE_DIR) then only loads the kernels."""


def command() -> click.Command:
    """The ``build`` command."""
    import click

    return click.Command(
        "build",
        callback=_run,
        help=_HELP,
        short_help="Compile kernels for GPUs ahead of time.",
        params=[
            *target.call_parameters("Tensors of --args require gradients."),
            click.Option(
                ["--cuda", "architectures"],
                multiple=True,
                required=True,
                metavar="SM",
                help="An architecture such as sm_90; may be repeated.",
            ),
        ],
    )


def _run(spec: str, architectures: tuple[str, ...], specs: tuple[str, ...], grad: bool) -> None:
    import click

    from ..codegen.cuda.ptx import ARCHITECTURES
    from ..runtime.machine_code.store import kernel_store
    from ..trace.ahead import build_for_device

    unknown = [a for a in architectures if a not in ARCHITECTURES]
    if unknown:  # before the function is run for nothing
        raise click.BadParameter(
            f"kernels cannot be compiled for {', '.join(unknown)}; the architectures are {', '.join(ARCHITECTURES)}",
            param_hint="--cuda",
        )
    name, function, args = target.load_call(spec, specs, grad)
    entries = _recorded(name, function, args)
    rows = []
    for architecture in architectures:
        try:
            made = [build_for_device(entry, architecture) for entry in entries]
        except Exception as error:
            raise click.ClickException(f"{name} for {architecture}: {error}") from error
        images = {key: size for building in made for key, size in building.images.items()}
        rows.append((architecture, f"{len(images)} kernels, {sum(images.values()):,} bytes"))
    directory = kernel_store().directory
    rows.append(
        ("store", "in memory only: nothing was kept" if directory is None else str(directory))
    )
    output.pairs(rows)


def _recorded(name: str, function: Any, args: tuple[Any, ...]) -> list[Any]:
    """Run the function once; what was recorded."""
    import click

    import tracejit as tj

    compiled: Any = function if hasattr(function, "explain") else tj.compile(function)
    try:
        compiled(*args)
    except Exception as error:
        raise click.ClickException(
            f"{name} failed with these arguments: {type(error).__name__}: {error}"
        ) from error
    return [entry for entries in compiled.entries.values() for entry in entries]
