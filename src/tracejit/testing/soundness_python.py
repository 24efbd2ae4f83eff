"""Statements of random stories in all of Python: patterns, comprehensions, generators, classes, recursion."""

from __future__ import annotations

from .soundness_world import Feature, templates

PYTHON = templates(
    """
match {x}.ndim, {x}.shape[-1]:
    case (1, _):
        ...
        {t} = {e}
    case (2, k) if k > 2:
        {t} = {x} * k
    case _:
        {t} = {e}

match int({x}.detach().sum()):
    case 0:
        ...
        {t} = {e}
    case 1 | -1:
        {t} = {x} * 0.5
    case k:
        {t} = {x} + k * 0.1

match ({x}.sum() > 0).item(), {n}:
    case True, k if k > 0.4:
        {t} = {x} * k
    case True, _:
        ...
        {t} = {e}
    case False, k:
        {t} = {x} - k

match list(rows({x})):
    case [{z}]:
        {t} = {z} * 2
    case [{z}, *{w}]:
        {t} = {z} + len({w})

match {{'kind': 'a', 'v': {x}, 'k': {n}}}:
    case {{'kind': 'a', 'v': {z}, **rest}}:
        {t} = {z} * rest['k']
    case _:
        {t} = {x}

{t} = sum([v * 0.5 for v in rows({x})])

{t} = sum((v * k for k, v in enumerate(rows({x})) if v.sum() > 0), {y})

{z} = {{k: v * {n} for k, v in zip('abcd', rows({x}))}}
{t} = sum({z}.values())

{t} = {x} if any(v.sum() > 0.5 for v in rows({x})) else {y} * 0.5

{t} = {x} if all(bool(v.sum() > -1) for v in rows({x})) else {y} * 0.5

{t} = max(rows({x}), key=lambda v: float(v.detach().sum()))

{t} = sorted(rows({x}), key=lambda v: v.detach()[0].item())[0]

{t} = next((v for v in rows({x}) if v[0] > 0), {y})

{t} = functools.reduce(lambda a, b: a * 0.5 + b, rows({x}))

{t} = tj.stack(list(map(tj.tanh, rows({x})))).mean(0)

{t} = tj.stack(list(itertools.accumulate(rows({x}), lambda a, b: a * 0.5 + b)))[-1]

{t} = sum(itertools.takewhile(lambda v: v.sum() < 1, rows({x})), {y})

{z} = itertools.accumulate(itertools.repeat({x}, 6), lambda a, b: a * 0.5 + b.abs())
{t} = {x} * len(list(itertools.takewhile(lambda v: v.sum() < 2, {z})))

def {z}(v=[{x}]):
    v[0] = v[0] * 0.5
    return (v[0].abs().sum() < 1).item()
{t} = {x} * len(list(itertools.islice(iter({z}, True), 9)))

{z} = len(list(filter(lambda v: v.sum() > 0, rows({x}))))
{t} = {x} * {z} + {y}

{z} = {{{n}: {x}, ('k', {n}): {y}}}
{t} = sum({z}.values()) + len({z})

{z} = copy.deepcopy({{'v': {x}.detach(), 'k': [{n}]}})
{z}['v'].mul_(0.5)
{t} = {z}['v'] * {z}['k'][0] + {x}

{z} = copy.copy({x}.detach())
{t} = {z} * 0.5 + {y}

{t} = nn.Parameter({x}.detach() * 0.5, requires_grad=False) + {y}

{z} = {x} * 0.5
{z}.data -= {n}
{t} = {z} + {y}

{z}, *{w} = rows({x})
{t} = {z} + sum({w})

{t} = tj.stack([tj.sin(v) if v.sum() > 0 else tj.cos(v) for v in rows({x})]).mean(0)

{z} = [(float(v.detach().sum()), k) for k, v in enumerate(rows({x}))]
{t} = rows({x})[min({z})[1]]

{z} = list(zip(rows({x}), reversed(rows({y}))))
{t} = sum(a * b for a, b in {z})

def {z}(v, k={n}):
    return v * k if v.sum() > 0 else v - k
{t} = {z}({z}({x}))

{w} = 0
def {z}(v):
    nonlocal {w}
    {w} += 1
    return v * {w}
{t} = {z}({x}) + {z}({y})

{z} = [lambda v, k=k: v * k for k in (0.5, {n})]
{t} = {z}[0]({x}) + {z}[-1]({y})

{z} = [lambda v: v * k for k in (0.5, {n})]
{t} = {z}[0]({x})

def {z}(*v, **k):
    return sum(v) * k.get('scale', 0.5)
{t} = {z}(*rows({x}), **{{'scale': {n}}})

def {z}(v, left):
    if left == 0 or v.abs().sum() < 0.5:
        return v
    return {z}(v * 0.5, left - 1)
{t} = {z}({x}, 3)

def {z}(v):
    for part in rows(v):
        if part.sum() > 0:
            yield part * 0.5
        else:
            yield part
{t} = sum({z}({x}))

def {z}():
    total = {x}
    while True:
        total = total + (yield total)
{w} = {z}()
next({w})
{w}.send(0.5)
{t} = {w}.send({n})
{w}.close()

def {z}(v):
    yield v
    yield from rows(v)
{t} = sum(part.mean() for part in {z}({x})) + {y}

class {z}:
    scale = 0.5
    def __call__(self, v):
        return v * self.scale
{t} = {z}()({x})

if ({z} := {x}.mean()) > 0:
    ...
    {t} = {x} * {z}
else:
    {t} = {e}

{t} = {x}
for {z} in rows({y}):
    if {z}.sum() > 0.5:
        break
    {t} = {t} + {z}
else:
    ...
    {t} = {t} * 0.5

{t} = tj.tanh({x})
while True:
    {t} = {t} * 0.5
    if not {t}.abs().sum() >= 1:
        break

{t} = {x}
for i in range(3):
    try:
        if {t}.sum() > 0.5:
            continue
        {t} = {t} - 0.25
    finally:
        {t} = {t} * 0.5

for {z} in rows({x}):
    for {w} in range(2):
        if {z}.sum() > 0:
            break
    else:
        continue
    break
{t} = {z}

with contextlib.ExitStack() as {z}:
    {z}.enter_context(tj.no_grad())
    {w} = {x} * 0.5
{t} = {w} + {y}

{z} = collections.deque(rows({x}), maxlen=2)
{z}.append({y}.mean() + tj.zeros(N))
{t} = sum({z})

{z} = collections.defaultdict(list)
for v in rows({x}):
    {z}[bool(v.sum() > 0)].append(v)
{t} = sum({z}[True], {y})

{z} = types.SimpleNamespace(v={x}, k={n})
{z}.v = {z}.v * {z}.k
{t} = {z}.v

{z} = copy.copy([{x}, {y}])
{z}.reverse()
{t} = {z}[0] * 0.5

{z} = {{}}
{z}.setdefault('v', {x})
{z}.update(w={y})
{t} = {z}.pop('v') + len({z})

{t}, {z} = {x}, {y}
{t}, {z} = {z}, {t}
{t} = {t} - {z}

{t} = {x}
{t} *= 0.5
{t} = {t} + {y}
"""
)
_WITH_PARTS = templates(
    """
try:
    {t} = {x} * 0.5
    if {t}.sum() > 0:
        raise Refusal({t})
except Refusal as error:
    ...
    {t} = error.args[0] + 1
else:
    {t} = {e}

try:
    try:
        {t} = {x} @ tj.ones(N + 1)
    except RuntimeError as error:
        raise Refusal('inner') from error
except Refusal as error:
    {t} = {x} * len(error.args[0])

with scaled({n}) as {z}:
    ...
    {t} = {x} * {z}

with contextlib.suppress(Refusal):
    {t} = {x}
    if {x}.sum() > 0:
        raise Refusal('up')
    {t} = {e}

{z} = Point({x}, {n})
{t} = {z}.v * {z}.k

{z} = dataclasses.replace(Point({x}, 0.5), k={n})
{t} = {z}.moved({y}).v

match Point({x}, {n}):
    case Point(v=v, k=k) if k > 0.4:
        {t} = v * k
    case Point(v=v):
        ...
        {t} = v + 1

{z} = Pair({x}, {y})
{t} = {z}.left - {z}._replace(left={e}).left * 0.5

{z} = Color.RED if {x}.sum() > 0 else Color.BLUE
{t} = {x} * {z}.value

{z} = Chain([{x}])
{z}.add({y})
{t} = {z}[0] + len({z}) if {z} else {y}
for v in {z}:
    {t} = {t} + v

{t} = walk(tree, {x})
"""
)
PARTS = Feature(
    "parts",
    """
class Refusal(Exception):
    pass


@contextlib.contextmanager
def scaled(k):
    global depth
    depth += 1
    try:
        yield k * 0.5
    finally:
        depth -= 1


depth = 0


@dataclasses.dataclass(frozen=True)
class Point:
    v: tj.Tensor
    k: float = 0.5

    def moved(self, by):
        return dataclasses.replace(self, v=self.v + by * self.k)


Pair = collections.namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 2
    BLUE = 0.5


class Chain:
    def __init__(self, parts):
        self.parts = parts

    def add(self, v):
        self.parts.append(v)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, at):
        return self.parts[at]


tree = ("add", ("leaf", 0.5), ("mul", ("leaf", 0.25), ("leaf", 2)))


def walk(node, v):
    kind, *rest = node
    if kind == "leaf":
        return v * rest[0]
    left, right = (walk(child, v) for child in rest)
    return left + right if kind == "add" else left * right
""",
    numbers=("Color.BLUE.value", "Point.k"),
    tests=("tree[0] == 'add'", "depth > 0"),
    values=("walk(tree, {x})", "Point({x}).moved({x}).v"),
    writes=("depth += 1",),
    changes=(
        "tree = ('mul', tree, ('leaf', 0.5))",
        "tree = ('leaf', 0.25)",
        "Point.moved = lambda self, by: Point(self.v - by, self.k)",
        "Chain.__len__ = lambda self: 3",
        "depth += 1",
        "Color = enum.Enum('Color', {'RED': 0.75, 'BLUE': 1.5})",
        "walk, leaf = (lambda node, v: v * len(node)), walk",
    ),
    often=0.1,
    statements=_WITH_PARTS,
)
