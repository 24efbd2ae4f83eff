"""Programs of moves, lookups, scatters and convolutions on a device, and what is around them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import parse
from tracejit.runtime.plan.records import HostCall

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional


def joined(x: Any, y: Any, i: Any) -> Any:
    return tj.cat([x.exp(), y * 2, tj.zeros(2, 3, device=x.device)]).relu()


def padded(x: Any, y: Any, i: Any) -> Any:
    return F.pad(x * 2, (1, 2, 0, 1), value=3.0).tanh() + y.repeat(2, 2)[:5, :6]


def looked_up(x: Any, y: Any, i: Any) -> Any:
    return x[i] * y + y.gather(1, (x > 0).long())


def scattered(x: Any, y: Any, i: Any) -> Any:
    places = (x > 0).long()
    found = (y * 2).scatter_add(1, places, x.exp())
    return found.index_add(0, i, x * 3)


def written(x: Any, y: Any, i: Any) -> Any:
    z = x * 2
    z[1:3] = y[1:3].sin()
    z = z.index_put((i,), y, accumulate=True)
    return z * y


def convolved(x: Any, y: Any, i: Any) -> Any:
    found = F.conv1d(x.reshape(2, 2, 3) * 2, y.reshape(3, 2, 2), padding=1)
    return found.relu() + F.conv1d(x.reshape(1, 4, 3), y[:, :2].reshape(4, 1, 2), groups=4).sum()


PROGRAMS = (joined, padded, looked_up, scattered, written, convolved)


def results(function: Any, device: str, calls: int) -> list[Any]:
    for call in range(calls):
        tj.manual_seed(call)
        x, y = (tj.randn(4, 3, dtype=tj.float64).to(device).requires_grad_() for _ in range(2))
        out = function(x, y, tj.tensor([2, 0, 3, 2]).to(device))
        (out * out).sum().backward()
    assert all(t.device.type == device for t in (out, x.grad, y.grad))
    return [t.detach().cpu().numpy() for t in (out, x.grad, y.grad)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_calls_on_a_device_are_eager_on_the_host(program: Callable[..., Any]) -> None:
    compiled = tj.compile(program, strict=True)
    expected, found = results(program, "cpu", 3), results(compiled, "cuda", 3)
    assert compiled.stats.compiled_calls == 2, compiled.explain()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_device_plans_kernels_where_the_host_does() -> None:
    from tracejit.runtime.plan.plan import make_plan

    graph = parse(
        """graph f(x: f32[4, 3], i: i64[2]) {
            %0: f32[4, 3] = exp(x)
            %1: f32[2, 3] = take(%0, i, dim=0)
            %2: f32[6, 3] = cat(%0, %1, dim=0)
            return %2
        }"""
    )
    tj.zeros(1, device="cuda")
    strides = [(3, 1), (1,)]
    host, device = make_plan(graph, strides), make_plan(graph, strides, device=0)
    assert not any(isinstance(item, HostCall) for item in host.items)
    assert not any(isinstance(item, HostCall) for item in device.items)
    assert device.refuses


def test_sizes_found_on_a_device() -> None:
    f = tj.compile(lambda x: (x[x > 0] * 2).exp().sum(), strict=True)
    for seed in range(6):
        tj.manual_seed(seed)
        x = tj.randn(9, dtype=tj.float64)
        expected = (x[x > 0] * 2).exp().sum().item()
        assert f(x.cuda()).item() == pytest.approx(expected, rel=1e-12)
    assert f.stats.compiled_calls


def test_kernels_for_a_device_are_compiled_behind_the_program() -> None:
    f = tj.compile(lambda x: (x * 2).exp().sum(), mode="background")
    x = tj.randn(7).cuda().requires_grad_()
    f(x)
    f(x).backward()
    assert f.wait(60.0)
    f(x).backward()
    assert f.stats.compiled_calls == 1, f.explain()
    assert x.grad.device.type == "cuda"


@pytest.mark.thorough
def test_profiles_of_programs_on_a_device_are_taken_by_events() -> None:
    def function(x: Any, w: Any) -> Any:
        for _ in range(20):
            x = (x @ w).tanh() + 1
        return tj.cat([x.softmax(-1), x.sort(-1).values], 0).sum()

    f = tj.compile(function)
    x, w = tj.randn(4, 4).cuda(), tj.randn(4, 4).cuda()
    expected = f(x, w).item()
    for _ in range(2):
        found = f.profile(x, w)
        kinds = {k.kind for k in found.kernels}
        assert {"device kernel", "device loop", "library call"} <= kinds, found.kernels
        assert all(k.each == 0.0005 for k in found.kernels if k.kind != "library call")
        assert all(found.distance(k) is None for k in found.kernels)
        loop = next(k for k in found.kernels if k.kind == "device loop")
        assert loop.flops >= 20 * 2 * 4**3
        assert "loop(" in str(found)
    assert f(x, w).item() == pytest.approx(expected)
    product = tj.compile(lambda x, w: x @ w)
    product(x, w)
    (only,) = product.profile(x, w).kernels
    assert (only.kind, only.flops, only.bytes) == ("device product", 2 * 4.0**3, 3 * 64.0)


def pooled(x: Any) -> Any:
    x = F.max_pool2d(x, 3, 2, 1)
    x = F.avg_pool2d(x, 2, 1) + F.adaptive_avg_pool2d(x, (2, 3))
    return F.interpolate(x.exp(), scale_factor=2, mode="bilinear")


def test_pooling_and_resampling_are_kernels() -> None:
    compiled = tj.compile(pooled, strict=True)
    x = tj.randn(2, 3, 5, 8)
    for _ in range(3):
        found = []
        for device, function in (("cpu", pooled), ("cuda", compiled)):
            given = x.clone().to(device).detach().requires_grad_()
            out = function(given)
            out.square().sum().backward()
            found.append([t.detach().cpu().numpy() for t in (out, given.grad)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    items = [i for entry in compiled._all() for p in entry.programs() for i in p.plan.items]
    assert items
    assert not any(isinstance(item, HostCall) for item in items)


def test_lengths_of_sequences_may_be_on_the_host() -> None:
    scores = tj.randn(6, 2, 4).log_softmax(-1)
    given = tj.tensor([[1, 2, 3], [2, 2, 0]]), tj.tensor([6, 5]), tj.tensor([3, 2])
    found = F.ctc_loss(scores.cuda(), *given)
    assert found.item() == pytest.approx(F.ctc_loss(scores, *given).item(), rel=1e-5)


def test_options_are_kept_by_copies() -> None:
    model = tj.compile(tj.nn.Linear(2, 2), mode="reduce-overhead", verify=True)
    again = pickle.loads(pickle.dumps(model))
    assert again.compiled.options == model.compiled.options
    assert again.compiled.capture
    assert not again.compiled.background


def test_explain_says_how_convolutions_are_computed() -> None:
    f = tj.compile(convolved, strict=True)
    results(f, "cuda", 2)
    assert "convolution: in squares, windows are not stored" in str(f.explain())
    host = tj.compile(convolved, strict=True)
    results(host, "cpu", 2)
    assert "windows" not in str(host.explain())


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16], ids=str)
def test_sums_of_half_precision_at_positions_are_kernels(dtype: Any) -> None:
    function = tj.compile(lambda x, i, y: x.index_add(0, i, y) * 2)
    x, y = tj.randn(5, 3).to(dtype), tj.randn(7, 3).to(dtype)
    i = tj.tensor([0, 4, 4, 0, 2, 4, 0])
    for _ in range(2):
        found = function(x.cuda(), i.cuda(), y.cuda())
    assert found.cpu().tolist() == (x.index_add(0, i, y) * 2).tolist()
    items = [i for e in function._all() for p in e.programs() for i in p.plan.items]
    assert items
    assert not any(isinstance(i, HostCall) for i in items)


def test_complex_numbers_are_left_to_the_library() -> None:
    """What is done by parts on the host, and transforms: nothing of it is planned for a device."""

    def f(z: Any, w: Any) -> Any:
        turned = [
            tj.exp(z * 0.5) / (w + 3),
            tj.where(z.abs() < 1, z, w),
            tj.fft.ifft(tj.fft.fft(z)),
        ]
        for _ in range(8):
            z = tj.cat([z[1:] * w[1:], w[:1]])
        return tj.cat([z, *turned, F.pad(w, (1, 2))])

    z, w = (tj.randn(6, dtype=tj.complex64) for _ in range(2))
    compiled = tj.compile(f)
    for _ in range(3):
        found = compiled(z.cuda(), w.cuda())
    assert found.is_cuda
    np.testing.assert_allclose(found.cpu().numpy(), f(z, w).numpy(), 1e-5, 1e-6)
    assert compiled.stats.compiled_calls
