"""Names that older programs import: flat buffers, numbers of reductions, layouts, packed sequences, scalers."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def module(of: Any, path: str) -> Any:
    return importlib.import_module(f"{of.__name__}.{path}")


def buffers(of: Any) -> list[Any]:
    names = module(of, "_utils")
    parts = [of.arange(6.0).reshape(2, 3), of.zeros(0, 2), of.tensor(7.0), of.ones(3, 2).T]
    flat = names._flatten_dense_tensors(parts)
    views = names._unflatten_dense_tensors(flat, parts)
    flat[0] = 50.0
    mixed = [of.ones(3), of.arange(4), of.ones(2), of.ones(9), of.arange(1)]
    groups = names._take_tensors(mixed, 20)
    shown = [[tuple(x.shape) for x in group] for group in groups]
    return [flat.tolist(), [v.tolist() for v in views], [tuple(v.shape) for v in views], shown]


def test_flat_buffers() -> None:
    assert buffers(tj) == buffers(torch)


@pytest.mark.filterwarnings("ignore")
def test_numbers_of_reductions() -> None:
    found = []
    for of in (torch, tj):
        names = module(of, "nn._reduction")
        flags = [(a, b) for a in (None, False, True) for b in (None, False, True)]
        old = [(names.legacy_get_string(a, b), names.legacy_get_enum(a, b)) for a, b in flags]
        numbers = [names.get_enum(r) for r in ("none", "mean", "sum", "elementwise_mean")]
        with pytest.raises(ValueError, match="average is not a valid value for reduction"):
            names.get_enum("average")
        found.append((old, numbers))
    assert found[0] == found[1]


def test_layouts() -> None:
    for of in (torch, tj):
        assert isinstance(of.ones(2).layout, of.layout)
        assert of.ones(2).layout is of.strided
        names = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
        assert len({getattr(of, name) for name in (*names, "strided")}) == 6
        assert not isinstance(of.preserve_format, of.layout)
        for name in names:
            assert pickle.loads(pickle.dumps(getattr(of, name))) == getattr(of, name)
            assert repr(getattr(of, name)) == f"{of.__name__}.{name}"


def test_packed_sequences_change_dtype() -> None:
    for of in (torch, tj):
        rows = of.arange(6.0).reshape(3, 2)
        pack = of.nn.utils.rnn.pack_padded_sequence(rows, [1, 3], enforce_sorted=False)
        for name in ("double", "half", "long", "int", "short", "char", "byte"):
            other = getattr(pack, name)()
            assert other.data.dtype == getattr(pack.data, name)().dtype
            assert other.data.tolist() == pack.data.tolist()
            assert other.unsorted_indices.tolist() == [1, 0]
            assert other.batch_sizes is pack.batch_sizes
        assert pack.float() is pack.cpu() is pack
        assert not pack.is_cuda


def test_scalers_are_told_their_numbers() -> None:
    for of in (torch, tj):
        scaler = of.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)
        scaler.set_growth_factor(3.0)
        scaler.set_backoff_factor(0.25)
        scaler.set_growth_interval(1)
        asked = scaler.get_growth_factor(), scaler.get_backoff_factor()
        assert (*asked, scaler.get_growth_interval()) == (3.0, 0.25, 1)
        weight = of.ones(1, requires_grad=True)
        step = of.optim.SGD([weight], lr=0.1)
        scales = []
        for gradient in (1.0, float("inf"), 1.0):
            weight.grad = of.tensor([gradient])
            scaler.scale(weight.sum())
            scaler.step(step)
            scaler.update()
            scales.append(scaler.get_scale())
        assert scales == [12.0, 3.0, 9.0]
        assert np.isfinite(weight.item())


def test_weights_of_fused_layers() -> None:
    found = []
    for of in (torch, tj):
        weight = of.arange(6.0).reshape(2, 3, 1)
        numbers = [of.tensor([0.5, 2.0]) for _ in range(2)]
        told = (*numbers, 1e-5, of.ones(2) * 3, None)
        fused = of.nn.utils.fuse_conv_bn_weights(weight, None, *told)
        line = of.nn.utils.fuse_linear_bn_weights(
            weight[:, :, 0], numbers[0], *told[:4], numbers[1]
        )
        found.append([x.detach().numpy() for x in (*fused, *line)])
    for expected, result in zip(*found, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
