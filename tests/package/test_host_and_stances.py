"""The host as a device, what is said to the compiler, and rarer names of PyTorch's programs."""

from __future__ import annotations

import sys

import pytest
from tracejit.cpu.amp import GradScaler, autocast

import tracejit as tj
from tracejit import nn


def test_the_host_is_a_module_like_those_of_other_devices():
    assert sys.modules["tracejit.cpu"] is tj.cpu is tj.get_device_module("cpu")
    assert (tj.cpu.is_available(), tj.cpu.device_count(), tj.cpu.current_device()) == (
        True,
        1,
        "cpu",
    )
    with autocast(dtype=tj.bfloat16):
        assert (tj.ones(2, 2) @ tj.ones(2, 2)).dtype is tj.bfloat16
    with autocast(enabled=False):
        assert (tj.ones(2, 2) @ tj.ones(2, 2)).dtype is tj.float32
    assert GradScaler(init_scale=4.0).scale(tj.ones(())) == 4.0


def test_streams_of_the_host_nest():
    outer, inner, first = tj.cpu.Stream(), tj.cpu.Stream(), tj.cpu.current_stream()
    with tj.cpu.stream(outer):
        again = tj.cpu.stream(inner)
        with again, tj.cpu.stream(None):
            assert tj.cpu.current_stream() is inner
        assert tj.cpu.current_stream() is outer
    assert tj.cpu.current_stream() is first
    event = tj.cpu.Event()
    event.record(outer)
    assert event.query()


def test_a_stance_holds_until_another_one_is_taken():
    before = tj.config.disabled
    tj.compiler.set_stance("force_eager")
    try:
        assert tj.config.disabled
    finally:
        tj.compiler.set_stance("default")
    assert tj.config.disabled == before
    with pytest.raises(RuntimeError, match="stance 'bogus'"):
        tj.compiler.set_stance("bogus")
    assert tj.config.disabled == before


def test_a_stance_holds_for_a_block_and_for_a_decorated_function():
    double = tj.compile(lambda x: x * 2)
    x = tj.arange(3.0)

    @tj.compiler.set_stance("force_eager")
    def eagerly():
        return tj.config.disabled, double(x)

    assert not tj.config.disabled
    for _ in range(3):
        assert double(x).tolist() == [0.0, 2.0, 4.0]
        with tj.compiler.set_stance("force_eager"):
            assert tj.config.disabled
            assert double(x).tolist() == [0.0, 2.0, 4.0]
        assert not tj.config.disabled
        disabled, result = eagerly()
        assert disabled
        assert result.tolist() == [0.0, 2.0, 4.0]
        assert not tj.config.disabled


def test_regions_and_substitutes_are_the_functions_themselves():
    @tj.compiler.nested_compile_region
    def part(x):
        return x.sin()

    f = tj.compile(lambda x: part(part(x)), strict=True)
    x = tj.tensor([0.5])
    assert all(f(x) == x.sin().sin() for _ in range(3))
    assert tj.compiler.substitute_in_graph(max)(part) is part


class _Batches(tj.utils.data.Dataset):
    def __init__(self):
        self.asked = []

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index * 10

    def __getitems__(self, indices):
        self.asked.append(indices)
        return [i * 10 for i in indices]


def test_a_subset_reads_batches_at_once_where_its_dataset_does():
    data = _Batches()
    loader = tj.utils.data.DataLoader(tj.utils.data.Subset(data, [3, 5, 7]), batch_size=2)
    assert [x.tolist() for x in loader] == [[30, 50], [70]]
    assert data.asked == [[3, 5], [7]]
    plain = tj.utils.data.Subset(list(range(0, 100, 10)), [3, 5, 7])
    assert plain.__getitems__([0, 2]) == [30, 70]


def test_generators_are_cloned_with_their_state():
    one = tj.Generator().manual_seed(5)
    tj.rand(3, generator=one)
    other = one.clone_state()
    assert tj.equal(tj.rand(3, generator=one), tj.rand(3, generator=other))


def test_prefixes_of_wrappers_are_stripped_from_a_state():
    strip = nn.modules.utils.consume_prefix_in_state_dict_if_present
    inner = nn.Sequential(nn.Linear(2, 2))
    wrapper = nn.Module()
    wrapper.module = inner
    state = wrapper.state_dict()
    strip(state, "module.")
    assert list(state) == list(inner.state_dict())
    assert dict(state._metadata) == dict(inner.state_dict()._metadata)
    inner.load_state_dict(state)


def test_a_batch_is_seen_through_its_samples():
    shapes = []

    def look(x):
        shapes.append(tuple(tj.func.debug_unwrap(x).shape))
        return x * 2

    assert tj.vmap(look)(tj.ones(2, 3)).shape == (2, 3)
    assert shapes == [(2, 3)]
    assert tj.func.debug_unwrap(tj.ones(3)).shape == (3,)


def test_multithreading_may_be_set_and_changes_nothing():
    with tj.autograd.set_multithreading_enabled(False):
        x = tj.ones(2, requires_grad=True)
        (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_compiler_is_asked_for_by_its_module():
    f = tj.compiler.compile(lambda x: x * 3, strict=True)
    assert [f(tj.ones(1)).item() for _ in range(3)] == [3.0] * 3
    assert isinstance(f, tj.CompiledFunction)


MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
ASKED = (*MEMORY, "memory_stats", "get_memory_info", "reset_peak_memory_stats", "empty_cache")


@pytest.mark.parametrize("name", [*ASKED, "current_stream"])
def test_without_an_accelerator_its_memory_is_an_error(monkeypatch, name):
    monkeypatch.setattr(tj.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="when none is available"):
        getattr(tj.accelerator, name)()
    with pytest.raises(RuntimeError, match="when none is available"):
        tj.accelerator.device_index(0)
    with tj.accelerator.device_index(None):
        assert not tj.accelerator.is_available()


def test_an_accelerator_is_asked_as_gpus_are(monkeypatch):
    asked = []
    monkeypatch.setattr(tj.cuda, "is_available", lambda: True)
    for number, name in enumerate(MEMORY):
        monkeypatch.setattr(tj.cuda, name, lambda device, n=number: asked.append(device) or n)
    monkeypatch.setattr(tj.cuda, "mem_get_info", lambda device: (1, 2))
    monkeypatch.setattr(tj.cuda, "memory_stats", lambda device: {"in use": device})
    monkeypatch.setattr(tj.cuda, "reset_peak_memory_stats", asked.append)
    monkeypatch.setattr(tj.cuda, "empty_cache", lambda: asked.append("empty"))
    assert [getattr(tj.accelerator, name)(3) for name in MEMORY] == [0, 1, 2, 3]
    assert tj.accelerator.get_memory_info() == (1, 2)
    assert tj.accelerator.memory_stats(1) == {"in use": 1}
    tj.accelerator.reset_peak_memory_stats(5)
    tj.accelerator.empty_cache()
    assert asked == [3, 3, 3, 3, 5, "empty"]


def test_every_layer_is_in_the_modules_too():
    layers = [getattr(nn, name) for name in nn.__all__]
    layers = [x for x in layers if isinstance(x, type) and issubclass(x, nn.Module)]
    assert len(layers) > 100
    missing = [x for x in layers if not hasattr(nn.modules, x.__name__)]
    assert missing == [nn.DataParallel]  # of nn.parallel
    assert nn.modules.loss.LinearCrossEntropyLoss is nn.LinearCrossEntropyLoss
