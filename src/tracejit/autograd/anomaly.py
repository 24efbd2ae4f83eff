"""Finding the operation behind a wrong gradient: where a node was recorded, and whether it makes nan."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError, user_line
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


class set_detect_anomaly:  # noqa: N801
    """Turn anomaly detection on or off, at once or for a ``with`` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = MODES.anomaly
        MODES.anomaly = _Watch(check_nan) if mode else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        MODES.anomaly = self._before


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
        self._before, MODES.anomaly = MODES.anomaly, _Watch(self.check_nan)

    def __exit__(self, *_: object) -> None:
        MODES.anomaly = self._before
