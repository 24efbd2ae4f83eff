"""Functions whose calls all take ways of their own: recording and compiling them become rare."""

from __future__ import annotations

from importlib import import_module

import pytest

import tracejit as tj


def walked(x, steps):
    rewards = []
    for i in range(len(steps)):
        rewards.append((x * i).sin().sum() * (1.0 if steps[i].item() > 0 else 0.5))
        for _ in range(15):
            x = x.cos() if steps[i] > 0 else x.tanh()
    return x, tj.stack(rewards).sum()


def few(x, signs):
    for i in range(10):
        x = x.sin() if signs[i] > 0 else x.cos()
    return x


def test_few_branches_in_each_path() -> None:
    compiled = tj.compile(few)
    x = tj.linspace(-1, 1, 4)
    for i in range(40):
        given = x, steps_of(41 * i)
        tj.testing.assert_close(compiled(*given), few(*given))
    assert compiled.stats.recordings <= 16


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


@pytest.fixture
def eight(monkeypatch) -> None:
    """Paths of more than eight branches have to be met again."""
    monkeypatch.setattr(import_module("tracejit.trace.tree.made"), "UNPROVEN", 8)


def branches(x, signs):
    for i in range(12):
        x = x.sin() if signs[i % 10] > i * 1e-3 else x.cos()
    return x * 2


@pytest.mark.usefixtures("eight")
def test_many_branches_in_each_path() -> None:
    """No two calls take the same way, and each has more branches than programs would pay for."""
    compiled = tj.compile(branches)
    x = tj.linspace(-1, 1, 4)
    for i in range(24):
        given = x, steps_of(41 * i)
        assert tj.equal(compiled(*given), branches(*given))
    assert compiled.stats.recordings <= 6
    assert not list(entry_of(compiled).kernels())
    assert "more are tried rarely" in str(compiled.explain())


@pytest.mark.usefixtures("eight")
def test_a_path_of_many_branches_is_compiled_when_it_comes_again() -> None:
    compiled = tj.compile(branches)
    x = tj.linspace(0, 1, 5)
    for i in range(5):
        compiled(x, steps_of(7 * i))
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (3, 0)
    for _ in range(20):
        assert tj.equal(compiled(x, steps_of(28)), branches(x, steps_of(28)))
    assert compiled.stats.recordings == 5
    assert compiled.stats.compiled_calls >= 10
    before = compiled.stats.compiled_calls
    for i in range(12):  # what is there goes on serving while others come once
        given = steps_of(28 if i % 2 else 100 + i)
        assert tj.equal(compiled(x, given), branches(x, given))
    assert compiled.stats.compiled_calls == before + 6
    assert len(entry_of(compiled).root.leaves()) < 6


def test_branches_that_hang_on_rounding_are_not_recorded_each_time(monkeypatch) -> None:
    """Compiled code leaves the tree where eager code takes a way that is known."""
    module = import_module("tracejit.trace.entry")

    def leaves(entry, root):
        def serve(tensors, numbers=()):
            raise module.UnseenSegment(entry.root, ("bool", "another"))

        return serve, ""

    monkeypatch.setattr(module, "serving", leaves)
    compiled = tj.compile(lambda x: x.exp() if x.sum() > 0 else x)
    for _ in range(16):
        assert tj.equal(compiled(tj.ones(3)), tj.ones(3).exp())
    assert compiled.stats.recordings <= 5
    assert "rounding" in str(compiled.explain())


def test_text_with_another_number_each_time() -> None:
    compiled = tj.compile(lambda x: (x * 2, f"mean {x.mean():.3f}"))
    for i in range(40):
        value, text = compiled(tj.full((3,), float(i)))
        assert text == f"mean {i}.000"
        assert tj.equal(value, tj.full((3,), 2.0 * i))
    assert compiled.stats.recordings <= 14
    assert "another one at each call" in str(compiled.explain())
    for _ in range(60):  # some of which come again
        assert compiled(tj.full((3,), 1.0))[1] == "mean 1.000"
    assert compiled.stats.compiled_calls >= 55


def entry_of(compiled):
    return next(entry for found in compiled.entries.values() for entry in found)


def test_what_is_there_serves_while_the_tree_is_not_compiled(monkeypatch) -> None:
    """Every other call comes a way of its own; the ones between come one that is known."""
    made = import_module("tracejit.trace.tree.made")
    monkeypatch.setattr(made, "SERVING", made.STRAYED)  # of which trees of short paths have less
    compiled = tj.compile(few)
    x = tj.linspace(-1, 1, 4)
    for _ in range(3):
        compiled(x, steps_of(5))
    before = compiled.stats.compiled_calls
    for i in range(100):
        given = x, steps_of(5 if i % 2 else 37 * i + 11)
        tj.testing.assert_close(compiled(*given), few(*given))
    assert compiled.stats.compiled_calls >= before + 45
    assert compiled.stats.recordings <= 40
