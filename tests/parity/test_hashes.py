"""``hash_tensor`` beside PyTorch, eagerly and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from parity_tools import torch

import tracejit as tj

VALUES = np.random.default_rng(0).normal(size=(3, 5, 4)) * 50
KINDS = ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [None, 1, -1, (0, 2), (0, 1, 2)])
def test_values(kind, dim) -> None:
    for keepdim in (False, True):
        x, y = (of.tensor(np.abs(VALUES) if kind == "uint8" else VALUES) for of in (tj, torch))
        x, y = x.to(getattr(tj, kind)), y.to(getattr(torch, kind))
        if kind.startswith("float"):
            for z in (x, y):
                z[0, 0, 0], z[1, 1, 1], z[2, 2, 2] = float("nan"), -0.0, float("-inf")
        options = {"keepdim": keepdim} if dim is None else {"dim": dim, "keepdim": keepdim}
        expected = torch.hash_tensor(y, **options)
        compiled = tj.compile(lambda x, o=options: tj.hash_tensor(x, **o))
        for f in (lambda x, o=options: tj.hash_tensor(x, **o), compiled, compiled, compiled):
            found = f(x)
            assert found.dtype is tj.uint64
            assert found.shape == tuple(expected.shape)
            assert found.tolist() == expected.tolist()
        turned = tj.hash_tensor(x.transpose(0, 2))
        assert turned.item() == torch.hash_tensor(y).item()


def test_corners() -> None:
    for of in (torch, tj):
        with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
            of.hash_tensor(of.ones(2), mode=1)
        with pytest.raises(RuntimeError, match="Expected reduction dim"):
            of.hash_tensor(of.ones(0))
        with pytest.raises(NotImplementedError):
            of.hash_tensor(of.ones(2, dtype=of.complex64))
        assert of.hash_tensor(of.tensor(-1)).item() == 2**64 - 1
