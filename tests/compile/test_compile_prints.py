"""compile(): functions that print, and text in which numbers are formatted to be printed."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.trace.numbers.texts import printed_formats


def batches(count: int = 8) -> list[Any]:
    return [tj.arange(3.0) * (k + 1) - k for k in range(count)]


@pytest.fixture
def printed(monkeypatch) -> Callable[[], str]:
    """What was printed since it was last asked, which is also when it begins to listen."""
    stream = io.StringIO()

    def read() -> str:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        text = stream.getvalue()
        stream.seek(0)
        stream.truncate()
        return text

    return read


def same_lines(make: Callable[[], Callable[..., Any]], recordings: int, printed: Any) -> Any:
    """What a function prints, call by call, is what it prints in eager code; the compiled function."""
    plain, compiled = make(), tj.compile(make())
    printed()
    for k, x in enumerate(batches()):
        expected = plain(x, k)
        wanted = printed()
        found = compiled(x, k)
        assert printed() == wanted
        assert tj.equal(tj.as_tensor(found), tj.as_tensor(expected))
    assert compiled.stats.recordings == recordings, compiled.explain()
    assert compiled.stats.eager_calls == recordings, compiled.explain()
    return compiled


def text_alone() -> Callable[..., Any]:
    def function(x, k):
        print("called")
        return x * 2

    return function


def numbers() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        print("step", k, loss.item(), [k, (loss.item(), "end")], sep=" | ", end=".\n")
        return loss

    return function


def formatted() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        print(f"step {k:3d}: loss {loss.item():.4f}, {loss:8.2e} of {len(x)}", f"{k}")
        return loss

    return function


def kept_for_a_moment() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        text = f"step {k:3d}: loss {loss.item():.4f}"
        print(text)
        print("again:", text, k)
        return loss

    return function


def formatted_by_method() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        print("step {0:3d}: loss {loss:.4f} of {0}".format(k, loss=loss.item()))  # noqa: UP032
        text = "again {0:>9.2f}, {0}".format(loss.item())
        print(text)
        return loss

    return function


def formatted_by_percent() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        number = loss.item()
        print("step %3d: loss %.4f (%s), 5%%" % (k, number, number * 2))  # noqa: UP031
        print("%.2f" % number, "%.2f" % number)  # noqa: UP031
        print("%5.1f%%" % loss.item(), "of %d %s" % (len(x), "rows"))  # noqa: UP031
        return loss

    return function


def now_and_then() -> Callable[..., Any]:
    def function(x, k):
        loss = x.square().mean()
        if k % 3 == 0:
            print(f"loss {loss.item():.4f}")
        return loss

    return function


def tensors() -> Callable[..., Any]:
    def function(x, k):
        y = x * 2
        print("y", y, y.shape, y.dtype)
        return y

    return function


def counted() -> Callable[..., Any]:
    seen = {"calls": 0}

    def function(x, k):
        seen["calls"] += 1
        print(seen, file=sys.stderr, flush=True)
        seen["calls"] += 1  # after it was printed
        return x + seen["calls"]

    return function


@pytest.mark.parametrize(
    ("make", "recordings"),
    [
        (text_alone, 2),
        (numbers, 3),
        (formatted, 3),
        (formatted_by_method, 3),
        (formatted_by_percent, 3),
        (kept_for_a_moment, 3),
        (now_and_then, 4),
        (tensors, 2),
        (counted, 2),
    ],
)
def test_lines_are_printed_by_every_call(make, recordings, printed):
    assert same_lines(make, recordings, printed).stats.compiled_calls == 8 - recordings


def test_objects_print_what_they_are_when_printed(printed):
    class Count:
        def __init__(self) -> None:
            self.n = 0

        def __str__(self) -> str:
            return f"{self.n} calls"

    def make() -> Callable[..., Any]:
        count = Count()

        def function(x, k):
            count.n = 1
            print(count)
            count.n = 2
            return x

        return function

    compiled = same_lines(make, 2, printed)
    assert compiled.stats.compiled_calls == 6


def test_a_tensor_that_is_written_to_after_it_was_printed(printed):
    def function(x):
        y = x * 2
        print(y)
        y.add_(1)
        return y

    compiled = tj.compile(function)
    printed()
    for x in batches(4):
        function(x)
        expected = printed()
        compiled(x)
        assert printed() == expected
    assert "printed or logged and written to" in str(compiled.explain())


def test_text_that_others_see_fixes_the_number(printed):
    def function(x):
        text = f"{x.sum().item():.1f}"
        print(len(f"{x.sum().item():.3f}"), f"{f'{x.sum().item():.1f}':*>10}")
        return x * len(text)

    compiled = tj.compile(function)
    printed()
    for x in batches():
        expected = function(x)
        wanted = printed()
        assert tj.equal(compiled(x), expected)
        assert printed() == wanted


def test_streams_that_tell_the_function_something(monkeypatch):
    class Stream:
        def __init__(self) -> None:
            self.texts: list[str] = []

        def write(self, text: str) -> int:
            self.texts.append(text)
            return len(text)

    stream = Stream()

    def function(x):
        print("here")
        return x * len(stream.texts)

    compiled = tj.compile(function)
    monkeypatch.setattr(sys, "stdout", stream)
    found = [float(compiled(tj.ones(()))) for _ in range(4)]
    assert found == [2, 4, 6, 8]  # a text and the end of the line


def test_errors_after_a_line(printed):
    def function(x, k):
        print("before", k)
        if x.sum() < 0:
            raise ValueError("negative")
        print("after", k)
        return x

    compiled = tj.compile(function)
    printed()
    for k, x in enumerate((tj.ones(2), -tj.ones(2), tj.ones(2), -tj.ones(2), tj.ones(2))):
        lines = [f"before {k}", f"after {k}"] if k % 2 == 0 else [f"before {k}"]
        if k % 2:
            with pytest.raises(ValueError, match="negative"):
                compiled(x, k)
        else:
            compiled(x, k)
        assert printed().splitlines() == lines


def test_lines_of_a_run_that_is_not_recorded_any_further(printed):
    def function(x, k):
        print(f"before {k}: {x.sum().item():.1f}")
        text = f"after {os.getpid() > 0}"
        print(text, k, [x.mean().item()], file=sys.stdout)
        return x

    compiled = tj.compile(function)
    printed()
    for k, x in enumerate(batches()):
        function(x, k)
        expected = printed()
        compiled(x, k)
        assert printed() == expected
    assert compiled.stats.compiled_calls == 0


def test_another_function_called_print(printed):
    said: list[Any] = []
    space: dict[str, Any] = {"__name__": "lines"}
    exec("def function(x):\n    print('v', x)\n    return x\n", space)
    compiled = tj.compile(space["function"])
    printed()
    for _ in range(3):
        compiled(tj.ones(2))
    assert "print" not in space
    space["print"] = lambda *given: said.append(given[0])
    for _ in range(3):
        compiled(tj.ones(2))
    assert said == ["v"] * 3
    assert len(printed().splitlines()) == 3


def test_where_only_print_sees_a_text():
    direct = lambda x: print(f"{x:.1f} {x}", "and", f"{x}", end=f"{x}")  # noqa: E731
    through = lambda x: print(str(f"{x}"), [f"{x}"], f"{x}" + "a", f"{f'{x}':>9}")  # noqa: E731
    other = lambda x: (repr(f"{x}"), print(x))  # noqa: E731
    method = lambda x: print("{}".format(x).upper(), len("{}".format(x)), x.format(x))  # noqa: E731, UP032
    assert len(printed_formats(direct.__code__)) == 4
    assert not printed_formats(method.__code__)
    assert len(printed_formats(through.__code__)) == 1  # that of text, which is formatted again
    assert not printed_formats(other.__code__)

    def kept(x, y):
        text = f"{x} {y}" if x else f"{y}"
        print(text)
        other = f"{x}"
        print(other)
        return other

    def shared(x):
        text = f"{x}"
        print(text)
        return lambda: text

    def shown(x):
        text = f"{x}"
        print(text, locals())

    def evaluated(x):
        text = f"{x}"
        print(text)
        return eval("len(text)")

    assert len(printed_formats(kept.__code__)) == 1  # on the other way a jump follows
    assert not printed_formats(shared.__code__)
    assert not printed_formats(shown.__code__)
    assert not printed_formats(evaluated.__code__)


def seen_in_part(x):
    print(("%.3f" % x.mean().item())[:3], len("%.1f" % x.sum().item()))  # noqa: UP031


def ending(x):
    print("mean", end="%.3f\n" % x.mean().item())  # noqa: UP031


def kept_under_a_name(x):
    parts = x.mean().item(), 2
    text = "%.3f %d" % parts  # noqa: UP031
    print(text)


def never_printed(x):
    try:
        print("%.3f" % x.mean().item(), 1 // (x.shape[0] - 3))  # noqa: UP031
    except ZeroDivisionError:
        print("none")


def beside_its_like(x):
    print("0.500", "%.3f" % x.mean().item())  # noqa: UP031


@pytest.mark.parametrize(
    "function", [seen_in_part, ending, kept_under_a_name, never_printed, beside_its_like]
)
def test_text_by_percent_that_is_not_told_from_other_text(function, printed):
    compiled = tj.compile(function)
    printed()
    for k in (1, 2, 0.5, 3, 4):
        x = tj.full((3,), float(k))
        function(x)
        expected = printed()
        compiled(x)
        assert printed() == expected
