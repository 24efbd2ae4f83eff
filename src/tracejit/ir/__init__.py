"""The program as data: build it, print it, read it back, check it, run it."""

from __future__ import annotations

from .builder import Builder
from .graph import Graph, Guard, Statement, Value
from .interpreter import GuardFailedError, run, run_tensors
from .parser import GraphSyntaxError, parse
from .text import print_graph
from .verifier import GraphError, verify

__all__ = [
    "Builder",
    "Graph",
    "GraphError",
    "GraphSyntaxError",
    "Guard",
    "GuardFailedError",
    "Statement",
    "Value",
    "parse",
    "print_graph",
    "run",
    "run_tensors",
    "verify",
]
