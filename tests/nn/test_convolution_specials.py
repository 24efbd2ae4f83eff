"""Compiled convolutions and their gradients have nan and infinities where eager execution has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.passes.windows import taps as module

DTYPES = ["float32", "float64", "float16", "bfloat16"]


class Form(NamedTuple):
    """A convolution: extents of x after its samples, channels of the weight, and its other extents."""

    rank: int
    transposed: bool
    channels: tuple[int, int, int]  # of x and of the result, groups
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    options: dict[str, Any]

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of x and of the weight."""
        before, after, groups = self.channels
        own = (before, after // groups) if self.transposed else (after, before // groups)
        return (2, before, *self.size), (*own, *self.kernel)

    def function(self) -> Any:
        """What is compiled."""
        kind = "conv_transpose" if self.transposed else "conv"
        op, options = (
            getattr(F, f"{kind}{self.rank}d"),
            {**self.options, "groups": self.channels[2]},
        )
        return lambda x, w: op(x, w, None, **options)


def draw(seed: int) -> Form:
    """A form; strides and dilations often share a factor."""
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([1, 1, 2, 2, 3]))
    transposed = bool(rank < 3 and rng.random() < 0.35)
    groups = int(rng.choice([1, 1, 2, 3]))
    before, after = (groups * int(rng.choice([1, 1, 2, 4])) for _ in range(2))
    some = lambda values: tuple(int(rng.choice(values)) for _ in range(rank))  # noqa: E731
    stride, dilation = some([1, 1, 2, 3, 4]), some([1, 1, 2, 3, 4])
    kernel, padding = some([1, 2, 3, 4] if rank < 3 else [1, 2, 3]), some([0, 1, 2])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    options = {"stride": stride, "dilation": dilation}
    if transposed:
        counts = some([2, 3, 4])
        made = zip(counts, stride, spans, strict=True)
        ends = [(n - 1) * s + span for n, s, span in made]
        options["padding"] = tuple(min(p, (e - 1) // 2) for p, e in zip(padding, ends, strict=True))
        most = (max(s, d) for s, d in zip(stride, dilation, strict=True))
        options["output_padding"] = tuple(int(rng.integers(0, m)) for m in most)
        size = counts
    else:
        options["padding"] = padding
        more = some([0, 1, 2, 3, 5])
        size = tuple(max(1, n - 2 * p + m) for n, p, m in zip(spans, padding, more, strict=True))
    return Form(rank, transposed, (before, after, groups), size, kernel, options)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], specials: int) -> np.ndarray:
    """Small whole numbers and zeros of both signs, some of them nan or infinite."""
    found = rng.integers(-3, 4, shape).astype(np.float64)
    found[rng.random(shape) < 0.1] = -0.0
    for _ in range(specials):
        found[tuple(int(rng.integers(n)) for n in shape)] = rng.choice([np.nan, np.inf, -np.inf])
    return found


def tensor(array: np.ndarray, dtype: str) -> tj.Tensor:
    """A leaf of these numbers."""
    return tj.tensor(array, dtype=getattr(tj, dtype)).requires_grad_()


def results(function: Any, form: Form, seed: int, specials: Any, dtype: str) -> list[np.ndarray]:
    """What comes out, and the gradients, with so many specials in x, the weight and the incoming gradient."""
    rng = np.random.default_rng(seed)
    x, w = (
        tensor(numbers(rng, shape, count), dtype)
        for shape, count in zip(form.shapes(), specials[:2], strict=True)
    )
    out = function(x, w)
    out.backward(tj.tensor(numbers(rng, tuple(out.shape), specials[2]), dtype=out.dtype))
    return [t.detach().to(tj.float64).numpy() for t in (out, x.grad, w.grad)]


def assert_alike(form: Form, seed: int, dtype: str) -> None:
    """Eager and compiled execution agree, the latter with one recording for several calls."""
    function = form.function()
    compiled = tj.compile(function, strict=True)
    for specials in ((0, 2, 0), (2, 0, 0), (0, 0, 2), (1, 1, 1), (0, 0, 0), (0, 1, 0)):
        expected = results(function, form, seed, specials, dtype)
        found = results(compiled, form, seed, specials, dtype)
        names = ("result", "gradient of x", "gradient of the weight")
        for name, a, b in zip(names, expected, found, strict=True):
            message = f"seed {seed}: {name}, {form}, {dtype}, {specials}"
            np.testing.assert_allclose(b, a, 1e-2, 1e-2, err_msg=message)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("start", range(0, 48, 6))
def test_they_are_where_eager_execution_has_them(start: int) -> None:
    for seed in range(start, start + 6):
        assert_alike(draw(seed), seed, DTYPES[seed % len(DTYPES)])


@pytest.mark.parametrize("start", range(48, 66, 6))
def test_also_where_there_is_no_native_code(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "vector_machine", lambda: None)
    for seed in range(start, start + 6):
        assert_alike(draw(seed), seed, DTYPES[seed % 2])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(2, 3, 1), (3, 2, 1), (4, 4, 2), (4, 4, 4)])
def test_also_where_one_recording_serves_several_sizes(
    channels: tuple[int, int, int], stride: int
) -> None:
    options = {"stride": stride, "padding": 1, "dilation": 2}
    form = Form(1, False, channels, (9,), (3,), options)
    function = form.function()
    compiled = tj.compile(function, dynamic=True, strict=True)
    for size in (5, 8, 11, 14, 7):
        sized = form._replace(size=(size,))
        expected = results(function, sized, size, (0, 1, 0), "float32")
        found = results(compiled, sized, size, (0, 1, 0), "float32")
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, 1e-5, 1e-5, err_msg=f"{sized}")
