"""Sizes given once for all dimensions, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number ``n`` times and leaves sequences as they are.

    >>> _ntuple(2)(3), _ntuple(2)((1, 2))
    ((3, 3), (1, 2))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Every element ``n`` times, from the last to the first: the order of ``pad``.

    >>> _reverse_repeat_tuple((1, 2), 2)
    (2, 2, 1, 1)
    """
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip a prefix from the names of a state, in place: that of a wrapper, say, around the module it was saved from.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name.removeprefix(prefix)] = state_dict.pop(name)
    told = getattr(state_dict, "_metadata", None)
    if told is None:
        return
    for name in list(told):  # "" is that of the wrapper, "module" that of what it wraps
        if name and (name == prefix.rstrip(".") or name.startswith(prefix)):
            told[name[len(prefix) :]] = told.pop(name)
