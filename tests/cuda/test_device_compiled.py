"""Compiled functions on a device, from the recorded call to kernels: the real plans, launcher and PTX."""

from __future__ import annotations

from typing import Any

import cuda_programs as programs
import numpy as np
import pytest
import stand_in_arrays

import tracejit as tj
from tracejit.trace.state import reads as state_reads

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional
CLOSE = {tj.float32: 2e-5, tj.float64: 1e-12, tj.float16: 4e-3, tj.bfloat16: 3e-2}


def moved(value: Any, device: str) -> Any:
    if not isinstance(value, tj.Tensor):
        return value
    return value.detach().to(device).requires_grad_(value.requires_grad)


def close(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    assert found.dtype is expected.dtype
    a, b = (t.detach().cpu().to(tj.float64).numpy() for t in (found, expected))
    size = np.sqrt(np.mean(np.square(b))) if b.size else 0.0
    limit = max(CLOSE.get(found.dtype, 0.0), tolerance)
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit * float(size))


def run(function: Any, make: Any, device: str, backward: bool, calls: int) -> list[tj.Tensor]:
    for _ in range(calls):
        tj.manual_seed(0)
        arguments = [moved(x, device) for x in make()]
        result = function(*arguments)
        if backward:
            result.backward()
    results = [result] if isinstance(result, tj.Tensor) else list(result)
    grads = [x.grad for x in arguments if isinstance(x, tj.Tensor) and x.requires_grad]
    assert all(t.device.type == device for t in (*results, *grads) if t is not None)
    return [*results, *(g for g in grads if g is not None)]


#: Programs that round to half precision on the way to float32 results.
HALF = {"float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_compiled_on_a_device_is_eager_on_the_host(name: str, library: Any) -> None:
    program = programs.PROGRAMS[name]
    expected = run(program.function, program.arguments, "cpu", program.backward, 1)
    compiled = tj.compile(program.function, strict=True)
    found = run(compiled, program.arguments, "cuda", program.backward, 3)
    assert compiled.stats.compiled_calls == 2, compiled.explain()
    assert library.launched
    for a, b in zip(found, expected, strict=True):
        close(a, b, HALF.get(name, 0.0))


def test_guards_choose_among_branches(library: Any) -> None:
    @tj.compile(strict=True)
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return (x * 2).relu()
        return (x - 2).exp()

    for values in ([1.0, -1.0, 2.0], [-3.0, -2.0, -1.0]) * 3:
        x = tj.tensor(values)
        expected = (x * 2).relu() if x.sum() > 0 else (x - 2).exp()
        close(f(x.cuda()), expected)
    assert f.stats.compiled_calls == 4
    assert "on cuda:0: a call waits for the device at 1 guard(s)" in str(f.explain())


@pytest.mark.parametrize("backward", [False, True])
def test_few_elements_are_reduced_by_one_launch(backward: bool, library: Any) -> None:
    f = tj.compile(lambda x: ((x * 2).exp().sum() + 1).log(), strict=True)
    for size, launches in ((3, 1), (4096, 1), (4097, 2), (9000, 2), (5, 1)):
        x = tj.linspace(-1, 1, size)
        expected = ((x * 2).exp().sum() + 1).log()
        for _ in range(2):
            there = x.cuda().requires_grad_(backward)
            before = len(library.launched)
            found = f(there)
            counted = len(library.launched) - before
        close(found, expected)
        assert counted == launches, (size, library.launched[before:])


def test_sizes_share_a_plan_and_kernels(library: Any) -> None:
    f = tj.compile(lambda x, w: ((x @ w).softmax(-1) + 1).sum(0), strict=True, dynamic=False)
    for rows in (5, 7, 9, 12):
        for _ in range(2):
            x, w = tj.randn(rows, 6), tj.randn(6, 10)
            close(f(x.cuda(), w.cuda()), ((x @ w).softmax(-1) + 1).sum(0))
    assert f.plans.made == 1
    assert len(library.images) == len({k.source for k in f.kernels} | set(library.images))


def test_one_recording_serves_all_sizes(library: Any) -> None:
    f = tj.compile(lambda x, w: ((x @ w).softmax(-1) + 1).sum(0), strict=True)
    for rows in (5, 7, 9, 12, 20, 11):
        x, w = tj.randn(rows, 6), tj.randn(6, 10)
        mine = x.cuda().requires_grad_()
        found = f(mine, w.cuda())
        close(found, ((x @ w).softmax(-1) + 1).sum(0))
        found.sum().backward()
        assert mine.grad.is_cuda
    assert f.stats.recordings == 3
    assert library.launched


def test_host_and_device_calls_are_two_signatures() -> None:
    f = tj.compile(lambda x: (x * 3).sigmoid() + 1, strict=True)
    x = tj.randn(7)
    for device in ("cpu", "cuda", "cpu", "cuda", "cuda:1", "cuda:1"):
        found = f(x.to(device))
        assert str(found.device) in (device, f"{device}:0")
        close(found, (x * 3).sigmoid() + 1)
    assert f.stats.compiled_calls == 3


def test_writes_in_place_and_numbers_of_the_host() -> None:
    @tj.compile(strict=True)
    def f(x: Any, rate: float, scale: Any) -> Any:
        x.mul_(rate)
        x[1:].add_(1)
        return (x * scale).sum()

    x, y = tj.arange(4.0).cuda(), tj.arange(4.0)
    scale = tj.tensor(3.0)
    for rate in (2.0, 2.0, 0.5, 0.25):
        y = tj.cat([y[:1] * rate, y[1:] * rate + 1])
        close(f(x, rate, scale), (y * 3.0).sum())
        assert x.tolist() == y.tolist()


def test_random_numbers_are_those_of_the_host() -> None:
    f = tj.compile(lambda x: F.dropout(x, 0.4) + tj.rand_like(x), strict=True)
    x = tj.ones(50)
    tj.manual_seed(5)
    expected = [F.dropout(x, 0.4) + tj.rand_like(x) for _ in range(3)]
    tj.manual_seed(5)
    found = [f(x.cuda()) for _ in range(3)]
    for a, b in zip(found, expected, strict=True):
        assert a.tolist() == b.tolist()


def test_refused_indices_are_the_error_of_eager_code() -> None:
    @tj.compile
    def f(x: Any, y: Any) -> Any:
        return F.cross_entropy(x * 2, y)

    x = tj.randn(4, 5).cuda()
    for target in (1, 2):
        y = tj.full((4,), target).cuda()
        close(f(x, y), F.cross_entropy(x.cpu() * 2, y.cpu()))
    with pytest.raises(IndexError, match="7 is out of bounds"):
        f(x, tj.full((4,), 7).cuda())
    close(f(x, tj.full((4,), 3).cuda()), F.cross_entropy(x.cpu() * 2, tj.full((4,), 3)))
    assert f.stats.compiled_calls == 2


def test_work_on_two_devices_stays_eager() -> None:
    f = tj.compile(lambda x, y: (x * 2, y * 2))
    g = tj.compile(lambda x: x.cpu() * 2)
    for _ in range(3):
        a, b = f(tj.ones(2).cuda(), tj.ones(2))
        assert (a.device.type, b.device.type) == ("cuda", "cpu")
        assert g(tj.ones(2).cuda()).device.type == "cpu"
    assert "several devices" in str(f.explain())
    assert "between devices" in str(g.explain())
    assert f.stats.compiled_calls == g.stats.compiled_calls == 0


def test_arrays_that_numpy_draws_stay_on_the_host() -> None:
    functions = [
        lambda x: x + tj.from_numpy(np.random.rand(2)).to(x.device),
        lambda x: x + tj.from_numpy(np.random.rand(2)).float()[1].item(),
        lambda x: x[np.random.permutation(2)],
    ]
    for function in functions:
        f = tj.compile(function)
        for _ in range(4):
            x = tj.rand(2).cuda()
            np.random.seed(3)
            found = f(x)
            np.random.seed(3)
            close(found, function(x))


def step_of(model: Any, optimizer: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_whole_training_step(name: str, library: Any) -> None:
    losses = {}
    for device in ("cpu", "cuda"):
        tj.manual_seed(0)
        model = tj.nn.Sequential(tj.nn.Linear(6, 8), tj.nn.GELU(), tj.nn.Linear(8, 3)).to(device)
        optimizer = getattr(tj.optim, name)(model.parameters(), lr=0.1)
        step = step_of(model, optimizer)
        step = tj.compile(step, strict=True) if device == "cuda" else step
        x, y = tj.randn(10, 6).to(device), tj.randint(0, 3, (10,)).to(device)
        losses[device] = [step(x, y).item() for _ in range(5)]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-5)
    assert step.stats.compiled_calls == 4
    assert library.products


def test_precision_of_products_is_chosen_at_each_call(library: Any) -> None:
    f = tj.compile(lambda x: x @ x, strict=True)
    x = tj.randn(4, 4).cuda()
    for precision in ("highest", "highest", "high", "highest"):
        tj.set_float32_matmul_precision(precision)
        try:
            f(x)
        finally:
            tj.set_float32_matmul_precision("highest")
    assert library.products == [68, 77, 68]


def test_without_cublas_products_run_op_by_op(
    monkeypatch: pytest.MonkeyPatch, library: Any
) -> None:
    from tracejit.runtime.cuda import gemm

    monkeypatch.setattr(gemm, "cublas", lambda: None)
    f = tj.compile(lambda x: (x @ x).relu() + 1, strict=True)
    x = tj.randn(4, 4)
    for _ in range(2):
        close(f(x.cuda()), (x @ x).relu() + 1)
    assert not library.products


def test_verification_and_double_backward() -> None:
    f = tj.compile(lambda x: (x.exp() * x).sum(), strict=True, verify=True)
    for _ in range(2):
        x = tj.randn(6).cuda().requires_grad_()
        (grad,) = tj.autograd.grad(f(x), x, create_graph=True)
        (second,) = tj.autograd.grad(grad.sum(), x)
        close(second, (x.detach().exp() * (x.detach() + 2)).cpu())


def test_a_launch_that_fails_is_an_error_and_not_an_eager_run(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tj.compile(lambda x: (x * 2).exp())
    x = tj.ones(8).cuda()
    f(x), f(x)

    def launch(*arguments: Any) -> None:
        raise RuntimeError("a kernel faulted")

    monkeypatch.setattr(library, "_launch", launch)
    with pytest.raises(tj.errors.DeviceError, match=r"step 0 of a program could not be queued"):
        f(x)
    library.errors.clear()
    monkeypatch.undo()


def test_memory_that_is_not_there_is_an_error_with_a_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = tj.compile(lambda x: (x * 2).exp())
    x = tj.ones(1000).cuda()
    f(x), f(x)
    monkeypatch.setattr(stand_in_arrays.POOL, "limit", 100)
    with pytest.raises(
        tj.errors.DeviceError, match=r"out of memory: 4,000 bytes[\s\S]*smaller batches"
    ):
        f(x)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["softmax", "digits", "mlp", "adam_chain", "layer_norm"])
def test_graphs_compute_what_programs_do(name: str) -> None:
    def chain(x: Any, scale: Any) -> Any:
        for _ in range(3):
            x = (x - x.mean()).tanh() * scale
        return x.square().sum()

    own = (chain, lambda: (tj.randn(9).requires_grad_(), tj.tensor(0.5)))
    program = programs.PROGRAMS.get(name)
    function, make = (program.function, program.arguments) if program else own
    captured = tj.compile(function, strict=True, mode="reduce-overhead")
    kept = []
    for call in range(8):
        tj.manual_seed(call)
        given = [
            x if i else x + 0.01 * call if x.is_floating_point() else x
            for i, x in enumerate(make())
        ]
        results = []
        for device, run_it in (("cpu", function), ("cuda", captured)):
            arguments = [moved(x, device) for x in given]
            loss = run_it(*arguments)
            loss.backward() if loss.requires_grad else None
            results.append([loss, *(x.grad for x in arguments if x.grad is not None)])
        for a, b in zip(results[1], results[0], strict=True):
            close(a, b, 1e-4)
        kept.append((results[1][0], results[0][0]))
    for a, b in kept:  # later calls left the results of earlier ones alone
        close(a, b, 1e-4)
    assert captured.stats.compiled_calls == 7
    waits = any(p.plan.refuses for e in captured._all() for p in e.programs())
    assert ("graph" in stand_in_arrays.LOG) or waits


def test_graphs_of_updates_in_place_write_where_the_tensors_lie() -> None:
    @tj.compile(strict=True, mode="reduce-overhead")
    def f(x: Any, y: Any) -> Any:
        x.mul_(0.5)
        x.add_(y)
        return (x - x.mean()).tanh()

    x, expected = tj.arange(6.0).cuda(), tj.arange(6.0)
    for _ in range(8):
        y = tj.randn(6)
        expected = expected * 0.5 + y
        close(f(x, y.cuda()), (expected - expected.mean()).tanh(), 1e-4)
        close(x, expected, 1e-4)
    other = tj.ones(6).cuda()  # the graph does not fit: the program runs plainly
    f(other, tj.zeros(6).cuda())
    assert other.tolist() == [0.5] * 6
    assert "graph" in stand_in_arrays.LOG


def test_a_whole_training_step_is_a_program_of_the_device() -> None:
    """Recording one calls functions of CuPy, which are a library's and not the user's."""
    assert state_reads.is_numeric("cupy._creation.from_data")
    model = tj.nn.Linear(4, 3).to("cuda")
    optimizer = tj.optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = tj.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = tj.compile(step, strict=True)
    x, y = tj.randn(5, 4).cuda(), tj.randint(0, 3, (5,)).cuda()
    losses = [compiled(x, y).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert compiled.stats.compiled_calls >= 3
