"""The order of instructions in long bodies: what depends comes later, stores keep their place, chains are woven."""

from __future__ import annotations

import time

import numpy as np
import pytest

from kernel_tools import compiled, kernel
from tracejit.codegen.lower.instructions import Instruction, read
from tracejit.codegen.lower.schedule import scheduled


def chain(name: str, length: int, opcode: str = "fmul") -> list[Instruction]:
    """Instructions each of which waits for the one before."""
    return [
        Instruction(f"%{name}{i + 1}", opcode, "float", ("float",), (f"%{name}{i}",))
        for i in range(length)
    ]


def random_body(seed: int, length: int) -> list[Instruction]:
    """Arithmetic, loads and stores, each of operands that are there."""
    random = np.random.default_rng(seed)
    body, values = (
        read(["  %v0 = load float, ptr %p", "  %v1 = load float, ptr %q"]),
        ["%v0", "%v1"],
    )
    for i in range(2, length):
        left, right = (values[k] for k in random.integers(0, len(values), 2))
        kind = random.integers(0, 12)
        if kind == 0:
            body += read([f"  store float {left}, ptr %p"])
            continue
        line = (
            f"load float, ptr {'%p' if i % 2 else '%q'}"
            if kind == 1
            else f"fadd float {left}, {right}"
        )
        body += read([f"  %v{i} = {line}"])
        values.append(f"%v{i}")
    return body


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_every_instruction_comes_after_what_it_needs(seed: int, parts: int) -> None:
    body = random_body(seed, 150)
    order = scheduled(body, parts)
    assert sorted(map(repr, order)) == sorted(map(repr, body))
    there: set[str] = {"%p", "%q"}
    for instruction in order:
        assert set(instruction.operands) <= there
        there.add(instruction.result)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_moved_across_a_store(seed: int) -> None:
    body = random_body(seed, 200)

    def between_stores(instructions: list[Instruction]) -> list[list[str]]:
        groups: list[list[str]] = [[]]
        for instruction in instructions:
            if instruction.opcode == "store":
                groups += [[repr(instruction)], []]
            elif instruction.opcode == "load":
                groups[-1].append(instruction.result)
        return [sorted(group) for group in groups]

    assert between_stores(scheduled(body, 2)) == between_stores(body)
    assert any(i.opcode == "store" for i in body)


def test_the_time_grows_with_the_length_alone() -> None:
    """A body of thousands of instructions that wait for nothing is not compared each with each."""

    def seconds(count: int) -> float:
        body = read([f"  %v{i} = fadd float %x, %y" for i in range(count)])
        start = time.process_time()
        assert len(scheduled(body, 2)) == count
        return time.process_time() - start

    few = min(seconds(1024) for _ in range(3))
    assert min(seconds(8192) for _ in range(3)) < 24 * few


def test_short_bodies_stay_as_they_are() -> None:
    body = chain("a", 20) + chain("b", 20)
    assert scheduled(body, 4) == body


def test_chains_that_do_not_need_each_other_are_woven() -> None:
    """Between two instructions of a chain there is work for the time that the first takes."""
    chains = [chain(name, 25) for name in "abcd"]
    order = scheduled([i for each in chains for i in each], 2)
    names = [i.result[1] for i in order]
    assert {"".join(sorted(names[k : k + 4])) for k in range(0, 96, 4)} == {"abcd"}


def test_many_values_do_not_stay_alive_at_once() -> None:
    """What a sum takes up is not all computed before it begins."""
    terms = [Instruction(f"%p{i}", "xor", "i32", ("i32", "i32"), ("%x", "%y")) for i in range(100)]
    sums = [
        Instruction(f"%s{i + 1}", "add", "i32", ("i32", "i32"), (f"%s{i}", f"%p{i}"))
        for i in range(100)
    ]
    alive = most = 0
    for instruction in scheduled(terms + sums, 4):
        alive += 1 if instruction.opcode == "xor" else -1
        most = max(most, alive)
    assert most <= 8  # 32 registers for four vectors


LONG = kernel(
    'x: "f32*", y: "f32*", out: "f32*"',
    """
for i in range(lo, hi):
    a = x[i]
    b = y[i]
    out[i] = exp_f32(a) * log_f32(b) + erf_f32(a) * pow_f32(b, float32(0.3)) - exp_f32(-b * b)
return 0
""",
)


def test_the_order_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-5, 5, 1003).astype(np.float32)
    y = random.uniform(-0.5, 20, 1003).astype(np.float32)
    x[:4], y[:4] = [np.nan, np.inf, -np.inf, -0.0], [0.0, np.inf, np.nan, -1.0]
    results = []
    for keep in (False, True):
        if keep:
            monkeypatch.setattr(
                "tracejit.codegen.lower.body.scheduled", lambda body, parts: list(body)
            )
        out = np.zeros_like(x)
        compiled(LONG)(x, y, out, 0, len(x), 0)
        results.append(out.view(np.int32))
    np.testing.assert_array_equal(*results)
    assert np.isnan(out[0])
    assert np.isfinite(out[4:]).mean() > 0.9
