"""Nested values and questions about them, under the path programs import them from."""

from __future__ import annotations

from . import tree_nodes, tree_questions, trees

#: All that PyTorch's programs find there, with what keeps its own name to itself.
for _source in (tree_nodes, trees, tree_questions):
    globals().update({n: v for n, v in vars(_source).items() if not n.startswith("__")})
