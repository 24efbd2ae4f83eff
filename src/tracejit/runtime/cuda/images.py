"""Device kernels as images a driver can load: cubins where there is an assembler, else PTX; kept in the store.

An image is addressed by what it computes: the text of the kernel without comments, the architecture, the version of
LLVM, and the text of this compiler; not by the assembler, for all do the same. So a store that was filled on a machine
without a GPU serves one that has a GPU and no assembler.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from ...codegen.cuda.cubin import assemble, assembler
from ...codegen.cuda.ptx import (
    ARCHITECTURES,
    UnsupportedArchitectureError,
    cuda_target_description,
    ptx,
)
from ...codegen.identity import code_version, digest_of_sources
from ..machine_code.kernels import identity
from ..machine_code.store import kernel_store

__all__ = ["architecture_for", "image", "image_key"]


@lru_cache(maxsize=1)
def _device_code_version() -> str:
    """A digest of the text of the device compiler, and of what it shares with that of the host."""
    return digest_of_sources("codegen/cuda/*.py") + code_version()


def architecture_for(capability: tuple[int, int]) -> str:
    """The architecture to compile for on a device of this compute capability.

    Raises `UnsupportedArchitectureError` for devices that are too old.

    >>> architecture_for((9, 0)), architecture_for((8, 6)), architecture_for((12, 1))
    ('sm_90', 'sm_86', 'sm_120')
    """
    wanted = 10 * capability[0] + capability[1]
    known = [int(name[3:]) for name in ARCHITECTURES]
    # Machine code runs on later devices of its generation, PTX on every later device.
    fitting = [
        n for n in known if n <= wanted and (n // 10 == capability[0] or assembler() is None)
    ]
    if not fitting:
        raise UnsupportedArchitectureError(
            f"a GPU of compute capability {capability[0]}.{capability[1]} is not supported; "
            f"kernels can be compiled for {', '.join(ARCHITECTURES)}",
            'Use one of these, or device="cpu".',
        )
    return f"sm_{max(fitting)}"


def image_key(source: str, architecture: str) -> str:
    """The content address of a kernel's image.

    >>> len(image_key("def k(): pass", "sm_90"))
    64
    """
    parts = [cuda_target_description(architecture), _device_code_version(), identity(source)]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def image(source: str, entry: str, architecture: str) -> bytes:
    """A kernel's image, from the store or compiled now.

    >>> text = '''
    ... def fill(out: "f32*", n: "i64") -> "i32":
    ...     threads(128)
    ...     for i in range(block() * 128 + thread(), n, blocks() * 128):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... '''
    >>> b"fill" in image(text, "fill", "sm_80")
    True
    """
    key = image_key(source, architecture)
    found = kernel_store().get(key)
    if found is None:
        text = ptx(source, entry, architecture)
        found = assemble(text, architecture) if assembler() is not None else text.encode()
        kernel_store().put(key, found)
    return found
