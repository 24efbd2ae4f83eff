"""Resampling compiled: sums at fixed places become lookups in kernels, forward and backward, with eager's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.nn import functional as F
from tracejit.passes.windows.pooling import pooling

MODES: list[tuple[str, int, dict[str, Any]]] = [
    ("nearest", 1, {"size": 7}),
    ("nearest-exact", 2, {"scale_factor": 2}),
    ("linear", 1, {"size": 3, "align_corners": True}),
    ("bilinear", 2, {"scale_factor": 2}),
    ("bilinear", 2, {"size": (3, 9), "align_corners": True}),
    ("bicubic", 2, {"size": (2, 7)}),
    ("trilinear", 3, {"scale_factor": 2}),
    ("area", 2, {"size": (2, 3)}),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("mode", "rank", "options"), MODES)
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16])
def test_as_eager(mode: str, rank: int, options: dict[str, Any], dtype: tj.dtype) -> None:
    tj.manual_seed(0)
    for extents in ((5, 4, 6)[:rank], (1, 3, 2)[:rank], (9, 1, 4)[:rank]):
        x = tj.randn(2, 3, *extents).to(dtype)
        x.flatten()[0], x.flatten()[4] = float("nan"), float("inf")
        x.requires_grad_()

        def grown(x: tj.Tensor) -> tj.Tensor:
            return F.interpolate(x * 2, mode=mode, **options)

        compiled, found = tj.compile(grown), []
        for function in (grown, compiled, compiled):
            x.grad = None
            out = function(x)
            out.sum().backward()
            found.append((out.detach().float().numpy(), x.grad.float().numpy()))
        for values in found[1:]:
            for value, eager in zip(values, found[0], strict=True):
                np.testing.assert_allclose(value, eager, 1e-6, 1e-6)


def test_no_calls_and_no_checks_remain() -> None:
    f = tj.compile(lambda x: F.interpolate(x.relu(), scale_factor=2, mode="bilinear") + 1)
    for _ in range(2):
        f(tj.randn(2, 3, 8, 8))
    assert len(f.kernels) == 3
    assert "return 1" not in f.source()


def test_missing_places_and_many_terms() -> None:
    text = """graph f(x: f32[2]) {{
        %0: f32[3] = mix_along(x, dim=0, places={places}, weights={weights})
        return %0
    }}"""
    few = text.format(
        places="((0, 0, 1), (1, 1, -1))", weights="((1.0, 0.5, 1.0), (1.0, 0.5, 0.0))"
    )
    names = [v.op.name for v in pooling(parse(few)).values if v.op is not None]
    assert names.count("take") == 2
    assert names.count("where") == 1
    assert "mix_along" not in names
    many = text.format(places=((0, 1, 0),) * 9, weights=((1.0, 1.0, 1.0),) * 9)
    assert [v.op.name for v in pooling(parse(many)).values if v.op is not None] == ["mix_along"]


def test_bytes_are_rounded_in_planes_and_refused_elsewhere() -> None:
    x = tj.tensor([[[0, 3]]], dtype=tj.uint8)
    y = x.reshape(1, 1, 1, 2)
    assert F.interpolate(y, size=(1, 4), mode="bilinear").tolist() == [[[[0, 1, 2, 3]]]]
    for given, size, mode in ((x, 4, "linear"), (y[None], (1, 1, 4), "trilinear")):
        with pytest.raises(RuntimeError, match="not implemented for 'Byte'"):
            F.interpolate(given, size=size, mode=mode)
