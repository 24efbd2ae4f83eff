"""Stubs for type checkers, written from what the table publishes: the signatures are those that programs call.

    python tests/stub_text.py

writes them into the package; ``tests/package/test_stubs.py`` says when that is due.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tracejit as tj
from tracejit import ops
from tracejit.generated import parse
from tracejit.ops.keywords import _keywords
from tracejit.ops.op import Op
from tracejit.ops.table import METHODS

SOURCE = Path(tj.__file__).parent
#: Modules whose functions come from the table, and the stub that stands beside each.
MODULES = ("linalg", "fft", "special", "nn.functional")

_HEAD = '''\
"""{title} (written by tests/stub_text.py)."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, overload
'''
#: What functions return depends on their arguments in ways that one signature does not tell.
_OVERLOADS = {
    **dict.fromkeys(
        ("max", "min"),
        (
            "(input: Tensor, *, out: Tensor | None = ...) -> Tensor",
            "(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor",
            "(input: Tensor, dim: int, keepdim: bool = ..., *, out: Any = ...) -> ValuesAndIndices",
            "(input: Tensor, *, dim: int, keepdim: bool = ..., out: Any = ...) -> ValuesAndIndices",
        ),
    ),
    **dict.fromkeys(
        ("median", "nanmedian"),
        (
            "(input: Tensor) -> Tensor",
            "(input: Tensor, dim: int, keepdim: bool = ..., *, out: Any = ...) -> ValuesAndIndices",
        ),
    ),
    "nonzero": (
        "(input: Tensor, *, out: Tensor | None = ..., as_tuple: Literal[False] = ...) -> Tensor",
        "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ),
    "unique": (
        "(input: Tensor, sorted: bool = ..., return_inverse: Literal[False] = ..., "
        "return_counts: Literal[False] = ..., dim: int | None = ...) -> Tensor",
        "(input: Tensor, sorted: bool = ..., return_inverse: bool = ..., return_counts: bool = ..., "
        "dim: int | None = ...) -> Any",
    ),
}
#: Methods that tensors share with values of graphs, whose extents need not be ints.
_WRITTEN = """\
def __getitem__(self, index: Any) -> Tensor: ...
@property
def shape(self) -> Size: ...
"""
_ITEMS = ("__hash__", "__getattr__", "__getitem__", "__setitem__")
_OPERAND_NAMES = ("input", "other")


class _Names:
    """The names that annotations use, and the imports they need."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {"Tensor": "from tracejit.tensor import Tensor"}

    def spelled(self, annotation: Any, function: Any) -> str:
        """An annotation as text in the stub."""
        if annotation is inspect.Parameter.empty:
            return "Any"
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        tree = parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self._meet(node.id, inspect.unwrap(function))
        return _Builtins().visit(tree) and ast.unparse(tree)

    def _meet(self, name: str, function: Any) -> None:
        if name in self.imports or name in ("Any", "Sequence", "Callable", "NoReturn", "Literal"):
            return
        module = importlib.import_module(function.__module__)
        value = getattr(module, name, None)
        if value is getattr(builtins, name, self) or value is builtins:
            return
        if value is None and name in vars(builtins):
            return
        if inspect.ismodule(value):
            self.imports[name] = f"import {value.__name__} as {name}"
            return
        home = value.__module__ if isinstance(value, type) else _home(name, module.__name__)
        self.imports[name] = f"from {home} import {name}"


def _home(name: str, module: str) -> str:
    """The module in which a name is defined that another one imports."""
    found = importlib.import_module(module)
    package = module if hasattr(found, "__path__") else module.rpartition(".")[0]
    for node in ast.walk(parse(inspect.getsource(found))):
        if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            dotted = f"{'.' * node.level}{node.module or ''}"
            return _home(name, importlib.util.resolve_name(dotted, package))
    return module


class _Builtins(ast.NodeTransformer):
    """``builtins.bool`` as ``_bool``: functions and dtypes of the package hide such names in its stubs."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        whole = ast.unparse(node)
        hidden = whole.removeprefix("builtins.")
        return ast.Name(f"_{hidden}") if whole.startswith("builtins.") else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(f"_{node.id}") if node.id in ("int", "float", "bool") else node


def _of_op(op: Op, out: bool) -> str:
    """The signature of a table entry: tensors, then attributes."""
    names = list(op.operands)
    for place, (own, name) in enumerate(zip(op.operands, _OPERAND_NAMES, strict=False)):
        names[place] = name if own in ("x", "y", "a", "b") or place == 0 else own
    operands = [
        f"{name}: {'Tensor' if not place else 'Tensor | Number'}"
        for place, name in enumerate(names)
    ]
    if op.variadic:
        operands = [f"*{names[0]}: Tensor"]
    keywords = [f"{name}: Any = ..." for name in op.attributes]
    keywords += ["out: Tensor | None = ..."] if out else []
    star = ["*"] if keywords and not op.variadic else []
    return f"({', '.join([*operands, *star, *keywords])}) -> Tensor"


def _also(function: Any, known: set[str], out: bool) -> Iterator[str]:
    """Keywords that a published function takes beside its own."""
    target = inspect.unwrap(function)
    if isinstance(target, Op) or not inspect.isfunction(target):
        return
    for name in sorted(_keywords(target, out).understood - known):
        if name in ("x", "a", "x1", "x2"):
            continue
        yield f"{name}: Any = ..."


def _signature(function: Any, names: _Names, method: bool) -> str:
    """``(input: Tensor, dim: int = ..., *, out: Tensor | None = ...) -> Tensor``."""
    found = inspect.signature(function)
    parts, star, rest = [], False, None
    for parameter in found.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            rest = f"**{parameter.name}: {names.spelled(parameter.annotation, function)}"
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star, prefix = True, "*"
        elif parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star, prefix = True, ""
        else:
            prefix = ""
        text = f"{prefix}{parameter.name}: {names.spelled(parameter.annotation, function)}"
        parts.append(text if parameter.default is parameter.empty else f"{text} = ...")
    if rest is None:
        extra = [] if method else list(_also(function, set(found.parameters), True))
        extra = extra or (list(_also(function, set(found.parameters), False)) if method else [])
        parts += ["*"] if extra and not star else []
        parts += extra
    else:
        parts.append(rest)
    result = names.spelled(found.return_annotation, function)
    text = f"({', '.join(parts)}) -> {result}"
    return text.replace("out: Any", "out: Tensor | None") if result == "Tensor" else text


def _op_of(function: Any) -> Op | None:
    target = inspect.unwrap(function)
    found = target if isinstance(target, Op) else getattr(target, "__op__", None)
    if found is None and inspect.isfunction(target):
        cells = (cell.cell_contents for cell in target.__closure__ or ())
        held = [value for value in cells if isinstance(value, Op)]
        handed_on = [*inspect.signature(target).parameters] == ["operands", "attributes"]
        found = held[0] if handed_on and len(held) == 1 else None
    return found


def _lines(name: str, function: Any, names: _Names, method: bool = False) -> list[str]:
    """The definitions of a function or a method."""
    op = _op_of(function)
    if name in _OVERLOADS:
        names.imports["ValuesAndIndices"] = (
            "from tracejit.ops.functions.return_types import ValuesAndIndices"
        )
        signatures = _OVERLOADS[name]
    elif op is not None:
        names.imports["Number"] = "from tracejit.types import Number"
        signatures = (_of_op(op, not method),)
    else:
        signatures = (_signature(function, names, method),)
    lines = []
    for signature in signatures:
        lines += ["@overload"] if len(signatures) > 1 else []
        signature = _spelled_builtins(signature) if name in _OVERLOADS else signature
        lines.append(f"def {name}{_bound(signature) if method else signature}: ...")
    return lines


def _spelled_builtins(signature: str) -> str:
    for name in ("int", "bool"):
        signature = signature.replace(f": {name}", f": _{name}")
    return signature


def _bound(signature: str) -> str:
    """A signature whose first parameter is the tensor itself."""
    first, comma, rest = signature[1:].partition(",")
    if not comma or ")" in first:
        first, _, rest = signature[1:].partition(")")
        return f"(self){rest}" if not first.startswith("*") else f"(self, {signature[1:]}"
    if first.startswith("*"):
        return f"(self, {signature[1:]}"
    return f"(self,{rest}"


def _text(title: str, names: _Names, body: list[str]) -> str:
    builtin = "from builtins import bool as _bool, float as _float, int as _int"
    imports = [builtin, *sorted(names.imports.values())]
    return "\n".join([_HEAD.format(title=title), *imports, "", *body, ""])


def functions() -> str:
    """The stub of what the table publishes at the top of the package."""
    names = _Names()
    body: list[str] = []
    for name, function in sorted(tj._PUBLISHED.items()):
        if not name.startswith("_"):
            body += _lines(name, function, names)
    return _text("Functions that the table publishes", names, body)


def methods() -> str:
    """The stub of the methods that tensors get from the table, and of their operators."""
    names = _Names()
    names.imports["Base"] = "from tracejit.tensor_autograd import AutogradMethods"
    names.imports["Size"] = "from tracejit.ops.mixin import Size"
    names.imports["Number"] = "from tracejit.types import Number"
    written = {name for c in tj.Tensor.__mro__ if c is not ops.OperatorMixin for name in vars(c)}
    body: list[str] = ["class TypedMethods(AutogradMethods):"]
    inside: list[str] = []
    for operator, operand in _operators():
        other = f", other: {operand}" if operand else ""
        object_s = "  # type: ignore[override]" if operator in ("__eq__", "__ne__") else ""
        inside.append(f"def {operator}(self{other}) -> Tensor: ...{object_s}")
    inside += _WRITTEN.splitlines()
    inside += [f"@property\ndef {name}(self) -> Tensor: ..." for name in ("T", "mT", "H", "mH")]
    for name, target in sorted(METHODS.items()):
        if name not in written and not name.startswith("_"):
            inside += _lines(name, ops.as_method(name, target), names, method=True)
    return _text(
        "Methods that tensors get from the table",
        names,
        body + textwrap.indent("\n".join(inside), "    ").split("\n"),
    )


def _operators() -> Iterator[tuple[str, str]]:
    for name, value in vars(ops.OperatorMixin).items():
        if name.startswith("__") and callable(value) and name not in _ITEMS:
            count = len(inspect.signature(value).parameters)
            yield name, "" if count == 1 else "Any"


def module(name: str) -> str:
    """The stub of a module of published functions."""
    found = importlib.import_module(f"tracejit.{name}")
    names = _Names()
    body: list[str] = []
    for entry in sorted(found.__all__):
        value = getattr(found, entry)
        if isinstance(value, type):
            names.imports[entry] = f"from {value.__module__} import {entry} as {entry}"
        else:
            body += _lines(entry, value, names)
    if hasattr(found, "__getattr__"):
        body.append("def __getattr__(name: str) -> Any: ...")
    body += [
        f"{entry}: tuple[str, ...]" for entry in vars(found) if entry.isupper() and entry[0] != "_"
    ]
    return _text(f"Functions of tracejit.{name}", names, body)


def stubs() -> dict[str, Callable[[], str]]:
    """Each stub's path in the package, and what makes its text."""
    beside = {f"{name.replace('.', '/')}.pyi": (lambda n=name: module(n)) for name in MODULES}
    return {"typed_functions.pyi": functions, "typed_methods.pyi": methods, **beside}


if __name__ == "__main__":
    for path, made in stubs().items():
        (SOURCE / path).write_text(made())
