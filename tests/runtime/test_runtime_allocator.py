"""The caching allocator: what is reused, what is never reused, and what is given back."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading

import numpy as np
import pytest

from process_tools import printed, python
from tracejit.runtime import allocator, pages
from tracejit.runtime.allocator import allocate, empty_cache, memory_stats, set_cache_limit

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _empty() -> None:
    gc.collect()
    empty_cache()


@pytest.fixture
def limit():
    before = allocator._state.limit
    yield set_cache_limit
    set_cache_limit(before)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 4097, 65536, 65537, MIB, 2 * MIB + 1])
def test_blocks_are_aligned_and_large_enough(nbytes: int) -> None:
    block = allocate(nbytes)
    assert block.array.nbytes >= nbytes
    assert block.array.dtype == np.uint8
    assert block.array.ndim == 1
    assert block.array.flags.writeable
    assert block.ptr == block.array.ctypes.data
    assert block.ptr % 64 == 0
    block.array[:] = 7
    assert int(block.array.sum(dtype=np.int64)) == 7 * block.array.nbytes


def test_little_is_wasted() -> None:
    generator = random.Random(0)
    for _ in range(2000):
        nbytes = int(2 ** generator.uniform(0, 40))
        size = allocator._size_class(nbytes)
        assert size % 64 == 0
        assert nbytes <= size <= max(nbytes * 1.125 + 1, nbytes + 63)
        assert allocator._size_class(size) == size


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot allocate -1"):
        allocate(-1)


def test_more_than_there_is_raises_memory_error_and_leaves_all_well() -> None:
    before = memory_stats()
    for nbytes in (1 << 50, 1 << 62, 1 << 80):
        with pytest.raises(MemoryError):
            allocate(nbytes)
    after = memory_stats()
    assert (after.allocated, after.allocations) == (before.allocated, before.allocations)
    assert allocate(100).array.nbytes == 128


@pytest.mark.parametrize("nbytes", [10, 70_000, 3 * MIB])
def test_a_dead_block_is_used_again(nbytes: int) -> None:
    block = allocate(nbytes)
    place = block.ptr
    other = allocate(nbytes)
    assert other.ptr != place
    del block
    reuses = memory_stats().reuses
    assert allocate(nbytes).ptr == place
    assert memory_stats().reuses == reuses + 1


@pytest.mark.parametrize("nbytes", [48, 70_000, 3 * MIB])
@pytest.mark.parametrize(
    "look",
    [
        lambda array: array,
        lambda array: array[:8],
        lambda array: array[:8].view(np.float32),
        lambda array: array[:48].view(np.float64)[::2].reshape(3, 1).T,
        lambda array: memoryview(array)[3:5],
        lambda array: np.broadcast_to(array[:1], (5,)),
        lambda array: [array[1:][1:]],
    ],
)
def test_memory_somebody_looks_at_is_not_used_again(look, nbytes: int) -> None:
    block = allocate(nbytes)
    block.array[:] = 5
    place = block.ptr
    view = look(block.array)
    del block
    others = [allocate(nbytes) for _ in range(5)]
    for other in others:
        assert other.ptr != place
        other.array[:] = 9
    content = view[0] if isinstance(view, list) else view
    assert set(bytes(content)) == {5}
    del others, view, content
    # With the last view the memory is free again.
    assert place in {block.ptr for block in [allocate(nbytes) for _ in range(7)]}


@pytest.mark.parametrize("nbytes", [1000, 3 * MIB])
def test_views_that_outlive_their_blocks_bring_the_memory_back(nbytes: int, limit) -> None:
    limit(16 * MIB)
    views = []
    for _ in range(100):
        block = allocate(nbytes)
        views.append(block.array[:10])
        del block
    assert memory_stats().cached == 0
    size = allocator._size_class(nbytes)
    views.clear()
    assert memory_stats().cached == min(100, 16 * MIB // size) * size
    assert not allocator._watched


def test_memory_may_outlive_its_block_again_and_again() -> None:
    places = set()
    for _ in range(20):
        block = allocate(70_000)
        places.add(block.ptr)
        view = block.array[3:]
        del block
        del view
    assert len(places) == 1


def test_counts() -> None:
    start = memory_stats()
    blocks = [allocate(1000) for _ in range(10)] + [allocate(MIB) for _ in range(2)]
    held = memory_stats()
    assert held.allocated - start.allocated == 10 * 1024 + 2 * MIB
    assert held.allocations - start.allocations == 12
    assert held.peak >= held.allocated
    blocks.clear()
    freed = memory_stats()
    assert freed.allocated == start.allocated
    assert freed.cached - start.cached == 10 * 1024 + 2 * MIB
    assert freed.peak == held.peak
    empty_cache()
    assert memory_stats().cached == 0
    assert allocator._state.cached == 0


def test_what_is_kept_is_bounded(limit) -> None:
    limit(4 * MIB)
    blocks = [allocate(MIB) for _ in range(10)] + [allocate(3 * MIB) for _ in range(3)]
    del blocks
    assert memory_stats().cached <= 4 * MIB
    limit(0)
    assert memory_stats().cached == 0
    place = allocate(MIB)
    del place
    assert memory_stats().cached == 0
    with pytest.raises(ValueError, match="negative"):
        limit(-1)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, limit):
    """Only 8 MiB are kept that the system may not take."""
    monkeypatch.setattr(allocator, "_HELD", 8 * MIB)
    limit(64 * MIB)


lends = pytest.mark.skipif(not allocator.LENDS, reason="the system takes no pages that are offered")


@lends
def test_what_is_kept_beyond_a_bound_is_lent_to_the_system(held) -> None:
    blocks = [allocate(4 * MIB) for _ in range(6)]
    places = {block.ptr for block in blocks}
    blocks.clear()
    state = allocator._state
    assert (state.cached, state.lent, len(allocator._lent)) == (24 * MIB, 16 * MIB, 4)
    blocks = [allocate(4 * MIB) for _ in range(6)]
    for number, block in enumerate(blocks):
        block.array[:] = number
    assert {block.ptr for block in blocks} == places
    assert (
        [int(block.array.min()) for block in blocks]
        == [int(block.array.max()) for block in blocks]
        == [*range(6)]
    )
    assert (state.cached, state.lent, allocator._lent) == (0, 0, set())
    blocks.clear()
    empty_cache()
    assert (state.cached, state.lent, allocator._lent) == (0, 0, set())


@lends
def test_no_more_is_kept_than_was_in_use_at_once(held) -> None:
    counters, before = allocator._counters, allocator._counters[2]
    now = counters[2] = counters[1]
    try:
        for size in (20, 12, 16, 14, 18):
            block = allocate(size * MIB)
            del block
        assert counters[2] - now == 20 * MIB
        assert 0 < allocator._state.cached <= 20 * MIB
    finally:
        counters[2] = max(before, counters[2])


@lends
def test_pieces_that_cannot_be_lent_make_room_for_each_other(held) -> None:
    blocks = [allocate(MIB) for _ in range(20)]
    blocks.clear()
    assert (memory_stats().cached, allocator._state.lent) == (8 * MIB, 0)


@lends
@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc")
def test_the_system_knows_what_is_lent() -> None:
    def lazily_freed() -> int:
        with open("/proc/self/smaps_rollup") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree"))

    array = pages.map_pages(64 * MIB)
    array[:] = 1
    before = lazily_freed()
    assert pages.lend(array)
    assert lazily_freed() - before == 64 * MIB
    array[:] = 2
    assert lazily_freed() == before
    assert int(array.min()) == int(array.max()) == 2


def test_where_nothing_can_be_lent_a_gigabyte_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 4 << 20}.__getitem__)
    monkeypatch.setattr(allocator, "LENDS", False)
    assert allocator._default_limit() == 1 << 30
    monkeypatch.setattr(allocator, "LENDS", True)
    assert allocator._default_limit() == 4 << 30


def test_small_classes_are_bounded_each() -> None:
    blocks = [allocate(60_000) for _ in range(100)]
    blocks += [allocate(64) for _ in range(50_000)]
    blocks.clear()
    assert memory_stats().cached <= 2 * (2 * MIB)


def test_threads_never_share_a_block() -> None:
    clashes: list[int] = []

    def work(mark: int) -> None:
        generator = random.Random(mark)
        held = []
        for _ in range(3000):
            block = allocate(generator.choice([8, 100, 5000, 70_000]))
            block.array[:8] = mark
            held.append(block)
            if len(held) > 10:
                dead = held.pop(generator.randrange(len(held)))
                if not (dead.array[:8] == mark).all():
                    clashes.append(mark)
                del dead

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not clashes


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_emptying_the_cache_gives_memory_back_to_the_system() -> None:
    blocks = [allocate(8 * MIB) for _ in range(8)]
    for block in blocks:
        block.array[:] = 1
    full = resident()
    del block
    blocks.clear()
    assert resident() > full - 8 * MIB  # kept
    empty_cache()
    assert resident() < full - 48 * MIB


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_many_sizes_leave_memory_flat(limit) -> None:
    limit(16 * MIB)

    def churn(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(300):
            allocate(generator.randrange(1, 2 * MIB)).array[::4096] = 1

    churn(0)
    before = resident()
    for seed in range(1, 6):
        churn(seed)
    assert resident() < before + 24 * MIB


def test_a_forked_child_has_its_own_memory() -> None:
    code = """
import os
from tracejit.runtime.allocator import allocate
blocks = [allocate(n) for n in (100, 70_000, 3 << 20)]
for block in blocks: block.array[:] = 1
child = os.fork()
if child == 0:
    for block in blocks: block.array[:] = 2
    del block
    places = [block.ptr for block in blocks]
    blocks.clear()
    again = [allocate(n).ptr for n in (100, 70_000, 3 << 20)]
    os._exit(0 if again == places else 1)
assert os.waitpid(child, 0)[1] == 0
print(all((block.array == 1).all() for block in blocks))
"""
    result = python("-c", code)
    assert result.stdout == "True\n", result.stderr


def test_blocks_alive_at_exit_are_no_trouble() -> None:
    code = """
import sys, tracejit.runtime.allocator as allocator
class Holder: pass
holder = Holder()
holder.self, holder.block = holder, allocator.allocate(1 << 22)
sys.kept = [allocator.allocate(n) for n in (10, 1 << 17, 1 << 22)]
view = allocator.allocate(100).array[:10]
blocks = [allocator.allocate(10) for _ in range(100)]
"""
    result = python("-c", code)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's settings")
@pytest.mark.parametrize(
    "environment", [{}, {"MALLOC_TRIM_THRESHOLD_": "100000"}, {"GLIBC_TUNABLES": ""}]
)
def test_freed_memory_is_kept_unless_the_environment_has_a_say(environment: dict[str, str]) -> None:
    script = """
import ctypes
from tracejit.runtime.pages import keep_freed_memory
print(keep_freed_memory() == (hasattr(ctypes.CDLL(None), "gnu_get_libc_version") and {asked}))
"""
    assert printed(script.format(asked=not environment), **environment) == "True\n"
