"""Finding the operation behind a wrong gradient: where a node was recorded, and whether it makes nan."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, AutogradError, user_line
from ..modes import MODES

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Node


class _Watch:
    """Remembers the user's line of every node and looks at every gradient."""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan

    def remember(self, node: Node) -> None:
        """Note where a node is recorded."""
        node.metadata["line"] = user_line()

    def apply(self, node: Node, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run a node; say which line recorded it when it fails or makes nan."""
        try:
            results = node.apply(grads)
        except Exception:
            self._report(node)
            raise
        if self.check_nan:
            for position, gradient in enumerate(results):
                if gradient is not None and bool((gradient.array != gradient.array).any()):
                    self._report(node)
                    raise AutogradError(
                        f"Function '{node.name()}' returned nan values in its {position}th output.",
                        f"It was recorded at {node.metadata.get('line') or 'an unknown line'}.",
                    )
        return results

    def _report(self, node: Node) -> None:
        line = node.metadata.get("line")
        where = f"The forward call was: {line}" if line else "No forward information was recorded."
        warnings.warn(f"Error detected in {node.name()}. {where}", UserWarning, stacklevel=6)


def _switch(mode: bool, check_nan: bool) -> None:
    MODES.anomaly, MODES.anomaly_nan = _Watch(check_nan) if mode else None, check_nan


def is_anomaly_enabled() -> bool:
    """Are anomalies looked for?

    >>> import tracejit as tj
    >>> tj.is_anomaly_enabled()
    False
    """
    return MODES.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Is nan an anomaly, where anomalies are looked for?

    >>> import tracejit as tj
    >>> tj.is_anomaly_check_nan_enabled()
    True
    """
    return MODES.anomaly_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Look for anomalies from now on, or not. Raises ``TypeError`` for anything but bools.

    >>> import tracejit as tj
    >>> tj.set_anomaly_enabled(False)
    """
    for position, (name, value) in enumerate([("enabled", enabled), ("check_nan", check_nan)]):
        if not isinstance(value, bool):
            raise ArgumentError(
                f"set_anomaly_enabled(): argument '{name}' (position {position + 1}) must be bool, "
                f"not {type(value).__name__}"
            )
    _switch(enabled, check_nan)


class set_detect_anomaly:  # noqa: N801
    """Turn anomaly detection on or off, at once or for a ``with`` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = MODES.anomaly, MODES.anomaly_nan
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        MODES.anomaly, MODES.anomaly_nan = self._before


class detect_anomaly:  # noqa: N801
    """Inside: an error in backward names the line that recorded the operation, and nan gradients are errors.

    >>> import tracejit as tj
    >>> with tj.autograd.detect_anomaly():
    ...     x = tj.tensor([0.0], requires_grad=True)
    ...     y = x * 2
    >>> y.grad_fn.metadata["line"].split()[-5:]
    ['y', '=', 'x', '*', '2']
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = MODES.anomaly, MODES.anomaly_nan
        _switch(True, self.check_nan)

    def __exit__(self, *_: object) -> None:
        MODES.anomaly, MODES.anomaly_nan = self._before
