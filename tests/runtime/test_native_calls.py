"""Calls that native code serves: the same results as Python's way, no reference lost or kept, every way out of it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from compiled_tools import ready, served
from process_tools import printed
from tracejit.runtime.allocator import Block, memory_stats
from tracejit.runtime.native.native import native
from tracejit.trace.replay.ending import NotReplayable

pytestmark = pytest.mark.skipif(
    not native().knows_objects, reason="native code leaves the objects of this Python alone"
)
CALLS = 10_000


def branch(x):
    return x * 2 if x.sum() > 0 else x - 2


# --- references ----------------------------------------------------------------------------------------------------


def references(*objects: Any) -> list[int]:
    gc.collect()
    return [sys.getrefcount(x) for x in objects]


def drift(call: Callable[[], Any], *watched: Any) -> list[int]:
    """How the reference counts of objects change over many calls."""
    for _ in range(3):
        call()
    objects = (None, True, False, (), *watched)
    before = references(*objects)
    for _ in range(CALLS):
        call()
    after = references(*objects)
    return [b - a for a, b in zip(before, after, strict=True)]


def nothing(found: list[int]) -> bool:
    """Is there no drift? (None and the like are used by others too.)"""
    return all(abs(x) < CALLS // 100 for x in found)


def test_forward_calls_keep_no_reference() -> None:
    x, y = tj.ones(3), tj.ones(3)
    f = ready(lambda x, y, *, flag: (x + y, [x * y]), x, y, flag=True)
    layout = x._layout
    first = f(x, y, flag=True)[0]
    watched = (x, y, f, f._routes, f._routes[0], layout, first._type, x._writes, Block)
    assert nothing(drift(lambda: f(x, y, flag=True), *watched))


def test_results_die_with_their_last_reference() -> None:
    x = tj.ones(3)
    f = ready(branch, x)
    result = f(x)
    counts = (
        sys.getrefcount(result),
        sys.getrefcount(result._block),
        sys.getrefcount(result._writes),
    )
    assert counts == (2, 2, 2)
    gone = weakref.ref(result)
    del result
    assert gone() is None


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branches_keep_no_reference_and_no_memory(sign: float) -> None:
    x = tj.ones(3) * sign
    f = ready(branch, x)
    allocated = memory_stats().allocated
    assert nothing(drift(lambda: f(x), x, f, f._routes))
    assert memory_stats().allocated == allocated


def test_training_calls_keep_no_reference_and_no_memory() -> None:
    model = tj.nn.Sequential(tj.nn.Linear(4, 8), tj.nn.ReLU(), tj.nn.Linear(8, 3))
    x, parameters = tj.randn(5, 4), list(model.parameters())
    f = ready(lambda x: model(x).square().mean(), x)

    def call() -> None:
        for p in parameters:
            p.grad = None
        f(x).backward()

    call()
    allocated = memory_stats().allocated
    assert nothing(drift(call, x, f, *parameters, *(p._writes for p in parameters)))
    assert memory_stats().allocated == allocated
    counts = [sys.getrefcount(p.grad) for p in parameters]
    assert counts == [2] * len(parameters)


def test_passes_into_an_argument_keep_no_reference() -> None:
    held = [tj.ones(3, requires_grad=True)]
    f = ready(lambda x: (x * x).sum(), held[0])

    def call() -> None:
        held[0].grad = None
        f(held[0]).backward()

    assert nothing(drift(call, held[0], f))
    gone = weakref.ref(held.pop())
    gc.collect()
    assert gone() is None


def test_failing_calls_keep_no_reference() -> None:
    x, index = tj.ones(4), tj.tensor([0, 9])
    f = tj.compile(lambda x, i: x[i])
    for _ in range(3):
        f(x, tj.tensor([0, 1]))

    def call() -> None:
        with pytest.raises(IndexError):
            f(x, index)

    allocated = memory_stats().allocated
    before = references(x, index, f._routes)
    for _ in range(200):
        call()
    after = references(x, index, f._routes)
    assert after == before
    assert memory_stats().allocated == allocated


def test_objects_made_natively_are_seen_by_the_collector() -> None:
    x = tj.ones(3, requires_grad=True)
    f = ready(lambda x: x * x, x)
    result = f(x)
    assert gc.is_tracked(result)
    result.cycle = [result]
    gone = weakref.ref(result)
    del result
    gc.collect()
    assert gone() is None


# --- every way out -------------------------------------------------------------------------------------------------


def test_a_new_branch_is_recorded_and_routes_come_back() -> None:
    x = tj.ones(3)
    f = ready(branch, x)
    recordings = f.stats.recordings
    assert f(-x).tolist() == [-3.0] * 3
    assert f.stats.recordings == recordings + 1
    for _ in range(3):
        assert f(-x).tolist() == [-3.0] * 3
        assert f(x).tolist() == [2.0] * 3
    assert served(f, -x) == served(f, x) == 1
    assert f.stats.calls == f.stats.compiled_calls + f.stats.eager_calls


def test_refused_inputs_raise_what_eager_code_raises() -> None:
    x = tj.ones(4)
    f = ready(lambda x, i: x[i], x, tj.tensor([0, 1]))
    with pytest.raises(IndexError) as compiled:
        f(x, tj.tensor([0, 9]))
    with pytest.raises(IndexError) as eager:
        f.function(x, tj.tensor([0, 9]))
    assert str(compiled.value) == str(eager.value)
    assert compiled.value.__cause__ is None
    assert compiled.value.__context__ is None
    assert served(f, x, tj.tensor([3, 3])) == 1


def test_what_cannot_be_replayed_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tj.ones(3)
    f = ready(lambda x: x + 1, x)

    def refuse(tensors: Any, numbers: Any = ()) -> Any:
        raise NotReplayable("for a reason")

    f._routes = tuple((*r[:7], refuse, *r[8:]) for r in f._routes)
    assert f(x).tolist() == [2.0] * 3
    assert "for a reason" in f.reasons


def test_errors_of_the_replay_are_not_swallowed() -> None:
    x = tj.ones(3)
    f = ready(lambda x: x + 1, x)

    def fail(tensors: Any, numbers: Any = ()) -> Any:
        raise KeyboardInterrupt

    f._routes = tuple((*r[:7], fail, *r[8:]) for r in f._routes)
    with pytest.raises(KeyboardInterrupt):
        f(x)
    with pytest.raises(TypeError):
        f(x, x, x)


def test_calls_within_recordings_and_within_calls() -> None:
    x = tj.ones(3)
    inner = ready(lambda x: x * 3, x)
    outer = tj.compile(lambda x: inner(x) + 1)
    for _ in range(4):
        assert outer(x).tolist() == [4.0] * 3
        assert inner(x).tolist() == [3.0] * 3


def test_bound_methods_and_pickles_and_copies() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0

        @tj.compile
        def run(self, x):
            return x * self.scale

    one, two = Model(), Model()
    x = tj.ones(3)
    for _ in range(4):
        two.scale += 1
        assert one.run(x).tolist() == [2.0] * 3
        assert two.run(x).tolist() == [two.scale] * 3
    call = ready(lambda x: x + 1, x).__call__
    assert call(x).tolist() == [2.0] * 3


def test_threads_call_one_function() -> None:
    x = tj.ones(3)
    f = ready(branch, x)
    wrong: list[Any] = []

    def run(sign: float) -> None:
        mine = tj.ones(3) * sign
        expected = branch(mine).tolist()
        wrong.extend(sign for _ in range(2000) if f(mine).tolist() != expected)

    threads = [threading.Thread(target=run, args=(s,)) for s in (1.0, -1.0, 2.0, -2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profiles_see_programs_that_run_natively() -> None:
    x = tj.ones(100, requires_grad=True)
    f = ready(lambda x: (x.exp() * 2).sum(), x)
    f(x).backward()
    with tj.profile() as found:
        f(x).backward()
    assert sum(k.runs for k in found.kernels) >= 2
    assert served(f, x) == 1


AT_EXIT = """
import builtins, sys
import tracejit as tj
from tracejit.runtime.allocator import allocate

model, x = tj.nn.Linear(4, 4), tj.randn(3, 4)
f = tj.compile(lambda x: model(x).square().sum())
for _ in range(4):
    f(x).backward()

class Late:
    def __init__(self):
        self.large, self.viewed = allocate(1 << 20), allocate(100)
        self.view, self.result = self.viewed.array[:5], f(x)
        self.call, self.given = f, x

    def __del__(self):
        try:
            self.call(self.given)
        except Exception:
            pass

cycle = [Late()]
cycle.append(cycle)
here, sys.here, builtins.here = Late(), Late(), Late()
print("done")
"""


def test_what_dies_with_the_interpreter_dies_in_peace() -> None:
    assert printed(AT_EXIT) == "done\n"
