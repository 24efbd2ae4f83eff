"""Text to graph: the inverse of :mod:`tracejit.ir.text`, with errors that name line and column.

Statements are read exactly as they stand (no value numbering), so that ``parse(str(graph)) == graph`` for every graph.
Types are inferred again and must agree with what the text says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from .. import dtypes
from ..dtypes import DType
from ..errors import TracejitError
from ..ops.complex_views import COMPLEX_VIEWS
from ..ops.continued import continued
from ..ops.overlapping import windows
from ..ops.products_of_parts import PRODUCTS_OF_PARTS
from ..ops.table import Op, lookup
from ..types import Scalar, TensorType
from .graph import Graph, Guard, Statement, Value
from .loops import Body, LoopType, loop, part
from .rules import RULE_OPS

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+)
    |(?P<comment>\#[^\n]*)
    |(?P<newline>\n)
    |(?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+(?:e[+-]?\d+)?|inf\b|nan\b))
    |(?P<result>%\d+)
    |(?P<name>[A-Za-z_]\w*(?:\.\w+)*)
    |(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<symbol>[(){}\[\]:,=])""",
    re.VERBOSE,
)
_PLACE = re.compile(r"#\s*(?P<file>\S.*?):(?P<line>\d+)(?:\s|$)")
_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None}
_DTYPES = {d.short: d for d in dtypes.ALL + dtypes.COMPLEX}
_OWN: dict[str, Op] = {
    op.name: op
    for op in (loop, part, continued, windows, *PRODUCTS_OF_PARTS, *COMPLEX_VIEWS, *RULE_OPS)
}  # ops of graphs only

T = TypeVar("T")


class GraphSyntaxError(TracejitError, ValueError):
    """Text that is no graph; ``line`` and ``column`` (from 1) say where."""

    def __init__(self, message: str, source: str, line: int, column: int) -> None:
        rows = source.split("\n")
        row = rows[line - 1] if line <= len(rows) else ""
        marker = " " * (column - 1) + "^"
        super().__init__(f"graph text, line {line}, column {column}: {message}\n{row}\n{marker}")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text and where it stands."""

    kind: str
    text: str
    line: int
    column: int


def parse(text: str) -> Graph:
    """The graph that ``text`` describes.

    Raises :class:`GraphSyntaxError` (a ``ValueError``) naming line and column: unknown ops and attributes, undefined
    values, a type that the op does not give.

    >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = add(x, 1.5)  return %0 }")
    >>> parse(str(graph)) == graph
    True
    """
    return _Parser(text).graph()


class _Parser:
    """Recursive descent over tokens; one method per piece of grammar."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[int, tuple[str, int]] = {}
        self.tokens = self.split(source)
        self.position = 0
        self.known: dict[str, Value] = {}

    # --- tokens -----------------------------------------------------------------------------------

    def split(self, source: str) -> list[Token]:
        """Tokens without blanks; comments that name a place in the user's code are remembered by line."""
        tokens: list[Token] = []
        line, start, position = 1, 0, 0
        while position < len(source):
            match = _TOKEN.match(source, position)
            column = position - start + 1
            if match is None:
                raise GraphSyntaxError(f"unexpected {source[position]!r}", source, line, column)
            kind, position = match.lastgroup or "", match.end()
            if kind == "newline":
                line, start = line + 1, position
            elif kind == "comment":
                place = _PLACE.match(match.group())
                if place is not None:
                    self.places[line] = (place["file"], int(place["line"]))
            elif kind != "space":
                tokens.append(Token(kind, match.group(), line, column))
        tokens.append(Token("end", "", line, len(source) - start + 1))
        return tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        at = token or self.token
        raise GraphSyntaxError(message, self.source, at.line, at.column)

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("symbol", "name")

    def next(self) -> Token:
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def take(self, text: str) -> bool:
        """Step over ``text`` if it is next."""
        found = self.at(text)
        if found:
            self.next()
        return found

    def expect(self, text: str) -> Token:
        if not self.at(text):
            self.fail(f"expected {text!r}, found {self.token.text or 'the end of the text'!r}")
        return self.next()

    def items(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Items separated by commas up to ``closing``, a comma after the last allowed."""
        found: list[T] = []
        while not self.take(closing):
            found.append(read())
            if not self.take(","):
                self.expect(closing)
                break
        return found

    # --- grammar ----------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """One graph and nothing else."""
        found = self.block()
        if self.token.kind != "end":
            self.fail(f"expected the end of the text after the graph, found {self.token.text!r}")
        return found

    def block(self) -> Graph:
        """``graph name(inputs) { statements return outputs }``."""
        self.expect("graph")
        name = self.name("a graph name")
        self.expect("(")
        inputs = self.items(")", self.input)
        self.expect("{")
        body: list[Statement] = []
        while not self.at("return"):
            body.append(self.guard() if self.at("guard") else self.value())
        outputs = self.outputs()
        self.expect("}")
        return Graph(name, tuple(inputs), tuple(body), outputs)

    def loop_body(self) -> Body:
        """The graph below a loop: it sees nothing of the graph around it."""
        outside, self.known = self.known, {}
        found = Body(self.block())
        self.known = outside
        return found

    def name(self, what: str) -> str:
        token = self.next()
        if token.kind == "string":
            return str(ast.literal_eval(token.text))
        if token.kind != "name":
            self.fail(f"expected {what}, found {token.text or 'the end of the text'!r}", token)
        return token.text

    def input(self) -> Value:
        token = self.token
        name = self.name("an input name")
        self.expect(":")
        return self.define(f" {name}", Value(self.type(), name=name), token)

    def define(self, key: str, value: Value, token: Token) -> Value:
        if key in self.known:
            self.fail(f"{token.text} is defined twice", token)
        self.known[key] = value
        return value

    def type(self) -> TensorType:
        """``f32[2, 3]``, or ``loop(f32[2], f32[5, 2])``."""
        token = self.next()
        if token.text == "loop":
            self.expect("(")
            return LoopType((), dtypes.int64, tuple(self.items(")", self.type)))
        if token.text not in _DTYPES:
            self.fail(f"expected a type such as f32[2, 3], found {token.text!r}", token)
        self.expect("[")
        return TensorType(tuple(self.items("]", self.extent)), _DTYPES[token.text])

    def extent(self) -> int:
        token = self.next()
        if token.kind != "number" or not token.text.isdigit():
            self.fail(f"expected an extent, found {token.text!r}", token)
        return int(token.text)

    def value(self) -> Value:
        """``%0: f32[2] = add(x, y)``."""
        token = self.next()
        if token.kind != "result":
            found = token.text or "the end of the text"
            self.fail(
                f"expected a statement such as %0: f32[2] = add(x, y), found {found!r}", token
            )
        self.expect(":")
        type_token, type_ = self.token, self.type()
        self.expect("=")
        op_token = self.token
        op = self.op()
        self.expect("(")
        operands: list[Value | Scalar] = []
        attributes: dict[str, Any] = {}
        self.items(")", lambda: self.argument(op, operands, attributes))
        if op is loop:
            attributes = {"body": self.loop_body(), **attributes}
        self.check(op, operands, attributes, type_, op_token, type_token)
        place = self.places.get(token.line)
        value = Value(type_, op, tuple(operands), attributes, line=place)
        return self.define(token.text, value, token)

    def op(self) -> Op:
        token = self.next()
        try:
            return _OWN.get(token.text) or lookup(token.text)
        except KeyError:
            self.fail(f"unknown op {token.text!r}", token)

    def argument(self, op: Op, operands: list[Value | Scalar], attributes: dict[str, Any]) -> None:
        """An operand, or ``attribute=value``."""
        token = self.token
        if token.kind == "name" and self.tokens[self.position + 1].text == "=":
            self.next()
            self.next()
            if token.text not in op.attributes or (op is loop and token.text == "body"):
                self.fail(f"{op.name} has no attribute {token.text!r}", token)
            if token.text in attributes:
                self.fail(f"attribute {token.text!r} is given twice", token)
            attributes[token.text] = self.literal()
            return
        if attributes:
            self.fail("operands come before attributes", token)
        operands.append(self.operand())

    def operand(self) -> Value | Scalar:
        token = self.token
        if self.is_number(token):
            return self.number()
        return self.reference()

    def reference(self) -> Value:
        """A value defined before."""
        token = self.next()
        key = token.text
        if token.kind == "string":
            key = f" {ast.literal_eval(key)}"
        elif token.kind == "name":
            key = f" {key}"
        if key not in self.known:
            self.fail(f"{token.text or 'the end of the text'} is not defined here", token)
        return self.known[key]

    def is_number(self, token: Token) -> bool:
        return token.kind == "number" or (token.kind == "name" and token.text in ("True", "False"))

    def number(self) -> Scalar:
        token = self.next()
        if not self.is_number(token):
            self.fail(f"expected a number, found {token.text!r}", token)
        if token.text in _WORDS:
            return bool(_WORDS[token.text])
        text = token.text
        return float(text) if any(c in text for c in ".enif") else int(text)

    def literal(self) -> Any:
        """The value of an attribute."""
        token = self.token
        if self.is_number(token):
            return self.number()
        self.next()
        if token.text == "(":
            return tuple(self.items(")", self.literal))
        if token.kind == "string":
            return ast.literal_eval(token.text)
        if token.kind == "name" and (token.text in _DTYPES or token.text in _WORDS):
            found: DType | None = _DTYPES.get(token.text)
            return found
        self.fail(f"expected a number, dtype, string or tuple, found {token.text!r}", token)

    def guard(self) -> Guard:
        """``guard %3 is True``."""
        token = self.expect("guard")
        value = self.reference()
        self.expect("is")
        return Guard(value, self.number(), self.places.get(token.line))

    def outputs(self) -> tuple[Value, ...]:
        """``return %0, x``."""
        self.expect("return")
        found: list[Value] = []
        while not self.at("}"):
            found.append(self.reference())
            if not self.take(","):
                break
        return tuple(found)

    # --- meaning ----------------------------------------------------------------------------------

    def check(
        self,
        op: Op,
        operands: list[Value | Scalar],
        attributes: dict[str, Any],
        said: TensorType,
        op_token: Token,
        type_token: Token,
    ) -> None:
        """The number of operands and the type must be those of the op."""
        if not op.variadic and len(operands) != len(op.operands):
            expected = f"{len(op.operands)} operands, found {len(operands)}"
            self.fail(f"{op.name} takes {expected}", op_token)
        kinds = [x.spec if isinstance(x, Value) else x for x in operands]
        try:
            found = op.infer(kinds, attributes)
        except Exception as error:  # noqa: BLE001 - whatever the op says about its operands
            reason = getattr(error, "summary", str(error))
            self.fail(f"{op.name} refuses this: {reason}", op_token)
        if found != said:
            self.fail(f"{op.name} gives {found} here, the text says {said}", type_token)
