"""Which published functions refuse numbers in place of tensors.

Ops take a number for any operand, which their rules and composites use; what programs call is as strict as PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..errors import ArgumentError
from .op import Op

_NUMBERS = (int, float, complex)
#: What annotations name that is told here.
_KNOWN = frozenset(("Tensor", "Number", "float", "int", "None"))

#: No number in place of either tensor.
_BOTH = frozenset(
    """atan2 fmax fmin gcd hypot igamma igammac lcm ldexp logaddexp logaddexp2 logical_and logical_or logical_xor
    maximum minimum nextafter""".split()  # noqa: SIM905
)
#: No number in place of the first tensor.
_FIRST = frozenset(
    "clamp_max clamp_min copysign eq fmod ge gt le lt ne rsub".split()  # noqa: SIM905
)
#: Numbers in place of one tensor, not of both.
_ONE = frozenset(
    """bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor float_power pow remainder xlogy
    xlog1py zeta""".split()  # noqa: SIM905
)


def strict(name: str, target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which refuses numbers where the function ``name`` does; itself where that takes them.

    Raises ``TypeError`` for such a number.

    >>> import tracejit as tj
    >>> strict("maximum", tj.add)(tj.ones(1), tj.ones(1))
    tensor([2.])
    >>> strict("add", tj.add) is tj.add
    True
    """
    one = name in _ONE or "_polynomial_" in name
    both = name in _BOTH
    if not (one or both or name in _FIRST):
        return target

    def check(numbers: list[bool], args: tuple[Any, ...]) -> None:
        place = numbers.index(True)
        if both or (False not in numbers if one else not place):
            _refuse(name, place, args[place])

    if isinstance(target, Op):
        return StrictOp(target, check)

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        numbers = [isinstance(x, _NUMBERS) for x in args[:2]]
        if True in numbers:
            check(numbers, args)
        return target(*args, **kwargs)

    return call


def refuse_others(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """``TypeError`` where an argument is no tensor and has to be one: asked when a call of ``target`` failed.

    >>> import tracejit as tj
    >>> refuse_others(tj.amax, (tj.ones(2),), {})
    >>> refuse_others(tj.amax, ([1.0, 2.0],), {})  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: amax(): argument 'input' (position 1) must be Tensor, not list
    """
    parameters = inspect.signature(target).parameters
    try:
        given = inspect.signature(target).bind(*args, **kwargs).arguments
    except TypeError:
        return
    for position, (name, parameter) in enumerate(parameters.items(), 1):
        value = given.get(name, parameter.default)
        if not hasattr(value, "spec") and not _fits(value, parameter.annotation):
            raise ArgumentError(
                f"{target.__name__}(): argument '{name}' (position {position}) must be Tensor, "
                f"not {_kind(value)}",
                as_tensor_hint(value),
            ) from None


def as_tensor_hint(value: Any) -> str:
    """What to do with an argument that is no tensor, where that can be told.

    >>> as_tensor_hint([1.0]), as_tensor_hint("a")
    ('Make a tensor of it: tj.tensor(...).', '')
    """
    data = isinstance(value, (list, tuple, bool, int, float)) or hasattr(value, "__array__")
    return "Make a tensor of it: tj.tensor(...)." if data else ""


def _kind(value: Any) -> str:
    """The class of a value as Python's own messages name it: those of NumPy with their module."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def refusing(target: Callable[..., Any]) -> Callable[..., Any]:
    """``target``, which says of what is no tensor that it is none.

    >>> refusing(len)([1, 2])
    2
    """

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return target(*args, **kwargs)
        except AttributeError:
            refuse_others(target, args, kwargs)
            raise

    return call


def _fits(value: Any, annotation: Any) -> bool:
    """May something that is no tensor stand where this is said to stand?"""
    kinds = annotation.split(" | ") if isinstance(annotation, str) else ()
    if "Tensor" not in kinds or not {*kinds} <= _KNOWN:
        return True
    number = isinstance(value, _NUMBERS) and not {"Number", "float", "int"}.isdisjoint(kinds)
    return number or (value is None and "None" in kinds)


class StrictOp:
    """An op as it is published: with a check of the operands that are numbers.

    >>> import tracejit as tj
    >>> tj.gcd, tj.gcd(tj.tensor([12]), tj.tensor([18]))
    (<elementwise op gcd>, tensor([6]))
    """

    def __init__(self, op: Op, check: Callable[[list[bool], tuple[Any, ...]], None]) -> None:
        self.__wrapped__ = op
        self.__name__ = self.__qualname__ = op.name
        self.__doc__ = op.doc
        self._check = check

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op, or write it down."""
        numbers = [isinstance(x, _NUMBERS) for x in args[:2]]
        if True in numbers:
            self._check(numbers, args)
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> tuple[Any, ...]:
        return (strict, (self.__name__, self.__wrapped__))


def _refuse(name: str, place: int, value: Any) -> None:
    raise ArgumentError(
        f"{name}(): argument '{('input', 'other')[place]}' (position {place + 1}) must be Tensor, "
        f"not {type(value).__name__}"
    )
