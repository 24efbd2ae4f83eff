"""Running a graph with the ops' own bodies: the meaning every compiled program is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentValueError, TracejitError, describe_line
from ..ops.table import Op
from ..types import Scalar
from .graph import Graph, Guard, Value
from .rules import FOLLOWED, on_tensors


class GuardFailedError(TracejitError, RuntimeError):
    """A guarded value came out otherwise than recorded: the graph does not apply to these inputs."""

    def __init__(self, guard: Guard, found: Scalar) -> None:
        where = f" ({describe_line(*guard.line)})" if guard.line else ""
        super().__init__(f"guard expects {guard.expected!r}, found {found!r}{where}")
        self.guard = guard
        self.found = found


def run(graph: Graph, inputs: Sequence[Any], *, check_guards: bool = False) -> list[Any]:
    """The outputs of ``graph`` for arrays ``inputs``, statement by statement.

    Views alias their operands as in eager execution. Raises :class:`tracejit.errors.ArgumentValueError` when the inputs
    do not have the graph's types and, with ``check_guards``, :class:`GuardFailedError`.

    >>> import numpy as np
    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = mul(x, 2.0)  return %0 }")
    >>> run(graph, [np.array([1, 2], np.float32)])
    [array([2., 4.], dtype=float32)]
    """
    _check_inputs(graph, [(tuple(x.shape), x.dtype) for x in inputs], arrays=True)
    return _walk(graph, inputs, lambda op, xs, kw: op.evaluate(xs, kw), _item, check_guards)


def run_tensors(graph: Graph, tensors: Sequence[Any], *, check_guards: bool = False) -> list[Any]:
    """The outputs of ``graph`` as eager tensors; differentiable like any other eager code.

    >>> import tracejit as tj
    >>> from tracejit.ir import parse
    >>> graph = parse("graph f(x: f32[]) { %0: f32[] = mul(x, x)  return %0 }")
    >>> x = tj.tensor(3.0, requires_grad=True)
    >>> run_tensors(graph, [x])[0].backward()
    >>> x.grad
    tensor(6.)
    """
    _check_inputs(graph, [(tuple(x.shape), x.dtype) for x in tensors], arrays=False)
    return _walk(
        graph,
        tensors,
        lambda op, xs, kw: op(*xs, **kw),
        lambda x: _item(x.array),
        check_guards,
        on_tensors,
    )


def same_number(a: Scalar, b: Scalar) -> bool:
    """Equal as numbers, and NaN equal to NaN: what a guard compares.

    >>> same_number(0.0, -0.0), same_number(float("nan"), float("nan")), same_number(1, 2)
    (True, True, False)
    """
    return a == b or (a != a and b != b)


def _item(array: Any) -> Scalar:
    found: Scalar = array.reshape(()).item() if array.dtype.kind in "biuf" else float(array)
    return found


def _check_inputs(graph: Graph, found: Sequence[tuple[Any, Any]], *, arrays: bool) -> None:
    if len(found) != len(graph.inputs):
        raise ArgumentValueError(
            f"graph {graph.name} takes {len(graph.inputs)} inputs, not {len(found)}"
        )
    for value, (shape, dtype) in zip(graph.inputs, found, strict=True):
        expected = value.spec.dtype.np if arrays else value.spec.dtype
        if shape != value.spec.shape or dtype != expected:
            raise ArgumentValueError(
                f"graph {graph.name}: input {value.name} is {value.spec}, not {dtype}{list(shape)}"
            )


def _walk(
    graph: Graph,
    inputs: Sequence[Any],
    evaluate: Callable[[Op, Sequence[Any], dict[str, Any]], Any],
    item: Callable[[Any], Scalar],
    check_guards: bool,
    follow: Callable[[Value, Mapping[Value, Any], Graph], Any] | None = None,
) -> list[Any]:
    """Run the statements; ``follow`` runs functions with rules of their own."""
    known: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):  # NaN and infinities are results like any other
        for statement in graph.body:
            if isinstance(statement, Guard):
                if check_guards:
                    _check_guard(statement, item(known[statement.value]))
                continue
            assert statement.op is not None
            if follow is not None and statement.op in FOLLOWED:
                known[statement] = follow(statement, known, graph)
                continue
            operands = [known[x] if isinstance(x, Value) else x for x in statement.operands]
            known[statement] = evaluate(statement.op, operands, dict(statement.attributes))
    return [known[v] for v in graph.outputs]


def _check_guard(guard: Guard, found: Scalar) -> None:
    if not same_number(found, guard.expected):
        raise GuardFailedError(guard, found)
