"""compile(): records that a function hands to loggers whose level is on."""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.utils.checkpoint import checkpoint

_numbers = itertools.count()


class Kept(logging.Handler):
    """Everything that a record says, as it is handled."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        kinds = [type(x).__name__ for x in record.args or ()] if type(record.args) is tuple else []
        place = record.lineno, record.funcName, record.filename, record.pathname
        extra = getattr(record, "rank", None)
        self.records.append(
            (record.levelname, record.getMessage(), record.name, *place, kinds, extra)
        )


def logger() -> tuple[Any, Kept]:
    log, kept = logging.getLogger(f"records{next(_numbers)}"), Kept()
    log.addHandler(kept)
    log.propagate = False
    log.setLevel(logging.INFO)
    return log, kept


def texts(log: Any) -> Callable[[Any], Any]:
    def function(x):
        log.info("begin")
        y = x * 2
        log.warning("shape %s of %d", tuple(y.shape), y.ndim)
        log.debug("nothing")
        return y

    return function


def numbers(log: Any) -> Callable[[Any], Any]:
    def function(x):
        loss = x.square().mean()
        log.info("loss %.3f", loss.item())
        log.info("twice %s", 2 * loss.item())
        return loss

    return function


def tensors(log: Any) -> Callable[[Any], Any]:
    def function(x):
        y = x * 2
        log.info("%s and %s", y, x)
        return y

    return function


def counted(log: Any) -> Callable[[Any], Any]:
    class Steps:
        done = 0

    steps = Steps()

    def function(x):
        steps.done += 1
        log.info("step %d", steps.done)
        return x * steps.done

    return function


def helpers(log: Any) -> Callable[[Any], Any]:
    def note(what):
        log.info("in %s", what, stacklevel=2)

    def function(x):
        note("helper")
        log.log(logging.ERROR, "direct")
        return x * 2

    return function


def extras(log: Any) -> Callable[[Any], Any]:
    def function(x):
        log.info("there", extra={"rank": x.sum().item()})
        return x * 2

    return function


def branches(log: Any) -> Callable[[Any], Any]:
    def function(x):
        if x.sum() > 0:
            log.info("above")
            return x * 2
        log.warning("below")
        return x * 3

    return function


def loops(log: Any) -> Callable[[Any], Any]:
    def function(x):
        for step in range(12):
            x = (x * 0.9).sin()
            if step % 4 == 0:
                log.info("step %d", step)
        return x

    return function


def while_loops(log: Any) -> Callable[[Any], Any]:
    def function(x):
        while x.abs().sum() > 0.5:
            x = x * 0.5
            log.info("round")
        return x

    return function


def training(log: Any) -> Callable[[Any], Any]:
    tj.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = tj.optim.SGD(model.parameters(), lr=0.1)

    def function(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        log.info("loss %.3f", loss.item())
        return loss.detach()

    return function


FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (
        *(texts, numbers, tensors, counted, helpers, extras),
        *(branches, loops, while_loops, training),
    )
}


def run(name: str, **options: Any) -> tuple[Any, Any]:
    before = next(_numbers)
    log, kept = logger()
    function = FUNCTIONS[name](log)
    if options:
        function = tj.compile(function, **{k: v for k, v in options.items() if v is not None})
    results = []
    for k in range(9):
        x = tj.tensor([[1.0, -2.0, 0.5]]) * (k % 3 + 1) * (-1) ** (k // 2)
        results.append(function(x).tolist())
    shown = [(level, text, *rest) for level, text, _, *rest in kept.records]
    assert before < next(_numbers)
    return (results, shown), function


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_handlers_get_the_records_of_eager_execution(name: str) -> None:
    (expected, records), _ = run(name)
    (found, ours), function = run(name, verify=None)
    assert ours == records
    for a, b in zip(found, expected, strict=True):
        tj.testing.assert_close(tj.tensor(a), tj.tensor(b), rtol=1e-5, atol=1e-6)
    assert function.stats.compiled_calls >= 3, function.explain()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_beside_an_eager_run_they_are_sent_once(name: str) -> None:
    (_, records), _ = run(name)
    (_, ours), _ = run(name, verify=True)
    assert ours == records


def test_handlers_that_come_and_go() -> None:
    log, kept = logger()

    @tj.compile
    def function(x: Any) -> Any:
        log.info("here")
        return x * 2

    for _ in range(3):
        function(tj.ones(1))
    other = Kept()
    log.addHandler(other)
    function(tj.ones(1))
    log.removeHandler(kept)
    function(tj.ones(1))
    log.setLevel(logging.ERROR)
    function(tj.ones(1))
    assert (len(kept.records), len(other.records)) == (4, 2)
    assert function.stats.compiled_calls >= 4


@pytest.mark.parametrize("others", [0, 1])
def test_handlers_see_plain_numbers(others: int) -> None:
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(others)]
    try:
        for thread in threads:
            thread.start()
        _see_plain_numbers()
    finally:
        over.set()


def _see_plain_numbers() -> None:
    log, _ = logger()
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.dumps({"msg": record.msg, "args": record.args, "lr": record.lr}))  # type: ignore[attr-defined]

    log.addHandler(Lines())

    @tj.compile
    def function(x: Any, lr: float) -> Any:
        log.info("rate %s", lr, extra={"lr": lr * 2})
        return x * lr

    for k in range(6):
        function(tj.ones(1), 0.5 + k)
    assert [json.loads(line)["args"] for line in lines] == [[0.5 + k] for k in range(6)]
    assert [json.loads(line)["lr"] for line in lines] == [1.0 + 2 * k for k in range(6)]
    assert function.stats.compiled_calls >= 3


def test_what_others_send_meanwhile_is_not_held_back() -> None:
    log, kept = logger()
    filters, plain = log.filters, logging.getLogRecordFactory()

    def beside_another(*args: Any, **kwargs: Any) -> logging.LogRecord:
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=log.info, args=("beside",))
            thread.start()
            thread.join()
        return plain(*args, **kwargs)

    @tj.compile
    def function(x: Any, lr: float) -> Any:
        log.info("rate %s", lr)
        return x * lr

    logging.setLogRecordFactory(beside_another)
    try:
        for k in range(6):
            function(tj.ones(1), 0.5 + k)
    finally:
        logging.setLogRecordFactory(plain)
    messages = [message for _, message, *_ in kept.records]
    assert [m for m in messages if m != "beside"] == [f"rate {0.5 + k}" for k in range(6)]
    assert messages.count("beside") >= 6
    assert log.filters is filters
    assert filters == []


class Asking(logging.Handler):
    """A handler that a function reads from."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


EAGER: dict[str, str] = {
    "what was raised": (
        "try:\n        raise KeyError\n    except KeyError:\n        log.exception('here')\n    return x * 2"
    ),
    "an adapter": "adapter.info('here'); return x * 2",
    "the stack": "log.info('here', stack_info=True); return x * 2",
    "written afterwards": "y = x * 2; log.info('%s', y); y += 1; return y",
    "what a handler counted": "log.info('here'); return x * asking.count",
}


@pytest.mark.parametrize("what", EAGER)
def test_what_runs_eagerly(what: str) -> None:
    ways = []
    for compiled in (False, True):
        log, kept = logger()
        asking = Asking()
        log.addHandler(asking)
        space: dict[str, Any] = {
            "log": log,
            "asking": asking,
            "adapter": logging.LoggerAdapter(log, {"rank": 3}),
        }
        exec(f"def function(x):\n    {EAGER[what]}", space)
        function: Any = tj.compile(space["function"]) if compiled else space["function"]
        results = [function(tj.ones(2) * k).tolist() for k in range(6)]
        ways.append((results, [r[:2] for r in kept.records], asking.count))
        if compiled and what != "what a handler counted":
            assert function.stats.compiled_calls == 0
    assert ways[1] == ways[0]


def test_errors_come_after_the_records() -> None:
    log, kept = logger()

    @tj.compile
    def function(x: Any) -> Any:
        log.info("begin")
        if x.sum() < 0:
            raise ValueError("below")
        log.info("end")
        return x * 2

    for sign in (1, 1, -1, 1, -1, 1):
        try:
            function(tj.ones(2) * sign)
        except ValueError:
            kept.records.append(("error", "error"))
    good, bad = ["begin", "end"], ["begin", "error"]
    assert [r[1] for r in kept.records] == [*good, *good, *bad, *good, *bad, *good]


@pytest.mark.parametrize("inside", [False, True])
def test_checkpointed_parts_and_custom_backwards(inside: bool) -> None:
    ways = []
    for compiled in (False, True):
        log, kept = logger()

        class Double(tj.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any, log: Any = log) -> Any:
                log.info("backward")
                return g * 2

        def part(x: Any, log: Any = log) -> Any:
            log.info("part")
            return x.sin()

        def function(x: Any, part: Any = part, double: Any = Double) -> Any:
            y = (checkpoint(part, x, use_reentrant=False) + double.apply(x)).sum()
            if inside:
                y.backward()
            return y

        run: Any = tj.compile(function) if compiled else function
        for _ in range(4):
            y = run(tj.ones(2, requires_grad=True))
            if not inside:
                y.backward()
        ways.append([r[1] for r in kept.records])
    assert ways[1] == ways[0]
    assert sorted(ways[0]) == ["backward"] * 4 + ["part"] * 8
