"""Functions whose calls all take ways of their own: recording and compiling them become rare."""

from __future__ import annotations

import pytest

import tracejit as tj


def walked(x, steps):
    rewards = []
    for i in range(len(steps)):
        rewards.append((x * i).sin().sum() * (1.0 if steps[i].item() > 0 else 0.5))
        for _ in range(15):
            x = x.cos() if steps[i] > 0 else x.tanh()
    return x, tj.stack(rewards).sum()


def steps_of(number):
    return tj.tensor([1.0 if number >> bit & 1 else -1.0 for bit in range(10)])


def test_each_call_a_path_of_its_own() -> None:
    compiled = tj.compile(walked)
    x = tj.linspace(0, 1, 5)
    for i in range(40):
        given = x, steps_of(i * 23)
        for found, expected in zip(compiled(*given), walked(*given), strict=True):
            tj.testing.assert_close(found, expected)
    assert 9 <= compiled.stats.recordings <= 24
    assert "calls take new paths" in str(compiled.explain())


def test_a_path_that_is_met_again_is_served() -> None:
    compiled = tj.compile(walked)
    x = tj.linspace(0, 1, 5)
    for i in range(30):
        compiled(x, steps_of(i * 23))
    for _ in range(200):
        compiled(x, steps_of(5))
    assert compiled.stats.compiled_calls > 100


@pytest.mark.parametrize("kinds", [2, 8, pytest.param(16, marks=pytest.mark.thorough)])
def test_few_paths_are_all_recorded(kinds) -> None:
    compiled = tj.compile(walked)
    x = tj.linspace(0, 1, 5)
    for i in range(kinds * 4):
        compiled(x, steps_of(i % kinds))
    before = compiled.stats.recordings
    for i in range(kinds * 30):
        compiled(x, steps_of(i % kinds))
    assert compiled.stats.recordings <= kinds + 1
    assert compiled.stats.compiled_calls > kinds * 20
    assert before >= 2


def test_strict_functions_are_recorded_each_time() -> None:
    compiled = tj.compile(walked, strict=True)
    for i in range(8):
        compiled(tj.ones(3), steps_of(i * 23))
    assert compiled.stats.recordings == 8


def suppressed(boxes, scores):
    order, keep = scores.argsort(descending=True), []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.numel() > 0:
        i, rest = order[0].item(), order[1:]
        keep.append(i)
        low = boxes[rest, :2].clamp(min=boxes[i, :2])
        high = boxes[rest, 2:].clamp(max=boxes[i, 2:])
        width, height = (high - low).clamp(min=0).unbind(1)
        both = width * height
        width = boxes[i, 2].item() - boxes[i, 0].item()
        height = boxes[i, 3].item() - boxes[i, 1].item()
        order = rest[both / (areas[rest] + width * height - both) <= 0.5]
    return tj.tensor(keep)


def test_many_pieces_in_each_path() -> None:
    """Each path takes dozens of programs: after two that served no call, more are compiled rarely."""
    compiled = tj.compile(suppressed)
    tj.manual_seed(0)
    for _ in range(12):
        corners = tj.rand(12, 2)
        given = tj.cat([corners, corners + tj.rand(12, 2)], 1), tj.rand(12)
        assert compiled(*given).tolist() == suppressed(*given).tolist()
    assert compiled.stats.recordings <= 5
