"""``tracejit inspect``: what becomes of a function, from graph to kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import output, target

if TYPE_CHECKING:
    import click

_PARTS = ("graphs", "kernels", "program", "explain")

_HELP = """Show the graphs, kernels and programs of a function, and how it was compiled.

TARGET is MODULE:FUNCTION or FILE.py:FUNCTION. The function is called with one --args for each parameter, such as
--args "f32[32,8]" --args 0.5, or with the example_inputs of its module."""


def command() -> click.Command:
    """The ``inspect`` command."""
    import click

    return click.Command(
        "inspect",
        callback=_run,
        help=_HELP,
        short_help="Show the graphs and kernels of a function.",
        params=[
            *target.call_parameters("Tensors of --args require gradients: show backward."),
            click.Option(
                ["--show"],
                multiple=True,
                type=click.Choice(_PARTS),
                help="Only these parts; may be repeated.",
            ),
        ],
    )


def _run(spec: str, specs: tuple[str, ...], grad: bool, show: tuple[str, ...]) -> None:

    name, function, args = target.load_call(spec, specs, grad)
    compiled = _called(name, function, args)
    for part in _PARTS:
        if not show or part in show:
            output.heading(part)
            _SECTIONS[part](compiled)


def _called(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The compiled function after enough calls that every kernel exists: one records, one compiles."""
    import click

    import tracejit as tj

    compiled: Any = function if hasattr(function, "explain") else tj.compile(function)
    try:
        for _ in range(2):
            _backward(compiled(*args))
    except Exception as error:
        raise click.ClickException(
            f"{name} failed with these arguments: {type(error).__name__}: {error}"
        ) from error
    return compiled


def _backward(result: Any) -> None:
    """Run backward from every tensor of a result that has a history."""
    import tracejit as tj

    if isinstance(result, tj.Tensor):
        if result.grad_fn is not None:
            result.sum().backward(retain_graph=True)
    elif isinstance(result, dict):
        _backward(list(result.values()))
    elif isinstance(result, tuple | list):
        for item in result:
            _backward(item)


def _graphs(compiled: Any) -> None:
    output.code("\n\n".join(map(str, compiled.graphs)) or _nothing("graph"))


def _kernels(compiled: Any) -> None:
    output.code("\n\n".join(k.source for k in compiled.kernels) or _nothing("kernel"))


def _program(compiled: Any) -> None:
    """The source of everything is the kernels, then the programs: what is left are the programs."""
    text = compiled.source()
    for kernel in compiled.kernels:
        text = text.replace(kernel.source, "", 1)
    output.code(text.strip() or _nothing("program"))


def _explain(compiled: Any) -> None:
    import click

    click.echo(str(compiled.explain()))


def _nothing(what: str) -> str:
    return f"# no {what}: see explain for the reason"


_SECTIONS: dict[str, Callable[[Any], None]] = {
    "graphs": _graphs,
    "kernels": _kernels,
    "program": _program,
    "explain": _explain,
}
