"""Short-time Fourier transforms: spectra of overlapping pieces of a signal, and the signal back."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import ShapeError
from .. import comparison as c
from .. import complex_numbers as cx
from .. import elementwise as e
from .. import fourier as f
from .. import indexing as i
from .. import movement as m
from .. import reduction as r
from .. import source as s
from ..table import function
from .common import Tensor, alone, as_type, check_tensor, is_tensor, shape_of
from .complex_numbers import abs as magnitude
from .padding import pad
from .slicing import slice_along
from .unfolding import windows_along


def _window(window: Tensor | None, length: int, n_fft: int, dtype: Any) -> Tensor:
    """The window in the middle of ``n_fft`` points."""
    if window is None:
        window = s.full(shape=(length,), value=1, dtype=dtype)
    if window.ndim != 1 or shape_of(window)[0] != length:
        raise RuntimeError(
            f"expected a 1D window tensor of size equal to win_length={length}, but got window with "
            f"size {list(shape_of(window))}"
        )
    left = (n_fft - length) // 2
    return (
        m.pad(window, widths=((left, n_fft - length - left),), value=0)
        if length < n_fft
        else window
    )


def _options(name: str, n_fft: int, hop: int | None, length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop is None else hop
    length = n_fft if length is None else length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    return hop, length


@function()
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Spectra of pieces of ``n_fft`` points, ``hop_length`` apart: (frequencies, pieces), batched or not.

    Complex, or pairs of numbers with ``return_complex=False``. ``align_to_window``, only without ``center``, has the
    first window, not the first piece, begin where the signal does. Raises ``RuntimeError`` for options out of range and
    when ``return_complex`` is not given for real input.

    >>> import tracejit as tj
    >>> tj.stft(tj.ones(16), 8, return_complex=True).shape
    tracejit.Size([5, 9])
    """
    check_tensor("stft", input)
    if (
        return_complex is None
        and not input.dtype.is_complex
        and not (is_tensor(window) and window.dtype.is_complex)
    ):
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got {input.ndim} dimensions")
    hop, length = _options("stft", n_fft, hop_length, win_length)
    x = input if input.ndim == 2 else m.unsqueeze(input, dims=(0,))
    if center:
        around = (n_fft // 2, n_fft // 2)
        x = m.squeeze(pad(m.unsqueeze(x, dims=(1,)), around, mode=pad_mode), dims=(1,))
    elif align_to_window:
        x = pad(x, ((n_fft - length) // 2,) * 2, mode=pad_mode)
    if not 0 < n_fft <= shape_of(x)[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft < {shape_of(x)[1]}, but got n_fft={n_fft}")
    frames = windows_along(x, 1, n_fft, hop)
    shaped = e.mul(frames, _window(window, length, n_fft, input.dtype))
    spectra = _spectra(shaped, normalized, onesided)
    found = m.permute(spectra, dims=(0, 2, 1))
    found = found if input.ndim == 2 else m.squeeze(found, dims=(0,))
    return cx.parts_of_complex(found) if return_complex is False else alone(found)


def _spectra(frames: Tensor, normalized: bool, onesided: bool | None) -> Tensor:
    norm = "ortho" if normalized else "backward"
    whole = frames.dtype.is_complex
    if onesided and whole:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if onesided or (onesided is None and not whole):
        return f.fourier_of_real(frames, dims=(2,), norm=norm)
    wide = frames if whole else as_type(frames, frames.dtype.to_complex())
    return f.fourier(wide, dims=(2,), norm=norm, inverse=False)


@function()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of a complex :func:`stft` made with the same options.

    Raises ``RuntimeError`` for options out of range and windows that leave a point out.

    >>> import tracejit as tj
    >>> x = tj.arange(16.0)
    >>> tj.istft(tj.stft(x, 8, return_complex=True), 8).allclose(x, atol=1e-5)
    True
    """
    check_tensor("istft", input)
    if not input.dtype.is_complex or input.ndim not in (2, 3):
        raise RuntimeError(
            "istft requires a complex-valued input tensor of two or three dimensions"
        )
    hop, size = _options("istft", n_fft, hop_length, win_length)
    x = m.permute(input if input.ndim == 3 else m.unsqueeze(input, dims=(0,)), dims=(0, 2, 1))
    norm = "ortho" if normalized else "backward"
    one = onesided if onesided is not None else shape_of(x)[2] != n_fft
    if shape_of(x)[2] != (n_fft // 2 + 1 if one else n_fft):
        raise ShapeError(
            f"istft: unexpected number of frequencies {shape_of(x)[2]} for n_fft={n_fft}"
        )
    if return_complex and not one:
        frames = f.fourier(x, dims=(2,), norm=norm, inverse=True)
    else:
        half = slice_along(x, 2, 0, n_fft // 2 + 1)
        frames = f.real_of_fourier(half, dims=(2,), norm=norm, count=n_fft)
    shape = _window(window, size, n_fft, input.dtype.to_real())
    weights = m.expand(e.square(shape), shape=(1, *shape_of(frames)[1:]))
    signal = _cut(_overlapped(e.mul(frames, shape), hop), n_fft, hop, center, length)
    total = _cut(_overlapped(weights, hop), n_fft, hop, center, length)
    return _divided(signal, total, length, input.ndim == 2)


def _divided(signal: Tensor, total: Tensor, length: int | None, one: bool) -> Tensor:
    if c.lt(r.amin(magnitude(total), dims=(0, 1), keepdim=False), 1e-11):
        raise RuntimeError("istft: window overlap add min: 1")
    found = e.div(signal, total)
    missing = 0 if length is None else length - shape_of(found)[1]
    if missing > 0:
        found = m.pad(found, widths=((0, 0), (0, missing)), value=0)
    return m.squeeze(found, dims=(0,)) if one else found


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum of the pieces, each where it was."""
    batch, count, size = shape_of(frames)
    whole = size + hop * (count - 1)
    starts = s.arange(start=0, step=hop, count=count, dtype=dtypes.int64)
    inside = s.arange(start=0, step=1, count=size, dtype=dtypes.int64)
    at = e.add(m.unsqueeze(starts, dims=(1,)), inside)
    flat = m.reshape(frames, shape=(batch, count * size))
    index = m.expand(m.reshape(at, shape=(1, count * size)), shape=(batch, count * size))
    zeros = s.full(shape=(batch, whole), value=0, dtype=frames.dtype)
    return i.scatter_add(zeros, index, flat, dim=1)


def _cut(x: Tensor, n_fft: int, hop: int, center: bool, length: int | None) -> Tensor:
    """What the padding around the signal added is taken away."""
    start = n_fft // 2 if center else 0
    end = shape_of(x)[1] - (n_fft // 2 if center else 0)
    if length is not None:
        end = min(start + length, shape_of(x)[1])
    return slice_along(x, 1, start, max(end - start, 0))
