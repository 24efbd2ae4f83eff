"""How values of a class come apart, and the steps to what they consist of: what nested values are told by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GetAttrKey", "MappingKey", "NodeDef", "SequenceKey", "node_of_fields"]


@dataclass(frozen=True)
class SequenceKey:
    """The step to an item of a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there in ``sequence``."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The step to a value of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there in ``mapping``."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The step to an attribute, as of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there in ``obj``."""
        return getattr(obj, self.name)


@dataclass(frozen=True)
class NodeDef:
    """How values of a class come apart into children and a context, and together again."""

    type: type
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    #: The same with the step to each child, where it is known.
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = field(
        default=None, compare=False
    )


def node_of_fields(
    cls: type, field_names: list[str] | None = None, drop_field_names: list[str] | None = None
) -> NodeDef:
    """How values of a class come apart into the fields that it is made from; fields that are None are no children.

    ``drop_field_names`` are those whose defaults are taken where a value is put together again. Raises ``ValueError``
    where ``field_names`` is missing for a class that is no dataclass, or is not all the others of one.

    >>> node = node_of_fields(dataclass(type("Pair", (), {"__annotations__": {"a": int, "b": int}})))
    >>> node.flatten_fn(node.type(3, None))
    ([3], (['a'], ['b']))
    """
    made_from = [f.name for f in dataclasses.fields(cls) if f.init] if _is_dataclass(cls) else None
    if field_names is None:
        if made_from is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
                "dataclass."
            )
        field_names = made_from
    elif made_from is not None:
        _compare({*made_from} - {*(drop_field_names or ())}, {*field_names})
    names = tuple(field_names)

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        found = {name: getattr(obj, name) for name in names}
        there = [name for name in names if found[name] is not None]
        return [found[name] for name in there], (there, [n for n in names if n not in there])

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        return cls(**dict(zip(context[0], values, strict=True)), **dict.fromkeys(context[1]))

    def flatten_with_keys(obj: Any) -> tuple[list[Any], Any]:
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values, strict=True)], context

    return NodeDef(cls, flatten, unflatten, flatten_with_keys)


def _is_dataclass(cls: type) -> bool:
    return dataclasses.is_dataclass(cls)


def _compare(expected: set[str], given: set[str]) -> None:
    """Raise ``ValueError`` unless all fields are named, and no others."""
    if expected == given:
        return
    words = ["field_names does not include all dataclass fields."]
    if expected - given:
        words.append(
            f"Missing fields in `field_names`: {sorted(expected - given)}. Add them there, or to `drop_field_names`."
        )
    if given - expected:
        words.append(f"Unexpected fields in `field_names`: {sorted(given - expected)}.")
    raise ValueError("\n".join(words))
