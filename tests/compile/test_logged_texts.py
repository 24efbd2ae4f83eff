"""compile(): loggers whose messages are text with numbers that vary (``log.info(f"loss {loss:.4f}")``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tracejit as tj
from tracejit.trace.numbers.logged_texts import logged_formats


class Kept(logging.Handler):
    """Keeps what it handles."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.levelname, record.msg, record.getMessage(), record.funcName))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger of its own; its handler keeps what it handles."""
    found = logging.getLogger("test_logged_texts")
    found.handlers, found.propagate = [Kept()], False
    found.setLevel(logging.INFO)
    yield found
    found.handlers = []


def messages(log: logging.Logger, function: Callable[..., Any], calls: int = 12) -> list[Any]:
    """What a function logs, call by call."""
    found = []
    for k in range(calls):
        log.handlers[0].seen.clear()  # type: ignore[attr-defined]
        found.append(function(tj.arange(3.0) + k, k).item())
        found.append(list(log.handlers[0].seen))  # type: ignore[attr-defined]
    return found


def compare(log: logging.Logger, function: Callable[..., Any], compiled: int = 8) -> Any:
    """A compiled function logs what a plain one does."""
    f = tj.compile(function)
    assert messages(log, f) == messages(log, function)
    assert f.stats.compiled_calls >= compiled, f.explain()
    return f


def test_text_in_the_call(log: logging.Logger) -> None:
    def function(x: Any, k: int) -> Any:
        loss = x.square().mean()
        log.info(f"step {k:3d}: loss {loss.item():.4f}, {loss:8.2e} of {len(x)}")
        log.warning(f"{k}")
        log.debug(f"nobody gets {loss.item()}")
        return loss

    compare(log, function)


def test_text_in_a_variable(log: logging.Logger) -> None:
    def function(x: Any, k: int) -> Any:
        text = f"step {k}: {x.sum().item():.1f}"
        log.info(text)
        return x.sum()

    compare(log, function)


def test_loggers_in_attributes_and_modules(log: logging.Logger) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.log = log
            self.parts = type("Parts", (), {})()
            self.parts.log = log

        def step(self, x: Any, k: int) -> Any:
            self.log.info(f"a {k}")
            self.parts.log.error(f"b {x.sum().item():.1f}")
            return x.sum()

    compare(log, Trainer().step)


def test_functions_of_the_module(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", log.handlers)

    def function(x: Any, k: int) -> Any:
        logging.warning(f"step {k}: {x.sum().item():.1f}")
        return x.sum()

    compare(log, function)


def test_levels_that_change(log: logging.Logger) -> None:
    def function(x: Any, k: int) -> Any:
        log.info(f"step {k}")
        return x.sum() * k

    f, seen = tj.compile(function), []
    for k in range(20):
        log.setLevel(logging.INFO if k % 10 < 5 else logging.ERROR)
        f(tj.ones(2), k)
        seen.append(len(log.handlers[0].seen))  # type: ignore[attr-defined]
    assert seen == [min(k % 10 + 1, 5) + k // 10 * 5 for k in range(20)]
    assert [m for *_, m, _ in log.handlers[0].seen] == [  # type: ignore[attr-defined]
        f"step {k}" for k in range(20) if k % 10 < 5
    ]
    assert f.stats.compiled_calls >= 14, f.explain()


@pytest.mark.parametrize(
    ("inside", "compiled"), [("inner(k)", 8), ("k + 1", 8), ("'1' * (k % 3)", 2)]
)
def test_parts_that_are_computed(log: logging.Logger, inside: str, compiled: int) -> None:
    source = f"""
def inner(k):
    log.info(f"inside {{k}}")
    return k
def function(x, k):
    log.info(f"before {{k}} {{{inside}}} after {{x.sum().item():.0f}}")
    return x.sum()
"""
    space: dict[str, Any] = {"log": log}
    exec(source, space)
    compare(log, space["function"], compiled)


def test_parts_that_could_be_another_number(log: logging.Logger) -> None:
    def function(x: Any, k: int, text: str) -> Any:
        log.info(f"{text}{k}{text}")
        return x.sum()

    f = tj.compile(function)
    for k in range(12):
        text = "1" * (k % 3)
        f(tj.ones(2), k, text)
        assert log.handlers[0].seen[-1][1] == f"{text}{k}{text}"  # type: ignore[attr-defined]


def test_text_that_others_see(log: logging.Logger) -> None:
    class Other:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def info(self, text: str) -> None:
            self.seen.append(text)

    class Loud(logging.Logger):
        def info(self, msg: Any, *args: Any, **named: Any) -> None:
            super().info(msg.upper(), *args, **named)

    other, loud = Other(), Loud("loud", logging.INFO)
    loud.addHandler(log.handlers[0])
    named = logging.LoggerAdapter(log, {})

    def function(x: Any, k: int) -> Any:
        other.info(f"other {k}")
        return x.sum()

    def louder(x: Any, k: int) -> Any:
        loud.info(f"loud {k}")
        named.info(f"named {k}")
        log.info(f"upper {k}".upper())
        return x.sum()

    f = tj.compile(function)
    for k in range(6):
        f(tj.ones(2), k)
    assert other.seen == [f"other {k}" for k in range(6)]
    assert messages(log, tj.compile(louder)) == messages(log, louder)


def test_errors_on_the_way_to_a_logger(log: logging.Logger) -> None:
    def check(k: int) -> int:
        if k % 4 == 3:
            raise ValueError(k)
        return k

    def function(x: Any, k: int) -> Any:
        try:
            log.info(f"step {k} {check(k)}")
        except ValueError as error:
            log.info(f"no step {error.args[0]}")
        return x.sum()

    compare(log, function, 6)


def test_signs_of_templates_are_left_alone(log: logging.Logger) -> None:
    def function(x: Any, k: int) -> Any:
        log.info(f"100% of {k} %d")
        log.info(f"{k} of %d", k)
        return x.sum()

    compare(log, function)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("lambda log, x: log.info(f'{x}')", 1),
        ("lambda log, x: log.info('%s', f'{x}')", 0),
        ("lambda log, x: log.info(f'{x}', exc_info=True)", 0),
        ("lambda log, x: log.exception(f'{x}')", 0),
        ("lambda log, x: log().info(f'{x}')", 0),
        ("lambda log, x: log.a.b.warning(f'{x} {x:.1f}')", 2),
        ("lambda log, x: log.info(f'{x}' + 'a')", 0),
        ("lambda log, x: log.info(f'{x}' if x else 'a')", 0),
    ],
)
def test_which_numbers_only_loggers_get(source: str, count: int) -> None:
    assert len(logged_formats(eval(source).__code__)) == count
