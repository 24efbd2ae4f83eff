"""Random stories: state, a function over it, calls of the function, and changes of the state between calls."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .choices import Choices
from .soundness_gradients import OWN
from .soundness_identity import KEPT, KNOWN, UNNAMED
from .soundness_modules import net
from .soundness_python import PARTS
from .soundness_statements import Body, indented
from .soundness_tensors import BANK, CACHE, DRAWS, FOREIGN, GENERATOR, TALLY, TWINS, VIEW, WEIGHT
from .soundness_training import RULE, lesson, master
from .soundness_world import (
    CLOSURE,
    CONFIG,
    COUNT,
    FLAG,
    HELPER,
    ITEMS,
    LOGS,
    MODES,
    PREAMBLE,
    ROWS,
    SCALE,
    SLOTTED,
    STREAM,
    TABLE,
    Feature,
)

#: Features of which reading changes nothing: calls may overlap.
_QUIET = (SCALE, FLAG, COUNT, ITEMS, TABLE, SLOTTED, BANK, VIEW, TWINS, CACHE, WEIGHT, OWN)
_FEATURES = (
    *_QUIET,
    CONFIG,
    CLOSURE,
    HELPER,
    GENERATOR,
    DRAWS,
    FOREIGN,
    PARTS,
    STREAM,
    MODES,
    TALLY,
    KNOWN,
    KEPT,
    RULE,
    LOGS,
    UNNAMED,
)

_DTYPES = ("float32", "float32", "float32", "float32", "float64")
_LAYOUTS = (
    "contiguous",
    "contiguous",
    "contiguous",
    "transposed",
    "strided",
    "reversed",
    "expanded",
)
_OUTSIDE = (
    "{o}",
    "stage.backward({o})",
    "stage.backward({o})",
    "stage.backward({o}, retain=True)",
    "stage.backward({o}, retain=True, part=slice(1))",
    "stage.backward({o}, part=slice(1, None))",
    "stage.backward({o}, retain=True, towards=({a},))",
    "stage.backward({o}, part=slice(1), towards=({a},))",
    "{a}.detach().mul_(0.75), stage.backward({o}, retain=True, part=slice(1))",
    "{a}.detach().mul_(0.75), stage.backward({o}, part=slice(1, None), towards=({a},))",
    "slopes{k} = stage.slopes({o}, {a})",
    "{o}.add_(0.5)",
    "{o} = None",
    "{a}.mul_(0.5)",
    "{a}.grad = None",
    "{a}.requires_grad_({a}.is_floating_point() and not {a}.requires_grad)",
    "{a}.data = {a}.data * 0.5",
    "{a}.data.mul_(0.5)",
    "{a} = {a}.clone()",
    "{a}.detach().mul_(0.75)",
    "slopes{k} = stage.slopes({o}, {a}, order=1)",
    "hook{k} = {a}.register_hook(lambda g: g * 0.5)",
)
_MADE = ((master, 0.08), (lesson, 0.06), (net, 0.3))
#: Numbers given as an argument.
_RATES = ("0.25", "2", "0.75", "True", "-1", "0", "np.float64(0.3)", "tj.tensor(0.5)", "1e-3", "3")


@dataclass(frozen=True)
class _Given:
    """A way to take the arguments: the function's parameters, how it unpacks them, and what a call says."""

    taken: str
    unpacked: tuple[str, ...]
    call: str
    setup: str = ""


_NESTED = (
    _Given("box", ("x = box['x']", "y = box['rest'][0]"), "{{'x': {0}, 'rest': [{1}]}}"),
    _Given("parts", ("x = parts[0]", "y = parts[-1]"), "[{0}, {1}]"),
    _Given("*parts", ("x = parts[0]", "y = parts[1]"), "{0}, {1}"),
    _Given("**box", ("x = box['x']", "y = box.get('y')"), "x={0}, y={1}"),
    _Given(
        "box",
        ("x = box.x", "y = box.rest[0]"),
        "Box({0}, ({1},))",
        'Box = collections.namedtuple("Box", "x rest")',
    ),
    _Given(
        "box",
        ("x = box.x", "y = box.rest[-1] if box.note == 'b' else box.rest[0]"),
        "Box({0}, [{1}])",
        "@dataclasses.dataclass\nclass Box:\n    x: object\n    rest: list\n    note: str = 'a'",
    ),
)


class Author(Choices):
    """Writes one story."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        super().__init__(seed)
        self.size = self.whole(2, 9) if size is None else size
        self.width = self.pick([1, 2, 3, 3, 4, 4, 5, 8])
        self.training = self.chance(0.12)  # is it about the steps of a training, and nothing else?
        self.counter = itertools.count()
        self.features = self._features()
        self.arity = self.whole(1, 3)
        self.results: list[str] = []
        self.given: list[str] = []  # how the arguments are made
        self.rows = 0
        self.writes = False  # does the function write to its arguments?
        self.wants = 0.5  # how often arguments require gradients
        self.nested: _Given | None = self.pick(_NESTED) if self.chance(0.15) else None
        self.grows = self.chance(
            0.3
        )  # do the arguments have other numbers of rows from call to call?
        self.rated = self.chance(0.35)  # is there a number among the arguments?
        self.overlapping = False  # may calls run at the same time?

    def write(self) -> str:
        """The text of the story."""
        parts = [PREAMBLE.strip(), f"N = {self.width}", ROWS.strip()]
        parts += [f.setup.strip() for f in self.features]
        parts += [self.nested.setup] if self.nested and self.nested.setup else []
        return (
            "\n\n".join(parts) + "\n\n\n" + "\n".join(self._function()) + "\n\n\n" + self._events()
        )

    # --- the world --------------------------------------------------------------------------------

    def _features(self) -> list[Feature]:
        if self.training:
            return [lesson(self)]
        count = self.pick([1, 1, 2, 2, 3, 4])
        chosen = [_FEATURES[i] for i in sorted(self.rng.permutation(len(_FEATURES))[:count])]
        chosen += [make(self) for make, often in _MADE if self.chance(often)]
        return chosen

    def _function(self) -> list[str]:
        arguments = ["x", "y"][: self.arity]
        body = Body(self, self.features, arguments)
        pool = list(arguments)
        options = ["mode='a'", *(["rate=0.5"] if self.rated else [])]
        body.extras += ["rate", "rate"] if self.rated else []
        lines = body.lines(pool, self.whole(0, 3) if self.training else self.size)
        if self.training:
            step = str(self.pick(self.features[0].writes))
            lines += body.write(step.replace("{x}", self.pick(pool)))
        lines.append(f"return {self._returned(pool, body)}")
        self.writes = body.writes_arguments
        self.wants = 0.04 if self.writes else 0.2 if self.training else 0.65
        declared = [f"global {', '.join(sorted(body.globals))}"] if body.globals else []
        quiet = all(f in _QUIET for f in self.features)
        self.overlapping = quiet and body.alone and not self.nested
        taken, unpacked = ", ".join([*arguments, *options]), list[str]()
        if self.nested:
            unpacked = list(self.nested.unpacked[: self.arity])
            split = "" if self.nested.taken.startswith("*") else "*, "
            taken = f"{self.nested.taken}, {split}{', '.join(options)}"
            if self.nested.taken.startswith("**"):
                taken = f"*, {', '.join(options)}, {self.nested.taken}"
        modes = ["if mode == 'b':", "    x = x * 0.5"] if self.chance(0.3) else []
        head = ["@stage.compile", f"def program({taken}):"]
        return [*head, *indented([*declared, *unpacked, *modes, *lines])]

    def _returned(self, pool: list[str], body: Body) -> str:
        last = pool[-1]
        forms = [
            last,
            last,
            f"{last}.sum()",
            f"{last}, {self.pick(pool)}",
            f"{{'a': {last}, 'b': {self.pick(pool)}[..., :1]}}",
            f"{last}, {self.pick(pool)}.detach(), {self.pick(pool)}.reshape(-1)",
            f"[{last}, {body.number()}]",
            f"{self.pick(pool)}, {self.pick(pool)}.mean(), ({last}, None)",
            f"{last}, {last}.shape, {last}.numel(), str({last}.dtype), {last} is {self.pick(pool)}",
            f"({last}.sum() > 0).item(), {body.number()}, [{last}], {{}}",
            f"types.SimpleNamespace(v={last}, k={body.number()}, parts=list(rows({last})))",
            f"{last}.T, {last}[..., :1], {last}.detach().sum().item()",
            f"rows({last})[rows({last})[:, 0] > 0]",
        ]
        return str(self.pick(forms))

    # --- the events --------------------------------------------------------------------------------

    def _events(self) -> str:
        """Calls in pairs, so that one replays what the other recorded, with something in between."""
        recipes = [self._recipe() for _ in range(self.pick([1, 1, 2, 3]))]
        lines = self._step(self._set(recipes[0]))
        for _ in range(self.whole(3, 6)):
            if self.chance(0.3):
                lines += self._step(self._set(self.pick(recipes)))
            for _ in range(self.pick([1, 2, 2, 3])):
                if self.chance(0.4):
                    lines += self._again()
                lines += self._call()
                if self.chance(0.4):
                    lines += self._outside()
            lines += self._change() + (self._change() if self.chance(0.3) else [])
        return "\n".join([*lines, *self._call(), *self._call(), *self._outside()]) + "\n"

    def _recipe(self) -> list[str]:
        """How to make the arguments ``x0`` and ``y0``, sometimes from each other or from the state."""
        self.rows = self.pick([0, 0, 1, 2, 3, 3, 4])  # 0: a vector
        if self.arity == 2 and self.chance(0.1):
            return [
                f"base = stage.tensor({(self.rows or 2) + 1}, N)",
                "x0, y0 = base[:-1], base[1:]",
            ]
        lines = [f"x0 = {self._fresh()}"]
        if self.arity == 2:
            ways = ["x0", "x0[...]", "x0.detach()", "x0.flip(-1)", "x0 * 2", "x0.T.T"]
            lines.append(f"y0 = {self.pick(ways) if self.chance(0.25) else self._fresh()}")
        return lines + (["x0.mark = 2"] if self.chance(0.05) else [])

    def _set(self, recipe: list[str]) -> list[str]:
        self.given = recipe
        return recipe

    def _again(self) -> list[str]:
        """New values for one argument or all, sometimes in another number of rows."""
        if self.grows and self.rows and self.chance(0.7):
            return self._step(self._set(self._resized()))
        lines = self.given if self.chance(0.5) else [self.pick(self.given)]
        return self._step(lines)

    def _resized(self) -> list[str]:
        """How to make the arguments with another number of rows."""
        old, self.rows = self.rows, self.whole(1, 7)
        moved = {f"({old + k}, N": f"({self.rows + k}, N" for k in (0, 1)}
        return [
            next((line.replace(a, b) for a, b in moved.items() if a in line), line)
            for line in self.given
        ]

    def _fresh(self) -> str:
        names = {f.name for f in self.features}
        shown = {"bank": "bank", "view": "view", "cache": "cache[1:]"}
        if not self.writes:  # a leaf that requires grad is not written to
            shown["weight"] = "weight"
        if self.chance(0.08) and names & shown.keys():
            return shown[self.pick(sorted(names & shown.keys()))]
        if self.chance(0.06) and self.results:
            return f"tj.as_tensor({self.pick(self.results)})"
        shape = f"{self.rows}, N" if self.rows else "N"
        dtype = "int64" if self.chance(0.04) else self.pick(_DTYPES)
        options = [] if dtype == "float32" else [f"dtype={dtype!r}"]
        layout = self.pick(_LAYOUTS) if self.rows else "contiguous"
        options += [] if layout == "contiguous" else [f"layout={layout!r}"]
        options += ["grad=True"] if dtype != "int64" and self.chance(self.wants) else []
        return f"stage.tensor({', '.join([shape, *options])})"

    def _call(self) -> list[str]:
        result = f"out{next(self.counter)}"
        self.results.append(result)
        mode = ["mode='b'"] if self.chance(0.07) else []
        mode += [f"rate={self.pick(_RATES)}"] if self.rated and self.chance(0.3) else []
        given = ["x0", "y0"][: self.arity]
        if self.nested:
            given = [self.nested.call.format(given[0], given[-1])]
        call = f"{result} = program({', '.join([*given, *mode])})"
        if self.overlapping and self.chance(0.1):
            call = f"{result} = stage.at_once({', '.join(['program', *given, *mode])})"
        if self.chance(0.05):
            mode_line = self.pick(["no_grad", "enable_grad", "inference_mode"])
            return self._step([f"with tj.{mode_line}():", f"    {call}"])
        return self._step([call])

    def _outside(self) -> list[str]:
        result = self.results[-1] if self.chance(0.7) else self.pick(self.results)
        argument = self.pick(["x0", "y0"][: self.arity])
        text = self.pick(_OUTSIDE).format(o=result, a=argument, k=next(self.counter))
        return self._step([text, *self._given_up(text)])

    def _change(self) -> list[str]:
        feature = self.pick(self.features)
        if not feature.changes:
            return []
        text = str(self.pick(feature.changes))
        return self._step([*text.split("\n"), *self._given_up(text)])

    def _given_up(self, text: str) -> list[str]:
        """Results that no gradient is asked of any more: a write through ``.data`` may have reached what they need."""
        return [f"{' = '.join(self.results)} = None"] if ".data" in text and self.results else []

    def _step(self, lines: list[str]) -> list[str]:
        return ["with stage.step():", *indented(lines)]


def write(seed: int, size: int | None = None) -> str:
    """The story of a seed."""
    return Author(seed, size).write()
