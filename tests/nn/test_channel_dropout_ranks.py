"""Which dimension dropout of channels takes for the channels."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

#: The dimension that holds channels, by function and rank: a sample has them first, a batch second. Two-dimensional
#: dropout takes three dimensions for a batch of rows.
CHANNELS = {
    ("dropout1d", 2): 0,
    ("dropout1d", 3): 1,
    ("dropout2d", 3): 1,
    ("dropout2d", 4): 1,
    ("dropout3d", 4): 0,
    ("dropout3d", 5): 1,
}


def drops_alike(x: np.ndarray) -> list[bool]:
    """For each dimension: is dropping the same all along it?"""
    gone = x == 0
    return [bool((gone == gone.take([0], d)).all()) for d in range(x.ndim)]


@pytest.mark.filterwarnings("ignore:dropout")
@pytest.mark.parametrize(("name", "rank"), CHANNELS)
def test_channels(name: str, rank: int) -> None:
    tj.manual_seed(0)
    ones = tj.ones(*(6, 5, 4, 3, 2)[:rank])
    channels = CHANNELS[name, rank]
    for found in (
        getattr(tj.nn.functional, name)(ones, 0.5, True),
        getattr(tj.nn, name.capitalize())()(ones),
    ):
        expected = [d > channels for d in range(rank)]
        assert drops_alike(found.numpy()) == expected
