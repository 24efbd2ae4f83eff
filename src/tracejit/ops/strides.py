"""What views do to strides: one rule per view op, in arithmetic that symbolic sizes go through.

A rule takes the operand's shape and strides (in elements), the result's shape and the op's attributes, and returns the
offset of the first element and the result's strides; None when the elements of the result do not lie at regular
distances, so that only a copy can show them.
"""

from __future__ import annotations

from itertools import pairwise

from ..sizes import goes_into, is_zero
from ..types import Shape

Strided = tuple[int, Shape] | None


def permuted(shape: Shape, strides: Shape, result: Shape, /, *, dims: Shape) -> Strided:
    """Dimensions in another order.

    >>> permuted((2, 3), (3, 1), (3, 2), dims=(1, 0))
    (0, (1, 3))
    """
    return 0, tuple(strides[d] for d in dims)


def unsqueezed(shape: Shape, strides: Shape, result: Shape, /, *, dims: Shape) -> Strided:
    """Extents of one have nothing to walk along.

    >>> unsqueezed((3,), (1,), (3, 1), dims=(1,))
    (0, (1, 0))
    """
    found = list(strides)
    for d in dims:
        found.insert(d, 0)
    return 0, tuple(found)


def squeezed(shape: Shape, strides: Shape, result: Shape, /, *, dims: Shape) -> Strided:
    """Extents of one left out.

    >>> squeezed((3, 1), (1, 7), (3,), dims=(1,))
    (0, (1,))
    """
    return 0, tuple(s for d, s in enumerate(strides) if d not in dims)


def expanded(shape: Shape, strides: Shape, result: Shape, /, **_: Shape) -> Strided:
    """Repetition is a stride of zero; the attribute is the result's shape.

    >>> expanded((3, 1), (1, 1), (2, 3, 4))
    (0, (0, 1, 0))
    """
    ahead = len(result) - len(shape)
    kept = (
        0 if extent == 1 and result[ahead + d] != 1 else stride
        for d, (extent, stride) in enumerate(zip(shape, strides, strict=True))
    )
    return 0, (*(0,) * ahead, *kept)


def windowed(
    shape: Shape,
    strides: Shape,
    result: Shape,
    /,
    *,
    kernel: Shape,
    stride: Shape,
    dilation: Shape,
) -> Strided:
    """Windows of the last dimensions: steps within one, then steps from one to the next.

    >>> windowed((2, 9), (9, 1), (2, 3, 4), kernel=(3,), stride=(2,), dilation=(1,))
    (0, (9, 1, 2))
    """
    lead = len(shape) - len(kernel)
    within = (s * step for s, step in zip(strides[lead:], dilation, strict=True))
    across = (s * step for s, step in zip(strides[lead:], stride, strict=True))
    return 0, (*strides[:lead], *within, *across)


def may_repeat(rule: object) -> bool:
    """May a view with this rule show an element more than once?"""
    return rule is expanded or rule is windowed


def sliced(
    shape: Shape, strides: Shape, result: Shape, /, *, starts: Shape, counts: Shape, steps: Shape
) -> Strided:
    """A start and a step along every dimension; where nothing is taken, nothing is addressed.

    >>> sliced((5, 6), (6, 1), (3, 3), starts=(1, 0), counts=(3, 3), steps=(1, 2))
    (6, (6, 2))
    """
    offset = 0
    if all(count != 0 for count in counts):
        for start, stride in zip(starts, strides, strict=True):
            offset = offset + start * stride
    return offset, tuple(s * step for s, step in zip(strides, steps, strict=True))


def on_diagonal(
    shape: Shape, strides: Shape, result: Shape, /, *, offset: int, dim1: int, dim2: int
) -> Strided:
    """One step along both dimensions at a time.

    >>> on_diagonal((3, 4), (4, 1), (3,), offset=1, dim1=0, dim2=1)
    (1, (5,))
    """
    first = offset * strides[dim2] if offset > 0 else -offset * strides[dim1]
    rest = tuple(s for d, s in enumerate(strides) if d not in (dim1, dim2))
    empty = result[-1] == 0
    return 0 if empty else first, (*rest, strides[dim1] + strides[dim2])


def reshaped(shape: Shape, strides: Shape, result: Shape, /, **_: Shape) -> Strided:
    """Runs of dimensions that lie one after the other are cut anew; the attribute is the result's shape.

    >>> reshaped((2, 3, 4), (12, 4, 1), (6, 2, 2))
    (0, (4, 2, 1))
    >>> reshaped((2, 3), (1, 2), (6,)) is None
    True
    """
    if any(extent == 0 for extent in shape):
        return 0, _contiguous(result)
    source = [(e, s) for e, s in zip(shape, strides, strict=True) if e != 1]
    target = [(d, e) for d, e in enumerate(result) if e != 1]
    found, ahead = [0] * len(result), target[0][0] if target else 0
    while source and target:
        if not is_zero(source[-1][0] - target[-1][1]) and _lie_without_gaps(source):
            stride = source[-1][
                1
            ]  # however the pieces fit, and nothing is decided about their sizes
            for d, extent in reversed(target):
                found[d] = stride
                stride = stride * extent
            break
        run, pieces = [source.pop()], [target.pop()]
        have, want = run[0][0], pieces[0][1]
        while have != want:
            if goes_into(have, want) or have <= want:  # they differ, or may as well
                extent, stride = source.pop()
                if stride != run[-1][0] * run[-1][1]:
                    return None
                run.append((extent, stride))
                have = have * extent
            else:
                pieces.append(target.pop())
                want = want * pieces[-1][1]
        stride = run[0][1]
        for d, extent in pieces:
            found[d] = stride
            stride = stride * extent
    for d in reversed(
        range(ahead)
    ):  # as if they were longer: kernels walk them as one with what is inside
        found[d] = found[d + 1] * result[d + 1]
    return 0, tuple(found)


def _lie_without_gaps(source: list[tuple[int, int]]) -> bool:
    """Do all elements of (extent, stride), outermost first, lie at one distance?"""
    return all(outer == extent * stride for (_, outer), (extent, stride) in pairwise(source))


def _contiguous(shape: Shape) -> Shape:
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * max(extent, 1)
    return tuple(reversed(strides))
