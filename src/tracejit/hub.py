"""Weights by address, read from a folder of the user's.

Nothing here uses the network: whoever lacks a file is told where to put it.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from .serialization import load

__all__ = [
    "download_url_to_file",
    "get_dir",
    "load_state_dict_from_url",
    "set_dir",
]

#: A name such as ``resnet18-5c106cde.pth`` carries the first digits of the file's SHA-256.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_chosen: list[str] = []
_BLOCK = 1 << 20


def _get_torch_home() -> str:
    """What the hub is a folder of; programs put other downloads beside it."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(cache), "tracejit")


def get_dir() -> str:
    """The folder of weights: ``tracejit/hub`` in the user's cache.

    >>> get_dir().endswith("hub")
    True
    """
    return _chosen[0] if _chosen else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Look for weights in this folder.

    >>> set_dir(get_dir())
    """
    _chosen[:] = [os.path.expanduser(os.fspath(d))]


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy the file at a ``file:`` address to ``dst``; the copy appears when it is complete.

    Raises ``FileNotFoundError`` for addresses of the network, which is never used, ``OSError`` for files that cannot be
    read, ``RuntimeError`` when the SHA-256 does not start with ``hash_prefix``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_bytes(b"xyz")
    >>> download_url_to_file((folder / "a").as_uri(), str(folder / "b"))
    >>> (folder / "b").read_bytes()
    b'xyz'
    """
    parts = urlparse(url)
    if parts.scheme != "file":
        raise FileNotFoundError(
            f"{url} is not a file, and tracejit does not use the network. Download it to {dst}, then call again."
        )
    target = Path(dst).expanduser()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with open(unquote(parts.path), "rb") as source, partial.open("wb") as file:
            while block := source.read(_BLOCK):
                file.write(block)
                digest.update(block)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
            )
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """What :func:`tracejit.load` reads from the file of this name in ``model_dir`` (``checkpoints`` in the hub).

    A ``file:`` address is copied there first. Raises what :func:`download_url_to_file` and :func:`tracejit.load` raise.

    >>> import pathlib, tempfile, tracejit as tj
    >>> folder = tempfile.mkdtemp()
    >>> tj.save({"w": tj.ones(1)}, folder + "/w.safetensors")
    >>> url = pathlib.Path(folder, "w.safetensors").as_uri()
    >>> tj.hub.load_state_dict_from_url(url, model_dir=folder + "/hub")
    {'w': tensor([1.])}
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    target = os.path.join(folder, name)
    if not os.path.exists(target):
        digits = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, target, digits.group(1) if digits else None, progress)
    return load(target, map_location=map_location)
