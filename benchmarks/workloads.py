"""All cases by name, in the order of the tables."""

from __future__ import annotations

import networks
import pointwise
import transformer
from cases import Case

CASES: tuple[Case, ...] = (*pointwise.CASES, *networks.CASES, *transformer.CASES)


def find(name: str) -> Case:
    """The case called ``name``; ``KeyError`` when there is none."""
    return {case.name: case for case in CASES}[name]
