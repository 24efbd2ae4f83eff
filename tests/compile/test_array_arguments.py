"""Arrays of NumPy among the arguments: where a function only makes tensors of one, its numbers do not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

FACTOR = 2.0


class Policy(nn.Module):
    """Acts on what it sees."""

    def __init__(self) -> None:
        super().__init__()
        tj.manual_seed(0)
        self.net = nn.Linear(4, 3)
        self.seen: Any = None

    def prepared(self, seen: Any) -> Any:
        made = tj.as_tensor(seen, dtype=tj.float32)
        return made.unsqueeze(0) if seen.ndim == 1 else made

    def forward(self, seen: Any) -> Any:
        return self.net(self.prepared(seen))

    @tj.no_grad()
    def act(self, seen: Any) -> Any:
        if not isinstance(seen, tj.Tensor):
            seen = tj.tensor(seen, dtype=tj.float32)
        return self.net(seen)

    @tj.inference_mode()
    def act_only(self, seen: Any) -> Any:
        known = tj.from_numpy(seen).float() if isinstance(seen, np.ndarray) else seen
        return self.net(known)

    def kept(self, seen: Any) -> Any:
        self.seen = tj.from_numpy(seen)
        return self.seen * 2

    def checked(self, seen: Any, scale: float = 1.0) -> Any:
        if seen is None or len(seen) != 4 or seen.shape[0] != 4:
            return scale
        return self.net(tj.FloatTensor(seen)) * scale


POLICY = Policy()


def moved(seen: Any, *, kind: Any) -> Any:
    other = seen
    del seen
    return tj.from_numpy(other).to(kind)


def handed_on(seen: Any) -> Any:
    return moved(seen, kind=tj.float32) * FACTOR


def trained(seen: Any) -> Any:
    x = tj.from_numpy(seen).requires_grad_()
    (x * x).sum().backward()
    return x.grad


def written(seen: Any) -> Any:
    tj.from_numpy(seen).add_(1)
    return tj.from_numpy(seen) * 2, tj.tensor(seen)


def twice(seen: Any) -> Any:
    return tj.from_numpy(seen), tj.from_numpy(seen)[1:], tj.asarray(seen, copy=True)


def in_rounds(seen: Any) -> Any:
    x = tj.from_numpy(seen).abs()
    for _ in range(5):
        x = x + tj.as_tensor(seen).abs()
    while x.sum() < 200:
        x = x * 1.5
    return x


FOLLOWED: dict[str, Callable[[Any], Any]] = {
    "module": POLICY,
    "no_grad": POLICY.act,
    "inference_mode": POLICY.act_only,
    "kept": POLICY.kept,
    "checked": POLICY.checked,
    "handed on": handed_on,
    "trained": trained,
    "written": written,
    "twice": twice,
    "rounds": in_rounds,
    "by name": lambda seen: tj.tensor(data=seen) * 2,
    "to ints": lambda seen: tj.tensor(seen, dtype=tj.int64),
    "leaf": lambda seen: tj.tensor(seen, requires_grad=True),
}

LOOKED_AT: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda seen: tj.from_numpy(seen) * float(seen.sum()),
    "an item": lambda seen: tj.from_numpy(seen) * seen[0],
    "truth": lambda seen: tj.from_numpy(seen) if seen.any() else tj.zeros(1),
    "arithmetic": lambda seen: tj.from_numpy(seen * 2),
    "a list": lambda seen: tj.tensor([seen, seen]),
    "text": lambda seen: (f"{seen}", tj.from_numpy(seen).sum()),
    "returned": lambda seen: (seen, tj.from_numpy(seen).sum()),
    "shared": lambda seen: [tj.from_numpy(seen) * k for k in (lambda: seen)()],
    "collected": lambda *seen: tj.from_numpy(seen[0]),
    "all variables": lambda seen: (tj.from_numpy(seen).sum(), sorted(locals()["seen"])),
    "NumPy": lambda seen: tj.from_numpy(np.sort(seen)),
    "overwritten": lambda seen: (np.negative(seen, out=seen), tj.from_numpy(seen) * 2)[1],
}


def results(value: Any) -> Any:
    """Something to compare."""
    if isinstance(value, (tuple, list)):
        return [results(x) for x in value]
    if isinstance(value, tj.Tensor):
        flags = value.requires_grad, value.is_inference(), value.dtype, value.is_leaf
        return value.detach().numpy().round(4).tolist(), flags
    return repr(value)


def check(compiled: Any, function: Any, count: int = 6) -> None:
    """Calls give what eager calls give, and leave the array as these do."""
    for i in range(count):
        numbers = np.random.default_rng(i).normal(size=4)
        ours, theirs = numbers.copy(), numbers.copy()
        assert results(compiled(ours)) == results(function(theirs))
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("name", FOLLOWED)
def test_arrays_of_which_only_tensors_are_made_are_arguments(name: str) -> None:
    compiled = tj.compile(FOLLOWED[name])
    check(compiled, FOLLOWED[name], 8)
    stats = compiled.stats
    assert stats.recordings <= (4 if name == "rounds" else 3), compiled.explain()
    assert stats.compiled_calls >= 4, compiled.explain()


@pytest.mark.parametrize("name", LOOKED_AT)
def test_numbers_that_are_looked_at_count(name: str) -> None:
    check(tj.compile(LOOKED_AT[name]), LOOKED_AT[name])


def test_tensors_share_the_memory_of_the_array() -> None:
    compiled = tj.compile(twice)
    for i in range(4):
        array = np.full(3, float(i))
        whole, part, copy = compiled(array)
        array[:] = 7.0
        assert (whole.tolist(), part.tolist()) == ([7.0] * 3, [7.0] * 2)
        whole.add_(1)
        assert (array.tolist(), copy.tolist()) == ([8.0] * 3, [float(i)] * 3)
        assert (whole._version, part._version) == (1, 0)
    assert compiled.stats.recordings == 1


def test_one_array_given_twice_is_not_two() -> None:
    def added(a: Any, b: Any) -> Any:
        tj.from_numpy(a).add_(1)
        return tj.from_numpy(a) + 2 * tj.from_numpy(b)

    compiled = tj.compile(added)
    for i in range(4):
        one, two = np.full(2, float(i)), np.full(2, 10.0)
        assert compiled(one, one).tolist() == [3.0 * (i + 1)] * 2
        assert compiled(one, two).tolist() == [i + 22.0] * 2
        assert compiled(one, one[:]).tolist() == [3.0 * (i + 3)] * 2


def test_an_array_and_a_tensor_on_its_memory() -> None:
    def added(x: Any, a: Any) -> Any:
        x.add_(1)
        return tj.tensor(a) * 2

    compiled = tj.compile(added)
    for shares in (False, False, True, False, True):
        array = np.ones(3)
        x = tj.from_numpy(array) if shares else tj.ones(3, dtype=tj.float64)
        assert compiled(x, array).tolist() == [4.0 if shares else 2.0] * 3


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_forms_of_arrays_are_told_apart() -> None:
    def described(seen: Any) -> Any:
        return str(seen.dtype), seen.shape, tj.as_tensor(seen) + 1

    def counted(seen: Any) -> Any:
        return tj.from_numpy(seen).sum() * len(seen)

    grid = np.arange(12.0).reshape(3, 4)
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    arrays = [grid, grid.T, grid[::-1], grid[:, ::2], grid.astype("f4"), grid.astype(">f4")]
    arrays += [frozen, np.arange(3), np.zeros((0, 2)), np.array(2.5), grid.astype(np.longlong)]
    for function in (described, counted):
        compiled = tj.compile(function)
        for array in (*arrays, *arrays, *map(np.copy, arrays)):
            if function is counted and not array.shape:
                continue
            try:
                expected = results(function(array))
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    compiled(array)
                continue
            assert results(compiled(array)) == expected


def test_extents_of_arrays_vary() -> None:
    compiled = tj.compile(lambda seen: tj.from_numpy(seen).cumsum(0) * 2)
    for n in (3, 4, 5, 6, 7, 8):
        assert compiled(np.ones(n)).tolist() == [2.0 * (k + 1) for k in range(n)]
    assert compiled.stats.recordings == 3


HELPER: Callable[[Any], Any] = lambda seen: tj.from_numpy(seen) + 1  # noqa: E731


def test_code_that_an_array_is_handed_to_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def helped(seen: Any) -> Any:
        return HELPER(seen) * 2

    compiled = tj.compile(helped)
    check(compiled, helped)
    assert compiled.stats.recordings == 1
    looks = lambda seen: tj.from_numpy(seen) + seen[0]  # noqa: E731
    monkeypatch.setitem(globals(), "HELPER", looks)
    check(compiled, helped)
    monkeypatch.undo()
    check(compiled, helped)


def test_methods_may_be_replaced() -> None:
    policy = Policy()
    compiled = tj.compile(policy.forward)
    check(compiled, policy.forward)
    policy.prepared = lambda seen: tj.tensor([seen[0]] * 4, dtype=tj.float32)  # type: ignore[method-assign]
    check(compiled, policy.forward)


def test_hooks_see_what_the_array_holds() -> None:
    policy = Policy()
    compiled = tj.compile(policy)
    check(compiled, policy)
    handle = policy.register_forward_hook(lambda _, given, out: out * float(given[0][0]))
    check(compiled, policy)
    handle.remove()
    check(compiled, policy)


def test_what_a_decorator_says_of_itself_does_not_count() -> None:
    def looks(seen: Any) -> Any:
        return tj.from_numpy(seen) * seen[0]

    decorated = tj.no_grad()(looks)
    decorated.__wrapped__ = lambda seen: tj.from_numpy(seen)  # type: ignore[attr-defined]
    check(tj.compile(lambda seen: decorated(seen)), decorated)


def test_makers_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tj.compile(lambda seen: tj.from_numpy(seen) * 2)
    check(compiled, lambda seen: tj.from_numpy(seen) * 2)
    own = tj.from_numpy
    monkeypatch.setattr(tj, "from_numpy", lambda seen: own(seen) * float(seen[0]))
    check(compiled, lambda seen: tj.from_numpy(seen) * 2)


def test_verified_calls() -> None:
    compiled = tj.compile(written, verify=True)
    check(compiled, written)
    assert compiled.stats.compiled_calls == 5
