"""Paths of files that compiled functions compute with: names only, nothing is looked up."""

from __future__ import annotations

import os.path
from pathlib import PurePosixPath
from typing import Any

import pytest

import tracejit as tj


def parts(x: Any, name: str) -> Any:
    path = PurePosixPath("runs") / name
    return x * len(path.parts), path.suffix, str(path.with_suffix(".pt"))


def normalised(x: Any, name: str) -> Any:
    return x * len(os.path.normpath(f"runs/../{name}")), os.path.splitext(name)


@pytest.mark.parametrize("program", [parts, normalised])
def test_paths_are_constants(program: Any) -> None:
    compiled = tj.compile(program)
    for name in ("a/b.txt", "a/../c.txt") * 4:
        found, expected = compiled(tj.ones(2), name), program(tj.ones(2), name)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1:] == expected[1:]
    assert compiled.stats.recordings == 2
    assert compiled.stats.compiled_calls == 6
