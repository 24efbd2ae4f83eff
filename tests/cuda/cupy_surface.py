"""What CuPy has, as far as the package may use it: names, parameters and the dtypes of universal functions.

``cupy_surface.json`` holds the facts of one release, so that the stand-in can refuse what that release would refuse on
machines that have no CuPy. ``python tests/cuda/cupy_surface.py`` writes it anew; it needs CuPy, but no GPU.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FILE = Path(__file__).with_suffix(".json")
MODULES = (
    "cupy",
    "cupy.linalg",
    "cupy.fft",
    "cupy.lib.stride_tricks",
    "cupy.cuda",
    "cupy.cuda.memory",
    "cupy.cuda.runtime",
    "cupyx",
    "cupyx.scipy.linalg",
    "cupyx.scipy.special",
)
CLASSES = (
    "cupy.ndarray",
    "cupy.cuda.Device",
    "cupy.cuda.Event",
    "cupy.cuda.Graph",
    "cupy.cuda.MemoryPointer",
    "cupy.cuda.MemoryPool",
    "cupy.cuda.PinnedMemoryPool",
    "cupy.cuda.Stream",
)
#: Names of dtypes that NumPy has no letter for.
_LETTERS = {"E": np.dtype(ml_dtypes.bfloat16)}


# --- reading an installed CuPy ------------------------------------------------------------------------------------


def read() -> dict[str, Any]:
    """The facts of the CuPy that is installed."""
    found: dict[str, Any] = {"version": importlib.import_module("cupy").__version__}
    for path in (*MODULES, *CLASSES):
        owner = _object(path)
        members = {n: _fact(n, getattr(owner, n, None)) for n in _members(owner)}
        kept = {n: f for n, f in sorted(members.items()) if f is not None or path in CLASSES}
        found[path] = kept
    return found


def _object(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if path in CLASSES:
        return getattr(importlib.import_module(module), name)
    return importlib.import_module(path)


def _members(owner: Any) -> Iterator[str]:
    for name in dir(owner):
        if not name.startswith("_") or name in ("__getitem__", "__setitem__"):
            yield name


def _fact(name: str, member: Any) -> Any:
    """Types of a universal function, parameters of a function, None for anything else."""
    if isinstance(types := getattr(member, "types", None), list):
        return types
    if not callable(member):
        return None
    try:
        return ", ".join(_spelled(inspect.signature(member).parameters.values()))
    except (TypeError, ValueError):
        return _documented(name, member.__doc__ or "")


def _spelled(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Parameters without their defaults: ``a, axis=, *, out=``."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    star = False
    for p in parameters:
        star = star or p.kind is inspect.Parameter.VAR_POSITIONAL
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        default = "" if p.default is inspect.Parameter.empty else "="
        yield stars.get(p.kind, "") + p.name + default


def _documented(name: str, text: str) -> str:
    """The parameters that the first line of a compiled function's documentation names; any, where there is none."""
    found = re.match(rf"\s*[\w.]*\b{re.escape(name)}\((.*?)\)( ->.*)?\s*$", text.split("\n")[0])
    if found is None:
        return "*any, **more"
    words = [word.strip() for word in found[1].split(",") if word.strip()]
    spelled = [re.sub(r"=.*", "=", word).split(" ")[-1] for word in words]
    return ", ".join(spelled)


# --- asking -------------------------------------------------------------------------------------------------------


@cache
def facts() -> Mapping[str, Any]:
    """The facts that are kept beside this file."""
    return json.loads(FILE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def has(path: str, name: str) -> bool:
    """Does a module or a class have a member?"""
    return name in facts()[path]


def check_call(
    path: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], method: bool = False
) -> None:
    """`AssertionError` unless the member takes these arguments."""
    assert has(path, name), f"{path} has no {name}"
    known = facts()[path][name]
    assert known is not None, f"{path}.{name} is no function"
    if isinstance(known, list):
        inputs = len(known[0].split("->")[0])
        results = len(known[0].split("->")[1])
        assert inputs <= len(args) <= inputs + results, f"{name} takes {inputs} arrays"
        assert set(kwargs) <= {"out", "dtype", "casting"}, f"{name}: {sorted(kwargs)}"
        return
    try:
        signature(known).bind(*([None, *args] if method else args), **kwargs)
    except TypeError as error:
        raise AssertionError(f"{path}.{name}({known}): {error}") from None


@cache
def signature(spelled: str) -> inspect.Signature:
    """The signature that `_spelled` was made from."""
    words = spelled.replace("=", "=None")
    return inspect.signature(eval(f"lambda {words}: None"))


def loop(path: str, name: str, dtypes: Sequence[Any]) -> tuple[Any, ...] | None:
    """The dtypes of the results that a universal function gives for arrays of these dtypes (None: a Python number).

    It takes the first loop that all of them can be cast to. `TypeError` where there is none, None for what is not a
    universal function.
    """
    known = facts()[path].get(name)
    if not isinstance(known, list):
        return None
    for types in known:
        wanted, given = types.split("->")
        pairs = zip(dtypes, wanted, strict=True)
        if all(d is None or np.can_cast(d, _dtype(w)) for d, w in pairs):
            return tuple(map(_dtype, given))
    raise TypeError(f"Wrong type {tuple(map(str, dtypes))} for {path}.{name}")


#: Universal functions behind operators.
_BEHIND = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "neg": "negative",
    "abs": "absolute",
    "invert": "invert",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def check_operator(name: str, operands: tuple[Any, ...], result: Any) -> None:
    """Does CuPy compute this operator on these dtypes, with the same dtype as its result?"""
    bare = name.strip("_")
    function = _BEHIND.get(bare) or _BEHIND.get(bare[1:])
    dtypes = [getattr(x, "dtype", None) for x in operands]
    if function is None or None in dtypes:
        return  # products have rules of their own; a Python number adapts itself
    where = "" if bare in _BEHIND else bare[0]  # "r": operands are exchanged, "i": in place
    found = loop("cupy", function, dtypes[::-1] if where == "r" else dtypes)
    assert found is not None
    assert where == "i" or found[0] == result.dtype, f"{function} of {dtypes} is {found} in CuPy"


def _dtype(letter: str) -> Any:
    return _LETTERS.get(letter) or np.dtype(letter)


def main() -> None:
    """Write the file."""
    found = read()
    lines = [f'"version": {json.dumps(found.pop("version"))}']
    for path, members in found.items():
        rows = ",\n".join(f"  {json.dumps(n)}: {json.dumps(f)}" for n, f in members.items())
        lines.append(f"{json.dumps(path)}: {{\n{rows}\n }}")
    FILE.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
