"""State of random stories that asks which tensor an argument is, results that are kept, and objects that are not."""

from __future__ import annotations

from .soundness_world import Feature, templates

KNOWN = Feature(
    "known",
    """
@dataclasses.dataclass(eq=False)
class Known:
    last: object = None
    seen: list = dataclasses.field(default_factory=list)
    marks: dict = dataclasses.field(default_factory=dict)
    numbers: dict = dataclasses.field(default_factory=dict)


known = Known()
""",
    numbers=("len(known.seen)", "len(known.marks)"),
    tests=("known.last is None", "known.seen"),
    changes=(
        "known.last = x0",
        "known.last = None",
        "known.last = x0.detach()",
        "known.seen = [x0]",
        "known.seen = [*known.seen[-2:], x0.detach()]",
        "known.marks[x0] = 0.75",
        "known.marks = {x0: 0.5}",
        "known.marks.clear()",
        "known.numbers = {id(x0): x0}",
        "known.numbers.clear()",
    ),
    statements=templates(
        """
{t} = {x} * 0.5 if {x} is known.last else {x} - 0.5

{t} = {x} + any({x} is v for v in known.seen)

{t} = {x} * known.marks.get({x}, 0.25)

{t} = {x} * 0.5 if {x} in known.marks else {y}

{t} = {x} + 0.5 if id({x}) in known.numbers else {y} * 0.5

{t} = {y} if known.last is None or {x} is not known.last else {x} * known.last
"""
    ),
)
KEPT = Feature(
    "kept",
    """
keep = types.SimpleNamespace(rate=0.5)


@functools.lru_cache(maxsize=2)
def kept(k):
    return {"rate": keep.rate * k}


@functools.cache
def drawn():
    return tj.arange(float(N)) * keep.rate


@functools.cache
def sized(n):
    return tj.full((N,), keep.rate * n)
""",
    numbers=('kept(2)["rate"]', 'kept(3)["rate"]'),
    tests=('kept(2)["rate"] > 1',),
    values=("{x} * drawn()", '{x} + kept(2)["rate"]', "{x} * sized(len(rows({x})))"),
    changes=(
        "keep.rate = 0.75",
        "keep.rate = 0.25",
        "kept.cache_clear()",
        'kept(2)["rate"] += 0.25',
        'first = kept(4)["rate"]',
        "drawn.cache_clear()",
        "drawn().mul_(0.5)",
        "sized(3).mul_(0.5)",
        "sized.cache_clear()",
    ),
)
#: What runs without being called by name: where objects go, and where classes are made.
UNNAMED = Feature(
    "unnamed",
    """
ends = []
kinds = []


class Going:
    def __init__(self, v):
        self.v = v

    def __del__(self):
        ends.append(len(ends))


class Root:
    def __init_subclass__(cls, gain=0.5):
        cls.gain = gain
        kinds.append(cls.__name__)
""",
    tests=("len(kinds) % 2",),
    values=("Going({x}).v * 0.5",),
    changes=(
        "ends.clear()",
        "kinds.clear()",
        "Going.__del__ = lambda self: ends.append('gone')",
        "Root.__init_subclass__ = classmethod(lambda cls, gain=0.5: setattr(cls, 'gain', 0.75))",
    ),
    statements=templates(
        """
{z} = Going({x} * {n})
{t} = {z}.v + {y}
del {z}

{z} = Going({x})
if {q}:
    {z} = None
{t} = {x} * len(ends[:2])

class {z}(Root, gain={n}):
    pass
{t} = {x} * {z}.gain
"""
    ),
)
