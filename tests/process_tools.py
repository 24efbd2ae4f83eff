"""Processes of their own, in which tests run Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def python(
    *arguments: str, timeout: float = 120, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What came of running this Python with ``arguments``, and with ``environment`` beside what is there."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
    )


def printed(code: str, *arguments: str, **environment: str) -> str:
    """What a process prints that runs ``code`` and has to end well."""
    done = python("-c", code, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
