"""What makes a CUDA graph unfit: other addresses, sizes and branches; what is never captured."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import stand_in
import stand_in_arrays

import tracejit as tj
from tracejit.profiling import profile
from tracejit.runtime.cuda import capture, worth

pytestmark = pytest.mark.usefixtures("gpu")


def rounds(x: Any) -> Any:
    for _ in range(3):
        x = (x - x.sum()).tanh()
    return x


def graphs() -> int:
    """How many graphs were started so far."""
    return stand_in_arrays.LOG.count("graph")


def warm(function: Any, make: Any) -> None:
    """Calls until a graph is there."""
    for _ in range(capture.WARM_UP + 3):
        function(make())


def check(function: Any, x: Any) -> None:
    found, expected = function(x.cuda()), rounds(x)
    assert found.cpu().allclose(expected, atol=1e-5)


def test_inputs_that_move_are_copied_in() -> None:
    function = tj.compile(rounds, mode="reduce-overhead")
    kept = []

    def fresh() -> Any:
        kept.append(tj.randn(7).cuda())  # alive, so that every input lies elsewhere
        return kept[-1]

    warm(function, fresh)
    before = graphs()
    for _ in range(5):
        check(function, tj.randn(7))
    assert graphs() == before + 5


def test_an_input_that_stayed_and_then_moves_for_good_is_captured_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "PATIENCE", 2)
    function = tj.compile(lambda x, w: rounds(x * w), mode="reduce-overhead")
    w = tj.randn(7).cuda()
    others = [tj.randn(7).cuda() for _ in range(12)]

    def call(weight: Any) -> int:
        before, x = graphs(), tj.randn(7)
        found = function(x.cuda(), weight).cpu()
        assert found.allclose(rounds(x * weight.cpu()), atol=1e-5)
        return graphs() - before

    for _ in range(capture.WARM_UP + 3):
        call(w)
    assert call(w) == 1
    assert [call(others[0]) for _ in range(3)] == [0, 0, 0]  # plainly, until patience ends
    assert [call(x) for x in others][-1] == 1  # with a place of its own now
    assert call(w) == 1


def test_other_sizes_and_layouts_have_graphs_of_their_own() -> None:
    function = tj.compile(rounds, mode="reduce-overhead")
    for n in (5, 8, 130):
        warm(function, lambda n=n: tj.randn(n).cuda())
        before = graphs()
        check(function, tj.randn(n))
        assert graphs() == before + 1
    wide = tj.randn(9, 2)
    for _ in range(7):
        found = function(wide.cuda()[:, 0])
        assert found.cpu().allclose(rounds(wide[:, 0]), atol=1e-5)
    check(function, tj.randn(5))


def test_each_side_of_a_branch_is_its_own_graph() -> None:
    def branch(x: Any) -> Any:
        return rounds(x) if x.sum() > 0 else rounds(x * -2)

    function = tj.compile(branch, mode="reduce-overhead")
    for call in range(16):
        x = tj.full((6,), 0.1 + call) * (1 if call % 2 else -1)
        assert function(x.cuda()).cpu().allclose(branch(x), atol=1e-5)
    before = graphs()
    for sign in (1, -1, -1, 1):
        x = tj.rand(6) * sign
        assert function(x.cuda()).cpu().allclose(branch(x), atol=1e-5)
    assert graphs() >= before + 4


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * 2,  # one kernel: nothing to gain
        lambda x: rounds(x).sort()[0] * 2,  # Python takes part
    ],
    ids=["one kernel", "op by op"],
)
def test_what_is_not_captured_runs_plainly(program: Any) -> None:
    function = tj.compile(program, mode="reduce-overhead")
    before = graphs()
    for _ in range(8):
        x = tj.randn(6)
        assert function(x.cuda()).cpu().allclose(program(x), atol=1e-5)
    assert graphs() == before


def test_a_graph_says_when_an_index_is_out_of_range() -> None:
    def program(x: Any, index: Any) -> Any:
        return (rounds(x)[index] * 2).sum()

    function = tj.compile(program, mode="reduce-overhead")
    x = tj.randn(6)
    for call in range(14):
        index = tj.tensor([0, 5, -1, 6 if call in (5, 9, 10) else call % 6])
        before = graphs()
        if call in (5, 9, 10):
            with pytest.raises(IndexError, match=r"out of (range|bounds)"):
                function(x.cuda(), index.cuda())
        else:
            found = function(x.cuda(), index.cuda())
            assert found.cpu().allclose(program(x, index), atol=1e-5)
        assert graphs() - before == (call > capture.WARM_UP), call


def test_nothing_is_written_where_a_label_is_out_of_range() -> None:
    def trained(device: str, mode: str, wrong: Any) -> tuple[list[float], list[Any]]:
        tj.manual_seed(0)
        model = tj.nn.Linear(5, 3).to(device)
        optimizer = tj.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = tj.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled, losses = tj.compile(step, mode=mode), []
        x = tj.randn(4, 5).to(device)
        for call in range(12):
            y = tj.tensor([0, 1, 2, call % 3])
            if call in wrong:
                y[1] = 3
                before = [p.tolist() for p in model.parameters()]
                with pytest.raises(IndexError):
                    compiled(x, y.to(device))
                assert [p.tolist() for p in model.parameters()] == before
                y[1] = 1
            losses.append(compiled(x, y.to(device)).item())
        return losses, [p.tolist() for p in model.parameters()]

    expected = trained("cpu", "default", ())
    before = graphs()
    found = trained("cuda", "reduce-overhead", (7, 8))
    assert graphs() - before >= 12  # two for each step: what comes before the check, and the update
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_memory_of_a_graph_is_given_back_with_it() -> None:
    function = tj.compile(rounds, mode="reduce-overhead")
    x = tj.randn(1 << 12).cuda()
    gc.collect()
    before = tj.cuda.memory_allocated()
    warm(function, lambda: x)
    assert tj.cuda.memory_allocated() > before
    del function
    gc.collect()
    assert tj.cuda.memory_allocated() == before


def test_products_in_a_graph_use_memory_of_the_graph(library: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        for _ in range(2):
            x = ((x - x.sum()) @ w).tanh()
        return x

    compiled = tj.compile(function, mode="reduce-overhead")
    x, w = tj.randn(4, 4), tj.randn(4, 4)
    there = x.cuda(), w.cuda()
    before = graphs()
    for _ in range(capture.WARM_UP + 4):
        assert compiled(*there).cpu().allclose(function(x, w), atol=1e-5)
    assert graphs() > before
    assert library.workspace is not None
    tj.compile(lambda x: (x @ x).exp())(there[0])


def test_a_graph_that_is_refused_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(stream: Any) -> Any:
        plain(stream)
        raise stand_in.CUDARuntimeError(901)

    plain = stand_in.Stream.end_capture
    monkeypatch.setattr(stand_in.Stream, "end_capture", refused)
    function = tj.compile(rounds, mode="reduce-overhead")
    x = tj.randn(7)
    with pytest.warns(RuntimeWarning, match=r"does not run as a CUDA graph: .*error 901"):
        warm(function, lambda: x.cuda())
    for _ in range(3):
        check(function, x)


def test_a_graph_on_another_stream_waits_for_its_last_run() -> None:
    function = tj.compile(rounds, mode="reduce-overhead")
    x = tj.randn(7)
    there = x.cuda()
    warm(function, lambda: there)
    stand_in_arrays.LOG.clear()
    function(there)
    assert "synchronize" not in stand_in_arrays.LOG
    with tj.cuda.stream(tj.cuda.Stream()):
        found = function(there)
    assert stand_in_arrays.LOG.count("synchronize") == 1
    assert found.cpu().allclose(rounds(x), atol=1e-5)


# --- unasked -------------------------------------------------------------------------------------------------------


def started(function: Any, make: Any, calls: int = capture.WARM_UP + 4) -> int:
    """Graphs started by the last of some calls."""
    for _ in range(calls):
        before = graphs()
        function(make())
    return graphs() - before


def test_many_small_launches_become_a_graph_unasked() -> None:
    function = tj.compile(rounds)
    x = tj.randn(7)
    there = x.cuda()
    assert started(function, lambda: there) == 1
    check(function, x)
    assert "1 of 1 program(s) run as CUDA graphs" in str(function.explain())


def test_what_is_written_where_inputs_lie_costs_no_copies() -> None:
    tensors = [tj.randn(7).cuda() for _ in range(4)]

    def step(x: Any) -> Any:
        for tensor in tensors:
            tensor.add_(rounds(x))
            tensor.mul_(0.5)
        return x + tensors[0]

    function = tj.compile(step)
    there = tj.randn(7).cuda()
    assert started(function, lambda: there) == 1
    before = [tensor.cpu() for tensor in tensors]
    function(there)
    for tensor, old in zip(tensors, before, strict=True):
        assert tensor.cpu().allclose((old + rounds(there.cpu())) * 0.5, atol=1e-5)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x - x.sum()).tanh(),  # too few launches
        lambda x: [y + 1 for y in rounds(x).split(1)],  # too many results
    ],
    ids=["few launches", "many results"],
)
def test_what_does_not_pay_becomes_none(program: Any) -> None:
    function = tj.compile(program)
    x = tj.randn(7).cuda()
    assert started(function, lambda: x) == 0
    assert "CUDA graphs" not in str(function.explain())


def test_graphs_nobody_asked_for_keep_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worth, "MOST_BYTES", 10_000)
    monkeypatch.setattr(worth, "ALL_BYTES", worth.BUDGET.held + 20_000)
    small, large = tj.randn(500).cuda(), tj.randn(2000).cuda()  # that stay where they are
    assert started(tj.compile(rounds), lambda: large) == 0
    functions = [tj.compile(lambda x, k=k: rounds(x * k)) for k in range(4)]
    gc.collect()  # graphs of other tests
    before = worth.BUDGET.held
    made = [started(f, lambda: small) for f in functions]
    assert 0 < sum(made) < 4
    assert worth.BUDGET.held > before
    del functions
    gc.collect()
    assert worth.BUDGET.held == before
    asked = tj.compile(rounds, mode="reduce-overhead")
    assert started(asked, lambda: large) == 1


def test_profiles_see_the_kernels_of_graphs() -> None:
    function = tj.compile(rounds)
    x = tj.randn(7).cuda()
    assert started(function, lambda: x) == 1
    with profile() as found:
        before = graphs()
        function(x)
        assert graphs() == before
    assert found.kernels
    assert started(function, lambda: x, 1) == 1


def test_an_input_that_moved_has_a_place_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "PATIENCE", 1)
    function = tj.compile(rounds)
    kept = [tj.randn(7).cuda() for _ in range(40)]
    assert started(function, lambda: kept[0]) == 1
    for x in kept[:8]:  # until it is captured again
        function(x)
    for _ in range(capture.WARM_UP + 2):
        function(kept[0])
    before = graphs()
    for x in kept[8:]:
        assert function(x).cpu().allclose(rounds(x.cpu()), atol=1e-5)
    assert graphs() - before == len(kept) - 8


def test_addresses_that_never_settle_end_in_plain_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "PATIENCE", 0)

    @tj.compile
    def function(state: Any, x: Any) -> None:
        state.copy_(rounds(state + x))

    kept = [tj.zeros(7).cuda() for _ in range(2 * capture.CAPTURES)]
    x = tj.randn(7).cuda()
    for number in range(0, len(kept), 2):  # what is written to has no other place
        for state in kept[number : number + 2]:
            for _ in range(capture.WARM_UP + 2):
                function(state, x)
    before = graphs()
    for state in kept[:5]:
        function(state, x)
    assert graphs() == before
