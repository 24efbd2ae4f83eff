"""A content-addressed store of compiled kernels, in memory and on disk.

A key is the SHA-256 (hex) of everything that decides the bytes, so an entry never changes and
processes can share a directory without locks: files are written aside and renamed into place, and
verified when read. A damaged entry is deleted and counts as a miss. The directory is bounded in
size (least recently used first to go), by and large: entries go behind the program, unless they
take twice as much as they may. It may be deleted at any time, by anyone.

Place, in this order: `TRACEJIT_CACHE_DIR`; the user's cache directory of the platform. Setting
`TRACEJIT_CACHE_DIR` to nothing or to `off` keeps entries in memory only, and so does a directory
that cannot be written, with one warning through `logging`. `TRACEJIT_CACHE_SIZE` is the bound in
MiB (512).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..behind import worker

__all__ = ["KernelStore", "StoreInfo", "default_directory", "kernel_store", "plan_store"]

_log = logging.getLogger("tracejit.store")

_HEADER = struct.Struct("<8sIQ32s")  # magic, format version, payload length, SHA-256
_MAGIC = b"tracejit"
_VERSION = 1
_TOUCH_AFTER = 3600.0  # seconds; fresher entries are not touched again, so hits stay cheap
_RESCAN_EVERY = 64  # writes; other processes' entries are noticed this often
_FOLDERS = 256  # keys are digests, so each holds about as much as any other
_STALE_TEMPORARY = 3600.0  # seconds after which an unfinished write counts as abandoned
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class StoreInfo:
    """What a store holds and how it was used by this process."""

    directory: Path | None
    entries: int
    bytes: int
    hits: int
    misses: int


def default_directory() -> Path | None:
    """Where kernels are kept by default; None means in memory only.

    >>> import os
    >>> default_directory() is None or isinstance(default_directory(), os.PathLike)
    True
    """
    chosen = os.environ.get("TRACEJIT_CACHE_DIR")
    if chosen is not None:
        return None if chosen.strip().lower() in ("", "off") else Path(chosen).expanduser()
    return _user_cache_directory() / "tracejit"


def _user_cache_directory() -> Path:
    """The platform's directory for data that can be made again."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    # The XDG base directory specification asks to ignore relative paths.
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else _home() / ".cache"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # no home directory can be determined
        import tempfile

        return Path(tempfile.gettempdir()) / f"tracejit-{os.getpid()}"


class KernelStore:
    """Bytes by key, remembered in this process and on disk.

    `directory=None` keeps entries in memory only. `max_bytes` bounds the files on disk,
    `max_memory_bytes` what is kept in memory beside them. Stores of different `kind` share a
    directory without sharing entries. `later` has a job done that nobody waits for.

    >>> store = KernelStore(None)
    >>> key = "0" * 64
    >>> store.get(key) is None
    True
    >>> store.put(key, b"machine code")
    >>> store.get(key)
    b'machine code'
    >>> store.info().hits, store.info().misses
    (1, 1)
    """

    def __init__(
        self,
        directory: Path | str | None,
        max_bytes: int = 512 << 20,
        max_memory_bytes: int = 64 << 20,
        kind: str = "kernels",
        later: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.directory = None if directory is None else Path(directory)
        self.folder = f"{kind}-{_VERSION}"
        self.max_bytes = max_bytes
        self.max_memory_bytes = max_memory_bytes
        self._later = later
        self._evicts_later = False
        self._memory: dict[str, bytes] = {}
        self._memory_bytes = 0
        self._disk_bytes = 0
        self._writes = 0
        self._hits = 0
        self._misses = 0
        self._warned = kind != "kernels"  # who keeps other things keeps kernels, too

    def get(self, key: str) -> bytes | None:
        """The bytes stored under `key`, or None. Raises ValueError for a malformed key."""
        data = self._memory.get(_checked(key))
        if data is None:
            data = self._read(key)
            if data is not None:
                self._remember(key, data)
        if data is None:
            self._misses += 1
        else:
            self._hits += 1
        return data

    def __contains__(self, key: str) -> bool:
        """Is there an entry? What is damaged counts until it is read."""
        if _checked(key) in self._memory:
            return True
        return self.directory is not None and self._path(key).exists()

    def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`. Never fails for reasons of the disk."""
        self._remember(_checked(key), data)
        if self.directory is not None:
            self._write(key, data)

    def clear(self) -> None:
        """Forget every entry, in memory and on disk."""
        self._memory.clear()
        self._memory_bytes = 0
        self._disk_bytes = 0
        for _, _, path in self._files():
            _remove(path)

    def info(self) -> StoreInfo:
        """Entries and bytes (on disk when there is a disk), hits and misses of this process."""
        if self.directory is None:
            count, size = len(self._memory), self._memory_bytes
        else:
            files = self._files()
            count, size = len(files), sum(size for _, size, _ in files)
        return StoreInfo(self.directory, count, size, self._hits, self._misses)

    def recent(self, limit: int) -> list[tuple[str, int, float]]:
        """Key, bytes and last use (seconds since the epoch, to the hour) of entries on disk, newest first."""
        files = sorted(self._files(), reverse=True)[:limit]
        return [(os.path.basename(path), size, modified) for modified, size, path in files]

    # Memory.

    def _remember(self, key: str, data: bytes) -> None:
        previous = self._memory.pop(key, None)
        self._memory_bytes += len(data) - (0 if previous is None else len(previous))
        self._memory[key] = data
        # With a disk behind it memory is only a shortcut; without one it is all there is.
        limit = self.max_bytes if self.directory is None else self.max_memory_bytes
        while self._memory_bytes > limit and len(self._memory) > 1:
            oldest = next(iter(self._memory), None)
            dropped = None if oldest is None else self._memory.pop(oldest, None)
            if dropped is None:
                break
            self._memory_bytes -= len(dropped)

    # Disk.

    def _path(self, key: str) -> Path:
        assert self.directory is not None
        return self.directory / self.folder / key[:2] / key

    def _read(self, key: str) -> bytes | None:
        if self.directory is None:
            return None
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                modified = os.fstat(file.fileno()).st_mtime
                content = file.read()
        except OSError:
            return None
        data = _payload(content)
        if data is None:
            _log.warning("removed a damaged kernel cache entry: %s", path)
            _remove(path)
            return None
        if time.time() - modified > _TOUCH_AFTER:
            with contextlib.suppress(OSError):
                os.utime(path)
        return data

    def _write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        content = _HEADER.pack(_MAGIC, _VERSION, len(data), hashlib.sha256(data).digest()) + data
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_atomically(path, content)
        except OSError as error:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "kernel cache %s cannot be written (%s): kernels are kept in memory only; "
                    "set TRACEJIT_CACHE_DIR to a writable directory, or to 'off'",
                    self.directory,
                    error,
                )
            return
        self._disk_bytes += len(content)
        if self._writes % _RESCAN_EVERY == 0 or self._disk_bytes > self.max_bytes:
            self._bound(path.parent)
        self._writes += 1

    def _bound(self, folder: Path) -> None:
        """Evict when `folder`, one of many alike, says that the directory may be too large.

        Looking at every entry of a well-filled store takes a fifth of a second, at one folder a millisecond.
        """
        self._disk_bytes = _FOLDERS * sum(size for _, size, _ in self._files(folder))
        if self._disk_bytes <= self.max_bytes // 2:
            return
        if self._later is None or self._disk_bytes > 2 * self.max_bytes:
            self._evict()
        elif not self._evicts_later:
            self._evicts_later = True
            self._later(self._evict)

    def _files(self, below: Path | None = None) -> list[tuple[float, int, str]]:
        """(modified, size, path) of every entry; those that vanish meanwhile are left out."""
        if self.directory is None:
            return []
        found: list[tuple[float, int, str]] = []
        folders = [below or self.directory / self.folder]
        while folders:
            with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    else:
                        self._look(entry, found)
        return found

    def _look(self, entry: os.DirEntry[str], found: list[tuple[float, int, str]]) -> None:
        """Add an entry to what was found; what is left of an unfinished write goes."""
        with contextlib.suppress(OSError):
            status = entry.stat()
            if not entry.name.startswith("."):
                found.append((status.st_mtime, status.st_size, entry.path))
            elif time.time() - status.st_mtime > _STALE_TEMPORARY:
                _remove(entry.path)

    def _evict(self) -> None:
        """Delete the least recently used entries until nine tenths of the bound are kept."""
        self._evicts_later = False
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total > self.max_bytes:
            for _, size, path in sorted(files, key=lambda entry: entry[0]):
                if total <= self.max_bytes * 9 // 10:
                    break
                _remove(path)
                total -= size
        self._disk_bytes = total


def _checked(key: str) -> str:
    # A key becomes a file name, so it must be nothing but the digest it claims to be.
    if len(key) != 64 or not _HEX.issuperset(key):
        raise ValueError(f"a store key is 64 lower-case hex digits, not {key!r}")
    return key


def _payload(content: bytes) -> bytes | None:
    """The payload of an entry's file, or None when any part of it is wrong."""
    if len(content) < _HEADER.size:
        return None
    magic, version, length, digest = _HEADER.unpack_from(content)
    data = content[_HEADER.size :]
    if (magic, version, length) != (_MAGIC, _VERSION, len(data)):
        return None
    return data if hashlib.sha256(data).digest() == digest else None


def _write_atomically(path: Path, content: bytes) -> None:
    import tempfile

    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


def _remove(path: Path | str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_default: KernelStore | None = None


def kernel_store() -> KernelStore:
    """The store of this process, opened at first use.

    >>> kernel_store() is kernel_store()
    True
    """
    global _default
    if _default is None:
        later = worker().submit_idle
        _default = KernelStore(default_directory(), _configured_bytes(), later=later)
    return _default


_plans: KernelStore | None = None


def plan_store() -> KernelStore:
    """The store of plans, beside that of kernels: an eighth of its size at most.

    >>> plan_store() is plan_store()
    True
    """
    global _plans
    if _plans is None:
        size = _configured_bytes() // 8
        later = worker().submit_idle
        _plans = KernelStore(default_directory(), size, min(size, 8 << 20), "plans", later)
    return _plans


def _configured_bytes() -> int:
    text = os.environ.get("TRACEJIT_CACHE_SIZE", "").strip() or "512"
    if text.isdecimal():
        return int(text) << 20
    _log.warning("TRACEJIT_CACHE_SIZE=%s is not a number of MiB: 512 is used", text)
    return 512 << 20
