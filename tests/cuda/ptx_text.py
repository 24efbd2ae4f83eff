"""What must hold for the text of every kernel's PTX, and what it says about itself."""

from __future__ import annotations

import ast
import re

from tracejit.codegen.cuda.functions import source_of
from tracejit.generated import parse

_UNROUNDED = re.compile(r"(add|sub|mul|div|fma|mad|sqrt|rcp)\.(?!rn\.)[\w.]*f(32|64)$")


def opcodes(text: str) -> list[str]:
    """Every instruction's opcode, in order."""
    found = re.findall(r"^\t(?:@!?%p\d+ )?\s*([a-z][\w.]*)\s", text, re.M)
    return [opcode for opcode in found if not opcode.startswith(".")]


def parameter_types(source: str) -> list[str]:
    """The declared type of every parameter of a kernel. Threads ask for it at every launch."""
    (definition,) = parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    return [ast.literal_eval(a.annotation) for a in definition.args.args if a.annotation]


def uses_double(source: str) -> bool:
    """Does a kernel, or a function it calls, compute in double precision on purpose?"""
    seen: set[str] = set()
    pending = [source]
    while pending:
        text = pending.pop()
        tree = parse(text)
        if "f64" in re.sub(r"def \w+", "", text) or "float64" in text:
            return True
        called = {
            n.func.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        for name in called - seen:
            seen.add(name)
            if (found := source_of(name)) is not None:
                pending.append(found)
    return False


def assert_sound(text: str, source: str) -> None:
    """IEEE arithmetic, nothing fused or approximated, no calls, no memory of the thread, no accidental double."""
    found = opcodes(text)
    assert found
    assert ".local" not in text
    assert "__local_depot" not in text
    assert not [o for o in found if o.startswith("call")]
    assert not [o for o in found if ".ftz" in o or ".approx" in o or ".full" in o]
    assert not [o for o in found if _UNROUNDED.match(o)]
    if not uses_double(source):
        assert not [o for o in found if "f64" in o]
    fused = sum(o.startswith("fma") for o in found)
    assert not fused or "fma" in _closure(source)


def _closure(source: str) -> str:
    """A kernel's text and that of all it calls."""
    texts = {"": source}
    pending = [source]
    while pending:
        tree = parse(pending.pop())
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id not in texts
            ):
                texts[node.func.id] = source_of(node.func.id) or ""
                pending.append(texts[node.func.id])
    return "\n".join(texts.values())
