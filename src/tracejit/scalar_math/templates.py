"""One text for several types: functions of the kernel language printed once per type."""

from __future__ import annotations

import ast
import re

from tracejit.generated import parse

_CASTS = {"i": "int", "u": "uint", "f": "float"}


def expand(template: str, type_name: str, **numbers: int) -> dict[str, str]:
    """The functions of `template` for one type, by name.

    `T` is the type, `name_T` a name with the type's suffix, `CAST` the cast to the type, `UCAST` to the unsigned type
    of the same width; every other keyword is replaced by its number.

    >>> expand("def twice_T(x: T) -> T:\\n    return CAST(x * CAST(TWO))\\n", "i32", TWO=2)
    {'twice_i32': 'def twice_i32(x: i32) -> i32:\\n    return int32(x * int32(2))\\n'}
    """
    bits = type_name[1:]
    words = {"T": type_name, "CAST": _CASTS[type_name[0]] + bits, "UCAST": "uint" + bits}
    words |= {name: str(number) for name, number in numbers.items()}
    text = re.sub(rf"\b({'|'.join(words)})\b", lambda match: words[match.group(1)], template)
    text = re.sub(r"_T\b", "_" + type_name, text)
    lines = text.splitlines(keepends=True)
    return {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno])
        for node in parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
