"""Arrays on the memory of tensors, as results of compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

#: What a function returns of a tensor (3, 4), as arrays.
RETURNED: dict[str, Callable[[tj.Tensor], Any]] = {
    "alone": lambda x: (x * 2).numpy(),
    "beside others": lambda x: (x.argmax(1).cpu().numpy(), x.sum(), 3),
    "in a dict": lambda x: {"sum": x.sum(0).numpy(), "rest": [x.relu().detach().numpy()]},
    "an argument": lambda x: x.numpy(),
    "turned": lambda x: (x + 1).t().numpy(),
    "a row": lambda x: (x + 1).numpy()[0],
    "a part": lambda x: (x + 1).numpy()[1:, None, ::2],
    "a copy": lambda x: (x + 1).t().numpy().copy(),
    "from a generator": lambda x: [(x + n).numpy() for n in range(3)],
}
#: What somebody sees: eager code runs.
SEEN: dict[str, Callable[[tj.Tensor], Any]] = {
    "computed with": lambda x: (x * 2).numpy() + 1,
    "an element": lambda x: (x * 2).numpy()[0, 1],
    "a method": lambda x: (x * 2).numpy().max(),
    "text": lambda x: str((x * 2).numpy()),
    "bytes": lambda x: ((x * 2).numpy().tobytes(), (x * 2).numpy()),
    "a function of NumPy": lambda x: np.stack([(x * 2).numpy()]),
    "converted": lambda x: np.asarray(x * 2),
    "asked for its type": lambda x: (type((x * 2).numpy()).__name__, (x * 2).numpy()),
    "backwards": lambda x: (x * 2).numpy()[::-1],
    "a tensor again": lambda x: tj.from_numpy((x * 2).numpy()),
}


def whole() -> tj.Tensor:
    """Whole numbers, of which sums are exact."""
    return tj.randint(-9, 9, (3, 4)).float()


def plain(value: Any) -> Any:
    """A result with lists for arrays and tensors, and what these are."""
    if isinstance(value, (tuple, list)):
        return [plain(x) for x in value]
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    if isinstance(value, (np.ndarray, tj.Tensor)):
        return type(value), str(value.dtype), value.tolist(), [*map(int, value.shape)]
    return value


@pytest.mark.parametrize("name", RETURNED)
def test_arrays_are_made_of_the_tensors_of_each_call(name: str) -> None:
    function = RETURNED[name]
    compiled = tj.compile(function)
    for _ in range(4):
        x = whole()
        assert plain(compiled(x)) == plain(function(x))
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (1, 3)


@pytest.mark.parametrize("name", SEEN)
def test_what_is_seen_of_an_array_is_that_of_each_call(name: str) -> None:
    function = SEEN[name]
    compiled = tj.compile(function)
    for _ in range(3):
        x = whole()
        assert plain(compiled(x)) == plain(function(x))
    assert compiled.stats.compiled_calls == 0
    assert "numpy() of a tensor inside a compiled function" in str(compiled.explain())


def test_an_array_is_one_and_shares_its_tensor_s_memory() -> None:
    @tj.compile
    def f(x: tj.Tensor) -> Any:
        y = x * 2
        array = y.numpy()
        y.add_(1)
        return array, [array], y

    for _ in range(3):
        x = tj.randn(3)
        array, (again,), y = f(x)
        assert array is again
        assert np.shares_memory(array, y.numpy())
        assert array.tolist() == (x * 2 + 1).tolist()
    assert f.stats.compiled_calls == 2


def test_arrays_that_are_kept_elsewhere_are_true_ones() -> None:
    kept: list[Any] = []

    class Owner:
        last: Any = None

    owner = Owner()

    @tj.compile
    def f(x: tj.Tensor) -> Any:
        array = (x * 2).numpy()
        owner.last = array
        kept.append(array)
        return lambda: array

    for n in range(3):
        x = tj.randn(3)
        assert type(f(x)()) is type(owner.last) is np.ndarray
        assert [type(a) for a in kept] == [np.ndarray] * (n + 1)
        assert kept[-1].tolist() == owner.last.tolist() == (x * 2).tolist()


def test_code_in_c_that_takes_true_arrays_gets_one() -> None:
    @tj.compile
    def f(x: tj.Tensor) -> Any:
        array = (x * 2).numpy()
        return memoryview(array).nbytes, array

    for _ in range(3):
        assert f(tj.ones(3))[0] == 12


def test_arrays_are_compared_with_those_of_an_eager_run() -> None:
    f = tj.compile(lambda x: ((x * 2).numpy(), x + 1), verify=True)
    for _ in range(3):
        assert type(f(tj.randn(3))[0]) is np.ndarray
    assert f.stats.compiled_calls == 2


def test_numpy_refuses_what_requires_grad() -> None:
    f = tj.compile(lambda x: (x * 2).numpy())
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
            f(tj.ones(3, requires_grad=True))
