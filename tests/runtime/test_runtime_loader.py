"""Linking object code: addresses, duplicates, and damage that must not end the process."""

from __future__ import annotations

import ctypes
import os
import random
import sys
import threading
from pathlib import Path

import pytest

from process_tools import printed
from tracejit.codegen.llvm import compile_source
from tracejit.runtime.machine_code import elf
from tracejit.runtime.machine_code.loader import LoadError, load_object, loaded_count

#: Where processes that tests start find this file, and what it imports.
FOLDERS = [str(folder) for folder in Path(__file__).resolve().parents[:2]]


def source(name: str, code: int) -> str:
    return f"""
def {name}(lo: "i64", hi: "i64", worker: "i64") -> "i32":
    return int32({code})
"""


def assembled(name: str, body: str) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="default"
    )
    text = (
        "declare i64 @tracejit_nobody_defines_this(i64)\n"
        "declare double @llvm.pow.f64(double, double)\n"
        f"define i64 @{name}(i64 %x) {{\n{body}\n}}"
    )
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    return bytes(machine.emit_object(module))


def call(address: int) -> int:
    function = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
    )(address)
    return function(None, 0, 1, 0)


def test_a_compiled_kernel_runs() -> None:
    code = compile_source(source("ld_seven", 7), "ld_seven")
    assert call(load_object(code, "ld_seven")) == 7


def test_the_same_object_is_linked_once() -> None:
    code = compile_source(source("ld_once", 1), "ld_once")
    first = load_object(code, "ld_once")
    count = loaded_count()
    assert load_object(bytes(bytearray(code)), "ld_once") == first
    assert loaded_count() == count


def test_one_name_may_belong_to_several_objects() -> None:
    codes = [compile_source(source("ld_same", n), "ld_same") for n in range(5)]
    addresses = [load_object(code, "ld_same") for code in codes]
    assert [call(address) for address in addresses] == [0, 1, 2, 3, 4]
    assert [load_object(code, "ld_same") for code in codes] == addresses


def test_the_same_object_calls_what_each_is_given() -> None:
    body = "  %r = call i64 @tracejit_nobody_defines_this(i64 %x)\n  ret i64 %r"
    code = assembled("ld_given", body)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    given = [kind(lambda x: x + 1), kind(lambda x: x * 10)]
    found = []
    for function in given:
        imports = {"tracejit_nobody_defines_this": ctypes.cast(function, ctypes.c_void_p).value}
        found.append(load_object(code, "ld_given", imports))
        assert load_object(code, "ld_given", imports) == found[-1]
    assert [kind(address)(7) for address in found] == [8, 70]


def test_hundreds_of_objects_and_threads() -> None:
    template = compile_source(source("ld_many_0000", 5), "ld_many_0000")
    names = [f"ld_many_{n:04d}" for n in range(1, 601)]
    found: dict[str, int] = {}

    def load(part: list[str]) -> None:
        for name in part:
            found[name] = load_object(template.replace(b"ld_many_0000", name.encode()), name)

    shuffled = [random.Random(n).sample(names, 300) for n in range(4)]
    threads = [threading.Thread(target=load, args=(part,)) for part in [names, *shuffled]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found.values())) == 600
    assert all(call(address) == 5 for address in found.values())


def test_functions_of_the_c_library_are_found() -> None:
    body = """
  %d = sitofp i64 %x to double
  %p = call double @llvm.pow.f64(double %d, double 2.5)
  %r = fptosi double %p to i64
  ret i64 %r"""
    address = load_object(assembled("ld_pow", body), "ld_pow")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(4) == 32


def test_functions_may_be_given_by_address() -> None:
    kernel = load_object(compile_source(source("ld_given", 0), "ld_given"), "ld_given")
    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    address = ctypes.cast(double, ctypes.c_void_p).value or 0
    body = "  %r = call i64 @tracejit_nobody_defines_this(i64 %x)\n  ret i64 %r"
    caller = load_object(
        assembled("ld_caller", body), "ld_caller", {"tracejit_nobody_defines_this": address}
    )
    assert kernel != caller
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(caller)(21) == 42


# Leaves room for single pages in one place and for more only 8 GiB away, so that a linker that asks
# for each section's memory by itself gets code and constants too far apart.
FRAGMENTED = """
import ctypes, mmap, sys
sys.path[:0] = {path!r}
from test_runtime_loader import assembled
from tracejit.runtime.machine_code.loader import load_object
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def reserve(size):
    return libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
def check(n, length):
    pad = "".join(f"  store volatile i64 {{i}}, ptr %p\\n" for i in range(length))
    body = f'''
  %p = alloca i64
{{pad}}
  %d = sitofp i64 %x to double
  %s = fmul double %d, {{n}}.5
  %r = fptosi double %s to i64
  ret i64 %r'''
    name = f"ld_far_{{n}}"
    address = load_object(assembled(name, body), name)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(2) == 2 * n + 1, n
check(0, 1)
page = mmap.PAGESIZE
many, far = reserve(400 * page), reserve(8 << 30)
for _ in range(20_000):  # fill every other gap
    if reserve(2 * page) < far:
        break
for n in range(1, 400, 2):
    libc.munmap(many + n * page, page)
for n in range(1, 40):
    check(n, 900 if n % 2 else 1)
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="maps memory as Linux does")
def test_constants_are_found_in_a_fragmented_address_space() -> None:
    code = FRAGMENTED.format(path=FOLDERS)
    assert printed(code) == "done\n"


def test_a_missing_symbol_is_an_error_not_the_end() -> None:
    with pytest.raises(LoadError, match="does not define"):
        load_object(assembled("ld_here", "  ret i64 0"), "ld_elsewhere")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="objects are ELF on Linux")
def test_an_unresolved_function_is_an_error_not_the_end() -> None:
    body = "  %r = call i64 @tracejit_nobody_defines_this(i64 %x)\n  ret i64 %r"
    with pytest.raises(LoadError, match="tracejit_nobody_defines_this"):
        load_object(assembled("ld_needs", body), "ld_needs")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="objects are ELF on Linux")
def test_cut_off_objects_are_errors() -> None:
    code = compile_source(source("ld_cut", 1), "ld_cut")
    defined, needed = elf.symbols(code)
    assert "ld_cut" in defined
    assert not needed & defined
    for length in [0, 3, 10, 63, 64, 100, *range(128, len(code), 37), len(code) - 1]:
        with pytest.raises(LoadError, match=r"damaged|not object code"):
            load_object(code[:length], "ld_cut")
    assert call(load_object(code, "ld_cut")) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="objects are ELF on Linux")
def test_damaged_tables_are_errors() -> None:
    code = compile_source(source("ld_hurt", 1), "ld_hurt")
    header_fields = {40: b"\xff" * 8, 58: b"\0\0", 60: b"\xff\xff", 16: b"\x03\0"}
    for offset, value in header_fields.items():
        hurt = code[:offset] + value + code[offset + len(value) :]
        with pytest.raises(LoadError, match="damaged"):
            load_object(hurt, "ld_hurt")
    for filler in (b"", b"\0" * 500, b"\x7fELF", b"hello" * 100):
        with pytest.raises(LoadError):
            load_object(filler, "ld_hurt")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_loaded_code_works_in_a_forked_child() -> None:
    code = """
import os, sys
sys.path[:0] = {path!r}
from test_runtime_loader import call, compile_source, load_object, source
first = load_object(compile_source(source("ld_a", 3), "ld_a"), "ld_a")
child = os.fork()
if child == 0:
    second = load_object(compile_source(source("ld_b", 4), "ld_b"), "ld_b")
    os._exit(10 * call(first) + call(second))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    code = code.format(path=FOLDERS)
    assert printed(code) == "34\n"
