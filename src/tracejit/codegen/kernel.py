"""What a printer leaves behind: functions in the kernel language and what each of their parameters stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..dtypes import DType
from ..ir.fields import ByFields
from ..ir.graph import Value
from ..passes.fusion.groups import Group


@dataclass(frozen=True, eq=False)
class Pointer(ByFields):
    """A parameter that is the address of a value's storage plus an offset in bytes."""

    value: Value
    offset: int
    written: bool


@dataclass(frozen=True)
class Number:
    """A parameter that is a 64-bit pattern: an extent, a stride, or a scalar literal."""

    bits: int


@dataclass(frozen=True)
class Scratch:
    """A parameter that is the address of temporary memory: ``count`` elements, for each worker or once."""

    key: str
    dtype: DType
    count: int
    per_worker: bool


Parameter = Pointer | Number | Scratch
_PARAMETER = re.compile(r'^    (\w+): "', re.MULTILINE)
_COMMENT = re.compile("#.*")


def kernel_name(group: Group) -> str:
    """A name that tells what is inside: ``k_mul_add_sum``."""
    names = list(dict.fromkeys(v.op.name for v in group.values if v.op is not None))
    listed = names if len(names) <= 5 else [*names[:2], f"{len(names) - 4}_more", *names[-2:]]
    return "k_" + "_".join(listed)


@dataclass(frozen=True)
class Function:
    """One printed function and what its parameters stand for at this use."""

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    extent: int
    grain: int

    @property
    def is_per_worker(self) -> bool:
        """Has each worker temporary memory of its own?"""
        return any(isinstance(p, Scratch) and p.per_worker for p in self.parameters)

    @property
    def statements(self) -> str:
        """The text without its comments, which quote what users wrote: loops and subscripts may be in them."""
        return _COMMENT.sub("", self.source)

    @property
    def named_parameters(self) -> dict[str, Parameter]:
        """What its parameters stand for, by their names in the text; the range and the worker are left out."""
        return dict(zip(_PARAMETER.findall(self.source), self.parameters, strict=False))


@dataclass(frozen=True)
class KernelCode:
    """A printed kernel: the parallel function, and for full reductions the one that combines its blocks."""

    name: str
    functions: tuple[Function, ...]
    group: Group | None
    outputs: tuple[Value, ...]


@dataclass
class Text:
    """Lines and parameters of one function."""

    lines: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def add(self, indent: int, text: str, comment: str = "") -> None:
        """Append a line, with a comment after it."""
        self.lines.append("    " * indent + text + (f"  # {comment}" if comment else ""))

    def parameter(self, name: str, type: str, parameter: Parameter) -> str:
        """Declare a parameter once; its name."""
        self.types.setdefault(name, type)
        self.parameters.setdefault(name, parameter)
        return name

    def source(self, name: str, doc: str) -> str:
        """The function as text."""
        parameters = [
            *((n, t) for n, t in self.types.items()),
            *((n, "i64") for n in ("lo", "hi", "worker")),
        ]
        listing = ",\n    ".join(f'{n}: "{t}"' for n, t in parameters)
        body = "\n".join(self.lines)
        return f'def {name}(\n    {listing},\n) -> "i32":\n    # {doc}\n{body}\n    return 0\n'
