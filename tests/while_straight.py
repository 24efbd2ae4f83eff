"""Functions whose rounds differ in more than their tensors: no loop may be made of them."""

from __future__ import annotations


def number_computes(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / (1 + n)
    return x


def number_returned(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 2
    return x, n


def number_used_after(x):
    n = 0
    while x.max() > 1:
        n += 1
        x = x / 2
    return x * n


def counted_unevenly(x):
    n = 0
    while x.max() > 1 and n < 17:
        n += 1
        if n == 6:
            n += 3
        x = x / 2
    return x


def flipping(x):
    odd = False
    while x.max() > 1:
        odd = not odd
        x = x / 2 if odd else x / 3
    return x


def collecting(x):
    seen = []
    while x.max() > 1:
        x = x / 2
        seen.append(x)
    return seen


def keeps_the_first(x):
    first = None
    while x.max() > 1:
        x = x / 2
        if first is None:
            first = x
    return x, first if first is not None else x


def list_grows(x):
    seen = [0]
    while x.max() > 1:
        seen.append(1)
        x = x / 2 if len(seen) < 6 else x / 4
    return x


def closure_counts(x):
    n = 0

    def step(y):
        nonlocal n
        n += 1
        return y / 2 if n < 5 else y / 5

    while x.max() > 1:
        x = step(x)
    return x


def default_counts(x):
    def step(y, box=[0]):  # noqa: B006
        box[0] += 1
        return y / 2 if box[0] < 5 else y / 5

    while x.max() > 1:
        x = step(x)
    return x


def iterator_decides(x):
    steps = iter([2, 2, 2, 2, 5, 5, 5] + [3] * 100)
    while x.max() > 1:
        x = x / next(steps)
    return x


def generator_decides(x):
    def numbers():
        n = 0
        while True:
            n += 1
            yield 2 if n < 5 else 6

    steps = numbers()
    while x.max() > 1:
        x = x / next(steps)
    return x


def over_a_range_and_more(x):
    for n in range(30):
        if x.max() <= 1:
            break
        x = x / (2 + n)
    return x


def over_a_range_twice(x):
    for n in range(30):  # noqa: B007
        if x.max() <= 1:
            break
        x = x / 2
    return x * n


def over_pairs(x):
    for _, by in zip(range(40), [2, 2, 2, 2, 3, 3, 3] * 5, strict=False):
        if x.max() <= 1:
            break
        x = x / by
    return x


def stack_holds_a_number(x):
    def large(y, n):
        return bool(y.max() > n)

    n = 0
    while (lambda k, y: large(y, k))(n // 5, x):
        n += 1
        x = x / 2
    return x


class Stateful:
    def __init__(self):
        self.n = 0

    def step(self, x):
        self.n += 1
        return x / 2 if self.n < 5 else x / 5


def object_counts(x):
    state = Stateful()
    while x.max() > 1:
        x = state.step(x)
    return x


TOTAL = [0]


def start_over_globally(x):
    TOTAL[0] = 0
    while x.max() > 1:
        TOTAL[0] += 1
        x = x / 2 if TOTAL[0] < 5 else x / 5
    TOTAL[0] = 0
    return x


def class_counts(x):
    class Steps:
        n = 0

    while x.max() > 1:
        Steps.n += 1
        x = x / 2 if Steps.n < 5 else x / 5
    return x


def taken_from_a_list(x):
    take = ([3] * 50 + [2, 2, 5, 2, 2]).pop
    while x.max() > 1:
        x = x / take()
    return x


def a_set_grows(x):
    seen = set()
    while x.max() > 1:
        seen.add(len(seen))
        x = x / 2 if len(seen) < 5 else x / 5
    return x


def range_without_end(x):
    for n in range(10**30):
        if x.max() <= 1:
            break
        x = x / 2 if n % 2 else x / 3
    return x


def a_slot_counts(x):
    steps = {"n": 0}
    while x.max() > 1:
        steps["n"] += 1
        x = x / 2 if steps["n"] < 5 else x / 5
    return x


def gathered(x):
    return [x / 2 for _ in range(6) if x.max() > 1]


def gathered_while_it_shrinks(x):
    parts = [(x := x / 2) for _ in range(9) if x.max() > 1]
    return [*parts, x]


def gathered_apart(x):
    for y in [x, x * 2]:
        x = sum([y / 2 for _ in range(5) if y.max() > 1], x)
    return x


def in_a_namespace(x):
    class Steps:
        n = 0
        y = x
        while y.max() > 1:
            n += 1
            y = y / 2 if n < 5 else y / 5

    return Steps.y


def both_outcomes_come_around(x):
    for _ in range(8):
        x = x / 2 if x.max() > 1 else (x - 0.25) * 1.5
    return x


def goes_on_in_the_loop(x):
    for _ in range(9):
        try:
            if x.max() > 1.0:
                continue
            x = x - 0.25
        finally:
            x = x * 0.5
    return x


def counts_on_after_either(x):
    n = 0
    while n < 9:
        n += 1
        x = x / 2 if x.max() > 1 else x + 1
    return x


def decided_by_a_function(x):
    def large(y):
        return bool(y.max() > 1)

    for _ in range(8):
        x = x / 2 if large(x) else x + 0.75
    return x


def keeps_what_is_not(x):
    for _ in range(9):
        small = not x.max() > 1.0
        x = x - 0.25 if small else x * 0.5
    return x


STRAIGHT = [
    keeps_what_is_not,
    gathered,
    gathered_while_it_shrinks,
    gathered_apart,
    in_a_namespace,
    class_counts,
    taken_from_a_list,
    a_set_grows,
    range_without_end,
    a_slot_counts,
    number_computes,
    number_returned,
    number_used_after,
    counted_unevenly,
    flipping,
    collecting,
    list_grows,
    closure_counts,
    default_counts,
    iterator_decides,
    generator_decides,
    over_a_range_and_more,
    over_a_range_twice,
    over_pairs,
    stack_holds_a_number,
    object_counts,
    start_over_globally,
    both_outcomes_come_around,
    goes_on_in_the_loop,
    counts_on_after_either,
    decided_by_a_function,
]
