"""What tests of Python state that compiled functions fill have in common."""

from __future__ import annotations

import copy
from typing import Any

import tracejit as tj
from tracejit import nn


def same(a: Any, b: Any) -> bool:
    """Do two values have the same structure and values?"""
    if isinstance(a, tj.Tensor):
        return (
            isinstance(b, tj.Tensor)
            and a.requires_grad == b.requires_grad
            and a.is_leaf == b.is_leaf
            and tj.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


class Model(nn.Module):
    """Base of the models below: what ``names`` lists is compared after every call."""

    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name, "nothing") for name in self.names}


def pair(kind: type[Model]) -> tuple[Model, Model]:
    first = kind()
    return first, copy.deepcopy(first)
