"""Functions whose loops are rolled, though tensors decide how many rounds there are."""

from __future__ import annotations

import tracejit as tj

LIMIT = 12


def newton(x):
    while (x * x - 2).abs().max() > 1e-5:
        x = x - (x * x - 2) / (2 * x)
    return x


def halved(x):
    while x.max() > 1:
        x = x / 2
    return x


def counted(x):
    rounds = 0
    while rounds < LIMIT and x.max() > 1:
        x = x / 2
        rounds += 1
    return x * 3


def counted_down(x, left=9):
    while x.max() > 1 and left:
        x = x / 2
        left -= 1
    return x


def counted_late(x):
    rounds = 0
    while x.max() > 1:
        if rounds >= 7:
            break
        rounds += 1
        x = x / 2
    return x + 1


def counted_to_equality(x):
    rounds = 10
    while x.max() > 1 and rounds != 0:
        rounds -= 2
        x = x / 2
    return x + 1


def broken_off(x):
    while True:
        x = x / 2
        if x.max() < 1:
            break
    return x - 1


def until_false(x):
    while not x.max() <= 1:
        x = x / 2
    return x


def of_a_number(x):
    while (x.max() > 1).float():
        x = x / 2
    return x


def two_in_a_row(x):
    while x.max() > 10:
        x = x / 2
    y = x + 1
    while y.max() > 1:
        y = y / 3
    return x, y


def exchanged(x):
    y = x * 0.5
    while x.max() > 1:
        x, y = y * 0.5, x
    return x, y


def with_a_branch_after(x):
    while x.max() > 1:
        x = x / 2
    if x.sum() > 1:
        return x * 2
    return x - 2


def reads_what_is_outside(x):
    shift = x.mean()
    while x.max() > 1:
        x = x * 0.5 + shift * 1e-12
    return x + shift


def equal_computations(x):
    p = x * 2
    while p.max() < 1e7:
        y = p * 2 + x * 2 + 1
        p = y
    return p


def helped(x):
    def large(y):
        return bool(y.max() > 1)

    while large(x):
        x = x / 2
    return x


def in_a_context(x):
    with tj.no_grad():
        while x.max() > 1:
            x = x / 2
    return x


def products(x):
    w = x.reshape(3, 1) * x.reshape(1, 3) / x.max() ** 2
    v = x
    while (v * v).sum() > 1e-3:
        v = w @ v * 0.25
    return v


def number_decides_late(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 3 if n > 4 else x / 2
    return x


def over_a_range(x):
    for _ in range(30):
        if x.max() <= 1:
            break
        x = x / 2
    return x


def over_a_range_of(x, start=3, stop=-15, step=-2):
    for n in range(start, stop, step):
        x = x / 2 if n > -50 else x
        if x.max() <= 1:
            return x * 2
    return x - 1


def over_a_range_or_else(x):
    for n in range(LIMIT):
        if x.max() <= 1:
            break
        x = x / 2 if n < 4 else x / 3
    else:
        x = x + 100
    return x


def one_before(x):
    before = x + 10
    while True:
        if x.max() <= 1:
            break
        before, x = x, x / 2
    return before


def two_before(x):
    first, second = x + 10, x + 20
    for _ in range(50):
        if x.max() <= 1:
            break
        first, second, x = second, x, x / 2
    return first, second


def shown_before(x):
    before = x + 10
    while True:
        if x.max() <= 1:
            break
        before, x = x.detach(), x / 2
    return before


def parts_in_a_list(x):
    parts = [x, x * 0.5]
    while parts[0].max() > 1:
        parts = [part / 2 for part in parts]
    return parts[0] + parts[1]


def parts_by_name(x):
    for part in (x * 2, x * 3):
        x = x + part * 0
    parts = {"a": x, "b": part}
    while parts["a"].max() > 1:
        parts = {name: part / 2 for name, part in parts.items()}
    return parts["a"] - part


def helped_by_name(x):
    def large(y, *, than):
        return bool(y.max() > than)

    while large(x, than=1):
        x = x / 2
    return x


def helped_with_many(x):
    def large(y, than=1):
        return bool(y.max() > than)

    while large(*(x,)):
        x = x / 2
    return x


def several_at_once(x):
    a, b, c = x, x * 0.5, x * 0.25
    while a.max() > 1:
        d = c
        e = d
        a, b, c = b * 0.5, e, a
    return a, b, c


def handled(x):
    try:
        while x.max() > 1:
            x = x / 2
    except ValueError:
        x = x * 3
    finally:
        x = x + 1
    return x


def not_one(x):
    done = False
    while not done:
        x = x / 2
        done = not x.max() > 1
    return x


ROLLED = [
    newton,
    halved,
    counted,
    counted_down,
    counted_late,
    counted_to_equality,
    broken_off,
    until_false,
    of_a_number,
    two_in_a_row,
    exchanged,
    with_a_branch_after,
    reads_what_is_outside,
    equal_computations,
    helped,
    in_a_context,
    number_decides_late,
    over_a_range,
    over_a_range_of,
    over_a_range_or_else,
    one_before,
    two_before,
    shown_before,
    parts_in_a_list,
    parts_by_name,
    helped_by_name,
    helped_with_many,
    several_at_once,
    handled,
    not_one,
]
