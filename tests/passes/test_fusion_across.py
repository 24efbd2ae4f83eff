"""What is reduced over all results of a product with a transposed matrix does not keep it from memory's order."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.passes.fusion import fusion
from tracejit.runtime.plan.assembly import is_fusible
from tracejit.runtime.plan.plan import make_plan

NORM = """
    graph f(w: f32[300, 200], u: f32[{n}]) {{
        %0: f32[{n}, {m}] = permute(w, dims={dims})
        %1: f32[{m}, {n}] = permute(%0, dims=(1, 0))
        %2: f32[{m}, {n}] = mul(%1, u)
        %3: f32[{m}] = sum(%2, dims=(1,), keepdim=False)
        %4: f32[{m}] = square(%3)
        %5: f32[] = sum(%4, dims=(0,), keepdim=False)
        return %3, %5
    }}
"""


@pytest.mark.parametrize(
    ("dims", "m", "n", "groups"), [((1, 0), 300, 200, 1), ((0, 1), 200, 300, 2)]
)
def test_columns_are_no_rows(dims: tuple[int, int], m: int, n: int, groups: int):
    graph = parse(NORM.format(dims=dims, m=m, n=n))
    assert len(fusion.fuse(graph, is_fusible).groups) == groups
    kernels = [kernel.source for kernel in make_plan(graph, [(200, 1), (1,)]).kernels]
    across = "for i1 in range(n1):\n                v1 = in0[row * in0_s0 + i1 * in0_s1]"
    assert not any(across in source for source in kernels)


def test_the_values_are_those_of_eager_code():
    def step(w: tj.Tensor, u: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        v = w.T @ u
        return v / (v * v).sum().sqrt(), (w @ v).abs().amax()

    compiled = tj.compile(step)
    rng = np.random.default_rng(0)
    w, u = (tj.from_numpy(rng.standard_normal(s)) for s in ((70, 90), (70,)))
    for _ in range(3):
        for found, expected in zip(compiled(w, u), step(w, u), strict=True):
            assert tj.allclose(found, expected, rtol=1e-12)
