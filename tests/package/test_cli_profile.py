"""``tracejit profile``: how scripts end, and what is found out before they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracejit.cli import demo, main


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def test_a_script_that_fails_shows_its_own_lines(tmp_path: Path, capsys: pytest.CaptureFixture):
    text = "import tracejit as tj\nf = tj.compile(lambda x, y: x @ y)\nf(tj.ones(2, 3), tj.ones(2, 3))\n"
    assert main(["profile", script(tmp_path, text)]) == 1
    said = capsys.readouterr().err
    assert [line.split(",")[1] for line in said.splitlines() if "File " in line] == [
        " line 3",
        " line 2",
    ]
    assert "ShapeError" in said


@pytest.mark.parametrize("option", ["--json", "--trace", "--roofline"])
def test_places_are_looked_at_first(option: str, tmp_path: Path, capsys: pytest.CaptureFixture):
    pytest.importorskip("matplotlib")
    path = script(tmp_path, "print('has run')")
    assert main(["profile", option, str(tmp_path / "none" / "file"), path]) == 1
    said = capsys.readouterr()
    assert "has run" not in said.out
    assert "there is no folder" in said.err


def test_the_demo_shows_a_kernel_that_fits_a_screen():
    class Kernel:
        def __init__(self, lines: int) -> None:
            self.source = "line\n" * lines

    shown = [demo._most_telling([Kernel(n) for n in lines]) for lines in ((3, 200, 20), (90, 60))]
    assert [text.count("line") for text in shown] == [20, 60]
    assert demo._most_telling([]) == "nothing was compiled"
