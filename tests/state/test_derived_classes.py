"""Classes that code finds by the class that they are derived from."""

from __future__ import annotations

from typing import Any

import tracejit as tj


def test_new_classes_are_seen() -> None:
    class Base:
        pass

    made: list[type] = []
    compiled = tj.compile(lambda x: x * (1.0 + len(Base.__subclasses__())))
    for count in range(4):
        for _ in range(2):
            assert compiled(tj.ones(1)).item() == 1.0 + count
        made.append(type(f"Derived{count}", (Base,), {}))
    assert compiled.stats.compiled_calls >= 3


def test_registries_by_name() -> None:
    class Optimizer:
        name = ""

    class Plain(Optimizer):
        name, rate = "plain", 0.5

    def step(x: Any, name: str) -> Any:
        return x * next(cls.rate for cls in Optimizer.__subclasses__() if cls.name == name)

    compiled = tj.compile(step)
    for rate in (0.5, 0.25, 2.0):
        Plain.rate = rate
        for _ in range(2):
            assert compiled(tj.ones(1), "plain").item() == rate

    class Other(Optimizer):
        name, rate = "plain", 7.0

    Plain.name = "former"
    for _ in range(2):
        assert compiled(tj.ones(1), "plain").item() == Other.rate
    assert compiled.stats.compiled_calls >= 3
