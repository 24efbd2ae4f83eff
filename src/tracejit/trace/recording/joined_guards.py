"""Guards of the only path that is known, as one truth: computed by the path's program, looked at when that is done.

Every guard ends a piece with a program of its own. A loop whose rounds look at something (distributions check their
parameters, time steps that they are finite) would be hundreds of pieces, none of which repeats. As long as one path is
all there is, and it only computes, its guards can come last: the call computes for nothing where one of them comes out
otherwise, and the tree is then made of the pieces.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...ir.builder import Builder
from ...ir.graph import Guard, Value
from ...ir.loops import is_loop
from ...ops.comparison import logical_and, logical_not
from ...ops.movement import reshape
from ...ops.table import Op
from .recording import Recording

__all__ = ["joined"]

#: Fewer guards are left where they are: the function may well take turns. So are fewer of a path that writes to
#: tensors from outside: what a program writes is not computed in their memory before its guards were looked at.
FEWEST, FEWEST_WRITING = 3, 12
#: Of a path of so many statements one is enough, for loops are looked for in paths without guards alone. So it is
#: where every other outcome would be an error.
LONG = 256


def joined(found: Recording, builder: Builder) -> Recording | None:
    """The recording with its guards as one value; None where they are few, or have to be looked at on the way.

    >>> from tracejit.ir import parse
    >>> graph = parse(
    ...     "graph f(a: bool[], b: bool[]) { guard a is True guard b is False %0: bool[] = logical_xor(a, b) "
    ...     "guard %0 is True return a }"
    ... )
    >>> builder = Builder("f")
    >>> found = joined(Recording(graph.body, (), (), {}), builder)
    >>> [statement.op.name for statement in found.path]
    ['logical_not', 'logical_and', 'logical_xor', 'logical_and']
    >>> found.holds[0] is found.path[-1], len(found.joined)
    (True, 3)
    """
    guards = [x for x in found.path if isinstance(x, Guard)]
    decided = {} if found.sizes is None else found.sizes.decided
    enough = len(found.path) >= LONG or all(guard.refuses for guard in guards)
    fewest = FEWEST_WRITING if found.writes else 1 if enough else FEWEST
    if len(guards) < fewest or any(map(decided.get, guards)):
        return None
    path: dict[Value, None] = {}
    holds: Value | None = None
    for x in found.path:
        if isinstance(x, Value):
            # Without the guards before it, a loop that its values end may never do so.
            if is_loop(x) or (holds is not None and getattr(x.op, "dynamic", False)):
                return None
            path[x] = None
        elif (
            isinstance(x, Guard) and type(x.expected) is bool and x.value.spec.dtype.name == "bool"
        ):
            holds = _with(holds, x, path, builder)
        else:  # a number that is read: what comes next hangs on it
            return None
    assert holds is not None
    return dataclasses.replace(found, path=tuple(path), holds=(holds,), joined=tuple(guards))


def _with(holds: Value | None, guard: Guard, path: dict[Value, None], builder: Builder) -> Value:
    """Whether a guard is as it was, and all those before; the statements go into ``path``."""
    truth = guard.value

    def emit(op: Op, *operands: Value, **attributes: Any) -> Value:
        made: Value = builder.emit(op, operands, attributes, guard.line)
        path.setdefault(made)
        return made

    if truth.spec.shape:
        truth = emit(reshape, truth, shape=())
    if not guard.expected:
        truth = emit(logical_not, truth)
    return truth if holds is None else emit(logical_and, holds, truth)
