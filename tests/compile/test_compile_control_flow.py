"""Python's control flow on tensor values: every way through a function is recorded once, then runs compiled."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import tracejit as tj


class Stop(Exception):
    """An error of the user's."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def check(x):
    if x.sum() < 0:
        raise Stop("negative", 3)
    return x.sqrt()


def caught(x):
    try:
        y = check(x)
    except Stop as error:
        y = x.abs() + error.code
    else:
        y = y + 1
    finally:
        z = x * 0.5
    return y * z


def caught_by_kind(x):
    try:
        if x[0] > 2:
            raise KeyError("large")
        if x[0] > 1:
            raise Stop("middle")
        y = x.exp()
    except (KeyError, IndexError):
        return x - 1
    except Exception as error:  # noqa: BLE001
        return x * len(str(error))
    return y


def raised_again(x):
    for attempt in range(3):
        try:
            if x.sum() > attempt:
                raise Stop("once more")
        except Stop:
            x = x * 0.6
            try:
                check(x - 2)
            except Stop as inner:
                raise ValueError("from inner") from inner
        else:
            return x + attempt
    return x


def out_of_range(x):
    try:
        return x[5] + x
    except IndexError:
        return x * 3


def suppressed(x):
    y = x
    with contextlib.suppress(Stop):
        y = x * 2
        check(y)
        y = y + 10
    return y


def numbers(x):
    total = x * 0
    while total.sum() < x.sum():
        yield total
        total = total + 1


def generator(x):
    y = x * 0
    for part in numbers(x):
        y = y + part * part
    return y


def generator_given_up(x):
    for i, part in enumerate(numbers(x)):
        if part.sum() > 3:
            return part * i
    return x


def echo():
    sent = yield 0
    while True:
        sent = yield sent * 2


def generator_sent_to(x):
    e = echo()
    next(e)
    y = e.send(x)
    if y.sum() > 0:
        y = e.send(y)
    e.close()
    return y


def matched(x):
    match (bool(x.sum() > 0), x.shape[0]):
        case (True, 2):
            return x * 2
        case (True, n) if n > 2:
            return x / n
        case (False, _):
            return -x
        case _:
            return x


def comprehensions(x):
    kept = [v * 2 for v in x.unbind(0) if v > 0]
    table = {i: v for i, v in enumerate(kept) if i >= 0}
    return tj.stack([*table.values(), x.sum()]).sum() + sum(v.exp() for v in kept)


def recursive(x):
    if x.abs().sum() < 1:
        return x
    return recursive(x * 0.5) + 1


def early(x):
    for i in range(5):
        x = x * 1.5
        if x.sum() > 10:
            return x * i
    return x - 100


def nested_whiles(x):
    n = 0
    while x.sum() < 12:
        y = x
        while y.sum() < 4:
            y = y * 2
            n += 1
            if y.max() > 3:
                break
        else:
            x = x + 1
        x = x + y.abs() + 0.5
    return x * n


def for_else(x):
    for v in x.unbind(0):
        if v < 0:
            continue
        if v > 2:
            break
    else:
        return x * 10
    return x + v


def chained(x):
    return x if 0 < x.sum() < 3 or (x.max() > 5 and not x.min() < 0) else -x


def walrus(x):
    if (s := x.sum()) > 0 and (m := x.max()) > 1:
        return x * s * m
    return x


def many(rng: Any) -> list[Any]:
    values = rng.uniform(-2, 3, (12, 2)).astype(np.float32)
    return [*values, *rng.uniform(-2, 3, (4, 3)).astype(np.float32)]


FUNCTIONS = (
    caught,
    caught_by_kind,
    raised_again,
    out_of_range,
    suppressed,
    generator,
    generator_given_up,
    generator_sent_to,
    matched,
    comprehensions,
    recursive,
    early,
    nested_whiles,
    for_else,
    chained,
    walrus,
)


def outcome(function: Any, values: Any) -> tuple[Any, ...]:
    """What a call returns with its gradient, or raises."""
    x = tj.from_numpy(values.copy()).requires_grad_()
    try:
        y = function(x)
    except (Stop, ValueError) as error:
        return type(error), str(error), type(error.__cause__)
    y.sum().backward()
    return "returned", y.detach().numpy(), x.grad.numpy()


def assert_equal(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    assert found[0] == expected[0]
    if found[0] != "returned":
        assert found == expected
        return
    for a, b in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_path_is_recorded_once(function: Any) -> None:
    given = many(np.random.default_rng(len(function.__name__)))
    compiled = tj.compile(function)
    expected = [outcome(function, v) for v in given]
    for v, e in zip(given, expected, strict=True):
        assert_equal(outcome(compiled, v), e)
    recorded = compiled.stats.recordings
    raised = sum(e[0] != "returned" for e in expected)
    assert recorded <= len(given)
    assert len({str(e[0]) for e in expected}) <= 2
    before = compiled.stats.compiled_calls
    for _ in range(2):
        for v, e in zip(given, expected, strict=True):
            assert_equal(outcome(compiled, v), e)
    assert compiled.stats.recordings == recorded
    assert compiled.stats.compiled_calls - before == 2 * (len(given) - raised)
    assert not compiled.reasons


def test_a_first_call_that_cannot_be_compiled_does_not_stand_for_all() -> None:
    """What is prepared from the first batch, say, by code that is never reached again."""

    class Prepared(tj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ready: Any
            self.register_buffer("ready", tj.tensor(False))
            self.shift = tj.nn.Parameter(tj.zeros(3))

        def forward(self, x: Any) -> Any:
            if not self.ready:
                self.shift.data = -x.mean(0)
                self.ready.fill_(True)
            return x + self.shift

    tj.manual_seed(0)
    eager, compiled = Prepared(), tj.compile(Prepared())
    for _ in range(6):
        x = tj.randn(4, 3)
        found, expected = compiled(x), eager(x)
        assert found.tolist() == expected.tolist()
        found.sum().backward()
    assert compiled.shift.tolist() == eager.shift.tolist()
    assert compiled.stats.compiled_calls == 4


def test_what_can_never_be_compiled_is_tried_ever_more_rarely() -> None:
    @tj.compile
    def function(x: Any) -> Any:
        y = x * 2
        if x.sum() > 0:
            y.resize_(2)
        return y

    function(tj.ones(4))
    assert "resize_()" in str(function.explain())  # said at once
    for _ in range(39):
        assert function(tj.ones(4)).tolist() == [2.0, 2.0]
    assert function.stats.compiled_calls == 0
    assert function.stats.recordings < 10
    assert "resize_()" in str(function.explain())
    with pytest.raises(tj.errors.CaptureError, match="resize_"):
        tj.compile(function.function, strict=True)(tj.ones(4))
