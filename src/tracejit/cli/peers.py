"""``tracejit bench --peers``: the comparison with PyTorch and JAX, which lives beside the package in a checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: From this file to the folder of benchmarks in a checkout.
SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "peers.py"
FLAG = "--peers"


def run(arguments: Sequence[str]) -> int:
    """Run the comparison with these arguments in a process of its own; its exit code."""
    import click

    if not SCRIPT.is_file():
        raise click.ClickException(
            f"bench {FLAG} needs the folder benchmarks/ of the source, which packages do not contain.\n"
            "Run it in a checkout of the project:  pip install -e . && tracejit bench --peers"
        )
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], check=False).returncode
