"""Random loops that tensors and counters end: whatever the recorder makes of them, results are those of Python."""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

import tracejit as tj

SHAPES = [(), (1,), (3,), (17,), (2, 5), (0,)]


class Writer:
    """Writes one program."""

    MOST = (1, 2, 3, 7, 20)

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = ["a", "b", "c"][: self.random.randint(1, 3)]

    def value(self):
        return self.random.choice([*self.names, "x", "fixed"])

    def expression(self):
        choose = self.random.choice
        number = choose([0.5, 2, 1.25, -0.75, 3])
        return choose(
            [
                f"{self.value()} + {self.value()}",
                f"{self.value()} * {number}",
                f"{self.value()} - {self.value()} * {number}",
                f"tj.where({self.value()} > {number}, {self.value()}, {self.value()})",
                f"{self.value()}.abs() * 1.5 + 0.25",
                f"tj.maximum({self.value()}, {self.value()})",
                f"{self.value()}",
                f"{self.value()}.sum() + {self.value()} * 0",
                "x * 2",
            ]
        )

    def condition(self):
        limit = self.random.choice([1.5, 20, 300, 1e5])
        how = self.random.choice(
            ["{}.abs().sum() < {}", "not ({}.abs().sum() >= {})", "({} < {}).all()"]
        )
        return how.format(self.random.choice(self.names), limit)

    def statements(self):
        found = []
        for _ in range(self.random.randint(1, 4)):
            names = self.random.sample(self.names, self.random.randint(1, min(2, len(self.names))))
            values = ", ".join(self.expression() for _ in names)
            found.append(f"{', '.join(names)} = {values}")
        found += self.random.choice([[]] * 6 + [["a = a + n"], ["odd = not odd"], ["seen = (n,)"]])
        if self.random.random() < 0.15:
            found.append(f"if n > {self.random.randint(1, 9)}: a = a * 0.5 + 1")
        if self.random.random() < 0.1:
            found.append("if odd: a = a + 1")
        self.random.shuffle(found)
        return found

    def loop(self):
        most = self.random.choice(self.MOST)
        body = self.statements()
        kind = self.random.choice(["while", "while", "late", "for", "down"])
        if kind == "for":
            body.insert(self.random.randint(0, len(body)), f"if not ({self.condition()}): break")
            lines = [
                f"for n in range({self.random.choice([str(most), f'1, {most}', f'{most}, 0, -1'])}):"
            ]
            return ["n = 0", *lines, *(f"    {line}" for line in body)]
        if kind == "late":
            body.insert(0, f"if n >= {most}: break")
        step, test = (("n -= 1", "n"), ("n += 1", f"n < {most}"))[kind != "down"]
        test = "True" if kind == "late" else test
        body.insert(self.random.randint(kind == "late", len(body)), step)
        first = f"n = {most if kind == 'down' else 0}"
        return [first, f"while {test} and {self.condition()}:", *(f"    {line}" for line in body)]

    def source(self):
        lines = ["odd, seen = False, ()", "fixed = x * 0.5 + 0.125"]
        lines += [
            f"{name} = {self.random.choice(['x', 'x * 0.5', 'x + 1'])}" for name in self.names
        ]
        lines += self.loop()
        if self.random.random() < 0.4:
            lines.append("a = a * 2 + x")
        if self.random.random() < 0.3:
            lines += self.loop()
        if self.random.random() < 0.3:
            lines += ["if a.sum() > 10:", "    a = a - 1"]
        results = [*self.names, *self.random.choice([[]] * 5 + [["n"]])]
        lines.append(f"return {', '.join(results)},")
        return "\n".join(["def f(x):", *(f"    {line}" for line in lines)]) + "\n"


class WritingWriter(Writer):
    """Programs that write in place, too, also to what they were given and through views; some have many rounds."""

    MOST = (2, 7, 20, 60)

    def write(self):
        name, choose = self.random.choice([*self.names, "x", "fixed", "v"]), self.random.choice
        return choose(
            [
                f"{name} += {self.value()}",
                f"{name}.mul_({choose([0.5, 1.25, -0.75])})",
                f"{name}.copy_({self.expression()})",
                f"{name}[...] = {self.expression()}",
                f"{name}.reshape(-1)[1:] = {self.value()}.sum() * 0.125",
                f"{name}.reshape(-1)[:1] += 0.5",
                f"{name}.clamp_(max=50)",
                f"{name}[{self.value()} > 3] = 0.5",
                f"v = {self.value()}.clone()",
                f"v = {self.value()}.reshape(-1)[:1]",
                f"{self.random.choice(self.names)} = v.sum() + {self.value()}",
            ]
        )

    def statements(self):
        found = super().statements()[: self.random.randint(1, 3)]
        found += [self.write() for _ in range(self.random.randint(1, 3))]
        self.random.shuffle(found)
        return found

    def source(self):
        return super().source().replace("    odd, seen", "    v = x.clone()\n    odd, seen", 1)


class KeepingWriter(WritingWriter):
    """Programs that keep the number which they compare."""

    def loop(self):
        kept = self.random.choice(["size", "other"])
        limit = self.random.choice([1.5, 20, 300, 1e5, "limit"])
        read = f"{kept} = {self.random.choice(self.names)}.abs().sum().item()"
        test = f"{kept} < {limit}"
        body, most = self.statements(), self.random.choice(self.MOST)
        lines = [f"{kept} = 0.0", "limit = 50.0", "n = 0"]
        if self.random.random() < 0.5:
            body.insert(self.random.randint(0, len(body)), read)
            body.append(f"if not ({test}): break")
            return [*lines, f"for n in range({most}):", *(f"    {line}" for line in body)]
        body.insert(self.random.randint(0, len(body)), read)
        body.append("n += 1")
        body += self.random.choice([[]] * 6 + [["limit = limit * 2"], [f"a = a + {kept} * 0"]])
        return [*lines, f"while n < {most} and {test}:", *(f"    {line}" for line in body)]


def program(seed, writer=Writer):
    source = writer(seed).source()
    name = f"<random loop {writer.__name__} {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {"tj": tj}
    exec(compile(source, name, "exec"), names)
    return names["f"], source


def run(f, x):
    return [r.numpy() if isinstance(r, tj.Tensor) else np.array(r) for r in f(x)]


def outcome(f, x):
    """What a call returns, or its error, and what it left in its argument."""
    x = x.clone()
    try:
        found = run(f, x)
    except (RuntimeError, IndexError) as error:
        found = [np.array(str(error).partition("\n")[0])]
    return [*found, x.numpy()]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("writer", [Writer, WritingWriter, KeepingWriter])
@pytest.mark.parametrize("part", range(3))
def test_random_loops(part, writer):
    rolled = 0
    for seed in range(part * 20, part * 20 + 20):
        f, source = program(seed, writer)
        compiled = tj.compile(f)
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        dtype = [tj.float32, tj.float64][seed % 2]
        scales = [0.01, 3.0, 0.3, 1e3, float("nan"), 0.1, float("inf"), 0.0, 1.0]
        calls = [tj.tensor(rng.uniform(0, 1, shape) * scale).to(dtype) for scale in scales]
        with np.errstate(all="ignore"):
            for x in [*calls, *calls]:
                for found, wanted in zip(outcome(compiled, x), outcome(f, x), strict=True):
                    if wanted.dtype.kind == "U":
                        assert found == wanted, source
                    else:
                        np.testing.assert_allclose(found, wanted, 2e-5, 1e-6, err_msg=source)
        rolled += any("until=" in str(graph) for graph in compiled.graphs)
    assert rolled >= (3 if writer is Writer else 1)
