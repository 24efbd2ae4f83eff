"""compile(): what a function appends to lists that are items of a dict, as histories of training are."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj

log: dict[str, Any] = {}


def fresh() -> dict[str, Any]:
    return {"loss": [], "size": [], "count": 0}


def global_log(x):
    y = (x * x).sum()
    log["loss"].append(y.item())
    log["size"].extend([x.shape[0], y])
    return y


def counted(x):
    y = x.sum()
    log["loss"].append(y.item())
    log["count"] += 1
    return y * log["count"]


def replaced_number(x):
    log["loss"].append(x.max().item())
    log["count"] = log["count"] + 2
    return x + log["count"]


def by_a_key_that_varies(x):
    for key, value in (("loss", x.sum()), ("size", x.max())):
        log[key].append(value.item())
    return x - 1


def with_a_list_for_new_keys(x):
    for key, value in (("loss", x.sum()), ("size", x.max())):
        log.setdefault(key, []).append(value.item())
    log.setdefault("loss", []).extend((1, x))
    return x - 1


def by_keys_of_both_kinds(x):
    for key in ("loss", "size", "loss"):
        log[key].append(x.sum().item())
    log["loss"].extend([x, 2])
    log["count"] += 1
    return x * log["count"]


class Trainer:
    def __init__(self) -> None:
        self.history = log

    def step(self, x):
        self.history["loss"].append(x.mean().item())
        return x * 2


REPLAYED = [
    global_log,
    counted,
    replaced_number,
    by_a_key_that_varies,
    with_a_list_for_new_keys,
    by_keys_of_both_kinds,
]


def follow(run: Callable[[Any], Any], calls: int = 9) -> list[Any]:
    """Results and what is in the log after each call; in between others change it."""
    log.clear()
    log.update(fresh())
    found = []
    for number in range(calls):
        if number == 5:
            log["loss"] = ["another"]
        if number == 6:
            log["loss"].clear()
        result = run(tj.linspace(0, 1 + number, 3, dtype=tj.float64))
        found.append((result.tolist(), str(copy.deepcopy(log))))
    return found


@pytest.mark.parametrize("function", REPLAYED)
def test_lists_in_a_dict_are_appended_to_by_every_call(function: Callable[[Any], Any]) -> None:
    run = tj.compile(function)
    assert follow(run) == follow(function)
    assert run.stats.compiled_calls >= 5
    assert not run.explain().reasons


def test_an_attribute_that_is_a_dict_of_lists() -> None:
    log.clear()
    trainer = Trainer()
    run = tj.compile(trainer.step)
    assert follow(run) == follow(trainer.step)
    assert run.stats.compiled_calls >= 5
    trainer.history = {"loss": [1.0]}
    run(tj.ones(3, dtype=tj.float64))
    assert trainer.history == {"loss": [1.0, 1.0]}


def test_keys_made_by_the_first_call() -> None:
    log.clear()
    made: defaultdict[str, list[float]] = defaultdict(list)

    def step(x):
        made["sum"].append(x.sum().item())
        return x + 1

    run = tj.compile(step)
    for number in range(6):
        run(tj.full((2,), float(number)))
    assert made == {"sum": [2.0 * n for n in range(6)]}
    assert run.stats.compiled_calls >= 2


def read_by_key(x):
    log["loss"].append(x.sum().item())
    return x * len(log["loss"])


def read_through_all(x):
    log["loss"].append(x.sum().item())
    return x * sum(len(v) for v in log.values() if isinstance(v, list))


def read_by_a_name_of_the_list(x):
    log["loss"].append(x.sum().item())
    losses = log["loss"]
    return x * len(losses)


def read_by_a_name_of_the_dict(x):
    held = log
    held["loss"].append(x.sum().item())
    log["loss"].append(1.0)
    return x * len(held["loss"])


def read_by_get(x):
    log["loss"].append(x.sum().item())
    return x * len(log.get("loss"))


def read_by_a_key_that_varies(x):
    total = 0
    for key in ("loss", "size"):
        log[key].append(x.sum().item())
        total += len(log[key])
    return x * total


def read_with_a_list_for_new_keys(x):
    log.setdefault("loss", []).append(x.sum().item())
    return x * len(log.setdefault("loss", []))


def made_by_each_call(x):
    log.setdefault(f"{len(log)}", []).append(x.sum().item())
    return x * len(log.setdefault("loss", [1]))


def read_by_another_key_that_varies(x):
    log["loss"].append(x.sum().item())
    return x * sum(log[key] if key == "count" else len(log[key]) for key in log)


def deleted_by_a_key_that_varies(x):
    for key in ("loss", "size"):
        log[key].append(x.sum().item())
        if len(x) == 2:
            del log[key]
    return x


rows: list[Any] = [[], []]


def rows_by_number(x):
    for number in range(2):
        rows[number].append(x.sum().item())
    rows.append(rows[1][-1])
    del rows[2:]
    log["loss"].append(len(rows[0]))
    return x * len(rows[1])


alias = {"log": log}


def read_through_another_dict(x):
    log["loss"].append(x.sum().item())
    return x * len(alias["log"]["loss"])


def set_inside(x):
    if len(log) > 3:
        log["loss"] = []
    log["loss"].append(x.sum().item())
    log["more"] = 1
    return x


READ = [
    read_with_a_list_for_new_keys,
    made_by_each_call,
    read_by_a_key_that_varies,
    read_by_another_key_that_varies,
    deleted_by_a_key_that_varies,
    read_by_key,
    read_through_all,
    read_by_a_name_of_the_list,
    read_by_a_name_of_the_dict,
    read_by_get,
    read_through_another_dict,
    set_inside,
]


@pytest.mark.parametrize("function", READ)
def test_lists_that_are_read_too_are_what_they_are(function: Callable[[Any], Any]) -> None:
    assert follow(tj.compile(function)) == follow(function)


def test_lists_in_a_list_are_read_as_they_are() -> None:
    found = []
    for run in (rows_by_number, tj.compile(rows_by_number)):
        rows[:] = [[], []]
        found.append((follow(run), copy.deepcopy(rows)))
    assert found[0] == found[1]


def test_a_default_dict_by_keys_that_vary() -> None:
    made: defaultdict[str, list[float]] = defaultdict(list)

    def step(x):
        for key, value in {"sum": x.sum(), "max": x.max()}.items():
            made[key].append(value.item())
        return x + 1

    run = tj.compile(step)
    for number in range(8):
        run(tj.full((2,), float(number)))
        if number == 5:
            made["min"].append(7.0)
    assert made == {
        "sum": [2.0 * n for n in range(8)],
        "max": [1.0 * n for n in range(8)],
        "min": [7.0],
    }
    assert run.stats.compiled_calls >= 3


def test_keys_that_are_new_between_calls() -> None:
    made: dict[str, list[float]] = {}

    def step(x):
        made.setdefault("sum", []).append(x.sum().item())
        return x + 1

    run = tj.compile(step)
    for number in range(10):
        run(tj.full((2,), float(number)))
        if number == 6:
            made.clear()
    assert made == {"sum": [2.0 * n for n in range(7, 10)]}
    assert run.stats.compiled_calls >= 4
