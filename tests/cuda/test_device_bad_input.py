"""What can be wrong with a machine or a call: errors that name the next step, and nothing runs on the host."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
import stand_in_arrays

import tracejit as tj
from tracejit.cuda import arrays, driver
from tracejit.errors import DeviceError
from tracejit.runtime.cuda.images import architecture_for

F = tj.nn.functional


def program(x: Any) -> Any:
    return (x * 2).exp().sum()


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = driver.Probe(None, 0, "no NVIDIA driver is installed (libcuda.so.1 was not found)", 0)
    monkeypatch.setattr(driver, "probe", lambda: found)
    for call in (
        lambda: tj.ones(2).cuda(),
        lambda: tj.rand(2, device="cuda"),
        lambda: tj.cuda.Stream(),
        lambda: tj.cuda.synchronize(),
        lambda: tj.compile(program)(tj.ones(2).to("cuda")),
    ):
        with pytest.raises(DeviceError, match=r"no NVIDIA driver[\s\S]*Use device=\"cpu\""):
            call()
    assert not tj.cuda.is_available()


def test_no_driver_is_no_wait() -> None:
    """In a fresh process with no library to be found: an answer at once, never a hang."""
    code = "import tracejit as tj; print(tj.cuda.is_available()); tj.ones(2).cuda()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert (done.returncode, done.stdout.strip()) == (1, "False")
    assert "DeviceError: no GPU can be used" in done.stderr


def test_no_array_library(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays.MODULES.clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"need CuPy[\s\S]*pip install \"tracejit\[cuda13\]\""):
        tj.ones(2).cuda()


def test_no_cublas_is_slower_and_right(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracejit.runtime.cuda import gemm

    monkeypatch.setattr(gemm, "cublas", lambda: None)
    f = tj.compile(lambda x: tj.cat([x @ x, x], 1), strict=True)
    x = tj.randn(3, 3)
    for _ in range(2):
        assert f(x.cuda()).cpu().allclose(tj.cat([x @ x, x], 1), atol=1e-6)


@pytest.mark.parametrize("capability", [(5, 2), (7, 0)])
def test_an_architecture_that_is_too_old(
    gpu: Any, library: Any, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    monkeypatch.setattr(driver.Driver, "capability", capability)
    with pytest.raises(
        ValueError, match=r"compute capability \d.\d is not supported.*sm_75[\s\S]*Use one"
    ):
        architecture_for(capability)
    f = tj.compile(program)
    x = tj.ones(4).cuda()
    f(x)
    with pytest.warns(tj.errors.CompileWarning, match="runs eagerly.*is not supported"):
        assert f(x).is_cuda


def test_memory_that_is_not_there(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tj.ones(1000).cuda()
    f = tj.compile(lambda x: (x * 2).exp())
    f(x), f(x)
    monkeypatch.setattr(stand_in_arrays.POOL, "limit", 100)
    with pytest.raises(DeviceError, match=r"out of memory[\s\S]*empty_cache"):
        f(x)
    monkeypatch.setattr(stand_in_arrays.POOL, "limit", None)
    assert f(x).shape == (1000,)


def test_a_fault_that_stays(gpu: Any, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver refuses everything after it: each call says so, and none runs eagerly instead."""
    f = tj.compile(program)
    x = tj.ones(8).cuda()
    f(x), f(x)

    def launch(*_: Any) -> None:
        raise RuntimeError("a kernel faulted")

    monkeypatch.setattr(library, "_launch", launch)
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"error 719[\s\S]*Restart the process"):
            f(x)
    assert f.stats.eager_calls == 1
    library.errors.clear()


def test_every_fault_that_stays_is_called_one(gpu: Any) -> None:
    found = driver.driver(0)
    for code in (700, 702, 714, 715, 716, 717, 718, 719):
        assert "Restart the process" in str(found.error("cuLaunchKernel", code))
    assert "smaller batches" in str(found.error("cuMemAlloc", 2))
    assert "update the driver" in str(found.error("a kernel", 222))
    for code in (
        1,
        46,
        101,
        999,
        12345,
    ):  # a device that is lost while it is used, and anything else
        assert "nvidia-smi" in str(found.error("cuLaunchKernel", code))
    assert "busy or unavailable" in str(found.error("cuCtxSynchronize", 46))


def test_a_device_that_is_gone(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two devices one is left: what lay on it cannot be loaded there, but where one says."""
    x = tj.ones(3, device="cuda:1")
    data = pickle.dumps(x)
    before = driver.probe()
    one = driver.Probe(before.library, 1, "", os.getpid())
    monkeypatch.setattr(driver, "probe", lambda: one)
    for call in (
        lambda: tj.ones(2, device="cuda:1"),
        lambda: tj.ones(2).to("cuda:1"),
        lambda: tj.cuda.set_device(1),
        lambda: pickle.loads(data),
    ):
        with pytest.raises(DeviceError, match=r"no device 'cuda:1': 1 found"):
            call()


def test_a_fork_after_cuda_was_started(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(program)
    x = tj.ones(8).cuda()
    f(x), f(x)
    found = driver.probe()
    parent = driver.Probe(found.library, found.devices, "", os.getpid() + 1)
    monkeypatch.setattr(driver, "probe", lambda: parent)
    assert not tj.cuda.is_available()
    assert "forked" in tj.cuda.why_unavailable()
    with pytest.raises(DeviceError, match="forked after CUDA had been started"):
        tj.zeros(2, device="cuda")


def test_a_graph_of_the_driver_that_is_a_stub() -> None:
    """A library that only serves linking answers with an error, which is told in words."""

    class Stub:
        def cuInit(self, _: int) -> int:
            return 34

        def cuDeviceGetCount(self, count: Any) -> int:
            assert isinstance(count, type(ctypes.byref(ctypes.c_int())))
            return 34

    found = driver.probe_library(Stub())
    assert found.devices == 0
    assert "stub" in found.reason
