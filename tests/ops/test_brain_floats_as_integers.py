"""Numbers of bfloat16 and float8 beyond the limits of an integer wrap around, as those of float32 do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from each_way import assert_each

NUMBERS = [-8.0, 300.0, -1.5, 3000.0, -300.0]
WRAPPED = [248, 44, 255, 192, 212]

WAYS: dict[str, Callable[[Any], Any]] = {
    "to": lambda x: x.to(tj.uint8),
    "byte": lambda x: x.byte(),
    "type": lambda x: x.type(tj.uint8),
    "copy_": lambda x: tj.zeros(5, dtype=tj.uint8).copy_(x),
    "turned": lambda x: x.flip(0).flip(0).to(tj.uint8),
}


@pytest.mark.parametrize("way", WAYS)
def test_bytes(way: str) -> None:
    assert_each(WRAPPED, WAYS[way], tj.tensor(NUMBERS, dtype=tj.bfloat16))


def test_writing_to_a_part() -> None:
    def written(x: Any, y: Any) -> Any:
        x[:] = y
        return x

    given = tj.tensor([-8.0, 300.0, -1.5, 3000.0, -300000.0], dtype=tj.bfloat16)
    assert_each([-8, 300, -1, 3008, 28672], written, tj.zeros(5, dtype=tj.int16), given)


def test_wider_integers() -> None:
    x = tj.tensor(NUMBERS, dtype=tj.bfloat16)
    assert_each([-8, 44, -1, -64, -44], lambda x: x.to(tj.int8), x)
    y = tj.tensor([70000.0, -70000.0], dtype=tj.bfloat16)
    assert_each([4608, -4608], lambda y: y.short(), y)
    assert_each([70144, -70144], lambda y: y.int(), y)
    z = tj.tensor([float("nan"), float("inf")], dtype=tj.bfloat16)
    assert_each([-(2**63), -(2**63)], lambda z: z.long(), z)


def test_a_large_tensor() -> None:
    x = tj.tensor(NUMBERS, dtype=tj.bfloat16).repeat(20000)
    for found in (x.byte(), x.reshape(5, -1).mT.byte().mT.reshape(-1)):
        assert found[-5:].tolist() == WRAPPED
        assert found.int().sum().item() == 20000 * sum(WRAPPED)


def test_float8() -> None:
    x = tj.tensor(NUMBERS, dtype=tj.float8_e5m2)
    assert x.to(tj.uint8).tolist() == [248, 64, 255, 0, 192]
