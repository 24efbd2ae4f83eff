"""Arguments, and items of them, that a function does not look at: what is there makes no difference."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from trap_tools import agree, user_module

SOURCE = """
GLOBAL = {}

def scaled(batch, scale=1.0):
    return batch["x"] * scale

def whole(batch, name):
    return scaled(batch) + batch["y"]["z"]

def handed(batch, name):
    found = scaled(batch, scale=batch["rate"])
    return found * 2

def unpacked(batch, name):
    x, y, names = batch
    return x - y

def last(batch, name):
    return batch[0] + batch[-2]

def kept(batch, name):
    x, y, names = batch
    return x - y, names

def told(batch, name):
    return batch["x"] * len(name)

def changed(batch, name):
    batch["y"]["z"] = batch["x"] * 2
    batch["y"]["n"] += 1
    return batch["y"]["z"]

def alias(batch, name):
    GLOBAL["b"]["x"] = batch["x"] * 3
    return batch["x"]

def inner(batch, name):
    def more():
        return len(batch["path"])
    return batch["x"] * more()

def stands(batch, name):
    return batch["x"] if batch else name

class Step:
    def shared(self, batch, kind):
        x, y, _ = batch
        return (x - y).square().mean()

    def training(self, batch, name):
        return self.shared(batch, "train")
"""


def x(step: int) -> Any:
    return tj.arange(3.0) - step


def as_dict(step: int) -> Any:
    inside = {"z": x(step) * 2, "n": step}
    return {"x": x(step), "y": inside, "rate": 0.5 * step, "path": f"{step}.png", 3: [step]}


def as_tuple(step: int) -> Any:
    return x(step), x(step) * 2, [f"{step}.png", f"{step * 2}.png"]


PROGRAMS = {
    "whole": as_dict,
    "handed": as_dict,
    "unpacked": as_tuple,
    "last": as_tuple,
    "kept": as_tuple,
    "told": as_dict,
    "changed": as_dict,
    "alias": as_dict,
    "inner": as_dict,
    "stands": as_dict,
}
#: Those that look at all of it, or change it.
OTHERS = {"kept", "told", "alias", "inner", "stands", "changed"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    def scenario(stage: Any) -> None:
        module = user_module(SOURCE)
        f = stage.compile(getattr(module, name))
        for step in range(9):
            given = PROGRAMS[name](step)
            module.GLOBAL = {"b": given}
            stage.call(f, list(given) if name == "last" and step % 2 else given, f"{'n' * step}")
            stage.note("argument", given)

    f = agree(scenario)
    if name not in OTHERS:
        assert f.stats.compiled_calls >= 3


def test_recordings_do_not_grow_with_text() -> None:
    module = user_module(SOURCE)
    for function, make in ((module.whole, as_dict), (module.Step().training, as_tuple)):
        f = tj.compile(function)
        for step in range(2, 20):
            assert f(make(step), f"call {step}").tolist() == function(make(step), "").tolist()
        assert f.stats.recordings <= 4


def test_code_that_looks_at_more_later() -> None:
    module = user_module(SOURCE)
    f = tj.compile(module.whole)
    for step in range(2, 8):
        f(as_dict(step), "name")
    assert f.stats.compiled_calls >= 2
    module.scaled = lambda batch, scale=1.0: batch["x"] * len(batch["path"])
    for step in range(2, 14):
        expected = module.whole(as_dict(step), "name")
        assert f(as_dict(step), "name").tolist() == expected.tolist(), step


def test_methods_of_other_objects_may_look_at_more() -> None:
    module = user_module(SOURCE)

    class Reading(module.Step):  # type: ignore[name-defined,misc]
        def shared(self, batch: Any, kind: str) -> Any:
            return batch[0].sum() * len(batch[2][0])

    f = tj.compile(module.Step.training)
    first, second = module.Step(), Reading()
    for step in range(2, 14):
        for target in (first, second) if step > 7 else (first,):
            assert f(target, as_tuple(step), "").item() == pytest.approx(
                target.training(as_tuple(step), "").item()
            )


@pytest.mark.parametrize("verify", [False, True])
def test_modules_and_parameters_by_name(verify: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, batch: Any, *, tag: str = "", scale: float = 1.0) -> Any:
            return self.fc(batch["x"]) * scale

    net = Net()
    f = tj.compile(net, verify=verify)
    for step in range(1, 12):
        found = f(as_dict(step), tag=f"tag {step}", scale=step / 2)
        expected = net.fc(x(step)) * (step / 2)
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert f.stats.recordings <= 4
    with pytest.raises(TypeError, match="other"):
        f(as_dict(1), other="tag")


def test_eager_calls_get_all() -> None:
    seen = []

    def f(batch: Any) -> Any:
        seen.append(list(kept[0]) if kept[0] is given else None)
        return batch["x"] * 2

    compiled, kept = tj.compile(f), [None]
    for step in range(8):
        given = as_dict(step)
        kept[0] = given
        assert compiled(given).tolist() == (x(step) * 2).tolist()
    assert len(seen) == 8
