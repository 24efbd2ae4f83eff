"""Traps: objects, classes and containers whose state changes between calls or inside them."""

from __future__ import annotations

import itertools
import types
import weakref
from collections import OrderedDict, defaultdict, deque

import tracejit as tj


def x(*values: float, grad: bool = True):
    return tj.tensor(list(values) or [1.0, -2.0, 3.0], requires_grad=grad)


class Thing:
    kind = 2.0

    def __init__(self, rate: float = 2.0) -> None:
        self.rate = rate
        self.calls = 0
        self.table = {"a": 1.0}

    def scale(self):
        return self.rate

    def apply(self, v):
        return v * self.scale() + self.kind + self.table["a"]

    def counted(self, v):
        self.calls += 1
        return v * self.calls


CHANGES = {
    "list": (lambda: [1.0, 2.0], lambda c: c.__setitem__(0, 3.0), "c[0] * len(c)"),
    "list grows": (lambda: [1.0, 2.0], lambda c: c.append(3.0), "sum(c)"),
    "dict": (lambda: {"a": 1.0}, lambda c: c.update(a=2.0), "c['a']"),
    "dict grows": (lambda: {"a": 1.0}, lambda c: c.update(b=2.0), "sum(c.values())"),
    "dict order": (
        lambda: OrderedDict(a=1.0, b=2.0),
        lambda c: c.move_to_end("a"),
        "list(c.values())[0]",
    ),
    "defaultdict": (lambda: defaultdict(lambda: 2.0), lambda c: c.update(a=4.0), "c.get('a', 1.0)"),
    "deque": (lambda: deque([1.0, 2.0]), lambda c: c.rotate(1), "c[0]"),
    "set": (lambda: {1.0, 2.0}, lambda c: c.add(3.0), "sum(c)"),
    "nested": (lambda: [{"a": [1.0]}], lambda c: c[0]["a"].append(2.0), "sum(c[0]['a'])"),
    "bytearray": (lambda: bytearray(b"ab"), lambda c: c.__setitem__(0, 100), "c[0]"),
    "namespace": (
        lambda: types.SimpleNamespace(a=1.0),
        lambda c: setattr(c, "a", 2.0),
        "c.a",
    ),
    "proxy": (lambda: Proxied(), lambda c: c.inner.update(a=2.0), "c.view['a']"),
    "long list": (lambda: [1.0] * 1000, lambda c: c.__setitem__(700, 3.0), "sum(c)"),
    "long dict": (
        lambda: dict.fromkeys(range(1000), 1.0),
        lambda c: c.__setitem__(700, 3.0),
        "sum(c.values())",
    ),
    "long dict, new order": (
        lambda: {i: float(i) for i in range(1000)},
        lambda c: c.__setitem__(0, c.pop(0)),
        "next(iter(c.values()))",
    ),
    "long set": (
        lambda: set(range(1000)),
        lambda c: (c.discard(7), c.add(5000)),
        "float(max(c))",
    ),
    "long tuple of lists": (
        lambda: tuple([1.0] for _ in range(1000)),
        lambda c: c[700].append(3.0),
        "len(c[700])",
    ),
    "deeply nested": (
        lambda: nested(30),
        lambda c: innermost(c).append(3.0),
        "float(len(str(c)))",
    ),
    "chain of objects": (lambda: chain(40), lambda c: setattr(last(c), "k", 3.0), "last_k(c)"),
    "weak reference": (lambda: Weak(), lambda c: c.drop(), "1.0 if c.ref() is None else 2.0"),
    "memory view": (lambda: memoryview(bytearray(b"ab")), lambda c: c.__setitem__(0, 9), "c[0]"),
    "class with items": (lambda: Items(), lambda c: c.items.update(a=5.0), "c['a']"),
}


class Proxied:
    def __init__(self):
        self.inner = {"a": 1.0}
        self.view = types.MappingProxyType(self.inner)


class Weak:
    def __init__(self):
        self.target = Thing()
        self.ref = weakref.ref(self.target)

    def drop(self):
        self.target = None


class Items:
    def __init__(self):
        self.items = {"a": 1.0}

    def __getitem__(self, key):
        return self.items[key]


class Link:
    def __init__(self, next_link):
        self.next_link = next_link
        self.k = 1.0


def chain(length):
    link = None
    for _ in range(length):
        link = Link(link)
    return link


def last(link):
    while link.next_link is not None:
        link = link.next_link
    return link


def last_k(link):
    return last(link).k


def nested(depth):
    value = [1.0]
    for _ in range(depth):
        value = [value]
    return value


def innermost(value):
    while isinstance(value[0], list):
        value = value[0]
    return value


def check_either(scenario):
    from trap_tools import play, same

    eager, found = play(scenario, False), play(scenario, True)
    for (label, a), (_, b) in zip(eager.seen, found.seen, strict=True):
        assert same(a, b), f"{label}: eager {a}, compiled {b}"
    return found.functions[0]


ITERATORS = {
    "list iterator": lambda: iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "generator": lambda: (float(k) for k in range(6)),
    "count": lambda: itertools.count(1),
    "cycle": lambda: itertools.cycle([1.0, 2.0]),
    "zip": lambda: (a for a, _ in zip(range(6), range(6), strict=True)),
    "enumerate": lambda: map(float, range(6)),
    "file": lambda: __import__("io").StringIO("1\n2\n3\n4\n5\n6\n"),
}
