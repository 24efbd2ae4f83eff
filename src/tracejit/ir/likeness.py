"""What makes statements alike that are on other values: keys of options, numbers and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..extents import Extent
from ..symbols import first_equal
from .builder import attribute_key, attribute_keys
from .graph import Value

__all__ = ["Keys"]


class Keys:
    """The keys of one description, in which sizes are what they are made of, symbols found equal being one.

    Two descriptions of equal keys are alike where their ``extents`` are equal one by one: a plan that makes use of it
    depends on that.

    >>> from tracejit.extents import Extents
    >>> sizes = Extents()
    >>> a, b = sizes.symbol(6), sizes.symbol(6)
    >>> one, other = Keys(), Keys()
    >>> one.size(a * 2) == other.size(b * 2), a == b, one.size(a * 2) == other.size(b * 2)
    (False, True, True)
    >>> with sizes.deciding() as decisions:
    ...     other.agrees(one)
    True
    >>> [str(decision) for decision in decisions]
    ['2 * n0 + -2 * n1 == 0 is True']
    """

    def __init__(self) -> None:
        self.extents: list[Extent] = []

    def agrees(self, other: Keys) -> bool:
        """Are the extents equal to those of a description with the same keys? Now it is decided that they are."""
        pairs = zip(self.extents, other.extents, strict=True)
        different = {(a.terms, b.terms): (a, b) for a, b in pairs if a.terms != b.terms}
        return all(not a.is_told and a == b for a, b in different.values())

    def size(self, x: Any) -> Any:
        """A size."""
        if type(x) is not Extent:
            return x
        self.extents.append(x)
        equal = x.scope.equal
        if equal.keys().isdisjoint(x.symbols):
            return x.terms
        renamed = [
            (tuple(sorted([first_equal(equal, n) for n in monomial])), factor)
            for monomial, factor in x.terms
        ]
        return tuple(sorted(renamed))

    def sizes(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes in a row."""
        return tuple([self.size(x) if type(x) is Extent else x for x in sizes])

    def options(self, value: Value) -> tuple[Any, ...]:
        """The attributes of a statement.

        >>> from tracejit.ir import parse
        >>> graph = parse("graph f(x: f32[2]) { %0: f32[] = sum(x, dims=(0,), keepdim=False) return %0 }")
        >>> [name for name, _ in Keys().options(next(graph.values))]
        ['dims', 'keepdim']
        """
        attributes = value.attributes
        if not attributes:
            return ()
        if any(type(x) is Extent or type(x) is tuple for x in attributes.values()):
            return tuple([(name, self.option(x)) for name, x in attributes.items()])
        return attribute_keys(value)

    def option(self, x: Any) -> Any:
        """One attribute, or a number."""
        if type(x) is tuple:
            return tuple(map(self.option, x))
        return ("extent", self.size(x)) if type(x) is Extent else attribute_key(x)

    def operand(self, x: Any, numbers: Mapping[Value, int]) -> Any:
        """What an operation takes: a number, or a value that has one among ``numbers``, as such or through others.

        >>> from tracejit.ir import parse
        >>> graph = parse("graph f(x: f32[2]) { %0: f32[2] = mul(x, 2) return %0 }")
        >>> product = next(graph.values)
        >>> [Keys().operand(x, {graph.inputs[0]: 0}) for x in product.operands]
        [0, ('int', 2)]
        """
        if x.__class__ is not Value:
            return self.option(x)
        number = numbers.get(x)
        if number is not None:
            return number
        if x.op is None:
            return "value", id(x)
        through = [self.operand(y, numbers) for y in x.operands]
        return x.op, self.options(x), self.sizes(x.spec.shape), *through
