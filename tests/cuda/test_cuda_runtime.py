"""The driver where there is none, and programs launched through the real launcher into a driver that runs PTX here."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

import cuda_programs as programs
import graph_tools as tools
import numpy as np
import ptx_machine
import ptx_parser
import pytest
from ptx_machine import MachineError
from ptx_text import parameter_types
from simulator_memory import Memory
from test_cuda_ops import same

from tracejit.codegen.cuda.launch import BLOCK, Launch, Status
from tracejit.codegen.cuda.ptx import UnsupportedArchitectureError
from tracejit.codegen.kernel import Number, Pointer, Scratch
from tracejit.cuda import driver as driver_module
from tracejit.cuda import libraries
from tracejit.cuda.driver import Driver, probe_library
from tracejit.errors import DeviceError
from tracejit.ir.graph import Graph
from tracejit.runtime.cuda import gemm, images
from tracejit.runtime.cuda.images import architecture_for, image, image_key
from tracejit.runtime.cuda.launches import launch_steps
from tracejit.runtime.cuda.program import DeviceMemory
from tracejit.runtime.launcher import Step, build_table, failure

Array = Any
RETURNED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
)


# --- the driver ------------------------------------------------------------------------------------------------------


class Library:
    """A driver library: every function succeeds unless ``codes`` says otherwise."""

    def __init__(self, devices: int = 1, **codes: int) -> None:
        self.devices, self.codes, self.calls = devices, codes, []

    def __getattr__(self, name: str) -> Any:
        def function(*arguments: Any) -> int:
            self.calls.append(name)
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = self.devices
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = {75: 9, 76: 0, 16: 132}[arguments[1]]
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"what the driver says"
            if name == "cuModuleGetFunction":
                arguments[0]._obj.value = 4711
            return self.codes.get(name, 0)

        return function


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (Library(0), "no CUDA device"),
        (Library(cuInit=100), "no CUDA device"),
        (Library(cuInit=802), "nvidia-fabricmanager"),
        (Library(cuInit=803), "reboot"),
        (Library(cuInit=999), "could not start"),
        (Library(cuInit=12345), "error 12345"),
        (Library(cuDeviceGetCount=3), "shutting down"),
    ],
)
def test_a_driver_without_devices_says_why(library: Library, reason: str) -> None:
    found = probe_library(library)
    assert found.devices == 0
    assert reason in found.reason


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_probe(found: Any) -> None:
        monkeypatch.setattr(driver_module, "probe", lambda: found)
        monkeypatch.setattr(driver_module, "_drivers", {})

    return set_probe


def test_without_a_driver_the_error_names_the_next_step(probed: Any) -> None:
    probed(driver_module.Probe(None, 0, "no NVIDIA driver is installed", os.getpid()))
    assert not driver_module.is_available()
    assert driver_module.device_count() == 0
    with pytest.raises(DeviceError, match=r"no NVIDIA driver is installed[\s\S]*device=\"cpu\""):
        driver_module.driver()


def test_a_device_that_is_not_there(probed: Any) -> None:
    probed(probe_library(Library(2)))
    assert driver_module.driver(1) is driver_module.driver(1)
    assert driver_module.driver(1).capability == (9, 0)
    assert driver_module.driver(1).multiprocessors == 132
    for index in (2, -1):
        with pytest.raises(DeviceError, match=f"no device 'cuda:{index}': 2 found"):
            driver_module.driver(index)


def test_a_forked_process_is_told(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probed(probe_library(Library()))
    used = driver_module.driver()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert driver_module.device_count() == 0
    with pytest.raises(DeviceError, match="spawn"):
        driver_module.driver()
    with pytest.raises(DeviceError, match="spawn"):
        used.synchronize()


def test_errors_of_the_driver_are_errors_with_its_words() -> None:
    for code, hint in (
        (700, "Restart the process"),
        (2, "smaller batches"),
        (209, "update the driver"),
    ):
        with pytest.raises(
            DeviceError, match=f"what the driver says .error {code}.[\\s\\S]*{hint}"
        ):
            Driver(Library(cuCtxSynchronize=code)).synchronize()
    with pytest.raises(DeviceError, match="kernel 'k' could not be loaded"):
        Driver(Library(cuModuleLoadDataEx=218)).load(b"", "k")
    assert Driver(Library()).load(b"", "k") == 4711


def _probe_in_child(queue: Any) -> None:
    queue.put((driver_module.is_available(), driver_module.why_unavailable()))


def test_the_question_has_an_answer_in_another_process() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_probe_in_child, args=(queue,))
    child.start()
    available, reason = queue.get(timeout=60)
    child.join()
    assert available == (reason == "")


# --- images ----------------------------------------------------------------------------------------------------------


def test_devices_get_machine_code_of_their_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "assembler", lambda: object())
    found = [architecture_for(c) for c in ((7, 5), (8, 0), (8, 7), (8, 9), (9, 0), (10, 3))]
    assert found == ["sm_75", "sm_80", "sm_87", "sm_89", "sm_90", "sm_100"]
    for capability in ((7, 0), (11, 0)):
        with pytest.raises(UnsupportedArchitectureError, match="not supported"):
            architecture_for(capability)
    monkeypatch.setattr(images, "assembler", lambda: None)  # PTX runs on everything newer
    assert architecture_for((11, 0)) == "sm_100"


def test_images_are_kept_by_what_they_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        'def k(x: "f32*") -> "i32":\n    threads(32)\n    x[thread()] = float32(2)\n    return 0\n'
    )
    keys = {image_key(source, a) for a in ("sm_75", "sm_80", "sm_90")}
    assert len(keys) == 3
    assert (
        image_key(source.replace("    return", "    # a remark\n    return"), "sm_90") not in keys
    )
    assert image_key(source + "  # a remark", "sm_90") != image_key(
        source.replace("2", "3"), "sm_90"
    )
    first = image(source, "k", "sm_90")
    monkeypatch.setattr(images, "ptx", None)  # a second time nothing is compiled
    assert image(source, "k", "sm_90") == first


# --- launches --------------------------------------------------------------------------------------------------------


class Device:
    """A driver's ``cuLaunchKernel`` that executes PTX on the memory of this process."""

    def __init__(self, memory: Sequence[Memory]) -> None:
        self.kernels: list[Launch] = []
        self.launched: list[str] = []
        self.memory = memory
        self.error: Exception | None = None
        self.function = RETURNED(self._guarded)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value or 0

    def load(self, launch: Launch) -> int:
        self.kernels.append(launch)
        return len(self.kernels)

    def _guarded(self, *arguments: Any) -> int:
        try:
            self._launch(*arguments)
        except (AssertionError, MachineError) as error:
            self.error = error
            return 719
        return 0

    def _launch(self, handle: int, grid: int, *rest: Any) -> None:
        *block, stream, pointers, extra = rest[2:]
        launch = self.kernels[handle - 1]
        assert (rest[:2], block, stream, extra) == ((1, 1), [BLOCK, 1, 1, 0], 0xABC, None)
        places = ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
        words = [places[i][0] for i in range(len(launch.parameters))]
        kernel = ptx_parser.parse(tools.ptx_of(launch.source, launch.name, "sm_90"))
        kinds = parameter_types(launch.source)
        machine = ptx_machine.Machine(kernel, grid, BLOCK, [0] * len(words))
        for (name, _), word, kind in zip(kernel.parameters, words, kinds, strict=True):
            narrow = np.uint32 if kind in ("f32", "u32") else np.uint64
            machine.parameters[name] = np.array(word & int(np.iinfo(narrow).max), narrow)
        for memory in self.memory:
            machine.buffers.append(memory.array.view(np.uint8))
            machine.starts.append(memory.array.ctypes.data)
        machine.run()
        self.launched.append(launch.source)


def queued(graph: Graph, misaligned: bool) -> tuple[list[Array], list[Array], Device]:
    """A program of kernels only, run step by step and as one table; both results."""
    prepared = tools.prepare(graph, programs.inputs_of(graph))
    expected = tools.Run(prepared, misaligned).execute(tools.device_way(tools.as_ptx("sm_90")))
    run = tools.Run(prepared)
    slots: list[int] = [0xABC]
    memory: list[Memory] = []
    placed: dict[int, int] = {}

    def place(found: Memory, origin: int) -> tuple[int, int]:
        itemsize = found.array.dtype.itemsize
        if id(found) not in placed:
            block = np.zeros(found.array.nbytes + 64, np.uint8)
            start = -block.ctypes.data % 32 + (itemsize if misaligned else 0)
            moved = block[start : start + found.array.nbytes].view(found.array.dtype)
            moved[:] = found.array
            found.array = moved
            placed[id(found)] = len(slots)
            memory.append(found)
            slots.append(moved.ctypes.data)
        return placed[id(found)], origin * itemsize

    def argument(parameter: Any) -> tuple[int, int]:
        if isinstance(parameter, Number):
            return (-1, parameter.bits)
        if isinstance(parameter, Pointer):
            root = run.materialised(parameter.value)
            return place(root, root.origin + parameter.offset // root.array.dtype.itemsize)
        assert isinstance(parameter, (Status, Scratch))
        return place(run.parameter(parameter, ""), 0)

    device = Device(memory)
    steps: list[Step] = []
    for group in prepared.schedule.groups:
        run.scratch = {}
        code = tools.device_code(prepared, group, prepared.schedule.outputs[group])
        for choices in code.steps:
            handles = [device.load(launch) for launch in choices]
            steps += launch_steps(choices, handles, argument, (0, 0), device.address)
    table = build_table(steps)
    code = table.run_slots(0, table.n_steps, *slots)
    assert (code, device.error) == (0, None)
    return expected, run.outputs(), device


#: Programs all of whose graphs have rows of a multiple of four, or flat operands.
VECTORS = ("softmax", "layer_norm", "statistics")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("misaligned", [False, True], ids=["aligned", "misaligned"])
@pytest.mark.parametrize(
    "name", ["softmax", "layer_norm", "cross_entropy", "statistics", "columns"]
)
def test_one_native_call_queues_a_program(name: str, misaligned: bool) -> None:
    for graph in programs.graphs(name):
        expected, found, device = queued(graph, misaligned)
        assert all(same(a, b) for a, b in zip(expected, found, strict=True))
        vectors = [source for source in device.launched if "load4" in source or "store4" in source]
        assert not (vectors and misaligned)
        assert vectors or misaligned or name not in VECTORS


def test_an_error_of_a_launch_ends_the_program() -> None:
    launch = Launch("k", "", (), 3)
    codes = [0, 719, 0]
    called: list[int] = []

    def fake(handle: int, grid: int, *rest: Any) -> int:
        called.append(handle)
        assert grid == 3
        return codes[handle - 1]

    function = RETURNED(fake)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    steps = [launch_steps([launch], [h], lambda p: (-1, 0), (0, 0), address)[0] for h in (1, 2, 3)]
    table = build_table(steps)
    assert failure(table.run_slots(0, 3, 0)) == (1, 719)
    assert called == [1, 2]


def test_nothing_is_launched_for_nothing() -> None:
    def fake(*arguments: Any) -> int:
        raise AssertionError("launched")

    function = RETURNED(fake)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    steps = launch_steps([Launch("k", "", (), 0)], [1], lambda p: (-1, 0), (0, 0), address)
    assert build_table(steps).run_slots(0, 1, 0) == 0


def test_the_installed_cublas_is_called_as_it_wants_to_be() -> None:
    """Its own functions answer that a handle was never made, and the answer is known as cuBLAS's."""
    found = gemm.cublas()
    if found is None:
        pytest.skip("cuBLAS is not installed")
    here = (0, 0)
    words = dict.fromkeys(("a", "b", "c", "handle", "stream", "compute", "workspace"), here)
    sizes = {"m": 2, "n": 3, "k": 4, "lda": 4, "ldb": 3, "ldc": 3, "batch": 1}
    steps = {"stride_a": 0, "stride_b": 0, "stride_c": 6, "trans_a": False, "trans_b": False}
    step = gemm.gemm_step(gemm.DeviceGemm("f32", **sizes, **steps, **words))
    assert step is not None
    table = build_table([step])
    assert failure(table.run_slots(0, table.n_steps, 0)) == (0, gemm.CUBLAS | 1)


@pytest.mark.parametrize("name", ["m", "n", "k", "lda", "ldb", "ldc", "batch"])
def test_products_that_cublas_has_no_numbers_for_are_refused(name: str, gpu: Any) -> None:
    """Its sizes have 32 bits: what is larger must not be cut off."""
    words = dict.fromkeys(("a", "b", "c", "handle", "stream", "compute", "workspace"), (0, 0))
    sizes = {"m": 2, "n": 3, "k": 4, "lda": 4, "ldb": 3, "ldc": 3, "batch": 1} | {name: 1 << 31}
    steps = {"stride_a": 0, "stride_b": 0, "stride_c": 6, "trans_a": False, "trans_b": False}
    step = gemm.gemm_step(gemm.DeviceGemm("f32", **sizes, **steps, **words))
    assert step is not None
    table = build_table([step])
    code = table.run_slots(0, table.n_steps, 0)
    assert failure(code) == (0, gemm.CUBLAS | gemm.TOO_LARGE)
    with pytest.raises(DeviceError, match=r"have to be below 2\*\*31"):
        DeviceMemory(0).fail(code)


def test_libraries_are_of_the_generation_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def library(path: str) -> Any:
        asked.append(path)
        raise OSError

    monkeypatch.setattr(libraries.ctypes, "CDLL", library)
    assert libraries.load_library("cublas", "12") is None
    assert asked[0] == "libcublas.so.12"
    assert not [path for path in asked if ".so.13" in path]
    assert libraries.load_library("cublas") is None
    assert "libcublas.so.13" in asked
