"""What an op is: the base of every table entry, its samples and gradient rules, and the registry of entries.

A gradient rule names what it needs and receives exactly that: ``g`` (gradient of the result), ``out`` (the result),
operands by name (these are saved for backward), ``<operand>_type``/``out_type`` (types only; nothing is saved),
attributes by name, ``shared`` (what the op's shared rule returns). It uses operators and methods of its arguments only,
so one rule serves the eager tape, IR differentiation and any order of derivative.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from ..types import Scalar, TensorType

Array = Any  # an ndarray of the namespace the op runs in (NumPy, or CuPy on a GPU)


@dataclass(frozen=True)
class Sample:
    """One test case of an op: operands, attributes and, for invalid input, the error it must raise.

    An operand is a shape (a tensor of random values from the op's domain), an ``Ints`` (an integer tensor), a
    Python number, or a ready NumPy array.
    """

    operands: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: type[Exception] | None = None
    match: str = ""


@dataclass(frozen=True)
class Ints:
    """An integer operand of a sample: ``shape`` and the half-open range of its values."""

    shape: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class GradRule:
    """The gradient with respect to one operand, and the names it needs."""

    function: Callable[..., Any]
    needs: tuple[str, ...]

    @property
    def refuses(self) -> bool:
        """Is there no derivative, so that a gradient is refused?"""
        return getattr(self.function, "refuses", False)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> GradRule:
        """A rule that needs the parameters of ``function``."""
        return cls(function, tuple(inspect.signature(function).parameters))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Op:
    """A table entry. Calling it runs it on tensors, or writes it down when given IR values."""

    name: str
    operands: tuple[str, ...]
    variadic: bool
    attributes: Mapping[str, Any]
    body: Callable[..., Array]
    grads: Mapping[str, GradRule]
    samples: tuple[Sample, ...] = ()
    doc: str = ""
    dynamic: bool = (
        False  # the result's shape depends on values: ``infer`` gives None for such extents
    )

    tells_values: bool = False  # the elements of the result are read as sizes
    follows: bool = False  # gradients of transposed matrices are to lie as these do
    shared: GradRule | None = (
        None  # what rules that name it ``shared`` have in common, computed once
    )

    _saves: dict[tuple[int, ...], tuple[tuple[str, int], ...]] = field(
        default_factory=dict, repr=False
    )

    #: May the result alias the operand's storage?
    is_view: ClassVar[bool] = False
    #: The function of ops that stands for this one in graphs; None where it stands there itself.
    in_graphs: ClassVar[Callable[..., Any] | None] = None

    @property
    def kind(self) -> str:
        """Name of the kind in lower case."""
        return str(type(self).__name__).lower()

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.doc

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Run the op, or write it down."""
        if attributes:
            if "out" in attributes:
                return self._into(operands, **attributes)
            if len(operands) < len(self.operands):
                operands, attributes = self._bind(operands, attributes)
        return _apply(self, operands, attributes)

    def _into(self, operands: tuple[Any, ...], out: Any, **attributes: Any) -> Any:
        """The result in the tensor ``out``."""
        from .given_results import put, refuse_alike

        if out is None:
            return self(*operands, **attributes)
        read = (*operands, *attributes.values())
        refuse_alike(self.name, out, read)
        return put(self.name, out, self(*operands, **attributes), read)

    def _bind(
        self, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Accept operands by keyword, under their own names or PyTorch's ``input`` and ``other``."""
        rest = dict(attributes)
        bound = list(operands)
        for position in range(len(operands), len(self.operands)):
            aliases = (self.operands[position], *(("input", "other")[position : position + 1]))
            name = next((a for a in aliases if a in rest), None)
            if name is None:
                break
            bound.append(rest.pop(name))
        return tuple(bound), rest

    @cached_property
    def rules(self) -> tuple[GradRule | None, ...]:
        """The gradient rules by operand."""
        return tuple([self.grads.get(name) for name in self.operands])

    @cached_property
    def types_asked(self) -> tuple[tuple[str, int], ...]:
        """What gradient rules call the types of the operands they ask for, and which these are."""
        asked = {name for rule in self.grads.values() for name in self.needs_of(rule)}
        names = [(f"{name}_type", position) for position, name in enumerate(self.operands)]
        return tuple([pair for pair in names if pair[0] in asked])

    def needs_of(self, rule: GradRule) -> tuple[str, ...]:
        """The names a gradient rule needs, and those its shared part does."""
        if self.shared is None or "shared" not in rule.needs:
            return rule.needs
        return (*rule.needs, *self.shared.needs)

    def gradient_rule(self, position: int) -> GradRule | None:
        """The rule for the operand at ``position`` (a variadic op has one rule for all)."""
        return self.rules[0 if self.variadic else position]

    def saves(self, wanted: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """What gradients for the operands at these positions need: names and positions, -1 for the result."""
        found = self._saves.get(wanted)
        if found is None:
            rules = [self.gradient_rule(position) for position in wanted]
            needs = {name for rule in rules if rule is not None for name in self.needs_of(rule)}
            pairs = [(name, i) for i, name in enumerate(self.operands) if name in needs]
            found = self._saves[wanted] = (*pairs, *([("out", -1)] if "out" in needs else ()))
        return found

    @property
    def differentiable(self) -> bool:
        """True when some operand has a gradient rule."""
        return bool(self.grads)

    def infer(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> TensorType:
        """Type of the result; raises the op's own error for operands it refuses."""
        raise NotImplementedError

    def told_axes(
        self, operands: Sequence[TensorType | Scalar], attributes: Mapping[str, Any]
    ) -> tuple[int, ...]:
        """The dimensions of the result whose extents only the run tells."""
        if not self.dynamic:
            return ()
        shape: tuple[Any, ...] = self.infer(operands, attributes).shape
        return tuple([d for d, extent in enumerate(shape) if extent is None])

    def evaluate(self, operands: Sequence[Array | Scalar], attributes: Mapping[str, Any]) -> Array:
        """The eager meaning on arrays."""
        return self.body(*operands, **attributes)

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (lookup, (self.name,))


REGISTRY: dict[str, Op] = {}


def lookup(name: str) -> Op:
    """The op called ``name``; ``KeyError`` when the table has none.

    >>> lookup("add")
    <elementwise op add>
    """
    return REGISTRY[name]


def all_ops() -> Iterable[Op]:
    """Every op, in the order of declaration.

    >>> "matmul" in [op.name for op in all_ops()]
    True
    """
    return tuple(REGISTRY.values())


def _unloaded(op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    raise RuntimeError("tracejit.dispatch is not loaded")


_apply: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any] = _unloaded


def set_dispatcher(apply: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Install the one door every op call goes through (done once by ``tracejit.dispatch``).

    >>> from tracejit.dispatch import apply
    >>> set_dispatcher(apply)
    """
    global _apply
    _apply = apply
