"""What a value weighs when the partition chooses what to keep: its bytes, made independent of small batches.

A choice that depended on exact extents would give other kernels for other batch sizes. So extents below 64 count as 64,
one included, unless the extent is one by construction: kept by a reduction, put in by ``unsqueeze``. Rows of a matrix
that are such dimensions laid side by side weigh the same. What shows all of another value, or is computed from values
of its own shape, weighs as much as they do, however its dimensions are laid side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...extents import hint, is_symbolic
from ...ir.graph import Value
from ...ops.contraction import matmul
from ...ops.table import Elementwise, Movement, Reduction

SHORT = 64
Ones = tuple[bool, ...]  # for each dimension: is its extent one whatever the inputs' extents?
#: Views that show all of what they view.
_WHOLE = ("reshape", "permute", "unsqueeze", "squeeze")


def weights(inputs: Iterable[Value], values: Sequence[Value]) -> dict[Value, int]:
    """The weight of every value."""
    known = ones(inputs, values)
    found = {value: _weight(value, of_value) for value, of_value in known.items()}
    for value in values:
        alike = _alike(value, known)
        if alike:
            found[value] = max(_scaled(found[x], x, value) for x in alike)
        else:
            found[value] = max(found[value], _inherited(value, found))
    return found


def _alike(value: Value, known: dict[Value, Ones]) -> list[Value]:
    """What a value has every element of, or is computed from element by element."""
    if isinstance(value.op, Movement):
        return [*value.value_operands[:1]] if value.op.name in _WHOLE else []
    if not isinstance(value.op, Elementwise):
        return []
    shape = (*map(hint, value.spec.shape),)
    return [
        x
        for x in value.value_operands
        if known[x] == known[value] and (*map(hint, x.spec.shape),) == shape
    ]


def _scaled(weight: int, x: Value, value: Value) -> int:
    """The weight of ``x`` for elements of the size of those of ``value``."""
    return weight * value.spec.dtype.itemsize // x.spec.dtype.itemsize


def ones(inputs: Iterable[Value], values: Iterable[Value]) -> dict[Value, Ones]:
    """For every value which of its extents are one by construction."""
    found: dict[Value, Ones] = {v: (False,) * v.spec.ndim for v in inputs}
    for value in values:
        found[value] = _ones(value, found)
    return found


def _weight(value: Value, ones: Ones) -> int:
    count = value.spec.dtype.itemsize
    for extent, one in zip(map(hint, value.spec.shape), ones, strict=True):
        count *= extent if one or extent == 0 else max(extent, SHORT)
    return max(count, 1)


def _inherited(value: Value, found: dict[Value, int]) -> int:
    """What a value weighs by its operands: short extents count in the rows they are laid side by side in, too."""
    count: int = hint(value.spec.numel)
    if not count or isinstance(value.op, Reduction):
        return 0
    sources = value.value_operands
    if value.op is matmul:
        x = sources[0]
        inner, columns = (max(hint(v.spec.shape[-1]), SHORT) for v in (x, value))
        return int(found[x] // inner * columns)
    as_many = [x for x in sources if hint(x.spec.numel) == count]
    return max((_scaled(found[x], x, value) for x in as_many), default=0)


def _ones(value: Value, known: dict[Value, Ones]) -> Ones:
    """Which extents of a result are one by construction."""
    op, attributes, shape = value.op, value.attributes, value.spec.shape
    operands = [known[x] for x in value.value_operands]
    if isinstance(op, Elementwise):
        return tuple(
            extent == 1 and all(_at(o, len(shape) - d) for o in operands)
            for d, extent in enumerate(shape)
        )
    if isinstance(op, Reduction):
        dims = attributes["dims"]
        if attributes["keepdim"]:
            return tuple(d in dims or one for d, one in enumerate(operands[0]))
        return tuple(one for d, one in enumerate(operands[0]) if d not in dims)
    if isinstance(op, Movement) and op.is_view:
        return _ones_of_view(op.name, value, operands[0])
    return (False,) * len(shape)


def _at(ones: Ones, back: int) -> bool:
    """The dimension ``back`` from the end; one that is not there is broadcast."""
    return back > len(ones) or ones[-back]


def _ones_of_view(name: str, value: Value, ones: Ones) -> Ones:
    attributes, shape = value.attributes, value.spec.shape
    if name == "unsqueeze":
        result = list(ones)
        for d in attributes["dims"]:
            result.insert(d, True)
        return tuple(result)
    if name == "squeeze":
        return tuple(one for d, one in enumerate(ones) if d not in attributes["dims"])
    if name == "permute":
        return tuple(ones[d] for d in attributes["dims"])
    if name == "slice":
        return ones
    if name == "reshape":
        return tuple(not is_symbolic(extent) and extent == 1 for extent in shape)
    return (False,) * len(shape)
