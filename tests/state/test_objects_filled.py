"""Objects of classes of the program, and distributions, that a function puts into its state anew at each call."""

from __future__ import annotations

import pytest

import tracejit as tj
from tracejit.distributions import Independent, Normal, kl_divergence


class Kept:
    def __init__(self, value):
        self.value = value

    @property
    def twice(self):
        return self.value * 2


class Policy:
    """As agents of reinforcement learning do it: an object makes another distribution for each batch."""

    def __init__(self):
        self.distribution = None

    def given(self, mean, scale):
        self.distribution = Normal(mean, tj.ones_like(mean) * scale.exp())
        return self

    def log_prob(self, action):
        return self.distribution.log_prob(action).sum(1)


class Owner:
    def __init__(self):
        self.kept = Kept(tj.zeros(3))
        self.other = self.kept
        self.last = None
        self.policy = Policy()

    def replaced(self, x):
        self.kept = Kept(self.kept.value * 0.5 + x)
        return self.kept.twice

    def returned(self, x):
        self.kept = Kept(self.kept.value + x)
        return self.kept

    def two_names(self, x):
        self.kept = Kept(self.kept.value + x)
        self.other = self.kept
        return self.other.twice

    def distribution(self, x):
        before, self.last = self.last, Normal(x, tj.ones(3))
        return x.sum() if before is None else kl_divergence(before, self.last).sum()

    def nested(self, x):
        self.last = Independent(Normal(x, tj.ones(3)), 1)
        return self.last.log_prob(x * 2) + self.last.mean.sum()

    def agent(self, x):
        made = self.policy.given(x.reshape(1, 3), tj.zeros(3))
        return made.log_prob(x.reshape(1, 3) * 2)

    def told_apart(self, x):
        """Which of them are one decides, and changes from call to call."""
        result = x * 1 if self.kept is self.other else x * 2
        self.other = self.kept if x[0] > 0 else Kept(self.kept.value)
        return result

    def state(self):
        last = self.last if self.last is None else self.last.mean
        same = self.kept is self.other
        return [self.kept.value, self.other.value, last, same, sorted(vars(self.kept))]


def history(name, compiled, requires_grad=False):
    """What calls return and leave, objects of earlier calls included."""
    tj.manual_seed(0)
    owner = Owner()
    f = getattr(owner, name)
    f = tj.compile(f) if compiled else f
    found, kept = [], []
    for i in range(9):
        kept.append(owner.kept)
        if i == 6:
            owner.kept = Kept(tj.ones(3))
        x = tj.randn(3).requires_grad_(requires_grad)
        result = f(x)
        found.append(result is owner.kept)
        result = result.value if isinstance(result, Kept) else result
        if requires_grad and result.requires_grad and i % 2:
            result.sum().backward(retain_graph=True)
            found.append(x.grad)
        found += [result, *owner.state()]
    return found + [x.value for x in kept], f


NAMES = ["replaced", "returned", "two_names", "distribution", "nested", "agent", "told_apart"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_as_in_eager_code(name, requires_grad) -> None:
    found, _ = history(name, True, requires_grad)
    expected, _ = history(name, False, requires_grad)
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, tj.Tensor) and isinstance(b, tj.Tensor):
            tj.testing.assert_close(a, b)
            assert a.requires_grad == b.requires_grad
        else:
            assert a == b


@pytest.mark.parametrize("name", ["replaced", "returned", "distribution", "nested", "agent"])
def test_few_recordings(name) -> None:
    owner = Owner()
    compiled = tj.compile(getattr(owner, name))
    for _ in range(10):
        compiled(tj.randn(3))
    assert compiled.stats.recordings <= 3
    assert compiled.stats.compiled_calls >= 7


def test_the_classes_of_what_is_put_there_may_change() -> None:
    class Other(Kept):
        pass

    owner = Owner()

    def step(x):
        made = Kept if x.sum() > 0 else Other
        owner.kept = made(owner.kept.value + x)
        return owner.kept.twice * (1 if type(owner.kept) is Kept else -1)

    compiled, total = tj.compile(step), tj.zeros(3)
    for i in range(12):
        x = tj.full((3,), float(i % 3 - 1))
        total = total + x
        assert tj.equal(compiled(x), total * (2 if i % 3 == 2 else -2))
        assert type(owner.kept) is (Kept if i % 3 == 2 else Other)
    assert tj.equal(owner.kept.value, total)
