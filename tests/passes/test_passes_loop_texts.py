"""Passes over loops as texts before and after, and that what they write does not grow with the rounds."""

from __future__ import annotations

import numpy as np
import pytest

from loop_graphs import EXAMPLES, looped, random_inputs
from tracejit.ir import Graph, parse, run, verify
from tracejit.ir.loops import body_of, is_loop
from tracejit.passes.gradient.gradient import differentiate
from tracejit.passes.gradient.partition import partition
from tracejit.passes.loops.hoist import hoist
from tracejit.passes.loops.loops import prepare
from tracejit.passes.loops.optimize import optimize_loops, restructure_loops
from tracejit.passes.loops.sink import sink
from tracejit.passes.loops.sums import sums
from tracejit.passes.pipeline import run_passes
from tracejit.passes.simplify.cse import cse
from tracejit.passes.simplify.dead_code import dead_code

STEPS = {
    "dead_code": dead_code,
    "sums": sums,
    "hoist": hoist,
    "sink": sink,
    "optimize": optimize_loops,
    "restructure": restructure_loops,
    "passes": run_passes,
    "cse": cse,
}


def check(step: str, before: str, after: str) -> None:
    graph = verify(parse(before))
    found = verify(STEPS[step](graph))
    assert found == parse(after), str(found)
    arrays = random_inputs(graph)
    for a, b in zip(run(found, arrays), run(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def loops(graph: Graph) -> list[Graph]:
    return [body_of(v) for v in graph.values if is_loop(v)]


def test_prepared_recurrence():
    graph = parse("""graph f(h: f32[4, 8], w: f32[8, 8], xs: f32[5, 4, 8]) {
        %0: loop(f32[4, 8]) = loop(h, w, xs, count=5, carried=1, items=1)
            graph round(h: f32[4, 8], w: f32[8, 8], x: f32[4, 8]) {
                %0: f32[4, 8] = matmul(h, w)
                %1: f32[4, 8] = add(%0, x)
                %2: f32[4, 8] = tanh(%1)
                return %2
            }
        %1: f32[4, 8] = part(%0, index=0)
        return %1
    }""")
    ready = prepare(graph, [True, True, False])
    assert verify(ready.graph) == parse("""graph f(h: f32[4, 8], w: f32[8, 8], xs: f32[5, 4, 8]) {
        %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, w, xs, count=5, carried=1, items=1)
            graph round(h: f32[4, 8], w: f32[8, 8], x: f32[4, 8]) {
                %0: f32[4, 8] = matmul(h, w)
                %1: f32[4, 8] = add(%0, x)
                %2: f32[4, 8] = tanh(%1)
                return %2, h
            }
        %1: f32[5, 4, 8] = part(%0, index=1)
        %2: f32[4, 8] = part(%0, index=0)
        return %2
    }""")
    assert {old.spec for old in ready.mapping} == {graph.body[0].spec, graph.body[1].spec}
    assert ready.mapping[graph.outputs[0]] is ready.graph.outputs[0]


def test_gradient_of_a_recurrence_through_all_passes():
    """One product per round, and one for all rounds per weight."""
    graph = parse("""graph f(h: f32[4, 8], w: f32[8, 8], b: f32[8], xs: f32[5, 4, 8]) {
        %0: loop(f32[4, 8]) = loop(h, w, b, xs, count=5, carried=1, items=1)
            graph round(h: f32[4, 8], w: f32[8, 8], b: f32[8], x: f32[4, 8]) {
                %0: f32[4, 8] = matmul(h, w)
                %1: f32[4, 8] = add(%0, x)
                %2: f32[4, 8] = add(%1, b)
                %3: f32[4, 8] = tanh(%2)
                return %3
            }
        %1: f32[4, 8] = part(%0, index=0)
        return %1
    }""")
    wrt = [False, True, True, False]
    ready = prepare(graph, wrt).graph
    parts = partition(ready, differentiate(ready, wrt))
    assert run_passes(parts.backward, check=verify) == parse(
        """\
graph f_backward(w: f32[8, 8], s0: f32[5, 4, 8], s1: f32[4, 8], g0: f32[4, 8]) {
    %0: f32[5, 4, 8] = slice(s0, starts=(4, 0, 0), counts=(5, 4, 8), steps=(-1, 1, 1))
    %1: loop(f32[5, 4, 8]) = loop(g0, s1, w, %0, count=5, carried=2, items=1)
        graph round_backward(g0: f32[4, 8], s0: f32[4, 8], w: f32[8, 8], h: f32[4, 8]) {
            %0: f32[4, 8] = mul(s0, s0)
            %1: f32[4, 8] = sub(1.0, %0)
            %2: f32[4, 8] = mul(g0, %1)
            %3: f32[8, 8] = permute(w, dims=(1, 0))
            %4: f32[4, 8] = matmul(%2, %3)
            return %4, h, %2
        }
    %2: f32[5, 4, 8] = part(%1, index=2)
    %3: f32[5, 4, 8] = slice(%2, starts=(4, 0, 0), counts=(5, 4, 8), steps=(-1, 1, 1))
    %4: f32[20, 8] = reshape(s0, shape=(20, 8))
    %5: f32[8, 20] = permute(%4, dims=(1, 0))
    %6: f32[20, 8] = reshape(%3, shape=(20, 8))
    %7: f32[8, 8] = matmul(%5, %6)
    %8: f32[8] = sum(%2, dims=(0, 1), keepdim=False)
    return %7, %8
}""".replace("loop(f32[5, 4, 8])", "loop(f32[4, 8], f32[4, 8], f32[5, 4, 8])")
    )


def test_what_nobody_needs_is_dropped():
    check(
        "dead_code",
        """graph f(h: f32[4], k: f32[4], w: f32[4], z: f32[], xs: f32[5, 4]) {
            %0: f32[5, 4] = expand(z, shape=(5, 4))
            %1: f32[4] = full(shape=(4,), value=0.5, dtype=f32)
            %2: f32[4] = exp(k)
            %3: loop(f32[4], f32[4], f32[4], f32[5, 4], f32[5, 4], f32[5, 4]) = loop(h, k, %2, w,
                w, %1, %0, xs, xs, count=5, carried=3, items=3)
                graph round(h: f32[4], k: f32[4], j: f32[4], v: f32[4], w: f32[4], half: f32[4], z: f32[4],
                            x: f32[4], y: f32[4]) {
                    %0: f32[4] = mul(h, v)
                    %1: f32[4] = mul(%0, w)
                    %2: f32[4] = mul(%1, half)
                    %3: f32[4] = add(%2, z)
                    %4: f32[4] = add(j, x)
                    %5: f32[4] = mul(x, y)
                    %6: f32[4] = mul(%5, k)
                    return %3, k, %4, %6, %4, %6
                }
            %4: f32[4] = part(%3, index=0)
            %5: f32[4] = part(%3, index=1)
            %6: f32[5, 4] = part(%3, index=3)
            %7: f32[5, 4] = part(%3, index=5)
            %8: f32[5, 4] = add(%6, %7)
            return %4, %5, %8
        }""",
        """graph f(h: f32[4], k: f32[4], w: f32[4], z: f32[], xs: f32[5, 4]) {
            %0: loop(f32[4], f32[5, 4]) = loop(h, k, w, z, xs, count=5, carried=1, items=1)
                graph round(h: f32[4], k: f32[4], v: f32[4], z: f32[], x: f32[4]) {
                    %0: f32[4] = full(shape=(4,), value=0.5, dtype=f32)
                    %1: f32[4] = expand(z, shape=(4,))
                    %2: f32[4] = mul(h, v)
                    %3: f32[4] = mul(%2, v)
                    %4: f32[4] = mul(%3, %0)
                    %5: f32[4] = add(%4, %1)
                    %6: f32[4] = mul(x, x)
                    %7: f32[4] = mul(%6, k)
                    return %5, %7
                }
            %1: f32[4] = part(%0, index=0)
            %2: f32[5, 4] = part(%0, index=1)
            %3: f32[5, 4] = add(%2, %2)
            %4: f32[4] = clone(k)
            return %1, %4, %3
        }""",
    )


def test_loops_lose_parts_that_later_loops_do_not_need():
    check(
        "dead_code",
        """graph f(x: f32[3], y: f32[3]) {
            %0: loop(f32[3], f32[3]) = loop(x, y, count=4, carried=2, items=0)
                graph a(x: f32[3], y: f32[3]) {
                    %0: f32[3] = sin(x)
                    %1: f32[3] = cos(y)
                    return %0, %1
                }
            %1: f32[3] = part(%0, index=0)
            %2: f32[3] = part(%0, index=1)
            %3: loop(f32[3], f32[3]) = loop(%1, %2, count=4, carried=2, items=0)
                graph b(x: f32[3], y: f32[3]) {
                    %0: f32[3] = exp(x)
                    %1: f32[3] = add(y, %0)
                    return %0, %1
                }
            %4: f32[3] = part(%3, index=0)
            return %4
        }""",
        """graph f(x: f32[3], y: f32[3]) {
            %0: loop(f32[3]) = loop(x, count=4, carried=1, items=0)
                graph a(x: f32[3]) { %0: f32[3] = sin(x)  return %0 }
            %1: f32[3] = part(%0, index=0)
            %2: loop(f32[3]) = loop(%1, count=4, carried=1, items=0)
                graph b(x: f32[3]) { %0: f32[3] = exp(x)  return %0 }
            %3: f32[3] = part(%2, index=0)
            return %3
        }""",
    )


def test_hoisted():
    check(
        "hoist",
        """graph f(h: f32[4, 8], u: f32[8, 8], w: f32[3, 8], b: f32[8], xs: f32[4, 5, 3]) {
            %0: f32[5, 4, 3] = permute(xs, dims=(1, 0, 2))
            %1: loop(f32[4, 8], f32[5, 3], f32[5, 3, 8]) = loop(h, u, w, b, %0, count=5, carried=1, items=1)
                graph round(h: f32[4, 8], u: f32[8, 8], w: f32[3, 8], b: f32[8], x: f32[4, 3]) {
                    %0: f32[4, 8] = matmul(x, w)
                    %1: f32[8] = exp(b)
                    %2: f32[4, 8] = add(%0, %1)
                    %3: f32[4, 8] = matmul(h, u)
                    %4: f32[4, 8] = add(%2, %3)
                    %5: f32[3] = sum(x, dims=(0,), keepdim=False)
                    return %4, %5, w
                }
            %2: f32[4, 8] = part(%1, index=0)
            %3: f32[5, 3] = part(%1, index=1)
            %4: f32[5, 3, 8] = part(%1, index=2)
            %5: f32[5, 3, 8] = exp(%4)
            return %2, %3, %5
        }""",
        """graph f(h: f32[4, 8], u: f32[8, 8], w: f32[3, 8], b: f32[8], xs: f32[4, 5, 3]) {
            %0: f32[5, 4, 3] = permute(xs, dims=(1, 0, 2))
            %1: f32[20, 3] = reshape(xs, shape=(20, 3))
            %2: f32[20, 8] = matmul(%1, w)
            %3: f32[4, 5, 8] = reshape(%2, shape=(4, 5, 8))
            %4: f32[5, 4, 8] = permute(%3, dims=(1, 0, 2))
            %5: f32[8] = exp(b)
            %6: f32[5, 3] = sum(%0, dims=(1,), keepdim=False)
            %7: loop(f32[4, 8]) = loop(h, u, %5, %4, count=5, carried=1, items=1)
                graph round(h: f32[4, 8], u: f32[8, 8], s1: f32[8], s0: f32[4, 8]) {
                    %0: f32[4, 8] = add(s0, s1)
                    %1: f32[4, 8] = matmul(h, u)
                    %2: f32[4, 8] = add(%0, %1)
                    return %2
                }
            %8: f32[4, 8] = part(%7, index=0)
            %9: f32[5, 3, 8] = expand(w, shape=(5, 3, 8))
            %10: f32[5, 3, 8] = exp(%9)
            return %8, %6, %10
        }""",
    )


def test_a_loop_without_a_recurrence_is_no_loop():
    graph = optimize_loops(EXAMPLES["no_carry"])
    assert loops(graph) == []


def test_outer_products_stay_inside():
    """A stack of them would take more memory than all that the loop reads and gives."""
    graph = looped(
        ["f64 200 200"], [], ["f64 200 1"], 5, lambda c, f, i: ([c[0] * (i[0] @ i[0].mT).exp()], [])
    )
    assert hoist(graph) == graph


def test_elementwise_work_on_items_stays_where_it_is_fused():
    graph = looped(
        ["f64 3"], ["f64 3"], ["f64 3"], 5, lambda c, f, i: ([c[0] * (i[0].exp() - f[0])], [])
    )
    assert hoist(graph) == graph


def test_numbers_among_items_stay_weak():
    """A stack of float64 numbers beside float32 would promote."""
    graph = looped(
        ["f32 3"], ["f32 3"], ["f64"], 5, lambda c, f, i: ([c[0] + (f[0] * i[0]).sum(0)], [])
    )
    found = run_passes(graph, check=verify)
    assert [v.op.name for v in loops(found)[0].values][:2] == ["mul", "sum"]


def test_sums_that_are_no_products_stay_inside():
    graph = looped(["f64 3", "f64 3"], [], [], 5, lambda c, f, i: ([c[0].sin(), c[1] + c[0]], []))
    assert sums(graph) == graph


def test_long_simulations_keep_nothing_for_sums():
    """Nothing is given or kept per round, so nothing is collected to be added up later."""
    graph = looped(
        ["f64 3 4", "f64 4 4", "f64 4"],
        [],
        [],
        5,
        lambda c, f, i: ([c[0].sin(), c[1] + c[0].mT @ c[0], c[2] + c[0].sum(0)], []),
    )
    assert sums(graph) == graph


@pytest.mark.parametrize("what", ["read elsewhere", "collected"])
def test_running_sums_are_no_sums(what: str):
    def write(c, f, i):
        total = c[0] + i[0].sum()
        return [total], [total if what == "collected" else c[0] * 2.0]

    graph = looped(["f64"], [], ["f64 3"], 4, write)
    assert len(loops(sums(graph))) == 1
    assert sums(graph) == graph


def test_sunk():
    check(
        "sink",
        """graph f(h: f32[4, 8], u: f32[8, 8], v: f32[8, 8], b: f32[8]) {
            %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, u, v, b, count=5, carried=1, items=0)
                graph round(h: f32[4, 8], u: f32[8, 8], v: f32[8, 8], b: f32[8]) {
                    %0: f32[4, 8] = matmul(h, u)
                    %1: f32[4, 8] = tanh(%0)
                    %2: f32[4, 8] = relu(%1)
                    %3: f32[4, 8] = matmul(%2, v)
                    %4: f32[4, 8] = add(%3, b)
                    return %1, %4
                }
            %1: f32[4, 8] = part(%0, index=0)
            %2: f32[5, 4, 8] = part(%0, index=1)
            return %1, %2
        }""",
        """graph f(h: f32[4, 8], u: f32[8, 8], v: f32[8, 8], b: f32[8]) {
            %0: loop(f32[4, 8], f32[5, 4, 8]) = loop(h, u, count=5, carried=1, items=0)
                graph round(h: f32[4, 8], u: f32[8, 8]) {
                    %0: f32[4, 8] = matmul(h, u)
                    %1: f32[4, 8] = tanh(%0)
                    %2: f32[4, 8] = relu(%1)
                    return %1, %2
                }
            %1: f32[4, 8] = part(%0, index=0)
            %2: f32[5, 4, 8] = part(%0, index=1)
            %3: f32[20, 8] = reshape(%2, shape=(20, 8))
            %4: f32[20, 8] = matmul(%3, v)
            %5: f32[5, 4, 8] = reshape(%4, shape=(5, 4, 8))
            %6: f32[5, 4, 8] = add(%5, b)
            return %1, %6
        }""",
    )


def test_products_that_a_later_round_reads_are_not_sunk():
    graph = looped(["f64 3 3"], ["f64 3 3"], [], 4, lambda c, f, i: ([c[0] @ f[0]], [c[0] @ f[0]]))
    assert len(loops(sink(graph))[0].outputs) == 2


def test_bodies_are_optimized():
    check(
        "optimize",
        """graph f(h: f32[4]) {
            %0: loop(f32[4], f32[5, 4]) = loop(h, count=5, carried=1, items=0)
                graph round(h: f32[4]) {
                    %0: f32[4] = clone(h)
                    %1: f32[4] = mul(%0, 1.0)
                    %2: f32[4] = sin(h)
                    %3: f32[4] = sin(%1)
                    %4: f32[4] = add(%2, %3)
                    %5: f32[4] = clone(%4)
                    return %4, %5
                }
            %1: f32[4] = part(%0, index=0)
            %2: f32[5, 4] = part(%0, index=1)
            return %1, %2
        }""",
        """graph f(h: f32[4]) {
            %0: loop(f32[4], f32[5, 4]) = loop(h, count=5, carried=1, items=0)
                graph round(h: f32[4]) {
                    %0: f32[4] = sin(h)
                    %1: f32[4] = add(%0, %0)
                    return %1, %1
                }
            %1: f32[4] = part(%0, index=0)
            %2: f32[5, 4] = part(%0, index=1)
            return %1, %2
        }""",
    )


def test_equal_loops_become_one_only_if_they_share_a_body():
    text = """graph f(h: f32[4]) {
        %0: loop(f32[4]) = loop(h, count=5, carried=1, items=0)
            graph round(h: f32[4]) { %0: f32[4] = sin(h) return %0 }
        %1: f32[4] = part(%0, index=0)
        %2: loop(f32[4]) = loop(h, count=5, carried=1, items=0)
            graph round(h: f32[4]) { %0: f32[4] = sin(h) return %0 }
        %3: f32[4] = part(%2, index=0)
        %4: f32[4] = add(%1, %3)
        return %4
    }"""
    assert len(loops(cse(parse(text)))) == 2
