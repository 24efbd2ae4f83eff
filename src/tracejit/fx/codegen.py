"""From the nodes of a graph to the Python of a function, and what it needs to run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .namespace import CUSTOM_BUILTINS, Namespace
from .readable import Comments
from .snippets import INPLACE, OPERATORS, Globals, format_target, representation
from .spelling import qualified_name

if TYPE_CHECKING:
    from .node import Node

__all__ = ["CodeGen", "PythonCode"]

_COUNTER = re.compile(r"# COUNTER: (\d+)")


@dataclass
class PythonCode:
    """The source of a function and the values its names stand for.

    >>> PythonCode("def forward(self): pass", {}).globals
    {}
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


@dataclass
class _Writing:
    """What is written down of a graph so far."""

    root: str
    names: Globals
    comments: Comments | None
    free_vars: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    wrapped: dict[str, None] = field(default_factory=dict)
    returned: str = ""

    def text(self, arg: Any) -> str:
        return representation(arg, self.names)

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        given = [self.text(x) for x in args]
        given += [f"{name} = {self.text(x)}" for name, x in kwargs.items()]
        return f"({', '.join(given)})"


def _last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """What no node behind a node takes any more."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


class CodeGen:
    """Writes the function of a graph. Those derived from it may write another head, another end, or more globals.

    >>> CodeGen().gen_fn_def(["x"], "")
    'def forward(self, x):'
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    # --- what others may write otherwise -----------------------------------------------------------------------

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The head of the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The statement that returns."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """What the nodes of the graph get when the function is called with ``args``."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns when the graph gives ``outputs``."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More names, with their values."""
        return []

    # --- the function ------------------------------------------------------------------------------------------

    def _gen_python_code(
        self,
        nodes: Any,
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        **_: Any,
    ) -> PythonCode:
        """The function of ``nodes``, which finds what belongs to a module at ``root_module``."""
        comments = Comments(include_stride, include_device) if verbose else None
        out = _Writing(root_module, Globals(namespace), comments)
        for name, known in CUSTOM_BUILTINS.items():
            out.names.add(name, known.obj)
        steps = list(nodes)
        last = _last_uses(steps)
        for number, node in enumerate(steps):
            if comments is not None:
                out.body += comments.before(node)
            out.body.append(f"# COUNTER: {number}\n")
            self._emit(node, out)
            out.body.append(_freeing(node, last.get(node, [])))
        return self._whole(out)

    def _whole(self, out: _Writing) -> PythonCode:
        body = out.body or ["pass\n"]
        wraps = _wraps(out)
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            out.names.add(name, value)
        prologue = self.gen_fn_def(out.free_vars, out.returned)
        lines: list[str] = []
        places: dict[int, int | None] = {}
        current, start = None, prologue.count("\n") + 1
        for line in "".join(body).split("\n"):
            counter = _COUNTER.search(line)
            if counter is not None:
                current = int(counter[1])
            else:
                places[len(lines) + start] = current
                lines.append(line)
        code = "\n".join(lines).lstrip("\n")
        code = "\n".join(f"    {line}" for line in code.split("\n"))
        source = f"\n{wraps}\n\n{prologue}\n{code}"
        return PythonCode(source, out.names.found, places, wraps.count("\n") + 4)

    def _emit(self, node: Node, out: _Writing) -> None:
        """Write down one node; the line goes on with what is not used any more."""
        kind = "" if node.type is None else f" : {out.names.type_text(node.type)}"
        kind = (out.comments.type_of(node) if out.comments is not None else None) or kind
        if node.op == "placeholder":
            _parameter(node, kind, out)
            return
        if node.op == "output":
            if node.type is not None:
                out.returned = f" -> {out.names.type_text(node.type)}"
            out.body.append(self.generate_output(node.args[0], repr_fn=out.text))
            return
        out.body.append(_statement(node, kind, out))


def _freeing(node: Node, unused: list[Node]) -> str:
    """The end of a node's line, which lets go of what is not used any more."""
    if node.op == "placeholder":
        return ""
    if node.op == "output":
        return "\n"
    names = [repr(n) for n in (*unused, *(() if node.users else (node,)))]
    return f";  {' = '.join([*names, 'None'])}\n" if names else "\n"


def _wraps(out: _Writing) -> str:
    """Lines that have calls of wrapped functions recorded when the function is itself traced."""
    if not out.wrapped:
        return ""
    from .wrapping import wrap

    called = out.names.add("wrap", wrap)
    return "\n".join(f'{called}("{name}")' for name in out.wrapped)


def _parameter(node: Node, kind: str, out: _Writing) -> None:
    assert isinstance(node.target, str)
    default = f" = {out.text(node.args[0])}" if node.args else ""
    out.free_vars.append(f"{node.target}{kind}{default}")
    plain = node.target.replace("*", "")
    if plain != repr(node):
        out.body.append(f"{node!r} = {plain}\n")


def _statement(node: Node, kind: str, out: _Writing) -> str:
    """The line of a node that computes something."""
    start, target = f"{node!r}{kind} = ", node.target
    if node.op == "call_method":
        assert isinstance(target, str)
        called = format_target(out.text(node.args[0]), target)
        return f"{start}{called}{out.call(node.args[1:], node.kwargs)}"
    if node.op in ("call_module", "get_attr"):
        assert isinstance(target, str)
        found = format_target(out.root, target)
        called = out.call(node.args, node.kwargs) if node.op == "call_module" else ""
        return f"{start}{found}{called}"
    if node.op == "call_function":
        return _function_call(node, kind, out)
    raise NotImplementedError(f"node: {node.op} {node.target}")


def _function_call(node: Node, kind: str, out: _Writing) -> str:
    start, target = f"{node!r}{kind} = ", node.target
    assert callable(target), f"Expected node.target to be callable, got {type(target)}"
    if getattr(target, "__module__", "") == "_operator":
        operands = [out.text(x) for x in node.args]
        if target.__name__ in OPERATORS:
            return f"{start}{OPERATORS[target.__name__].format(*operands)}"
        if target.__name__ in INPLACE:
            changed = INPLACE[target.__name__].format(*operands)
            return f"{changed};  {start}{operands[0]}"
    name = out.names.add(qualified_name(target), target)
    if name == "getattr" and len(node.args) == 2:
        attribute = node.args[1]
        if isinstance(attribute, str) and attribute.isidentifier():
            return f"{start}{format_target(out.text(node.args[0]), attribute)}"
    if node.meta.get("is_wrapped", False):
        out.wrapped.setdefault(name)
    return f"{start}{name}{out.call(node.args, node.kwargs)}"
