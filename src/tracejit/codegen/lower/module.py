"""The functions of `scalar_math` as LLVM text, lowered once per process and shared by every kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping

from tracejit.codegen.lower.function import FunctionLowering
from tracejit.codegen.lower.halves import half_functions
from tracejit.codegen.lower.types import LoweredFunction, fail
from tracejit.generated import parse
from tracejit.scalar_math import library as scalar_math

_ATTRIBUTES = "alwaysinline nounwind"


class Library:
    """Lowered `scalar_math` functions by name; a target may lower them its own way, and know more of them.

    What is `known` is there already, as instructions in place of what the function's text says.
    """

    def __init__(
        self,
        lowering: type[FunctionLowering] = FunctionLowering,
        source_of: Callable[[str], str | None] = scalar_math.source_of,
        known: Mapping[str, LoweredFunction] | None = None,
    ) -> None:
        self._lowering = lowering
        self._source_of = source_of
        self._functions: dict[str, LoweredFunction] = {**(known or {})}

    def function(self, name: str, node: ast.AST) -> LoweredFunction:
        """The lowered function called `name`; `node` is the call, for the error when there is none."""
        found = self._functions.get(name)
        if found is None:
            source = self._source_of(name)
            if source is None:
                fail(node, f"{name!r} is not a function of tracejit.scalar_math")
            definition = parse(source).body[0]
            assert isinstance(definition, ast.FunctionDef)
            lowering = self._lowering(definition, self)
            found = lowering.lower(f"tj.{name}", _ATTRIBUTES, noalias=False)
            self._functions[name] = found
        return found

    def closure(self, names: Iterable[str]) -> dict[str, LoweredFunction]:
        """The named functions and all they call, each once."""
        found: dict[str, LoweredFunction] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found[name] = self._functions[name]
                pending.extend(found[name].calls)
        return found


LIBRARY = Library(known=half_functions())
