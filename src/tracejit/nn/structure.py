"""How compiled code learns that a module changed: one counter for the process, one per module.

A compiled function that read modules compares :data:`STRUCTURE_VERSION` with the value it saw; when it differs, the
``_version`` of each module it read tells whether one of *them* changed. Counted are assignment and deletion of
attributes (parameters, buffers, submodules, plain values), ``train()``/``eval()`` that change the mode, and hooks that
come or go. Values written into parameters and buffers in place are data, not structure, and are not counted.
"""

from __future__ import annotations

from typing import Any

#: The process-wide counter, in a list so that a guard can hold the cell itself.
STRUCTURE_VERSION: list[int] = [0]


def changed(module: Any) -> None:
    """Count a change of ``module``."""
    STRUCTURE_VERSION[0] += 1
    state = module.__dict__
    state["_version"] = state.get("_version", 0) + 1
