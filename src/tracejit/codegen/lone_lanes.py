"""Stores of one lane of a vector, written as what they are: LLVM writes too much there.

LLVM 22 makes one store of a conversion to narrower integers and a masked store of the result, and of such a store,
where the mask is a constant with a single lane, one of the number before the conversion: of 64-bit numbers that are
stored as 8-bit ones, all 64 bits, over seven elements of somebody else's. Masks become such constants where the
elements of a vector go to places far from one another, and at the ends of rows whose length is known. Decision 0088
has what was tried.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import llvmlite.binding as binding

    from tracejit.codegen.llvm_threads import Compiler

__all__ = ["may_store_lone_lanes", "store_lone_lanes_alone"]

#: A masked store of integers that may come from wider ones.
_NARROWER = re.compile(r"@llvm\.masked\.store\.v\d+i(?:8|16|32)\.")

#: A masked store in LLVM's own words. What is stored may be a constant.
_STORE = re.compile(
    r"^  (?:tail )?call void @llvm\.masked\.store\.\S+?"
    r"\((?P<kind><\d+ x (?P<element>\w+)>) (?P<value>.+), ptr (?:\w+ )*?(?:align \d+ )?(?P<place>\S+), "
    r"(?:i32(?: immarg)? \d+, )?<\d+ x i1> <(?P<mask>i1 \w+(?:, i1 \w+)*)>\).*$",
    re.MULTILINE,
)


def may_store_lone_lanes(text: str) -> bool:
    """Does vector code store integers that may come from wider ones? To look at a module takes longer.

    >>> may_store_lone_lanes("call void @llvm.masked.store.v8i8.p0(<8 x i8> %x, ptr %p, i32 1, <8 x i1> %m)")
    True
    """
    return _NARROWER.search(text) is not None


def store_lone_lanes_alone(module: binding.ModuleRef, made: Compiler) -> binding.ModuleRef:
    """The module, optimised before, without masked stores of a lane that is known.

    >>> from tracejit.codegen.llvm_threads import compiler
    >>> text = '''
    ... define void @f(<4 x i64> %x, ptr %p) {
    ...   %y = trunc <4 x i64> %x to <4 x i8>
    ...   call void @llvm.masked.store.v4i8.p0(
    ...     <4 x i8> %y, ptr %p, i32 1, <4 x i1> <i1 0, i1 0, i1 1, i1 0>)
    ...   ret void
    ... }
    ... declare void @llvm.masked.store.v4i8.p0(<4 x i8>, ptr, i32, <4 x i1>)
    ... '''
    >>> with compiler() as made:
    ...     print(str(store_lone_lanes_alone(made.parse(text), made)).count("store i8"))
    1
    """
    text = str(module)
    if "@llvm.masked.store" not in text:
        return module
    number = 0

    def alone(found: re.Match[str]) -> str:
        nonlocal number
        lanes = found["mask"].split(", ")
        if lanes.count("i1 true") != 1:
            return found[0]
        number += 1
        lane, name, element = lanes.index("i1 true"), f"%lone.{number}", found["element"]
        return (
            f"  {name} = extractelement {found['kind']} {found['value']}, i64 {lane}\n"
            f"  {name}.place = getelementptr {element}, ptr {found['place']}, i64 {lane}\n"
            f"  store {element} {name}, ptr {name}.place, align 1"
        )

    changed = _STORE.sub(alone, text)
    return made.parse(changed) if number else module
