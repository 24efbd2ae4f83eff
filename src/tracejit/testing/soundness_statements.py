"""The statements of functions in random stories: computing, branching, looping, writing, drawing, failing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from .choices import Choices
from .fuzz_statements import CALLS, UNARY
from .soundness_gradients import GRADIENTS
from .soundness_python import PYTHON
from .soundness_scalars import NUMBERS, SCALARS
from .soundness_sizes import SIZES
from .soundness_turns import TURNS
from .soundness_world import Feature

_CALM = (
    "tj.tanh({x})",
    "tj.sin({x})",
    "{x} * 0.5",
    "({x} * {x} + 0.1) ** 0.5",
    "tj.relu({x})",
    "tj.sigmoid({x})",
    "tj.softmax({x}, -1)",
    "{x} - {x}.mean(-1, keepdim=True)",
    "tj.abs({x})",
    "{x}.clamp(-0.75, 0.75)",
    "F.layer_norm({x}, (N,))",
    "{x}.sum(-1, keepdim=True) * 0.25",
    "tj.cumsum({x}, -1) * 0.5",
    "{x}.amax(-1, keepdim=True)",
    "{x} * {n}",
    "{x} + {n}",
    "{n} - {x}",
    "{x} / ({n} * {n} + 1)",
)
_MOVED = (
    "{x}.flip(-1)",
    "tj.cat([{x}[..., 1:], {x}[..., :1]], -1)",
    "{x}.unsqueeze(0).expand(2, *{x}.shape).sum(0)",
    "{x}.transpose(0, -1).clone().transpose(0, -1)",
    "rows({x})[0]",
    "rows({x})[-1:].sum(0)",
    "tj.stack([{x}, {y}]).mean(0)",
    "tj.cat([rows({x}), rows({x})])[::2]",
    "{x}.detach()",
    "{x}[...]",
    "{x}.view({x}.shape)",
    "{x}.unflatten(-1, (N, 1)).squeeze(-1)",
)
_TWO = (
    "{x} + {y}",
    "{x} * {y}",
    "{x} - {y} * 0.5",
    "tj.maximum({x}, {y})",
    "tj.where({x} > {y}, {x}, {y})",
    "{x} / ({y} * {y} + 1)",
    "({x} * {y}).sum(-1, keepdim=True) * 0.1 + {x}",
    "rows({x})[0] @ rows({y})[0].to({x}.dtype) + {x}",
    "tj.lerp({x}, {y}, 0.25)",
)
_TESTS = (
    "{x}.sum() > 0.1",
    "{x}.mean() < {n}",
    "({x} > 0).any()",
    "({x} > -0.75).all()",
    "{x}.sum().item() > 0.3",
    "float({x}.detach().amax()) > {n}",
    "bool({x}.sum() > {y}.sum())",
    "{x}.ndim == 2",
    "{x}.requires_grad",
    "{x}.dtype == tj.float64",
    "len({x}) > 2",
    "{x}.shape[0] % 2",
    "tj.is_grad_enabled()",
    "{x} is {y}",
    "not {x}.sum() > 1 and {y}.sum() > -1",
    "{x}.sum() > 0 or {y}.mean() > 0",
)
_LOOPS = (
    "for i in range(3):",
    "for i in range({x}.shape[0]):",
    "for i in range(min(int({x}.detach().abs().amax()), 3) + 1):",
    "for i, part in zip(range(3), rows({y})):",
)
_FRESH_WRITES = (
    "{t}.add_({y}.detach())",
    "{t}.mul_(0.5)",
    "{t} += {n}",
    "{t}[..., :1] = 0.5",
    "{t}[..., ::2].mul_(0.5)",
    "{t}[0].add_(0.25)",
    "{t}.relu_()",
    "{t}.transpose(0, -1)[0] = 0.25",
    "{t}[..., :1] = {t}[..., -1:]",
    "{t}.masked_fill_({t} > 0.5, 0.1)",
    "{t}[{t} < 0] = 0.25",
    "{t}.reshape(-1)[0] = 1.0",
    "{t}.detach().mul_(0.5)",
    "{t}.data.add_(0.25)",
    "{t}.view(-1).sub_(0.25)",
    "{t}.copy_({x})",
    "{t}.view(-1).fill_(0.5)",
    "{t}.transpose(0, -1).zero_()",
    "{t}.unfold(-1, 1, 1).mul_(0.5)",
    "{t}.as_strided((1,), (1,)).add_(0.25)",
)
_MODES = (
    "with tj.no_grad():",
    "with tj.enable_grad():",
    "with tj.set_grad_enabled({x}.requires_grad):",
    "with tj.inference_mode():",
)
_RAISES = (
    "if {x}.sum() > 2.5:\n    raise ValueError('too large')",
    "if {n} > 2:\n    raise ValueError('a number')",
    "assert {x}.amax() < 4, 'not so large'",
)
_CAUGHT = (
    "try:\n    {t} = {x} + tj.ones(N + 1)\nexcept RuntimeError:\n    {t} = {x} * 0.5",
    "try:\n    if {x}.sum() > 0:\n        raise KeyError('up')\n"
    "    {t} = {x} - 0.5\nexcept KeyError:\n    {t} = {x} + 0.5",
    "try:\n    {t} = {x}[int({x}.detach().sum())]\nexcept IndexError:\n    {t} = {x}",
    "try:\n    {t} = {x} * 0.25\nfinally:\n    {z} = {x} * 0.75",
)
_ASSIGNED = re.compile(r"^(\w+(?:, \w+)*) [-+*/]?= ", re.MULTILINE)


class Body:
    """Writes the lines of one function."""

    def __init__(self, choices: Choices, features: list[Feature], arguments: list[str]) -> None:
        self.choices = choices
        self.features = features
        self.arguments = arguments
        self.counter = itertools.count()
        self.state = {n for f in features for n in _assigned(f.setup)}
        self.globals: set[str] = set()
        self.writes_arguments = False
        self.alone = True  # may calls overlap: is nothing written and nothing counted?
        self.extras: list[str] = []  # the names of numbers made inside

    # --- parts of statements --------------------------------------------------------------------------------

    def fill(self, text: str, pool: list[str], **more: str) -> str:
        """A template with operands from ``pool``."""
        return text.format_map(_Operands(self, pool, more)) if "{" in text else text

    def number(self) -> str:
        """A Python number, often one that is state."""
        found = [n for f in self.features for n in f.numbers] + self.extras
        if found and self.choices.chance(0.6):
            return str(self.choices.pick(found))
        return str(self.choices.pick(["0.5", "2", "-0.25", "1.5"]))

    def name(self) -> str:
        """A new name."""
        return f"v{next(self.counter)}"

    def value(self, pool: list[str]) -> str:
        """An expression of pool tensors and state."""
        c = self.choices
        states = [v for f in self.features for v in f.values]
        if states and c.chance(0.45):
            text = str(c.pick(states)).replace("{x}", c.pick(pool[-4:]))
            return f"{c.pick(pool[-4:])} + {text}" if c.chance(0.5) else text
        if c.chance(0.15):
            unary = f"tj.{c.pick(UNARY)}({{x}})" if c.chance(0.6) else c.pick(CALLS)
            return self.fill(unary, pool)
        return self.fill(c.pick(c.pick([_CALM, _CALM, _TWO, _MOVED])), pool)

    def test(self, pool: list[str]) -> str:
        """A condition."""
        tests = [t for f in self.features for t in f.tests]
        if tests and self.choices.chance(0.45):
            return str(self.choices.pick(tests))
        return self.fill(self.choices.pick(_TESTS), pool)

    # --- statements --------------------------------------------------------------------------------

    def lines(self, pool: list[str], count: int, depth: int = 0) -> list[str]:
        """Some statements; new names are added to ``pool``."""
        found: list[str] = []
        for _ in range(count):
            makers = [m for m, w in _MAKERS for _ in range(w) if depth < 2 or m not in _NESTED]
            found += self.choices.pick(makers)(self, pool, depth)
        return found

    def block(self, header: str, pool: list[str], depth: int, target: str) -> list[str]:
        """A header with some statements of its own, the last of which gives ``target`` a value."""
        inner = list(pool)
        lines = self.lines(inner, self.choices.whole(0, 3), depth + 1)
        return [header, *indented([*lines, f"{target} = {self.value(inner)}"])]

    def write(self, text: str) -> list[str]:
        """Lines that write to state; names they bind are global."""
        self.alone = False
        self.globals |= _assigned(text) & self.state
        return text.split("\n")


class _Operands(dict[str, str]):
    """What the names in a template stand for, chosen where one is first used; conditions and values each time anew."""

    def __init__(self, body: Body, pool: list[str], known: dict[str, str]) -> None:
        super().__init__(known)
        self.body = body
        self.pool = pool

    def __missing__(self, key: str) -> str:
        if key == "e":
            return self.body.value(self.pool)
        if key == "q":
            return self.body.test(self.pool)
        if key in "xyn":
            pools = {"x": self.pool[-4:], "y": self.pool}
            made = self.body.number() if key == "n" else str(self.body.choices.pick(pools[key]))
        else:
            made = self.body.name()
        self[key] = made
        return made


def _assigned(text: str) -> set[str]:
    """The names that statements of a text, none within another, assign."""
    return {n for found in _ASSIGNED.findall(text) for n in found.split(", ")}


def indented(lines: list[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" for line in lines]


Maker = Callable[[Body, list[str], int], list[str]]


def _let(body: Body, pool: list[str], depth: int) -> list[str]:
    line = f"{{}} = {body.value(pool)}"
    name = body.name() if body.choices.chance(0.8) else body.choices.pick(pool)
    pool.append(name)
    return [line.replace("{}", name, 1)]


def _branch(body: Body, pool: list[str], depth: int) -> list[str]:
    target = body.name()
    lines = body.block(f"if {body.test(pool)}:", pool, depth, target)
    if body.choices.chance(0.25):
        lines += body.block(f"elif {body.test(pool)}:", pool, depth, target)
    lines += body.block("else:", pool, depth, target)
    pool.append(target)
    return lines


def _return(body: Body, pool: list[str], depth: int) -> list[str]:
    return [f"if {body.test(pool)}:", f"    return {body.value(pool)}"]


def _loop(body: Body, pool: list[str], depth: int) -> list[str]:
    target, c = body.name(), body.choices
    loops = [loop for f in body.features for loop in f.loops]
    own = bool(loops) and c.chance(0.4)
    header = c.pick(loops) if own else body.fill(c.pick(_LOOPS), pool)
    lines = [f"{target} = {c.pick(pool)}", *body.block(header, [*pool, target], depth, target)]
    if own and c.chance(0.7):
        lines.append(f"    {target} = {target} * s")
    if c.chance(0.3):
        lines += [f"    if {target}.sum() > 0.7:", f"        {c.pick(['break', 'continue'])}"]
        lines.append(f"    {target} = {target} * 0.5")
    pool.append(target)
    return lines


def _while(body: Body, pool: list[str], depth: int) -> list[str]:
    target, source = body.name(), body.choices.pick(pool)
    pool.append(target)
    return [
        f"{target} = tj.tanh({source} * 1.0)",
        f"while {target}.abs().sum() > {body.choices.pick(['0.5', '0.2', '2.0'])}:",
        f"    {target} = {target} * {body.choices.pick(['0.5', '0.6', '-0.4'])}",
    ]


def _scalar(body: Body, pool: list[str], depth: int) -> list[str]:
    name = f"s{next(body.counter)}"
    line = f"{name} = {body.fill(body.choices.pick(SCALARS), pool)}"
    if depth == 0:
        body.extras.append(name)
    return [line]


def _fresh_write(body: Body, pool: list[str], depth: int) -> list[str]:
    target, source = body.name(), body.choices.pick(pool)
    ways = [f"{target} = {source} * 1.0", f"{target} = {source}.clone()", f"{target} = {source}"]
    form, way = body.choices.pick(_FRESH_WRITES), body.choices.pick(ways)
    body.writes_arguments |= way == ways[-1] and source in body.arguments
    body.alone &= way != ways[-1]  # it may be state
    lines = [way, body.fill(form, pool, t=target)]
    pool.append(target)
    return lines


def _argument_write(body: Body, pool: list[str], depth: int) -> list[str]:
    form = body.choices.pick(_FRESH_WRITES)
    body.writes_arguments = True
    return [body.fill(form, pool, t=body.choices.pick(body.arguments))]


def _state_write(body: Body, pool: list[str], depth: int) -> list[str]:
    c = body.choices
    found = [w for f in body.features if f.writes and c.chance(f.often) for w in f.writes]
    if not found:
        return _let(body, pool, depth)
    return body.write(str(c.pick(found)).replace("{x}", c.pick(pool[-4:])))


def _mode(body: Body, pool: list[str], depth: int) -> list[str]:
    target = body.name()
    header = body.fill(body.choices.pick(_MODES), pool)
    lines = body.block(header, pool, depth, target)
    pool.append(target)
    return lines


def _raise(body: Body, pool: list[str], depth: int) -> list[str]:
    return body.fill(body.choices.pick(_RAISES), pool).split("\n")


def _template(body: Body, pool: list[str], depth: int) -> list[str]:
    """A statement of a family, with blocks of its own where ``...`` stands."""
    own = [s for f in body.features for s in f.statements]
    family = own if own and body.choices.chance(0.4) else body.choices.pick(_FAMILIES)
    body.alone &= family is not GRADIENTS
    target = body.name()
    found: list[str] = []
    for line in body.fill(body.choices.pick(family), pool, t=target).split("\n"):
        if line.strip() == "...":
            inner = body.lines(list(pool), body.choices.whole(0, 3), depth + 1) if depth < 2 else []
            found += [line[: -len("...")] + extra for extra in inner]
        else:
            found.append(line)
    pool.append(target)
    return found


_NESTED = (_branch, _loop, _while, _mode)
_FAMILIES = (_CAUGHT, GRADIENTS, NUMBERS, PYTHON, PYTHON, SIZES, TURNS)
_MAKERS: tuple[tuple[Maker, int], ...] = (
    (_let, 18),
    (_branch, 5),
    (_return, 1),
    (_loop, 2),
    (_while, 1),
    (_scalar, 2),
    (_fresh_write, 4),
    (_argument_write, 2),
    (_state_write, 6),
    (_mode, 1),
    (_raise, 1),
    (_template, 8),
)
