"""Paths that end in an error: recorded once, then run eagerly, so that the error is the one of eager execution."""

from __future__ import annotations

import traceback

import pytest

import tracejit as tj
from tracejit import config


def positive(x):
    y = x * 2
    if y.sum() < 0:
        raise ValueError("negative")
    return y.sqrt()


def raised(function, *args):
    with pytest.raises(ValueError, match="negative") as found:
        function(*args)
    return [frame.name for frame in traceback.extract_tb(found.value.__traceback__)][1:]


def test_recorded_once() -> None:
    f = tj.compile(positive)
    for _ in range(5):
        assert raised(f, -tj.ones(3)) == ["positive"]
        assert f(tj.ones(3)).tolist() == pytest.approx([2**0.5] * 3)
    assert (f.stats.recordings, f.stats.compiled_calls, f.stats.eager_calls) == (2, 4, 6)
    assert not f.reasons
    text = str(f.explain())
    assert "ValueError at test_compile_raising_paths.py:" in text
    assert 'raise ValueError("negative"): runs eagerly (4 calls)' in text
    assert "it ended in ValueError at" in text


@pytest.mark.parametrize("options", [{"strict": True}, {"verify": True}])
def test_with_self_checks(options) -> None:
    f = tj.compile(positive, **options)
    for _ in range(3):
        f(tj.ones(2))
        raised(f, -tj.ones(2))
    assert (f.stats.recordings, f.stats.compiled_calls) == (2, 2)


def test_the_error_comes_first() -> None:
    f = tj.compile(positive)
    for _ in range(3):
        raised(f, -tj.ones(2))
    for _ in range(3):
        f(tj.ones(2, requires_grad=True)).sum().backward()
        raised(f, -tj.ones(2, requires_grad=True))
    f(tj.ones(2))
    f(tj.ones(2))
    assert f.stats.recordings == 4
    assert f.stats.compiled_calls == 3


def test_an_error_before_any_branch() -> None:
    def function(x):
        y = x + 1
        raise ValueError(f"negative {len(y.shape)}")

    f = tj.compile(function)
    for n in (1, 1, 1, 2, 2):
        assert raised(f, tj.ones(n)) == ["function"]
    assert f.stats.recordings == 2
    assert f.stats.eager_calls == f.stats.calls == 5
    assert f.kernels == []


def test_deeper_and_deeper() -> None:
    def function(x):
        k = 0
        while x.sum() > k:
            k += 1
            if x.max() > 10 * k:
                raise ValueError("negative")
        return x * k

    f = tj.compile(function)
    cases = [5.0, 50.0, 15.0, 25.0, 3.0, 45.0, 11.0, 2.0]
    for _ in range(3):
        for value in cases:
            x = tj.tensor([value, 0.5])
            if value > 10:
                raised(f, x)
            else:
                assert f(x).tolist() == function(x).tolist()
    assert f.stats.recordings <= len(cases)
    assert f.stats.compiled_calls == 2 * 3
    assert not f.reasons


def test_what_was_done_before_is_done_once() -> None:
    """Writes, draws and Python's own effects of a call that raises: as in eager execution."""
    log, count = tj.zeros(2), []

    def function(x):
        log.add_(1)
        noise = tj.rand(2)
        if x.sum() + noise.sum() < 0:
            log.mul_(2)
            raise ValueError("negative")
        return x + noise

    plain_log = []
    for run in ("eager", "compiled"):
        f = function if run == "eager" else tj.compile(function)
        tj.manual_seed(3)
        log.zero_()
        version, found = log._version, []
        for sign in (1, 1, -1, -1, 1, -1, 1):
            x = tj.full((2,), 5.0 * sign)
            if sign < 0:
                raised(f, x)
            else:
                found.append(f(x).tolist())
        plain_log.append((found, log.tolist(), tj.rand(1).item(), log._version - version))
    assert plain_log[0] == plain_log[1]
    assert not count


def test_an_index_that_is_wrong_at_first() -> None:
    """Nothing but the values decides, and no branch tells: the recording of a valid call takes its place."""
    f = tj.compile(lambda x, i: x[i] * 2)
    x, bad, good = tj.arange(3.0), tj.tensor([7]), tj.tensor([1])
    for _ in range(3):
        with pytest.raises(IndexError):
            f(x, bad)
    assert f.stats.recordings == 1
    for _ in range(4):
        assert f(x, good).tolist() == [2.0]
        with pytest.raises(IndexError):
            f(x, bad)
    assert f.stats.recordings == 3  # the second time, a wrong index was met once more
    assert f.stats.compiled_calls == 2
    assert not f.reasons


def test_values_in_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_paths", 5)

    def function(x):
        n = x.sum().item()
        if n < 0:
            raise ValueError(f"negative: {n}")
        return x * n

    f = tj.compile(function)
    for n in range(1, 12):
        with pytest.raises(ValueError, match=rf"negative: -{n}\.0"):
            f(tj.tensor([float(-n)]))
    assert f.stats.recordings == 6  # the first was of one number
    assert "more than 5 recorded paths" in f.reasons[0]
    for n in range(1, 12):
        with pytest.raises(ValueError, match=rf"negative: -{n}\.0"):
            f(tj.tensor([float(-n)]))
    assert f.stats.recordings == 6  # the first was of one number


def test_an_error_that_no_tensor_decides() -> None:
    answers = [True, False] * 40
    source = iter(answers)

    def function(x):
        y = x * 2
        if next(source):
            raise ValueError("negative")
        return y

    f = tj.compile(function)
    for answer in answers:
        if answer:
            raised(f, tj.ones(2))
        else:
            assert f(tj.ones(2)).tolist() == [2.0, 2.0]
    assert f.stats.recordings < 20
    assert f.reasons


def test_errors_that_change_state() -> None:
    """A counter of errors: the state is not that of the recording, but nothing is recorded for ever."""

    class Model:
        def __init__(self) -> None:
            self.errors = 0

        def __call__(self, x):
            if x.sum() < 0:
                self.errors += 1
                raise ValueError("negative")
            return x * 2

    model = Model()
    f = tj.compile(model)
    for n in range(1, 200):
        raised(f, -tj.ones(2))
        assert model.errors == n
        assert f(tj.ones(2)).tolist() == [2.0, 2.0]
    assert f.stats.recordings < 40


def test_interrupts_are_no_paths() -> None:
    stop = [True]

    def function(x):
        y = x * 2
        if x.sum() > 0:
            if stop:
                raise KeyboardInterrupt
            return y
        return x

    f = tj.compile(function)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            f(tj.ones(1))
    assert "KeyboardInterrupt" not in str(f.explain())
    stop.clear()
    for _ in range(3):
        assert f(tj.ones(1)).tolist() == [2.0]
    assert f.stats.compiled_calls == 2


def test_the_module_and_the_method() -> None:
    class Net(tj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tj.nn.Linear(2, 2)

        def forward(self, x):
            if x.sum() < 0:
                raise ValueError("negative")
            return self.inner(x)

    net = tj.compile(Net())
    for _ in range(3):
        assert raised(net, -tj.ones(1, 2)) == ["forward"]
        net(tj.ones(1, 2))
    assert net.stats.recordings == 2
    with pytest.raises(RuntimeError) as found:
        net(tj.ones(1, 7))
    names = [frame.name for frame in traceback.extract_tb(found.value.__traceback__)]
    assert names[1:] == ["forward"]


def test_a_method() -> None:
    class Model:
        @tj.compile
        def step(self, x):
            return positive(x) + 1

    model = Model()
    for _ in range(3):
        assert raised(model.step, -tj.ones(2)) == ["step", "positive"]
        model.step(tj.ones(2))
    assert model.step.stats.recordings == 2


def test_a_raising_path_may_draw_what_no_other_does() -> None:
    """The other paths get along without the generator, whose key is an input of the tree."""

    def f(x):
        if x.sum() > 0:
            return x * tj.rand_like(x) if x.max() > 5 else x + 1
        tj.rand_like(x)
        raise ValueError("negative")

    g = tj.compile(f)
    for value in (-1.0, 1.0, 1.0, -1.0, 1.0, 2.0, -1.0):
        x = tj.full((3,), value)
        if value < 0:
            with pytest.raises(ValueError, match="negative"):
                g(x)
        else:
            assert g(x).tolist() == f(x).tolist()
    assert g.stats.compiled_calls == 3
