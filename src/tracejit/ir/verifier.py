"""Is a graph well formed? Run after every pass in tests, and on request anywhere else."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from ..errors import TracejitError
from ..types import TensorType
from .graph import Graph, Guard, Statement, Value
from .loops import LoopType, body_of, is_loop, part
from .text import call, value_names

_NUMBERS = (bool, int, float)


class GraphError(TracejitError, AssertionError):
    """A graph that breaks the rules of the IR: a defect of the pass that made it."""


def verify(graph: Graph) -> Graph:
    """``graph`` itself, if it is well formed; else :class:`GraphError` names the statement and the rule it breaks.

    Input names are unique; operands, guarded values and outputs are defined before they are used, once; operands and
    attributes are what the op takes; attributes are hashable; types are those the op gives; guards hold one element.
    The body of a loop is well formed too and has no guards; a loop is read by its parts only.

    >>> from tracejit.ir import parse
    >>> verify(parse("graph f(x: f32[2]) { %0: f32[2] = add(x, x)  return %0 }")).name
    'f'
    """
    names = value_names(graph)
    _verify_inputs(graph)
    defined = set(graph.inputs)
    for statement in graph.body:
        where = _describe(statement, names)
        _verify_defined(_used(statement), defined, names, where)
        if isinstance(statement, Guard):
            _verify_guard(statement, where)
            continue
        if statement in defined:
            raise GraphError(f"{where}: the value is defined twice")
        _verify_value(statement, where)
        defined.add(statement)
    _verify_defined(graph.outputs, defined, names, "return")
    if any(isinstance(v.spec, LoopType) for v in graph.outputs):
        raise GraphError(f"graph {graph.name}: a loop is no result; its parts are")
    return graph


def _verify_inputs(graph: Graph) -> None:
    seen: set[str] = set()
    for value in graph.inputs:
        if value.op is not None or isinstance(value.spec, LoopType):
            raise GraphError(f"graph {graph.name}: input {value!r} is the result of an op")
        if not value.name or value.name in seen:
            raise GraphError(
                f"graph {graph.name}: input name {value.name!r} is empty or used twice"
            )
        seen.add(value.name)


def _describe(statement: Statement, names: dict[Value, str]) -> str:
    if isinstance(statement, Guard):
        return f"guard {names.get(statement.value, '%undefined')} is {statement.expected!r}"
    right = call(statement, names) if statement.op is not None else repr(statement)
    return f"{names[statement]}: {statement.spec} = {right}"


def _used(statement: Statement) -> Iterable[Value]:
    return (statement.value,) if isinstance(statement, Guard) else statement.value_operands


def _verify_defined(
    values: Iterable[Value], defined: set[Value], names: dict[Value, str], where: str
) -> None:
    for value in values:
        if value not in defined:
            raise GraphError(
                f"{where}: {names.get(value, repr(value))} is used before it is defined"
            )


def _verify_guard(guard: Guard, where: str) -> None:
    if guard.value.spec.numel != 1:
        raise GraphError(f"{where}: a guard needs one element, not {guard.value.spec}")
    if type(guard.expected) not in _NUMBERS:
        raise GraphError(f"{where}: a guard expects a bool, int or float")


def _verify_value(value: Value, where: str) -> None:
    op = value.op
    if op is None:
        raise GraphError(f"{where}: a statement needs an op; inputs stand in the head")
    if not op.variadic and len(value.operands) != len(op.operands):
        raise GraphError(
            f"{where}: {op.name} takes {len(op.operands)} operands, found {len(value.operands)}"
        )
    for operand in value.operands:
        if not isinstance(operand, Value) and type(operand) not in _NUMBERS:
            raise GraphError(f"{where}: operand {operand!r} is neither a value nor a number")
        if isinstance(operand, Value) and isinstance(operand.spec, LoopType) and op is not part:
            raise GraphError(f"{where}: a loop is read by its parts only")
    _verify_attributes(value, where)
    if is_loop(value):
        _verify_body(value, where)
    _verify_type(value, where)


def _verify_body(value: Value, where: str) -> None:
    graph = body_of(value)
    try:
        verify(graph)
    except GraphError as error:
        raise GraphError(f"{where}, in its body: {error}") from error
    if any(True for _ in graph.guards):
        raise GraphError(f"{where}: a body cannot have guards")


def _verify_attributes(value: Value, where: str) -> None:
    assert value.op is not None
    declared = value.op.attributes
    for name, attribute in value.attributes.items():
        if name not in declared:
            raise GraphError(f"{where}: {value.op.name} has no attribute {name!r}")
        try:
            hash(attribute)
        except TypeError:
            raise GraphError(f"{where}: attribute {name!r} is not hashable") from None
    missing = [
        n for n, d in declared.items() if d is inspect.Parameter.empty and n not in value.attributes
    ]
    if missing:
        raise GraphError(f"{where}: {value.op.name} needs the attribute {missing[0]!r}")


def _verify_type(value: Value, where: str) -> None:
    assert value.op is not None
    kinds: list[TensorType | bool | int | float] = [
        x.spec if isinstance(x, Value) else x for x in value.operands
    ]
    try:
        found = value.op.infer(kinds, value.attributes)
    except Exception as error:
        reason = getattr(error, "summary", str(error))
        raise GraphError(f"{where}: {value.op.name} refuses its operands: {reason}") from error
    if found != value.spec:
        raise GraphError(f"{where}: the op gives {found}")
