"""One text for several types: functions of the kernel language printed once per type."""

from __future__ import annotations

import re

#: A function of a text: up to the next line that neither is indented nor closes the parameters. Parsing whole texts was
#: a third of the time in which the first kernel of a process is lowered.
_FUNCTION = re.compile(r"^def (\w+)\(.*?(?=^[^\s)]|\Z)", re.MULTILINE | re.DOTALL)
_CASTS = {"i": "int", "u": "uint", "f": "float"}


def functions_in(text: str) -> dict[str, str]:
    """The functions of a text, by name.

    >>> functions_in("import math\\n\\n\\ndef one() -> i32:\\n    return 1\\n\\n\\nTWO = 2\\n")
    {'one': 'def one() -> i32:\\n    return 1\\n'}
    """
    return {found[1]: found[0].rstrip() + "\n" for found in _FUNCTION.finditer(text)}


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
    return functions_in(re.sub(r"_T\b", "_" + type_name, text))
