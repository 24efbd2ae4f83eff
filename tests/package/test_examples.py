"""Every example runs, asserts what it claims, and prints what it shows."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

import pytest

from tracejit.generated import parse

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NAMES = {
    "quickstart",
    "dynamic_graphs",
    "digits_mlp",
    "branching",
    "custom_function",
    "scipy_optimize",
    "reading_the_ir",
    "sequence_lstm",
    "tree_lstm",
    "cartpole",
    "karate_gcn",
    "mixture_of_experts",
    "adaptive_depth",
    "agent_loop",
    "newton",
    "maze_search",
    "on_a_gpu",
}
#: What an example needs beyond the package itself.
NEEDS = {"digits_mlp": "sklearn", "karate_gcn": "networkx"}
LONG = {"agent_loop", "tree_lstm", "adaptive_depth"}


def test_all_examples_are_there():
    assert {path.stem for path in EXAMPLES} >= NAMES


def marked(path: Path) -> Any:
    """Those with many paths and sizes take a while, and test_dynamic_examples runs them too."""
    return pytest.param(path, marks=[pytest.mark.thorough] if path.stem in LONG else [])


@pytest.mark.parametrize("path", [marked(p) for p in EXAMPLES], ids=[p.stem for p in EXAMPLES])
def test_example_runs(path: Path, capsys: pytest.CaptureFixture[str]):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_asserts_and_explains_itself(path: Path):
    tree = parse(path.read_text())
    assert f"python examples/{path.name}" in (ast.get_docstring(tree) or "")
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def behaviours() -> list[str]:
    tree = parse((FOLDER / "dynamic_graphs.py").read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["wrap"]
    ]


def test_no_behaviour_is_left_out():
    """A behaviour that is defined but not listed would never run."""
    listed = runpy.run_path(str(FOLDER / "dynamic_graphs.py"))["BEHAVIOURS"]
    assert [b.__name__ for b in listed] == behaviours()
