"""Numbers that are others at every call, and decide: arguments drawn for each call, and lists left in attributes."""

from __future__ import annotations

import random
from types import SimpleNamespace

import tracejit as tj

box = SimpleNamespace()


def accepted(x, draws):
    """As samplers decide about proposals."""
    count = 1
    for j in range(3):
        fits = int(draws[j] <= tj.exp(x.sum()).item())
        if draws[j + 3] < fits / count:
            x = x + 1
        count += fits
    return x * count


def test_drawn_numbers_that_decide_stay_numbers() -> None:
    draw = random.Random(0)
    compiled = tj.compile(accepted)
    for _ in range(240):
        x, draws = tj.tensor([draw.gauss(0, 1)]), [draw.random() for _ in range(6)]
        assert compiled(x, draws).tolist() == accepted(x, draws).tolist()
    assert compiled.stats.compiled_calls > 150


def rounds(x, n):
    for _ in range(n):
        x = x.sin() + 1
    return x


def test_a_count_of_rounds_is_a_constant_for_few_counts() -> None:
    compiled = tj.compile(rounds)
    for i in range(60):
        tj.testing.assert_close(compiled(tj.ones(3), 2 + i % 6), rounds(tj.ones(3), 2 + i % 6))
    assert compiled.stats.compiled_calls > 30


def residuals(x):
    found = []
    for _ in range(4):
        found.append(x.norm().item() / (1e-5 + x.abs().sum().item()))
        x = x * 0.5
        if found[-1] < -1:
            break
    box.residuals, box.named = found, {"last": found[-1], "all": found}
    return x


def test_lists_of_numbers_left_in_attributes() -> None:
    compiled = tj.compile(residuals)
    left = []
    for i in range(12):
        x = tj.linspace(0, 1, 4) + i
        tj.testing.assert_close(compiled(x), x / 16)
        left.append((box.residuals, box.named))
        residuals(x)
        tj.testing.assert_close(left[-1][0], box.residuals)
        tj.testing.assert_close(left[-1][1]["all"], box.residuals)
        assert list(left[-1][1]) == ["last", "all"]
    assert len({id(found) for found, _ in left}) == 12
    assert compiled.stats.compiled_calls >= 6


def sometimes(x):
    if x.sum() > 0:
        box.total = [x.sum().item()]
    return x * 2


def test_a_list_that_only_some_ways_replace() -> None:
    box.total = [0.0]
    compiled = tj.compile(sometimes)
    for i in range(30):
        before, x = box.total, tj.tensor([i - 9.5 if i % 3 else 2.5 - i])
        held = list(before)
        compiled(x)
        if x.sum() > 0:
            assert box.total == [x.sum().item()]
        else:
            assert box.total is before
            assert before == held
    assert compiled.stats.compiled_calls >= 15


known = [1.5]


def pointed(x):
    box.pointed = known
    return x * 2


def test_a_list_from_outside_stays_itself() -> None:
    compiled = tj.compile(pointed)
    for i in range(10):
        box.pointed = [float(i)]
        compiled(tj.ones(2))
        assert box.pointed is known


def replaced_and_read(x):
    before = vars(box)["kept"]
    box.kept = [x.sum().item()]
    return x + before[0]


def test_a_list_that_is_read_another_way() -> None:
    box.kept, compiled = [1.0], tj.compile(replaced_and_read)
    for i in range(8):
        before, x = box.kept[0], tj.ones(3) * i
        assert compiled(x).tolist() == [i + before] * 3
        assert box.kept == [3.0 * i]
