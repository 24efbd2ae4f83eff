"""Linking without LLVM: the same answers as LLVM's linker gives, and damage that does no harm."""

from __future__ import annotations

import ctypes
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from process_tools import printed
from tracejit.codegen.identity import compiler, machine, target_description
from tracejit.codegen.llvm import compile_source
from tracejit.runtime.machine_code import elf, linking
from tracejit.runtime.machine_code.loader import LoadError, load_object

HERE = linking.able(b"\x7fELF\x02\x01".ljust(18, b"\0") + b"\x3e".ljust(46, b"\0"))
pytestmark = pytest.mark.skipif(not HERE, reason="objects are linked here on x86-64 Linux only")

RELOCATED = """
declare double @fmod(double, double)
declare ptr @memset(ptr, i32, i64)
@given = external global i64
@counter = internal global i64 40, align 64
@zeros = internal global [100 x i64] zeroinitializer, align 128
@table = internal constant [2 x ptr] [ptr @one, ptr @two]
@exported = global i64 5

define internal i64 @one(i64 %x) noinline optnone { ret i64 %x }
define internal i64 @two(i64 %x) noinline optnone {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @count() {
  %a = load volatile i64, ptr @counter
  %b = add i64 %a, 1
  store volatile i64 %b, ptr @counter
  %e = load volatile i64, ptr @exported
  %c = add i64 %b, %e
  ret i64 %c
}
define i64 @zero(i64 %i) {
  %p = getelementptr i64, ptr @zeros, i64 %i
  %a = load volatile i64, ptr %p
  ret i64 %a
}
define i64 @pick(i64 %i, i64 %x) {
  %p = getelementptr ptr, ptr @table, i64 %i
  %f = load ptr, ptr %p
  %r = call i64 %f(i64 %x)
  ret i64 %r
}
define i64 @outside() {
  %r = load i64, ptr @given
  ret i64 %r
}
define double @rest(double %x, double %y) {
  %r = call double @fmod(double %x, double %y)
  %s = fadd double %r, 0.125
  ret double %s
}
define void @fill(ptr %p, i64 %n) {
  %r = call ptr @memset(ptr %p, i32 7, i64 %n)
  ret void
}
define i64 @choose(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c
                                i64 3, label %d  i64 4, label %e  i64 5, label %f ]
a:
  ret i64 17
b:
  ret i64 4
c:
  ret i64 99
d:
  ret i64 -3
e:
  ret i64 1000000007
f:
  ret i64 12
other:
  ret i64 0
}
"""


def assembled(text: str, level: int = 2) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    made = target.create_target_machine(opt=level, reloc="pic", codemodel="default")
    module = llvm.parse_assembly(text)
    module.triple = made.triple
    return bytes(made.emit_object(module))


def function(address: int, result: object, *arguments: object) -> object:
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def address_in_process(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def imports_of(data: bytes, **given: int) -> dict[str, int]:
    _, needed = elf.symbols(data)
    needed.discard("_GLOBAL_OFFSET_TABLE_")
    return {name: given.get(name) or address_in_process(name) for name in needed}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_kind_of_reference(level: int) -> None:
    word, real = ctypes.c_int64, ctypes.c_double
    outside = word(1234567)
    data = assembled(RELOCATED, level)
    found = linking.link(data, imports_of(data, given=ctypes.addressof(outside)))
    assert set(found) == {
        *("count", "zero", "pick", "outside", "rest", "fill", "choose", "exported")
    }
    count = function(found["count"], word)
    assert [count(), count()] == [46, 47]
    word.from_address(found["exported"]).value = 100
    assert count() == 143
    zero = function(found["zero"], word, word)
    assert {zero(i) for i in range(100)} == {0}
    pick = function(found["pick"], word, word, word)
    assert [pick(0, 21), pick(1, 21)] == [21, 42]
    assert function(found["outside"], word)() == 1234567
    rest = function(found["rest"], real, real, real)
    assert rest(7.5, 2.0) == 1.625
    assert math.isnan(rest(1.0, 0.0))
    buffer = (ctypes.c_uint8 * 300)()
    function(found["fill"], None, ctypes.c_void_p, word)(ctypes.addressof(buffer), 299)
    assert bytes(buffer) == b"\7" * 299 + b"\0"
    choose = function(found["choose"], word, word)
    assert [choose(i) for i in range(-1, 7)] == [0, 17, 4, 99, -3, 1000000007, 12, 0]


def test_every_link_has_data_of_its_own() -> None:
    data = assembled(RELOCATED)
    imports = imports_of(data, given=1)
    first, second = (linking.link(data, imports) for _ in range(2))
    counts = [function(found["count"], ctypes.c_int64) for found in (first, second)]
    assert [counts[0](), counts[0](), counts[1]()] == [46, 47, 46]


def test_no_page_is_both_written_and_executed() -> None:
    data = assembled(RELOCATED)
    found = linking.link(data, imports_of(data, given=1))
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, kind = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        for name, address in found.items():
            if start <= address < end:
                rights[name] = kind[:3]
    assert rights.pop("exported") == "rw-"
    assert set(rights.values()) == {"r-x"}


KERNEL = """
def everything(x: "f32*", n: "i64*", out: "f64*", lo: "i64", hi: "i64", worker: "i64") -> "i32":
    for i in range(lo, hi):
        v = x[i]
        a = exp_f32(v) + log_f32(v * v + float32(1.0)) - tanh_f32(v) * sin_f32(v)
        b = float64(a) + erf_f64(float64(v)) + pow_f64(float64(v), float64(3.0))
        out[i] = b + float64(n[i] // int64(3))
    return 0
"""


def test_a_kernel_gives_the_bits_that_llvm_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile_source(KERNEL, "everything")
    x = np.linspace(-30, 30, 1001, dtype=np.float32)
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    n = np.arange(1001)
    results = []
    for here in (True, False):
        if not here:
            monkeypatch.setattr(linking, "able", lambda data: False)
            code = code + b"\0"  # another object
        address = load_object(code, "everything")
        out = np.zeros(1001)
        args = (ctypes.c_int64 * 3)(x.ctypes.data, n.ctypes.data, out.ctypes.data)
        kernel = function(address, ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * 3)
        assert kernel(ctypes.addressof(args), 0, 1001, 0) == 0
        results.append(out)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "@t = thread_local global i64 3\ndefine ptr @f() { ret ptr @t }",
        "@b = common global i64 0\ndefine i64 @f() {\n %r = load i64, ptr @b\n ret i64 %r\n}",
        "@i = internal constant i64 2, align 65536\ndefine ptr @f() { ret ptr @i }",
        "$f = comdat any\ndefine i64 @f() comdat { ret i64 2 }",
    ],
)
def test_what_is_not_understood_is_left_to_llvm(text: str) -> None:
    data = assembled(text)
    with pytest.raises(linking.Unlinkable):
        linking.link(data, imports_of(data) if "thread" not in text else {"__tls_get_addr": 1})


def test_llvm_links_what_cannot_be_linked_here() -> None:
    data = assembled("$f = comdat any\ndefine i64 @f() comdat { ret i64 23 }")
    assert function(load_object(data, "f"), ctypes.c_int64)() == 23


def test_damage_is_an_error_or_goes_unseen_but_does_no_harm() -> None:
    data = assembled(RELOCATED)
    imports = imports_of(data, given=1)
    chance = random.Random(7)
    seen = set()
    for _ in range(4000):
        hurt = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            hurt[chance.randrange(len(hurt))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, 33])
        try:
            linking.link(bytes(hurt), imports)
            seen.add("linked")
        except (elf.MalformedObjectError, linking.Unlinkable) as error:
            seen.add(type(error).__name__)
    assert seen == {"linked", "MalformedObjectError", "Unlinkable"}


def test_relocations_outside_their_section_are_errors() -> None:
    data = assembled(RELOCATED)
    parts = elf.sections(data)
    table = next(p for p in parts if p.kind == elf.RELA and parts[p.info].flags & 4)
    far = parts[table.info].size.to_bytes(8, "little")
    hurt = data[: table.offset] + far + data[table.offset + 8 :]
    with pytest.raises(elf.MalformedObjectError, match="outside its section"):
        linking.link(hurt, imports_of(data, given=1))
    with pytest.raises(LoadError, match="damaged"):
        load_object(hurt, "fill", {"given": 1})


# -- a process that finds everything in the store ----------------------------------------------------------------------

SCRIPT = """
import json, sys
import tracejit as tj
model = tj.nn.Sequential(tj.nn.Linear(8, 16), tj.nn.Tanh(), tj.nn.Linear(16, 3))
f = tj.compile(lambda x, y: tj.nn.functional.cross_entropy(model(x), y))
x, y = tj.ones(5, 8), tj.tensor([0, 1, 2, 1, 0])
for _ in range(3):
    f(x, y).backward()
print(json.dumps([f.stats.compiled_calls, sorted(m for m in ("llvmlite", "numba") if m in sys.modules)]))
"""


def test_a_warm_process_does_without_llvm(tmp_path: Path) -> None:
    found = [json.loads(printed(SCRIPT, TRACEJIT_CACHE_DIR=str(tmp_path))) for _ in range(2)]
    assert found == [[2, ["llvmlite"]], [2, []]]


def test_the_machine_is_told_without_llvm() -> None:
    code = (
        "import sys; from tracejit.codegen.identity import compiler, machine; "
        "print(machine()); print(compiler()); print('llvmlite' in sys.modules)"
    )
    assert printed(code).splitlines() == [machine(), compiler(), "False"]
    assert machine() != target_description()
