"""What machine code depends on besides the source of a kernel; light, for it is asked before anything is compiled.

Where Linux describes an x86-64 CPU, nothing of this loads LLVM: a process that finds its kernels in the store does
without.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
from functools import lru_cache
from pathlib import Path

#: Lines of ``/proc/cpuinfo`` that tell one core, or one moment, from another.
_PASSING = frozenset(
    {
        *("processor", "cpu MHz", "apicid", "initial apicid", "core id", "physical id"),
        *("siblings", "cpu cores", "bogomips", "microcode", "bugs"),
    }
)


@lru_cache(maxsize=1)
def host() -> tuple[str, str]:
    """Name and features of this CPU, as LLVM calls them."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=1)
def target_description() -> str:
    """The host CPU, its features and LLVM's version, in LLVM's words.

    >>> target_description().startswith("llvm ")
    True
    """
    import llvmlite.binding as llvm

    cpu, features = host()
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"llvm {version} {llvm.get_default_triple()} {cpu} {features}"


@lru_cache(maxsize=1)
def machine() -> str:
    """The CPU and the compiler's library: equal where machine code made from equal text is equal.

    >>> machine() == machine()
    True
    """
    cpu = _described_cpu()
    return target_description() if cpu is None else f"{compiler()} {cpu}"


@lru_cache(maxsize=1)
def compiler() -> str:
    """The compiler's library and the platform it makes code for, without the CPU.

    >>> "llvm" in compiler()
    True
    """
    library = _described_library()
    if library is None:
        import llvmlite.binding as llvm

        library = f"llvm {'.'.join(map(str, llvm.llvm_version_info))} {llvm.get_process_triple()}"
    return f"{library} {sys.platform} {platform.machine()}"


@lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """The names of this CPU's features; those of vector instructions are the same on Linux and in LLVM.

    >>> isinstance(features(), frozenset)
    True
    """
    fields = _cpu_fields()
    if fields is not None:
        return frozenset(fields["flags"].split())
    return frozenset(x[1:] for x in host()[1].split(",") if x.startswith("+"))


def _described_cpu() -> str | None:
    """The CPU as Linux describes it, None where that is not enough."""
    fields = _cpu_fields()
    return None if fields is None else str(sorted(fields.items()))


def _cpu_fields() -> dict[str, str] | None:
    """The CPU as Linux describes it, None where that is not enough."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        # One read gives the first cores only; hundreds of them take their time to be described.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(1 << 13).decode("ascii", "replace")
    except OSError:
        return None
    first, end, _ = text.partition("\n\n")
    fields = [line.partition(":") for line in first.splitlines()]
    kept = {
        name.strip(): value.strip() for name, _, value in fields if name.strip() not in _PASSING
    }
    return kept if end and kept.get("flags") else None


def _described_library() -> str | None:
    """llvmlite's version and the size of its library, which tells builds apart; None where they cannot be found."""
    spec = importlib.util.find_spec("llvmlite")
    try:
        folder = Path(spec.origin).parent if spec and spec.origin else None
        version = (folder / "_version.py").read_text() if folder else ""
        sizes = [
            (entry.name, entry.stat().st_size)
            for entry in os.scandir(folder / "binding" if folder else "")
            if "llvmlite" in entry.name
        ]
    except OSError:
        return None
    if not version or not sizes:
        return None
    return f"llvmlite {hashlib.sha256(version.encode()).hexdigest()} {sorted(sizes)}"


#: What the compiler consists of, in the package, besides what prints kernels.
_COMPILER = (
    *("codegen/lower/*.py", "codegen/llvm*.py", "codegen/lone_lanes.py"),
    "scalar_math/*.py",
)


def digest_of_sources(*patterns: str) -> str:
    """A digest of the text of these modules of the package; ``FileNotFoundError`` where a pattern fits none.

    >>> len(digest_of_sources("codegen/*.py"))
    64
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for pattern in patterns:
        files = sorted(package.glob(pattern))
        if not files:  # old machine code would be taken for that of a changed compiler
            raise FileNotFoundError(pattern)
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of the text of this compiler: `scalar_math` and the lowering, on which machine code depends too.

    >>> len(code_version())
    64
    """
    return digest_of_sources(*_COMPILER)
