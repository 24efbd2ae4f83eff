"""What new nodes are told while a graph is run or changed: the data of the node that is at work."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from threading import local
from typing import Any

__all__ = [
    "annotate",
    "format_stack",
    "get_current_meta",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]


class _Current(local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.kept = False


_current = _Current()


def has_preserved_node_meta() -> bool:
    """Are new nodes told what the node at work knows?

    >>> has_preserved_node_meta()
    False
    """
    return _current.kept


def get_current_meta() -> dict[str, Any]:
    """What the node at work knows.

    >>> get_current_meta()
    {}
    """
    return _current.meta


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Have new nodes told, for a while.

    >>> with preserve_node_meta():
    ...     has_preserved_node_meta()
    True
    """
    before, meta = _current.kept, _current.meta
    _current.kept, _current.meta = enable, copy.copy(meta)
    try:
        yield
    finally:
        _current.kept, _current.meta = before, meta


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Have a node be at work, for a while.

    >>> import tracejit as tj
    >>> node = tj.fx.Graph().placeholder("x")
    >>> node.stack_trace = "here"
    >>> with preserve_node_meta(), set_current_meta(node):
    ...     format_stack()
    ['here']
    """
    before = _current.meta
    if _current.kept and node.meta:
        _current.meta = copy.copy(node.meta)
    try:
        yield
    finally:
        _current.meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Have new nodes told that these lines led to them, where they are told anything.

    >>> set_stack_trace([])
    """
    if _current.kept and stack:
        _current.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The lines that led to the node at work, or to where this is called.

    >>> len(format_stack()) > 0
    True
    """
    if _current.kept:
        return [_current.meta.get("stack_trace", "")]
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Have new nodes carry what the program says of them, by ``node.meta["custom"]``, where they are told anything.

    >>> with preserve_node_meta(), annotate({"stage": 1}):
    ...     get_current_meta()
    {'custom': {'stage': 1}}
    """
    before = _current.meta
    _current.meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _current.meta = before


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Accepted and without effect: nodes are not numbered by the tape.

    >>> set_grad_fn_seq_nr(1)
    """


def reset_grad_fn_seq_nr() -> None:
    """Accepted and without effect.

    >>> reset_grad_fn_seq_nr()
    """
