"""GradScaler: the loss times a large number, so that small gradients survive half precision."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd.grad_mode import no_grad
from ..cuda.driver import is_available
from ..optim.optimizer import Optimizer
from ..tensor import Tensor


class GradScaler:
    """Scales losses, takes the scale out of gradients again, and skips steps whose gradients are not finite.

    The scale shrinks by ``backoff_factor`` after such a step and grows by ``growth_factor`` after ``growth_interval``
    good ones. ``enabled=False``, and ``device="cuda"`` without a GPU, make every method pass its argument on. Raises
    ``ValueError`` for factors that do not grow and shrink.

    >>> import tracejit as tj
    >>> scaler = tj.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(tj.tensor(0.5))
    tensor(2.)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not is_available():
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available. Disabling.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if growth_factor <= 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._found: dict[
            int, bool
        ] = {}  # by optimizer: is some gradient of this round not finite?

    def scale(self, outputs: Any) -> Any:
        """A loss, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(x) for x in outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of ``optimizer`` by the scale; ``RuntimeError`` when that was done in this round."""
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        found = False
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.grad.mul_(1.0 / self._scale)
                        found = found or not bool(p.grad.isfinite().all())
        self._found[id(optimizer)] = found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(...)`` unless a gradient is not finite; gradients are divided first if they were not."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """End the round: set the next scale."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found:
            raise RuntimeError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._found.clear()

    def get_scale(self) -> float:
        """The scale; one when not enabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def get_growth_factor(self) -> float:
        """The factor of growth."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Another factor of growth."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Another factor after a step that was skipped."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps precede growth."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Another number of good steps before growth."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and the counts; empty when not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state; ``RuntimeError`` for an empty one when enabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
