"""How a module prints: its name, what ``extra_repr`` says, and its children, repeated ones folded."""

from __future__ import annotations

from typing import Any


def indent(text: str, spaces: int = 2) -> str:
    """All lines but the first moved right."""
    return text.replace("\n", "\n" + " " * spaces)


def module_repr(module: Any) -> str:
    """One line for a module without children, a tree for others."""
    extra = module.extra_repr()
    extra_lines = extra.split("\n") if extra else []
    children = [f"({name}): {indent(repr(m))}" for name, m in module._modules.items()]
    name = module._get_name()
    if len(extra_lines) == 1 and not children:
        return f"{name}({extra_lines[0]})"
    lines = extra_lines + children
    return f"{name}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def list_repr(name: str, items: list[str]) -> str:
    """Numbered items; neighbours that print alike become one line such as ``(0-3): 4 x Linear(...)``."""
    runs: list[list[Any]] = []
    for index, text in enumerate(items):
        if runs and runs[-1][2] == text:
            runs[-1][1] = index
        else:
            runs.append([index, index, text])
    if not runs:
        return f"{name}()"
    lines = [
        f"({first}): {indent(text)}"
        if first == last
        else f"({first}-{last}): {last - first + 1} x {indent(text)}"
        for first, last, text in runs
    ]
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"
