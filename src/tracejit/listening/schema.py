"""What PyTorch tells about an operator: its parameters, what it writes to, whether it shows what it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

from .signatures import forms_of

__all__ = ["AliasInfo", "Argument", "OperatorSchema", "is_view", "schema_of"]

_VIEWS = frozenset(
    """view _reshape_alias transpose t permute expand unsqueeze squeeze select slice diagonal unfold
    as_strided split split_with_sizes unbind alias detach view_as_real
    view_as_complex _conj lift_fresh real imag""".split()  # noqa: SIM905
)


def is_view(name: str) -> bool:
    """Does the result of an operator of that name show its operand?

    >>> is_view("transpose"), is_view("clone")
    (True, False)
    """
    return name in _VIEWS


class AliasInfo(NamedTuple):
    """What memory a parameter or a result is of."""

    before_set: frozenset[str]
    is_write: bool


class Argument(NamedTuple):
    """A parameter or a result."""

    name: str
    default_value: Any
    kwarg_only: bool
    alias_info: AliasInfo | None

    @property
    def is_write(self) -> bool:
        """Is it written to?"""
        return self.alias_info is not None and self.alias_info.is_write


class OperatorSchema(NamedTuple):
    """All of it."""

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @property
    def is_mutable(self) -> bool:
        """Does it write to what it is given?"""
        return any(x.is_write for x in self.arguments)

    def __str__(self) -> str:
        form = f".{self.overload_name}" if self.overload_name else ""
        parts: list[str] = []
        for x in self.arguments:
            if x.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(x.name if x.default_value is None else f"{x.name}={x.default_value}")
        return f"{self.name}{form}({', '.join(parts)})"


def schema_of(op: Any) -> OperatorSchema:
    """What is known of an operator; nothing but its name where it is not spelled.

    >>> import tracejit as tj
    >>> schema = schema_of(tj.ops.aten.add_.Tensor)
    >>> str(schema), schema.is_mutable
    ('aten::add_.Tensor(self, other, *, alpha=1)', True)
    """
    form = next((f for f in forms_of(op._opname) if f.form == op._overloadname), None)
    writes = op._opname.endswith("_") and not op._opname.endswith("__")
    shared = AliasInfo(frozenset("a"), writes) if writes or is_view(op._opname) else None
    arguments = tuple(
        Argument(p.name, p.default, p.named, shared if i == 0 else None)
        for i, p in enumerate(form.parameters if form else ())
    )
    own = "" if op._overloadname == "default" else op._overloadname
    results = (Argument("", None, False, shared),)
    return OperatorSchema(f"{op.namespace}::{op._opname}", own, arguments, results)
