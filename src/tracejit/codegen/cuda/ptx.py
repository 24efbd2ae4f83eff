"""Device kernel text to PTX, by the LLVM inside llvmlite: no toolkit, no driver and no environment variable is needed.

Each architecture is compiled for the oldest PTX version that knows it, so that older drivers and assemblers take
the result too. No instruction gets a fast-math flag: divisions and square roots are correctly rounded, subnormals
are kept, products and sums are fused where the source says `fma` and nowhere else (`docs/decisions/0007-cuda-
compiler.md`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tracejit.codegen import llvm as host
from tracejit.codegen.cuda.lower import cuda_llvm_ir
from tracejit.errors import TracejitError

__all__ = ["ARCHITECTURES", "UnsupportedArchitectureError", "cuda_target_description", "ptx"]

#: Architectures, and the PTX version kernels for them are written in. Newer devices run code of an older
#: architecture's PTX; cubins are for one generation.
ARCHITECTURES: dict[str, int] = {
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_89": 78,
    "sm_90": 80,
    "sm_100": 86,
    "sm_120": 87,
}
_TRIPLE = "nvptx64-nvidia-cuda"
#: Bytes of parameters that a kernel has before PTX 8.1 (CUDA 12.1); from there on it is eight times as many.
PARAMETER_BYTES = 4352


class UnsupportedArchitectureError(TracejitError, ValueError):
    """A GPU architecture that kernels cannot be compiled for."""


@lru_cache(maxsize=1)
def _target() -> Any:
    import llvmlite.binding as llvm

    # Registers code generators in this process; what host code compiles to does not change.
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        return llvm.Target.from_triple(_TRIPLE)
    except RuntimeError as error:
        raise UnsupportedArchitectureError(
            "this build of llvmlite has no NVPTX code generator, so kernels cannot be compiled for a GPU; "
            "the wheels of llvmlite have one: pip install --force-reinstall llvmlite"
        ) from error


@lru_cache(maxsize=len(ARCHITECTURES))
def _target_machine(architecture: str) -> Any:
    version = ARCHITECTURES.get(architecture)
    if version is None:
        raise UnsupportedArchitectureError(
            f"kernels cannot be compiled for {architecture!r}; the architectures are {', '.join(ARCHITECTURES)}"
        )
    return _target().create_target_machine(
        cpu=architecture, features=f"+ptx{version}", opt=3, reloc="default", codemodel="default"
    )


def cuda_target_description(architecture: str) -> str:
    """What PTX depends on besides the source: LLVM's version, the architecture and the PTX version.

    >>> cuda_target_description("sm_90").endswith("sm_90 ptx80")
    True
    """
    import llvmlite.binding as llvm

    _target_machine(architecture)
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"llvm {version} {_TRIPLE} {architecture} ptx{ARCHITECTURES[architecture]}"


def ptx(source: str, entry: str, architecture: str = "sm_90") -> str:
    """PTX of device kernel `entry` of `source`, with one entry point of that name.

    Raises `LoweringError` for text outside the kernel language, `UnsupportedArchitectureError` for an architecture that
    is not in `ARCHITECTURES`.

    >>> text = ptx('''
    ... def fill(out: "f32*", n: "i64") -> "i32":
    ...     threads(128)
    ...     for i in range(block() * 128 + thread(), n, blocks() * 128):
    ...         out[i] = float32(1.5)
    ...     return 0
    ... ''', "fill", "sm_75")
    >>> ".visible .entry fill(" in text, ".target sm_75" in text
    (True, True)
    """
    return ptx_of_module(cuda_llvm_ir(source, entry), architecture)


def ptx_of_module(module_text: str, architecture: str) -> str:
    """PTX of any LLVM module given as text.

    >>> ".func" in ptx_of_module("define void @f() { ret void }", "sm_80")
    True
    """
    import llvmlite.binding as llvm

    machine = _target_machine(architecture)
    # Loads and stores take the alignment of the layout that is known while the text is read.
    layout = f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'
    with host.compiler_lock():
        module = llvm.parse_assembly(layout + module_text)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return _with_room(_without_comments(machine.emit_assembly(module)))


def _with_room(text: str) -> str:
    """PTX of a version that allows for its kernel's parameters: very large kernels need a newer driver."""
    found = re.search(r"\.entry \w+\((.*?)\)", text, re.S)
    sizes = [
        int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", found[1] if found else "")
    ]
    room = 0
    for size in sizes:
        room += -room % size + size
    version = re.search(r"\.version (\d+)\.(\d+)", text)
    if room <= PARAMETER_BYTES or version is None or (int(version[1]), int(version[2])) >= (8, 1):
        return text
    return text.replace(version[0], ".version 8.1", 1)


def _without_comments(text: str) -> str:
    """Assembly without LLVM's comments on basic blocks: a kernel's identity is what it does."""
    return re.sub(r"\n\n+", "\n", re.sub(r"[ \t]*//.*", "", text)).lstrip("\n")
