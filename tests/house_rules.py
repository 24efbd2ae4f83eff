"""The house rules as functions from source text to violations; ``test_house_rules.py`` applies them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

#: First component below ``tracejit`` -> layer. A new one is placed here, deliberately.
LAYERS: dict[str, int] = {
    **dict.fromkeys(
        ("dtypes", "config", "errors", "types", "modes", "device", "layout", "meta", "mirrored"), 0
    ),
    **dict.fromkeys(
        (
            "aligned",
            "backoff",
            "bytecode",
            "determinism",
            "extents",
            "frames",
            "generated",
            "locks",
            "numpy_numbers",
            "polynomial",
            "sizes",
        ),
        0,
    ),
    **dict.fromkeys(("retired", "standing"), 0),
    **dict.fromkeys(("varying", "varying_arrays"), 0),
    **dict.fromkeys(
        ("backends", "made_modules", "memory_formats", "named_dtypes", "number_limits"), 0
    ),
    **dict.fromkeys(("absent", "accelerator", "compiler", "cpu", "multiprocessing", "onnx"), 0),
    **dict.fromkeys(("answering", "nested", "scripting", "torch_version", "version"), 0),
    **dict.fromkeys(("lengths", "plain_number", "symbols"), 0),
    "cuda": 0,
    **dict.fromkeys(("ops", "scalar_math"), 1),
    **dict.fromkeys(("ir", "tensor", "autograd", "dispatch", "steps", "steps_text"), 2),
    **dict.fromkeys(
        (
            "tensor_core",
            "tensor_parts",
            "tensor_info",
            "tensor_older",
            "typed_storage",
            "tensor_inplace",
            "tensor_autograd",
        ),
        2,
    ),
    **dict.fromkeys(
        ("tensor_protocols", "tensor_make", "tensor_kinds", "interop", "printing", "random"), 2
    ),
    "copied_tensor": 2,
    **dict.fromkeys(("serialization", "saved_values", "deferral", "deferred"), 2),
    **dict.fromkeys(("questions", "requirements"), 2),
    "import_hook": 0,
    **dict.fromkeys(("libraries", "einops_layers"), 5),
    **dict.fromkeys(("passes", "codegen"), 3),
    **dict.fromkeys(("trace", "runtime", "settings"), 4),
    **dict.fromkeys(
        (
            "early",
            "jit",
            "bound_function",
            "captured_names",
            "compiled_module",
            "explain",
            "inspection",
            "large_calls",
        ),
        5,
    ),
    "copied_function": 5,
    **dict.fromkeys(
        ("verification", "nn", "optim", "func", "amp", "fft", "linalg", "special", "profiling"), 5
    ),
    **dict.fromkeys(
        (
            "aten",
            "aten_layers",
            "aten_parts",
            "aten_windows",
            "distributed",
            "distributions",
            "futures",
            "hub",
            "profiler",
            "quantization",
            "utils",
        ),
        5,
    ),
    **dict.fromkeys(
        ("masked", "paths", "quasirandom", "signal", "sparse", "foreach", "_dynamo", "_inductor"), 5
    ),
    **dict.fromkeys(
        ("_C", "_custom_ops", "classes", "collected", "control_flow", "dispatch_keys", "scans"), 5
    ),
    **dict.fromkeys(("listening", "operator_tags", "overrides"), 5),
    **dict.fromkeys(("library", "operators", "schemas", "storage", "_tensor_str", "__config__"), 5),
    "": 6,
    # These use the package as its users do, by its public names.
    **dict.fromkeys(("cli", "fx", "testing", "__main__"), 7),
}
EAGER = frozenset(name for name, layer in LAYERS.items() if layer == 2) - {"ir"}
#: The program as data and eager values share a layer and do not know each other.
SIBLINGS = (frozenset({"ir"}), EAGER)
#: All that ``import tracejit`` may load besides the standard library.
LIGHT_IMPORTS = frozenset({"numpy", "ml_dtypes"})

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One imported module: dotted name, line, and whether it happens when the module loads."""

    target: str
    line: int
    at_load: bool


def imports_of(tree: ast.Module, module: str, is_package: bool, known: set[str]) -> list[Import]:
    """Every import that can happen at run time, absolute, to submodules where ``known`` has them."""
    return [
        Import(target, node.lineno, at_load)
        for node, at_load in _import_nodes(tree, True)
        for target in _targets(node, module, is_package, known)
    ]


def _import_nodes(
    node: ast.AST, at_load: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node, at_load
    elif isinstance(node, ast.expr):
        return  # an expression imports nothing
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.orelse:
            yield from _import_nodes(child, at_load)
    else:
        inside = at_load and not isinstance(node, _FUNCTIONS)
        for child in ast.iter_child_nodes(node):
            yield from _import_nodes(child, inside)


def _targets(
    node: ast.Import | ast.ImportFrom, module: str, is_package: bool, known: set[str]
) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        keep = len(parts) - node.level + is_package
        base = ".".join([*parts[:keep], *([base] if base else [])])
    named = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in known else base for name in named]


def layer_name(module: str) -> str:
    """``ops`` for ``tracejit.ops.table``; the empty string for the package itself."""
    return [*module.split("."), ""][1]


def layer_violation(module: str, target: str) -> str | None:
    """Why ``module`` must not import ``target`` (both inside the package), or None."""
    here, there = layer_name(module), layer_name(target)
    if here == there:
        return None
    for name in (here, there):
        if name not in LAYERS:
            return f"{name!r} has no layer yet: place it in house_rules.LAYERS"
    if LAYERS[there] > LAYERS[here]:
        return f"layer {LAYERS[here]} imports {target} of layer {LAYERS[there]}"
    if any(here in a and there in b for a in SIBLINGS for b in SIBLINGS if a is not b):
        return f"sibling {target}: the program as data and eager values do not know each other"
    return None


def import_cycle(edges: dict[str, set[str]]) -> list[str]:
    """One cycle in a graph of load-time imports, or an empty list."""
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
        stack = [(start, iter(sorted(edges[start])))] if start not in done else []
        path += [start] if stack else []
        while stack:
            for child in stack[-1][1]:
                if child in path:
                    return [*path[path.index(child) :], child]
                if child in edges and child not in done:
                    stack.append((child, iter(sorted(edges[child]))))
                    path.append(child)
                    break
            else:
                stack.pop()
                done.add(path.pop())
    return []


def _words(*pieces: str) -> str:
    return "".join(pieces)  # so that this file does not contain what it forbids


LEFTOVERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("unfinished work", re.compile(_words(r"\b(TO", "DO|FIX", "ME|XX", r"X)\b"))),
    (
        "path of one machine",
        re.compile(r"(?<![\w.])/(home|root|work|tmp|farm|Users|mnt|opt)/\w"),
    ),
    ("registry host", re.compile(_words(r"\b(py", r"pi\.org|python", r"hosted\.org)"), re.I)),
    ("tracker reference", re.compile(_words(r"\b(iss", r"ue|pull request|PR)\s+#?\d"), re.I)),
    ("working process", re.compile(_words(r"(?<!scope=\")\bsess", r"ions?\b"), re.I)),
)


def leftovers(text: str) -> list[str]:
    """``line: what`` for each leftover in a file of any kind."""
    return [
        f"{number}: {what}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in LEFTOVERS
        if pattern.search(line)
    ]


_CODE_COMMENT = re.compile(
    r"^(import [\w.]+$|from [\w.]+ import |return\b.*[\w)\]]$|(el)?if .*:$|else:$|for \w+ in .*:$"
    r"|def \w+\(|class \w+.*:$|assert .*[=<>]|[\w.\[\]]+ [-+*/]?= [\w.]+\(.*\)$|[\w.]+\([^ ]*\)$)"
)


#: What a line has that may be a comment with code, also inside strings: reading tokens takes long.
_MAYBE_CODE = re.compile(
    r"^\s*#[#: ]*(?=(?:import|from|return|if|elif|else|for|def|class|assert)\b|[\w.\[\]]+ [-+*/]?= |[\w.\[\]]+\()",
    re.MULTILINE,
)


def commented_code(text: str) -> list[str]:
    """Comments on their own line that are Python statements."""
    found = []
    if not _MAYBE_CODE.search(text):
        return found
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        own_line = token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
        comment = token.string.lstrip("#: ").rstrip()
        if own_line and _CODE_COMMENT.match(comment) and _parses(comment):
            found.append(f"{token.start[0]}: commented-out code: {comment[:80]}")
    return found


def _parses(statement: str) -> bool:
    prefix = "if 1:\n pass\n" if statement.startswith(("else", "elif")) else ""
    body = "\n  pass" if statement.endswith(":") else ""
    try:
        ast.parse(f"{prefix}{statement}{body}")
    except SyntaxError:
        return False
    return True


def prints(tree: ast.Module) -> list[str]:
    """Lines that call ``print``."""
    return [
        f"{node.lineno}: print"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def too_long(text: str, tree: ast.Module) -> list[str]:
    """The file, or functions in it, beyond what can be seen at once."""
    lines = len(text.splitlines())
    found = [f"1: {lines} lines in the file"] if lines > MAX_FILE_LINES else []
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > MAX_FUNCTION_LINES:
                found.append(f"{node.lineno}: {size} lines in {node.name}")
    return found


def tests_without_assertion(trees: dict[str, ast.Module]) -> list[str]:
    """``file: test`` for each test that neither asserts nor calls a function that does."""
    functions = [
        (name, node)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, _FUNCTIONS)
    ]
    calls = {node: _calls(node) for _, node in functions}
    direct = {node for _, node in functions if _asserts(node, calls[node])}
    asserting = {node.name for node in direct}
    while True:
        more = {n.name for _, n in functions if n.name not in asserting and calls[n] & asserting}
        if not more:
            break
        asserting |= more
    return [
        f"{name}: {node.name}"
        for name, node in functions
        if node.name.startswith("test_") and node not in direct and not calls[node] & asserting
    ]


def _asserts(node: ast.AST, calls: set[str]) -> bool:
    if any(name in ("raises", "warns", "fail") or name.startswith("assert_") for name in calls):
        return True
    return any(
        isinstance(n, ast.Assert) and not isinstance(n.test, ast.Constant) for n in ast.walk(node)
    )


def _calls(node: ast.AST) -> set[str]:
    return {
        n.func.attr if isinstance(n.func, ast.Attribute) else n.func.id
        for n in ast.walk(node)
        if isinstance(n, ast.Call) and isinstance(n.func, (ast.Attribute, ast.Name))
    }
