"""What the documentation says runs: code blocks, commands, links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_readme_shows_code():
    assert len(blocks(ROOT / "README.md", "python")) >= 2


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The blocks of a page are one program: a real file, so recorded lines have source text."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / f"{page.stem.lower()}_blocks.py"
    program.write_text("\n\n".join(blocks(page, "python")))
    assert "tj" in runpy.run_path(str(program), run_name="blocks")


def test_readme_prints_what_is_printed(tmp_path: Path):
    """Blocks without a language are the report, a graph and a kernel of README's own program."""
    page = ROOT / "README.md"
    program = tmp_path / "mlp.py"
    program.write_text("\n\n".join(blocks(page, "python")))
    mlp = runpy.run_path(str(program), run_name="blocks")["mlp"]
    printed = [str(mlp.explain()), *map(str, mlp.graphs), *(k.source for k in mlp.kernels)]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)
    shown = [block.strip() for language, block in fenced if not language]
    assert len(shown) == 3
    assert [block for block in shown if not any(block in text for text in printed)] == []


def test_commands_are_the_ones_ci_runs():
    demo, tests = (block.strip() for block in blocks(ROOT / "README.md", "bash")[:2])
    assert demo.endswith("tracejit demo")
    assert f"'{tests}'" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path):
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_settings_are_documented_where_they_are_read():
    """The variables docs mention are those ``config`` lists, and every one is used somewhere."""
    pattern = re.compile(r"\bTRACEJIT_[A-Z_]+\b")
    source = {p: set(pattern.findall(p.read_text())) for p in (ROOT / "src").rglob("*.py")}
    listed = source[ROOT / "src" / "tracejit" / "config.py"]
    assert {v for names in source.values() for v in names} == listed
    assert {v for p in PAGES for v in pattern.findall(p.read_text())} <= listed
