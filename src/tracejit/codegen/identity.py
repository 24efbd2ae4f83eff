"""What machine code depends on besides the source of a kernel; light, for it is asked before anything is compiled."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def host() -> tuple[str, str]:
    """Name and features of this CPU, as LLVM calls them."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=1)
def target_description() -> str:
    """The host CPU, its features and LLVM's version: what machine code depends on besides the source.

    >>> target_description().startswith("llvm ")
    True
    """
    import llvmlite.binding as llvm

    cpu, features = host()
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"llvm {version} {llvm.get_default_triple()} {cpu} {features}"


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of the text of this compiler: `scalar_math` and the lowering, on which machine code depends too.

    >>> len(code_version())
    64
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for folder, pattern in (
        ("codegen", "lower*.py"),
        ("codegen", "llvm.py"),
        ("scalar_math", "*.py"),
    ):
        for file in sorted((package / folder).glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
