"""GradScaler: the loss times a large number, so that small gradients survive half precision."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd.grad_mode import no_grad
from ..cuda.driver import is_available
from ..dtypes import float16, float32
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
        self._begun = False  # has a loss been scaled?
        # By optimizer: is some gradient of this round not finite? None where there is no gradient.
        self._found: dict[int, bool | None] = {}
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """A loss, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        self._begun = True
        if isinstance(outputs, Tensor):
            # A tensor, not a number: losses in half precision become float32, which holds the product.
            return outputs * outputs.new_full((), self._scale, dtype=float32)
        return type(outputs)(self.scale(x) for x in outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of ``optimizer`` by the scale; ``RuntimeError`` when that was done in this round.

        ``ValueError`` for gradients in float16, which have lost by then what the scale is for.
        """
        if not self._enabled:
            return
        self._expect_begun("unscale_")
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        found = None
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype == float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    p.grad.mul_(1.0 / self._scale)
                    found = found or not bool(p.grad.isfinite().all())
        self._found[id(optimizer)] = found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(...)`` unless a gradient is not finite; gradients are divided first if they were not.

        Raises ``AssertionError`` where there are no gradients, ``RuntimeError`` for a second step in a round.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._expect_begun("step")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        if self._found[id(optimizer)] is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stepped.add(id(optimizer))
        return result

    def update(self, new_scale: Any = None) -> None:
        """End the round: set the next scale. ``AssertionError`` where no gradients were looked at."""
        if not self._enabled:
            return
        self._expect_begun("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif all(found is None for found in self._found.values()):
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._found.clear()
        self._stepped.clear()

    def _expect_begun(self, method: str) -> None:
        if not self._begun:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

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
