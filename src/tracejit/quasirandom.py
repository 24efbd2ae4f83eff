"""Points that fill a cube evenly: Sobol sequences, by SciPy's direction numbers, which are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

from .dtypes import DType, get_default_dtype
from .errors import ArgumentValueError
from .interop import from_numpy
from .modes import MODES
from .tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """A Sobol sequence of ``dimension`` (1 to 21201) numbers per point, each in [0, 1).

    ``scramble`` shuffles it, by ``seed`` or by numbers from :func:`tracejit.manual_seed`: other points than PyTorch's,
    spread as evenly. Raises ``ValueError`` for other dimensions. Inside compiled functions it runs eagerly.

    >>> import tracejit as tj
    >>> engine = tj.quasirandom.SobolEngine(dimension=2)
    >>> engine.draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    >>> engine.num_generated, engine
    (4, SobolEngine(dimension=2))
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ArgumentValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._leave_recordings()
        self._sequence = self._made()

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next ``n`` points, (n, dimension), of ``dtype`` (the default one), or written to ``out``.

        >>> SobolEngine(1).draw(2)
        tensor([[0.0000],
                [0.5000]])
        """
        self._leave_recordings()
        with warnings.catch_warnings():  # it warns of numbers of points that are no powers of two
            warnings.simplefilter("ignore")
            points = self._sequence.random(n)
        self.num_generated += n
        made: Tensor = from_numpy(points).to(dtype or get_default_dtype())
        if out is None:
            return made
        return out.resize_as_(made).copy_(made)  # type: ignore[no-any-return]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next ``2**m`` points. ``ValueError`` unless the number of points is a power of two with them, too.

        >>> SobolEngine(2).draw_base2(3).shape
        tracejit.Size([8, 2])
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ArgumentValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(2**m, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point.

        >>> engine = SobolEngine(1)
        >>> _ = engine.draw(3)
        >>> engine.reset().draw()
        tensor([[0.]])
        """
        self._leave_recordings()
        self._sequence.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out ``n`` points.

        >>> SobolEngine(1).fast_forward(2).draw()
        tensor([[0.7500]])
        """
        self._leave_recordings()
        self._sequence.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] * self.scramble
        parts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _made(self) -> Any:
        from scipy.stats import qmc

        from .ops.functions.sampling import randint

        seed = self.seed
        if self.scramble and seed is None:
            seed = int(randint(2**31 - 1, ()).item())
        return qmc.Sobol(self.dimension, scramble=self.scramble, bits=self.MAXBIT, seed=seed)

    def _leave_recordings(self) -> None:
        """The points that come next are no constants."""
        if MODES.recorder is not None:
            MODES.recorder.unsupported("a Sobol sequence inside a compiled function")
