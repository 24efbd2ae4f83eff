"""What statements assign and carry: found in the syntax tree, before anything is lowered."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

__all__ = ["accumulates", "has_control_flow", "is_innermost", "names_needing_slots", "names_of"]


def is_innermost(node: ast.For | ast.While) -> bool:
    """Is there no loop in a loop?

    >>> is_innermost(ast.parse("for i in range(9):\\n    x = i").body[0])
    True
    """
    return not any(isinstance(s, (ast.For, ast.While)) for s in _statements(node.body))


def stays_as_it_is(node: ast.For | ast.While) -> bool:
    """Does a loop turn squares of memory round (`squares`), which is vector code as it is, or ask for memory?

    >>> stays_as_it_is(ast.parse("for i in range(9):\\n    turned = turn_8(x, i, 1, y, i, 1)").body[0])
    True
    """
    return any(
        isinstance(s, ast.Assign)
        and isinstance(s.value, ast.Call)
        and isinstance(s.value.func, ast.Name)
        and s.value.func.id.startswith(("turn_", "ask_for"))
        for s in node.body
    )


def accumulates(node: ast.For) -> bool:
    """Does a loop carry a value from one round to the next?

    >>> accumulates(ast.parse("for i in range(9):\\n    x = x * i").body[0])
    True
    """
    if any(isinstance(statement, ast.AugAssign) for statement in _statements(node.body)):
        return True
    names = [names_of(statement) for statement in node.body]
    changed, known = set[str]().union(*(stored for stored, _ in names)), set[str]()
    for stored, loaded in names:
        if loaded & changed - known:
            return True
        known |= stored
    return False


def names_of(*nodes: ast.AST) -> tuple[set[str], set[str]]:
    """The names that statements and those within assign, and those they read.

    >>> stored, loaded = names_of(*ast.parse("y = x\\nz = y * x").body)
    >>> sorted(stored), sorted(loaded)
    (['y', 'z'], ['x', 'y'])
    """
    stored, loaded = set[str](), set[str]()
    waiting: list[ast.AST] = [*nodes]
    while waiting:  # `ast.walk` takes three times as long
        node = waiting.pop()
        if isinstance(node, ast.Name):
            (stored if isinstance(node.ctx, ast.Store) else loaded).add(node.id)
            continue
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [part for part in value if isinstance(part, ast.AST)]
    return stored, loaded


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of those within; looking into expressions too takes ten times as long."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.For, ast.While, ast.If)):
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)


def has_control_flow(node: ast.FunctionDef) -> bool:
    """Is a function more than one block?

    >>> has_control_flow(ast.parse("def f(x):\\n    return x").body[0])
    False
    """
    return any(isinstance(statement, (ast.For, ast.While, ast.If)) for statement in node.body)


def names_needing_slots(node: ast.FunctionDef) -> set[str]:
    """Names assigned more than once, or assigned and also used as a parameter or a loop counter.

    >>> names_needing_slots(ast.parse("def f(x):\\n    y = x\\n    y = y + x\\n    return y").body[0])
    {'y'}
    """
    counts: Counter[str] = Counter()
    counters: set[str] = {arg.arg for arg in node.args.args}
    for statement in _statements(node.body):
        if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
            counters.add(statement.target.id)
        elif isinstance(statement, ast.Assign):
            counts.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            counts[statement.target.id] += 2
    return {name for name, count in counts.items() if count > 1 or name in counters}
