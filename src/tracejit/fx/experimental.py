"""Questions about sizes that PyTorch's export leaves open: sizes here are numbers, and answer as numbers do."""

from __future__ import annotations

from typing import Any

from ..made_modules import make_module
from . import operators_traced
from .operators_traced import make_fx

__all__ = [
    "GuardOnDataDependentSymNode",
    "check_consistent",
    "definitely_false",
    "definitely_true",
    "free_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_symbolic",
    "make_fx",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """Raised by PyTorch for sizes that only data tells; nothing here raises it."""


def guard_bool(a: Any) -> bool:
    """``bool(a)``.

    >>> guard_bool(1)
    True
    """
    return bool(a)


guard_size_oblivious = guard_or_false = guard_or_true = guard_bool
statically_known_true = definitely_true = guard_bool


def definitely_false(a: Any) -> bool:
    """``not a``.

    >>> definitely_false(0)
    True
    """
    return not a


def guard_int(a: Any) -> int:
    """``int(a)``.

    >>> guard_int(2)
    2
    """
    return int(a)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """``int(a)``.

    >>> hint_int(2)
    2
    """
    return int(a)


def guard_float(a: Any) -> float:
    """``float(a)``.

    >>> guard_float(2)
    2.0
    """
    return float(a)


def guard_scalar(a: Any) -> Any:
    """The number itself.

    >>> guard_scalar(2)
    2
    """
    return a


def is_symbolic(a: Any) -> bool:
    """False: no number is open.

    >>> is_symbolic(2)
    False
    """
    return False


def is_concrete_int(a: Any) -> bool:
    """True, as for every number here.

    >>> is_concrete_int(2)
    True
    """
    return True


is_concrete_float = is_concrete_bool = is_concrete_int


def free_symbols(val: Any) -> set[Any]:
    """Nothing is open.

    >>> free_symbols(2)
    set()
    """
    return set()


has_free_symbols = has_free_unbacked_symbols = is_symbolic


def sym_eq(x: Any, y: Any) -> bool:
    """``x == y``, of numbers and rows of numbers.

    >>> sym_eq((1, 2), [1, 2])
    True
    """
    rows = isinstance(x, (list, tuple)) and isinstance(y, (list, tuple))
    return tuple(x) == tuple(y) if rows else bool(x == y)


def sym_and(x: Any, *others: Any) -> bool:
    """Do all hold?

    >>> sym_and(True, False)
    False
    """
    return all((x, *others))


def sym_or(x: Any, *others: Any) -> bool:
    """Does one hold?

    >>> sym_or(True, False)
    True
    """
    return any((x, *others))


def check_consistent(new: Any, old: Any) -> None:
    """``AssertionError`` unless two values are alike: tensors in their shapes, numbers in what they are.

    >>> check_consistent(2, 2)
    """
    if hasattr(new, "shape"):
        assert tuple(new.shape) == tuple(old.shape), f"{new.shape} != {old.shape}"
    else:
        assert new == old, f"{new} != {old}"


def _make() -> None:
    names = {name: globals()[name] for name in __all__}
    make_module("fx.experimental.symbolic_shapes", **names)
    traced = {name: getattr(operators_traced, name) for name in operators_traced.__all__}
    make_module("fx.experimental.proxy_tensor", **traced)


_make()
