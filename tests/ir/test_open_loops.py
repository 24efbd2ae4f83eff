"""Open loops in graphs: text, verification, interpreter, passes and native programs agree."""

from __future__ import annotations

import numpy as np
import pytest

from tracejit.ir import parse, verify
from tracejit.ir.interpreter import run
from tracejit.ir.parser import GraphSyntaxError
from tracejit.passes.pipeline import run_passes
from tracejit.runtime.plan.plan import make_plan
from tracejit.runtime.program import Program
from tracejit.tensor import Tensor

HALVING = """
graph f(x: f32[{n}], go_on: bool[], w: f32[{n}]) {{
    %0: f32[{n}] = exp(x)
    %1: loop(f32[{n}], f32[{n}], bool[]) = loop(x, %0, go_on, w, count={count}, carried=3, items=0, until=False)
        graph round(a: f32[{n}], b: f32[{n}], before: bool[], w: f32[{n}]) {{
            %0: f32[{n}] = mul(a, 0.5)
            %1: f32[{n}] = add(%0, w)
            %2: f32[] = amax(%1, dims=(0,), keepdim=False)
            %3: bool[] = gt(%2, 1.0)
            return %1, a, %3
        }}
    %2: f32[{n}] = part(%1, index=0)
    %3: f32[{n}] = part(%1, index=1)
    %4: bool[] = part(%1, index=2)
    %5: f32[{n}] = add(%2, %3)
    return %2, %5, %4
}}
"""


def native(graph, arrays):
    strides = [v.spec.contiguous_strides() for v in graph.inputs]
    program = Program(make_plan(run_passes(graph), strides))
    tensors = [Tensor._wrap(x) for x in arrays]
    found = program.run(*tensors)
    kinds = [v.spec for v in graph.outputs]
    return [
        x if isinstance(x, np.ndarray) else Tensor._of_block(x, k, None).array
        for x, k in zip(found, kinds, strict=True)
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("n", [1, 2, 7, 33])
@pytest.mark.parametrize("top", [1.5, 100.0, 1e6])
@pytest.mark.parametrize("count", [1, 2, 5, 1 << 62])
def test_native_is_as_interpreted(n, top, count):
    graph = verify(parse(HALVING.format(n=n, count=count)))
    assert parse(str(graph)) == graph
    rng = np.random.default_rng(n)
    arrays = [
        rng.uniform(0, top, n).astype(np.float32),
        np.array(True),
        rng.uniform(0, 0.1, n).astype(np.float32),
    ]
    arrays[0][0] = top
    expected = run(graph, arrays)
    assert bool(expected[2]) == (count < np.log2(top))
    for found, wanted in zip(native(graph, arrays), expected, strict=True):
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_passes_keep_what_decides():
    text = HALVING.format(n=3, count=1 << 62)
    graph = parse(text.replace("return %2, %5, %4", "return %3"))
    arrays = [np.array([80, 1, 2], np.float32), np.array(True), np.zeros(3, np.float32)]
    rewritten = verify(run_passes(graph))
    np.testing.assert_array_equal(run(rewritten, arrays)[0], run(graph, arrays)[0])
    np.testing.assert_array_equal(native(graph, arrays)[0], run(graph, arrays)[0])


def test_what_is_carried_last_decides():
    text = HALVING.format(n=3, count=8).replace("return %1, a, %3", "return %1, %3, a")
    with pytest.raises(GraphSyntaxError, match="loop"):
        parse(text)
