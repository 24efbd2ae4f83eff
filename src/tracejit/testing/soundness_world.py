"""The state random stories are about: how each piece is made, read, written inside functions, and changed outside.

In ``values`` and ``writes`` ``{x}`` is a tensor whose last dim is N; a value broadcasts against it. What a story holds
is ordinary Python, so a feature is a handful of lines.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """A piece of state: ``numbers`` and ``tests`` read it as Python, ``loops`` go through it and bind ``s``."""

    name: str
    setup: str
    numbers: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    often: float = 1.0  # how often writes are taken: those of Python state end recordings
    statements: tuple[str, ...] = ()  # templates


def templates(text: str) -> tuple[str, ...]:
    """Templates of statements, with blank lines between them.

    ``{t}`` becomes the name of a tensor the statement makes, whose last dim is N or 1; ``{x}`` and ``{y}`` are earlier
    ones, ``{n}`` a number, ``{q}`` a condition, ``{e}`` a value; other letters are new names, ``...`` is a block.

    >>> templates("{t} = {x}\\n\\n{t} = {y} * {n}")
    ('{t} = {x}', '{t} = {y} * {n}')
    """
    return tuple(text.strip().split("\n\n"))


PREAMBLE = """
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import random
import types

import numpy as np

import tracejit as tj
from tracejit import nn

F = nn.functional
"""
ROWS = """
def rows(v):
    return v.expand(*v.shape[:-1], N).reshape(-1, N)


def row(v):
    return rows(v.detach()).mean(0)


def live_row(v):
    return rows(v).mean(0)
"""

SCALE = Feature(
    "scale",
    "scale = 0.5",
    numbers=("scale", "(scale + 0.25)"),
    tests=("scale > 0.6", "scale == 0.5"),
    writes=("scale = scale * 0.5",),
    changes=("scale = 0.75", "scale = 0.5", "scale = 1", "scale = -0.5", "scale = tj.ones(N)"),
    often=0.1,
)
FLAG = Feature(
    "flag", "flag = True", tests=("flag", "not flag"), changes=("flag = not flag", "flag = 1")
)
COUNT = Feature(
    "count",
    "count = 0",
    numbers=("count", "(count % 3)", "1.0 / (count + 1)"),
    tests=("count % 2", "count > 2"),
    writes=("count += 1",),
    changes=("count += 1", "count = 0", "count += 1"),
    often=0.15,
)
ITEMS = Feature(
    "items",
    "items = [0.5, 0.25]",
    numbers=("items[0]", "len(items)", "sum(items)", "items[-1]"),
    tests=("len(items) > 2", "0.5 in items", "items"),
    loops=(
        "for s in items[:4]:",
        "for s in reversed(items):",
        "for _, s in enumerate(tuple(items)):",
    ),
    writes=("items.append(0.25)", "items[0] = items[0] * 0.5", "items.pop()"),
    changes=(
        "items[0] = 0.75",
        "items.append(0.125)",
        "items.reverse()",
        "items = [0.3]",
        "items.clear()",
    ),
    often=0.1,
)
TABLE = Feature(
    "table",
    'table = {"rate": 0.5, "mode": "sin"}',
    numbers=('table["rate"]', 'table.get("extra", 0.25)', "len(table)"),
    tests=('table["mode"] == "sin"', '"extra" in table'),
    loops=("for s in [v for v in table.values() if isinstance(v, float)]:",),
    writes=('table["rate"] *= 0.5', 'table["extra"] = 0.75'),
    changes=(
        'table["rate"] = 0.25',
        'table["mode"] = "cos"',
        'table["extra"] = 0.5',
        'table.pop("extra", None)',
        'del table["rate"]',
        'table = {"rate": 0.75, "mode": "sin"}',
    ),
    often=0.1,
)
LOGS = Feature(
    "log",
    """
import logging


class Notes(logging.Handler):
    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


log, above, notes = logging.Logger("story"), logging.Logger("above"), Notes()
log.parent = above
above.addHandler(notes)
above.setLevel(logging.WARNING)
said = notes.said""",
    tests=("log.isEnabledFor(logging.INFO)", "log.getEffectiveLevel() > 15"),
    writes=("log.debug('here')", "log.info('sum %.1f', {x}.sum())", "log.log(25, 'there')"),
    changes=(
        "log.setLevel(logging.INFO)",
        "log.setLevel(logging.NOTSET)",
        "above.setLevel(logging.DEBUG)",
        "above.setLevel(logging.ERROR)",
        "log.disabled = not log.disabled",
        "log.propagate = not log.propagate",
    ),
    often=0.8,
)
CONFIG = Feature(
    "config",
    """
class Config:
    rate = 0.5

    def __init__(self, gain):
        self.gain = gain
        self.calls = 0

    @property
    def double(self):
        return self.gain * 2

    def apply(self, v):
        return v * self.gain + self.rate

    def counted(self, v):
        self.calls += 1
        return v * self.calls


class Other(Config):
    def apply(self, v):
        return v - self.gain


config = Config(0.5)
second = Config(0.25)
""",
    numbers=(
        "config.rate",
        "config.gain",
        "config.double",
        "second.gain",
        "getattr(config, 'extra', 0.5)",
    ),
    tests=("hasattr(config, 'extra')", "isinstance(config, Other)", "config.gain > second.gain"),
    values=(
        "config.apply({x})",
        "second.apply({x})",
        "[c.apply({x}) for c in (config, second)][-1]",
        "config.counted({x})",
    ),
    writes=("config.gain = config.gain * 0.5", "config.last = {x}"),
    changes=(
        "config.rate = 0.75",
        "Config.rate = 0.25",
        "config.gain = 0.3",
        "config.extra = 2.0",
        "del config.extra",
        "config.__class__ = Other",
        "config.__class__ = Config",
        "Config.apply = lambda self, v: v + self.gain",
        "config.apply = lambda v: v * 0.1",
        "config, second = second, config",
        "second.gain = 0.9",
        "del config.rate",
    ),
    often=0.1,
)
SLOTTED = Feature(
    "slotted",
    """
class Slotted:
    __slots__ = ("k", "part")

    def __init__(self):
        self.k = 0.5
        self.part = tj.full((N,), 0.25)

    def __call__(self, v):
        return v * self.k + self.part


slotted = Slotted()
""",
    numbers=("slotted.k",),
    values=("slotted({x})", "slotted.part"),
    writes=("slotted.part.add_(row({x}))", "slotted.part = {x} * 0.5", "slotted.k += 0.25"),
    changes=(
        "slotted.k = 0.75",
        "slotted.part = tj.zeros(N)",
        "slotted.part.mul_(2)",
        "slotted = Slotted()",
        "Slotted.__call__ = lambda self, v: v - self.k",
    ),
    often=0.3,
)
CLOSURE = Feature(
    "closure",
    """
def make():
    cell = 0.5
    kept = tj.full((N,), 0.25)
    calls = 0

    def inner(v):
        return v * cell + kept

    def counting(v):
        nonlocal calls
        calls += 1
        return v * calls

    def change(value, tensor):
        nonlocal cell, kept
        cell, kept = value, tensor

    return inner, counting, change


inner, counting, change = make()
""",
    values=("inner({x})", "inner({x})", "inner({x})", "counting({x})"),
    changes=(
        "change(0.75, tj.zeros(N))",
        "change(0.5, stage.tensor(N))",
        "change(0.5, stage.tensor(N, grad=True))",
        "inner, counting, change = make()",
    ),
)
HELPER = Feature(
    "helper",
    """
def helper(v, k=0.5, seen=[0.5], *, shift=0.25):
    return v * k + seen[-1] - shift


def another(v, k=0.25, seen=(0.25,), *, shift=0.5):
    return tj.tanh(v) * k + seen[0]


def appending(v, seen=[]):
    seen.append(len(seen))
    return v * len(seen)


def deep(v, n):
    return v if n <= 0 or v.sum() > 8 else deep(v * 0.5 + 0.1, n - 1)


bound = functools.partial(helper, k=0.75)
ways = {"a": tj.sin, "b": tj.tanh, "c": helper}
way = "a"
""",
    tests=("way == 'a'", "helper.__defaults__[0] > 0.3"),
    values=(
        "helper({x})",
        "helper({x}, k=0.3)",
        "bound({x})",
        "ways[way]({x})",
        "another({x})",
        "helper({x}, shift=0.1)",
        "appending({x})",
        "deep({x}, 3)",
    ),
    changes=(
        "helper.__defaults__ = (0.25, [0.5])",
        "helper.__defaults__[1].append(0.3)",
        "helper, another = another, helper",
        "helper.__code__ = another.__code__",
        "helper.__kwdefaults__['shift'] = 0.6",
        "way = 'b'",
        "way = 'c'",
        "ways['a'] = tj.cos",
        "bound = functools.partial(another, k=0.1)",
        "bound = functools.partial(helper, k=0.2)",
        "helper.extra = 3",
    ),
)
STREAM = Feature(
    "stream",
    """
def counted():
    number = 0
    while True:
        number += 1
        yield number * 0.25


stream = counted()
waiting = iter([tj.ones(N), tj.zeros(N), tj.full((N,), 0.5)])
memo = {}


@functools.lru_cache(maxsize=None)
def power(n):
    return 2.0**n


def remembered(k, v):
    if k not in memo:
        memo[k] = v.detach().mean()
    return memo[k]
""",
    numbers=("power(3)", "len(memo)"),
    tests=("'a' in memo", "power(1) > 1"),
    values=("{x} * power(2)", "{x} + remembered('a', {x})"),
    writes=("memo['b'] = next(stream)", "memo['c'] = next(waiting, None)"),
    changes=(
        "stream = counted()",
        "first = next(stream)",
        "waiting = iter([tj.ones(N)])",
        "memo.clear()",
        "memo['a'] = 0.25",
        "power.cache_clear()",
    ),
    often=0.1,
)
MODES = Feature(
    "modes",
    "level = 0.5",
    numbers=("level",),
    tests=("tj.is_grad_enabled()", "tj.get_default_dtype() == tj.float64"),
    values=(
        "{x} + tj.ones(N)",
        "{x} * tj.tensor([0.5])",
        "{x} + tj.arange(N) * 0.5",
        "{x} + tj.full((N,), 0.5)",
        "{x} * tj.zeros(()).add(level)",
        "{x} + tj.linspace(0, 1, N)",
        "tj.eye(N)[0] + {x}",
        "tj.empty(N).fill_(level) * {x}",
        "{x} + tj.tensor(level)",
        "{x} * (tj.tensor([1, 2]) / 2).sum()",
    ),
    changes=(
        "tj.set_default_dtype(tj.float64)",
        "tj.set_default_dtype(tj.float32)",
        "tj.set_grad_enabled(False)",
        "tj.set_grad_enabled(True)",
        "tj.set_autocast_enabled('cpu', True)",
        "tj.set_autocast_enabled('cpu', False)",
        "tj.set_num_threads(3)",
        "level = 0.25",
        "level = 2",
    ),
)
