"""Which dimension dropout of channels takes for the channels, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tracejit as tj


def _dropped_together(x: Any) -> list[bool]:
    """For each dimension: is dropping the same all along it?"""
    gone = (x == 0).tolist()
    t = torch.tensor(gone)
    return [bool((t == t.narrow(d, 0, 1)).all()) for d in range(t.ndim)]


@pytest.mark.filterwarnings("ignore:dropout")
@pytest.mark.parametrize(
    ("name", "rank"),
    [(f"dropout{n}d", n + extra) for n in (1, 2, 3) for extra in (1, 2)],
)
def test_channels(name: str, rank: int) -> None:
    found = []
    for t in (torch, tj):
        t.manual_seed(0)
        module = getattr(t.nn, name.capitalize())()
        ones = t.ones(*(6, 5, 4, 3, 2)[:rank])
        found += [
            _dropped_together(getattr(t.nn.functional, name)(ones, 0.5, True)),
            _dropped_together(module(ones)),
        ]
    assert found == [found[0]] * 4
