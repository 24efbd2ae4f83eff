"""compile(): loggers that write nothing, for their level is off, and those that write."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tracejit as tj

_numbers = itertools.count()


class Notes(logging.Handler):
    """What was said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


class World:
    """A logger below another one, and what both write."""

    def __init__(self) -> None:
        name = f"logs{next(_numbers)}"
        self.above, self.log = logging.getLogger(name), logging.getLogger(f"{name}.below")
        self.notes = Notes()
        self.above.addHandler(self.notes)
        self.above.propagate = False
        self.above.setLevel(logging.WARNING)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    handlers, level = list(logging.root.handlers), logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    logging.disable(logging.NOTSET)


def plain(world: World) -> Callable[[Any], Any]:
    log = world.log

    def function(x):
        log.debug("shape %s", x.shape)
        y = x * 2
        log.info("first %.1f", y[0])
        return y

    return function


def asking(world: World) -> Callable[[Any], Any]:
    log = world.log
    return lambda x: x * 2 if log.isEnabledFor(logging.INFO) else x * 3


def levels(world: World) -> Callable[[Any], Any]:
    log = world.log
    return lambda x: x * log.getEffectiveLevel()


def adapter(world: World) -> Callable[[Any], Any]:
    log = logging.LoggerAdapter(world.log, {"rank": 0})

    def function(x):
        log.info("here")
        return x * 2

    return function


def by_name(world: World) -> Callable[[Any], Any]:
    name = world.log.name

    def function(x):
        logging.getLogger(name).log(15, "here")
        return x * 2

    return function


def of_modules(world: World) -> Callable[[Any], Any]:
    class Model(tj.nn.Module):
        def __init__(self):
            super().__init__()
            self.logger = world.log

        def forward(self, x):
            self.logger.debug("here")
            return x * 2

    return Model()


def nothing(world: World, call: int) -> None:
    pass


def other_levels(world: World, call: int) -> None:
    if call == 3:
        world.log.setLevel(logging.DEBUG)
    if call == 5:
        world.log.setLevel(logging.NOTSET)
    if call == 7:
        world.above.setLevel(logging.INFO)
    if call == 9:
        world.above.setLevel(logging.ERROR)


def switched_off(world: World, call: int) -> None:
    if call == 0:
        world.above.setLevel(logging.DEBUG)
        world.log.disabled = True
    if call == 4:
        world.log.disabled = False
    if call == 6:
        logging.disable(logging.CRITICAL)
    if call == 9:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("between", [nothing, other_levels, switched_off])
@pytest.mark.parametrize("make", [plain, asking, levels, adapter, by_name, of_modules])
def test_levels_are_compared(make: Any, between: Any) -> None:
    def run(compiles: bool) -> tuple[list[Any], Any]:
        world = World()
        function = make(world)
        function = tj.compile(function) if compiles else function
        results = []
        for call in range(12):
            between(world, call)
            results.append(function(tj.tensor([1.0, call])).tolist())
            results.append(list(world.notes.said))
        return results, function

    (found, compiled), (expected, _) = run(True), run(False)
    assert found == expected
    if between is nothing:
        assert compiled.stats.compiled_calls >= 10, compiled.explain()
    else:
        assert compiled.stats.compiled_calls >= 3, compiled.explain()


def test_the_root_logger() -> None:
    notes = Notes()

    @tj.compile
    def function(x):
        logging.info("here")
        return x * 2

    logging.root.handlers[:] = [notes]
    logging.root.setLevel(logging.WARNING)
    for _ in range(4):
        function(tj.ones(2))
    assert function.stats.compiled_calls == 3
    logging.root.handlers.clear()  # where it has none, logging gives it one
    function(tj.ones(2))
    assert function.stats.compiled_calls == 3
    assert logging.root.handlers
    logging.root.handlers[:] = [notes]
    logging.root.setLevel(logging.INFO)
    for _ in range(2):
        function(tj.ones(2))
    assert notes.said.count("here") == 2
    assert function.stats.compiled_calls == 3


def test_a_logger_that_decides_for_itself() -> None:
    class Own(logging.Logger):
        asked = 0

        def isEnabledFor(self, level):
            self.asked += 1
            return self.asked % 3 == 0

    log, notes = Own("own"), Notes()
    log.addHandler(notes)

    @tj.compile
    def function(x):
        log.info("here")
        return x * 2

    for _ in range(9):
        function(tj.ones(2))
    assert (log.asked, notes.said) == (9, ["here"] * 3)


def test_a_call_that_writes_is_compiled_and_writes() -> None:
    world = World()

    @tj.compile
    def function(x):
        world.log.warning("here")
        return x * 2

    for _ in range(3):
        function(tj.ones(2))
    assert world.notes.said == ["here"] * 3
    assert function.stats.compiled_calls == 2


def test_why_a_call_that_writes_what_was_raised_runs_eagerly() -> None:
    world = World()

    @tj.compile
    def function(x):
        try:
            raise KeyError("key")
        except KeyError:
            world.log.exception("here")
        return x * 2

    for _ in range(3):
        function(tj.ones(2))
    assert world.notes.said == ["here"] * 3
    assert "it calls logging.Logger.error()" in str(function.explain())


def test_containers_are_logged_as_they_were_then():
    def make(world: World) -> Callable[[Any], Any]:
        def function(x):
            state = {"total": x.sum().item(), "seen": [1]}
            world.above.warning("%s", state)
            state["total"] = 0
            state["seen"].append(2)
            world.above.warning("%s", state)
            return x * 2

        return function

    plain, compiled = World(), World()
    expected, found = make(plain), tj.compile(make(compiled))
    for k in range(6):
        expected(tj.arange(3.0) + k)
        found(tj.arange(3.0) + k)
    assert compiled.notes.said == plain.notes.said
    assert found.stats.compiled_calls >= 3


def test_objects_that_may_change_are_logged_by_eager_code():
    class Meter:
        def __init__(self) -> None:
            self.total = 0

        def __str__(self) -> str:
            return f"total {self.total}"

    world, meter = World(), Meter()

    def function(x):
        meter.total = 1
        world.above.warning("%s", meter)
        meter.total = 2
        return x * 2

    compiled = tj.compile(function)
    for _ in range(4):
        compiled(tj.ones(2))
    assert world.notes.said == ["total 1"] * 4
    assert any("it logs a Meter" in reason for reason in compiled.reasons)
