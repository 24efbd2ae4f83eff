"""Memory of devices, what they are, streams and pinned memory under PyTorch's names."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import stand_in
import stand_in_arrays

import tracejit as tj
from tracejit.errors import DeviceError, OutOfMemoryError

pytestmark = pytest.mark.usefixtures("gpu")
MIB = 1 << 20


def test_what_is_allocated_now_and_at_most() -> None:
    x = tj.zeros(MIB, device="cuda")
    tj.cuda.reset_peak_memory_stats()
    before = tj.cuda.memory_allocated()
    y = [tj.zeros(MIB, device="cuda") for _ in range(3)]
    del y
    assert tj.cuda.memory_allocated() == before
    assert tj.cuda.max_memory_allocated() >= before + 12 * MIB
    assert tj.cuda.max_memory_reserved() >= tj.cuda.max_memory_allocated()
    found = tj.cuda.memory_stats()
    assert found["allocated_bytes.all.current"] == before
    assert found["allocated_bytes.all.peak"] == tj.cuda.max_memory_allocated()
    assert "reserved_bytes.all.peak" in tj.cuda.memory_summary()
    tj.cuda.reset_peak_memory_stats()
    assert tj.cuda.max_memory_allocated() == before
    assert tj.cuda.memory_allocated("cuda:1") == 0
    del x


def test_peaks_are_those_of_asking_at_every_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool is asked seldom, and yet the maximum is exact."""
    asked, highest = [0], 0
    pool = stand_in_arrays.Pool
    exact = pool.used_bytes
    tj.zeros(1, device="cuda")
    tj.cuda.reset_peak_memory_stats()
    tj.cuda.memory_allocated()

    def counted(self: Any) -> int:
        asked[0] += 1
        return exact(self)

    monkeypatch.setattr(pool, "used_bytes", counted)
    kept: list[Any] = []
    for k in range(200):
        kept.append(tj.empty(1000 + 17 * k % 300, device="cuda"))
        highest = max(highest, exact(stand_in_arrays.POOL))
        if len(kept) > 5 + k % 7:
            del kept[: len(kept) // 2]
    assert asked[0] < 100
    assert tj.cuda.max_memory_allocated() == highest


def test_memory_of_the_driver_and_a_share_of_it() -> None:
    free, total = tj.cuda.mem_get_info()
    assert total == stand_in.TOTAL
    x = tj.zeros(MIB, device="cuda")
    assert tj.cuda.mem_get_info()[0] <= free - 4 * MIB
    tj.cuda.set_per_process_memory_fraction(0.01)
    with pytest.raises(OutOfMemoryError, match=r"16,777,216 bytes are wanted on cuda:0"):
        tj.zeros(4 * MIB, device="cuda")
    tj.cuda.set_per_process_memory_fraction(1.0)
    assert tj.zeros(4 * MIB, device="cuda").numel() == 4 * MIB
    with pytest.raises(ValueError, match="Invalid fraction value: 2"):
        tj.cuda.set_per_process_memory_fraction(2)
    del x


def test_an_error_of_memory_names_the_next_step_wherever_it_happens() -> None:
    x = tj.zeros(MIB, device="cuda")
    stand_in_arrays.POOL.limit = 5 * MIB
    for wanting in (
        lambda: tj.empty(MIB, device="cuda"),
        lambda: tj.zeros(MIB).cuda(),
        lambda: tj.rand(MIB, device="cuda"),
    ):
        with pytest.raises(OutOfMemoryError, match=r"out of memory[\s\S]*empty_cache"):
            wanting()
    assert issubclass(tj.cuda.OutOfMemoryError, DeviceError)
    assert issubclass(tj.cuda.OutOfMemoryError, RuntimeError)
    del x


def test_what_a_device_is() -> None:
    found = tj.cuda.get_device_properties("cuda:1")
    assert (found.name, found.major, found.minor) == ("stand-in 1", 9, 0)
    assert (found.total_memory, found.multi_processor_count) == (stand_in.TOTAL, 132)
    assert tj.cuda.is_bf16_supported()
    assert tj.cuda.is_bf16_supported(including_emulation=False)
    assert tj.cuda.is_tf32_supported()
    assert tj.cuda.can_device_access_peer(0, 1)
    with pytest.raises(DeviceError, match="cuda:7"):
        tj.cuda.get_device_properties(7)


def test_contexts_and_streams() -> None:
    tj.cuda.init()
    assert tj.cuda.is_initialized()
    with tj.cuda.device_of(tj.ones(2, device="cuda:1")):
        assert tj.cuda.current_device() == 1
        with tj.cuda.device_of(tj.ones(2)), tj.cuda.device(None):
            assert tj.cuda.current_device() == 1
    assert tj.cuda.current_device() == 0
    own = tj.cuda.Stream()
    with tj.cuda.StreamContext(own):
        assert tj.cuda.current_stream() == own
    tj.cuda.set_stream(own)
    assert tj.cuda.current_stream() == own
    tj.cuda.set_stream(tj.cuda.default_stream())
    assert not tj.cuda.is_current_stream_capturing()


def test_without_a_device_there_are_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracejit.cuda import devices, driver

    reason = "no NVIDIA driver is installed"
    monkeypatch.setattr(driver, "probe", lambda: driver.Probe(None, 0, reason, -1))
    for answer in (tj.cuda.is_bf16_supported, tj.cuda.is_tf32_supported):
        assert answer() is False
    with pytest.raises(DeviceError, match=reason):
        devices.number_of(0)


def test_memory_that_another_stream_uses_is_kept_until_it_is_done(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in.Event, "done", False)
    before = tj.cuda.memory_allocated()
    x = tj.ones(1000, device="cuda")
    x[1:].record_stream(tj.cuda.Stream())
    del x
    tj.ones(1, device="cuda")
    assert tj.cuda.memory_allocated() >= before + 4000
    monkeypatch.setattr(stand_in.Event, "done", True)
    tj.ones(1, device="cuda")
    assert tj.cuda.memory_allocated() < before + 4000
    tj.ones(3).record_stream(None)


def test_memory_that_is_lent_is_waited_for_before_there_is_none_left(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in.Event, "done", False)
    x = tj.ones(1000, device="cuda")
    x.record_stream(tj.cuda.Stream())
    monkeypatch.setattr(stand_in_arrays.POOL, "limit", tj.cuda.memory_allocated() + 100)
    with pytest.raises(tj.cuda.OutOfMemoryError):
        tj.ones(900, device="cuda")
    del x
    assert tj.ones(900, device="cuda").sum().item() == 900


@pytest.mark.parametrize("dtype", [tj.float32, tj.bfloat16, tj.bool, tj.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_pinned_memory(dtype: Any, shape: tuple[int, ...]) -> None:
    x = tj.randint(0, 2, shape).to(dtype)
    kept = x.pin_memory()
    assert (x.is_pinned(), kept.is_pinned(), kept.pin_memory() is kept) == (False, True, True)
    assert kept.equal(x)
    assert kept.data_ptr() != x.data_ptr()
    assert kept.t().is_pinned() if kept.ndim == 2 else kept.view(-1).is_pinned()
    assert kept.cuda().cpu().equal(x)
    assert not (kept + kept).is_pinned()


def test_factories_of_pinned_memory() -> None:
    for make in (tj.zeros, tj.empty, tj.ones, tj.rand):
        assert make(3, pin_memory=True).is_pinned()
        assert not make(3, pin_memory=False).is_pinned()
    x = tj.full((2,), 1.5, pin_memory=True, requires_grad=True)
    assert (x.is_pinned(), x.requires_grad, x.is_leaf) == (True, True, True)
    assert tj.zeros_like(x, pin_memory=True).is_pinned()
    assert tj.tensor([1, 2], pin_memory=True).is_pinned()
    for make in (tj.zeros, tj.tensor):
        with pytest.raises(RuntimeError, match="cannot pin"):
            make([3], device="cuda", pin_memory=True)


def test_copies_of_pinned_memory_are_waited_for_unless_told() -> None:
    x, there = tj.ones(4).pin_memory(), tj.zeros(4, device="cuda")
    told: dict[str, Any] = {"non_blocking": True}
    for options, waits in (({}, 1), (told, 0)):
        for move in (
            lambda o: x.to("cuda", **o),
            lambda o: x.cuda(**o),
            lambda o: there.copy_(x, **o),
        ):
            stand_in_arrays.LOG.clear()
            assert move(options).tolist() == [1.0] * 4
            assert stand_in_arrays.LOG.count("synchronize") == waits
    stand_in_arrays.LOG.clear()
    tj.ones(4).to("cuda")  # staged by CuPy
    assert "synchronize" not in stand_in_arrays.LOG


def test_pinned_memory_is_kept_until_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_in.Event, "done", False)
    x = tj.ones(4).pin_memory()
    memory = weakref.ref(x.array)
    x.to("cuda", non_blocking=True)
    del x
    tj.ones(4, device="cuda")
    assert memory() is not None
    monkeypatch.setattr(stand_in.Event, "done", True)
    tj.ones(4, device="cuda")
    gc.collect()
    assert memory() is None


def test_batches_in_pinned_memory() -> None:
    data = tj.utils.data.TensorDataset(tj.arange(5.0), tj.arange(5))
    for x, y in tj.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        assert x.is_pinned()
        assert y.is_pinned()
    named = [{"x": tj.ones(2), "name": "a"}] * 3
    (batch,) = tj.utils.data.DataLoader(named, batch_size=3, pin_memory=True)
    assert batch["x"].is_pinned()
    assert batch["name"] == ["a"] * 3


def test_only_memory_of_the_host_can_be_pinned() -> None:
    with pytest.raises(DeviceError, match="cannot pin a tensor on cuda:0"):
        tj.ones(2, device="cuda").pin_memory()


def test_saved_tensors_lie_on_the_host() -> None:
    x = tj.randn(5, device="cuda", requires_grad=True)
    seen = tj.autograd.graph.save_on_cpu(pin_memory=True)
    with seen:
        y = (x * x).exp().sum()
    assert seen.pack_hook(x)[1].is_pinned()
    y.backward()
    assert x.grad.cpu().allclose((2 * x * (x * x).exp()).detach().cpu())
