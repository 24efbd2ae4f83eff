"""Names of reductions as numbers, and their old spelling, as copies of PyTorch's losses ask for them."""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction; ``ValueError`` where there is none of that name.

    >>> get_enum("mean"), get_enum("sum")
    (1, 2)
    """
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """What ``size_average`` and ``reduce`` are called now.

    >>> legacy_get_string(None, False, emit_warning=False)
    'none'
    """
    average = size_average is None or bool(size_average)
    kept = reduce is not None and not reduce
    name = "none" if kept else ("mean" if average else "sum")
    if emit_warning:
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{name}' instead.",
            stacklevel=2,
        )
    return name


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of what ``size_average`` and ``reduce`` say.

    >>> legacy_get_enum(False, None, emit_warning=False)
    2
    """
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
