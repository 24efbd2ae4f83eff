"""The kernel store: what comes back, what is thrown out, and what may go wrong around it."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tracejit.runtime.machine_code import store as store_module
from tracejit.runtime.machine_code.store import KernelStore, default_directory


def key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def entries(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_entries_survive_the_process_that_wrote_them(tmp_path: Path) -> None:
    contents = {key(str(n)): os.urandom(n * 100) for n in range(20)}
    writer = KernelStore(tmp_path)
    for name, data in contents.items():
        writer.put(name, data)
    reader = KernelStore(tmp_path)
    assert {name: reader.get(name) for name in contents} == contents
    info = reader.info()
    assert (info.entries, info.hits, info.misses, info.directory) == (20, 20, 0, tmp_path)
    assert info.bytes > sum(map(len, contents.values()))
    assert reader.get(key("absent")) is None
    assert reader.info().misses == 1


def test_a_key_is_a_digest_and_nothing_else(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    for bad in ("", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65, "/" * 64):
        with pytest.raises(ValueError, match="hex"):
            store.get(bad)
        with pytest.raises(ValueError, match="hex"):
            store.put(bad, b"")
    assert entries(tmp_path) == []


def test_every_kind_of_damage_is_a_miss_and_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = os.urandom(300)
    KernelStore(tmp_path).put(key("a"), data)
    (path,) = entries(tmp_path)
    good = path.read_bytes()
    generator = random.Random(0)
    damaged = [b"", b"x", good[:-1], good + b"\0", good[:40], b"\0" * len(good)]
    for _ in range(60):
        place = generator.randrange(len(good))
        changed = bytes([good[place] ^ (1 << generator.randrange(8))])
        damaged.append(good[:place] + changed + good[place + 1 :])
    for content in damaged:
        path.write_bytes(content)
        store = KernelStore(tmp_path)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "tracejit.store"):
            assert store.get(key("a")) is None
            assert store.get(key("a")) is None
        assert not path.exists()
        assert sum("damaged" in message for message in caplog.messages) == 1
        store.put(key("a"), data)
        assert KernelStore(tmp_path).get(key("a")) == data


def test_an_entry_under_the_wrong_format_version_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KernelStore(tmp_path).put(key("a"), b"old")
    (path,) = entries(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"\x09" + content[9:])
    assert KernelStore(tmp_path).get(key("a")) is None
    monkeypatch.setattr(store_module, "_VERSION", 2)
    assert KernelStore(tmp_path).info().entries == 0


def test_the_directory_may_vanish_at_any_time(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "cache"
    store = KernelStore(place)
    store.put(key("a"), b"1")
    shutil.rmtree(place)
    assert store.get(key("a")) == b"1"  # memory still has it
    assert KernelStore(place).get(key("a")) is None
    store.put(key("b"), b"2")
    assert KernelStore(place).get(key("b")) == b"2"
    shutil.rmtree(tmp_path / "deep")
    assert store.info().entries == 0
    store.clear()


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = KernelStore(tmp_path, max_bytes=10_000)
    now = 1_700_000_000
    for n in range(9):
        store.put(key(str(n)), bytes(1000))
        os.utime(tmp_path / "kernels-1" / key(str(n))[:2] / key(str(n)), (now + n, now + n))
    other = KernelStore(tmp_path)
    assert other.get(key("0")) is not None  # touches it: it was used just now
    store.put(key("9"), bytes(1000))
    assert store.info().bytes <= 10_000
    fresh = KernelStore(tmp_path)
    left = [n for n in range(10) if fresh.get(key(str(n))) is not None]
    assert 0 in left
    assert 9 in left
    assert 1 not in left
    assert left[1:] == list(range(left[1], 10))


def test_the_bound_counts_what_other_processes_wrote(tmp_path: Path) -> None:
    stores = [KernelStore(tmp_path, max_bytes=50_000) for _ in range(4)]
    for n in range(400):
        stores[n % 4].put(key(str(n)), bytes(1000))
    # Each store looks at the directory every 64 writes of its own.
    assert stores[0].info().bytes <= 50_000 + 4 * 64 * 1100
    for n in range(64):
        stores[0].put(key(f"more {n}"), bytes(1000))
    assert stores[0].info().bytes <= 50_000 + 64 * 1100


def test_a_store_far_from_its_bound_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that writes one kernel must not pay for the thousands that are there."""
    filled = KernelStore(tmp_path)
    for n in range(600):
        filled.put(key(str(n)), bytes(100))
    looked_at, look = [], KernelStore._look
    monkeypatch.setattr(
        KernelStore, "_look", lambda self, *things: (looked_at.append(self), look(self, *things))
    )
    KernelStore(tmp_path).put(key("one more"), bytes(100))
    assert len(looked_at) < 30
    looked_at.clear()
    small = KernelStore(tmp_path, max_bytes=20_000)
    small.put(key("too many"), bytes(100))
    assert len(looked_at) > 600
    assert small.info().bytes <= 20_000


def test_a_well_filled_store_is_searched_behind_the_program(tmp_path: Path) -> None:
    """Unless it takes twice as much as it may."""
    jobs: list[Callable[[], None]] = []
    keys = [f"{n % 256:02x}{key(str(n))[2:]}" for n in range(1024)]  # as many in each folder
    filled = KernelStore(tmp_path)
    for n in range(768):
        filled.put(keys[n], bytes(1000))
    size = filled.info().bytes
    store = KernelStore(tmp_path, max_bytes=size, later=jobs.append)
    for n in range(768, 1024):
        store.put(keys[n], bytes(1000))
    assert store.info().bytes > size
    assert len(jobs) == 1
    jobs[0]()
    assert store.info().bytes <= size
    small = KernelStore(tmp_path, max_bytes=size // 8, later=jobs.append)
    small.put(key("last"), bytes(1000))
    assert small.info().bytes <= size // 8
    assert len(jobs) == 1


def test_memory_is_bounded_too(tmp_path: Path) -> None:
    store = KernelStore(tmp_path, max_memory_bytes=5_000)
    for n in range(20):
        store.put(key(str(n)), bytes([n]) * 1000)
    assert store._memory_bytes <= 5_000
    assert sum(map(len, store._memory.values())) == store._memory_bytes
    assert all(store.get(key(str(n))) == bytes([n]) * 1000 for n in range(20))


def test_clear_forgets_everything(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.put(key("a"), b"1")
    store.clear()
    assert store.get(key("a")) is None
    assert (store.info().entries, store.info().bytes) == (0, 0)
    assert entries(tmp_path) == []


def test_abandoned_writes_are_swept_and_fresh_ones_left(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    store.put(key("a"), b"1")
    folder = entries(tmp_path)[0].parent
    old, fresh = folder / ".old", folder / ".fresh"
    old.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert store.info().entries == 1
    assert not old.exists()
    assert fresh.exists()


def test_an_unwritable_directory_means_memory_and_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    store = KernelStore(blocker / "cache")
    with caplog.at_level(logging.WARNING, "tracejit.store"):
        for n in range(5):
            store.put(key(str(n)), b"data")
    assert [store.get(key(str(n))) for n in range(5)] == [b"data"] * 5
    assert len(caplog.messages) == 1
    assert "memory only" in caplog.messages[0]
    assert store.get(key("absent")) is None
    store.clear()


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk full")

    store = KernelStore(tmp_path)
    monkeypatch.setattr(store_module.os, "replace", refuse)
    store.put(key("a"), b"data")
    assert entries(tmp_path) == []
    assert store.get(key("a")) == b"data"


def test_an_interrupt_while_writing_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        KernelStore(tmp_path).put(key("a"), b"data")
    assert entries(tmp_path) == []


def test_memory_only(tmp_path: Path) -> None:
    store = KernelStore(None, max_bytes=3000)
    for n in range(5):
        store.put(key(str(n)), bytes([n]) * 1000)
    info = store.info()
    assert (info.directory, info.entries, info.bytes) == (None, 3, 3000)
    assert store.get(key("0")) is None
    assert store.get(key("4")) == bytes([4]) * 1000
    store.put(key("4"), b"new")
    assert store.info().bytes == 2003


@pytest.mark.parametrize("text", ["", "off", "OFF", " off "])
def test_the_disk_can_be_switched_off(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", text)
    assert default_directory() is None


def test_the_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path / "here"))
    assert default_directory() == tmp_path / "here"
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", "~/there")
    assert default_directory() == Path("~/there").expanduser()
    monkeypatch.delenv("TRACEJIT_CACHE_DIR")
    monkeypatch.setattr(store_module.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "tracejit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/path")
    assert default_directory() == Path.home() / ".cache" / "tracejit"
    monkeypatch.setattr(store_module.sys, "platform", "darwin")
    assert default_directory() == Path.home() / "Library" / "Caches" / "tracejit"
    monkeypatch.setattr(store_module.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert default_directory() == tmp_path / "tracejit"


WRITER = """
import hashlib, sys
from tracejit.runtime.machine_code.store import KernelStore
store = KernelStore(sys.argv[1], max_bytes=200_000, max_memory_bytes=1)
for round_ in range(15):
    for n in range(40):
        key = hashlib.sha256(str(n).encode()).hexdigest()
        found = store.get(key)
        assert found is None or found == bytes([n]) * (n * 200), n
        store.put(key, bytes([n]) * (n * 200))
print("done")
"""


def test_processes_share_a_directory_without_locks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [writer.communicate(timeout=60) for writer in writers]
    assert results == [("done\n", "")] * 4
