"""Products of eager programs: which ones compiled code computes, and how many threads a library has for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import config
from tracejit.ops import contraction, library_threads, programs
from tracejit.ops.contraction import matmul
from tracejit.runtime.eager import programs as runner

F = tj.nn.functional


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for counts in ("_met", "_met_alike", "_served"):
        monkeypatch.setattr(runner, counts, {})
    monkeypatch.setattr(programs, "LEAST_PRODUCTS", 0)
    monkeypatch.setattr(contraction, "SHARED", 0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for."""
    monkeypatch.setattr(runner, "PATIENCE", -1)
    monkeypatch.setattr(runner, "SHAPE_PATIENCE", -1)


def tensor(*shape: int, dtype: Any = tj.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return tj.from_numpy(rng.standard_normal(shape)).to(dtype)


def by_library(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(programs, "LEAST_PRODUCTS", 1 << 60)
        return run()


def served() -> int:
    return sum(found.run is not None for found in runner._served.values())


def turned(x: Any) -> Any:
    """A tensor of the same shape whose elements lie in the other order."""
    return x.mT.contiguous().mT


MATRICES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "matrices": ((17, 33), (33, 21)),
    "a row": ((1, 40), (40, 30)),
    "a batch": ((3, 2, 17, 33), (3, 2, 33, 5)),
    "one for all": ((3, 4, 33), (33, 6)),
    "batches against each other": ((3, 1, 4, 9), (1, 5, 9, 4)),
    "nothing to add": ((3, 0), (0, 4)),
    "no rows": ((0, 3), (3, 4)),
}
LYING: dict[str, Callable[[Any], Any]] = {
    "in order": lambda x: x,
    "turned": turned,
    "every other": lambda x: tj.stack([x, x], -1)[..., 0],
    "backwards": lambda x: x.flip(-1),
    "expanded": lambda x: x[..., :1].expand(x.shape),
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.bfloat16, tj.float16], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_products_are_those_of_the_library(name, dtype, monkeypatch):
    left, right = MATRICES[name]
    for lies in LYING.values():
        x, y = lies(tensor(*left, dtype=dtype)), lies(tensor(*right, dtype=dtype, seed=1))
        run = lambda x=x, y=y: x @ y  # noqa: E731
        found, expected = run(), by_library(run, monkeypatch)
        assert found.dtype is expected.dtype is dtype
        assert found.stride() == expected.stride()
        bound = 40 * tj.finfo(dtype).eps
        np.testing.assert_allclose(*(t.double().numpy() for t in (found, expected)), bound, bound)
    assert served() >= (1 if 0 in left else 3)


@pytest.mark.usefixtures("at_once")
def test_special_values_go_through(monkeypatch):
    x, y = tensor(8, 9), tensor(9, 7, seed=1)
    x[2, 3], x[4, 5], y[6, 1], y[:, 2] = float("nan"), float("inf"), -float("inf"), 0.0
    found = x @ y
    assert served() == 1
    np.testing.assert_allclose(
        found.numpy(), by_library(lambda: x @ y, monkeypatch).numpy(), 1e-5, 1e-5
    )


CONVOLUTIONS: dict[str, Callable[[], Any]] = {
    "planes": lambda: (F.conv2d, tensor(2, 4, 9, 8), tensor(6, 4, 3, 3), {"padding": 1}),
    "lines": lambda: (F.conv1d, tensor(2, 4, 20), tensor(6, 4, 5), {"dilation": 2}),
    "groups and steps": lambda: (
        F.conv2d,
        tensor(2, 6, 9, 8),
        tensor(4, 3, 3, 2),
        {"stride": (2, 1), "groups": 2},
    ),
    "transposed": lambda: (
        F.conv_transpose2d,
        tensor(2, 4, 5, 6),
        tensor(4, 3, 3, 3),
        {"stride": 2},
    ),
    "bodies": lambda: (F.conv3d, tensor(1, 3, 5, 6, 7), tensor(2, 3, 2, 3, 2), {}),
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients_are_those_of_the_library(name, monkeypatch):
    function, x, weight, options = CONVOLUTIONS[name]()

    def run() -> list[np.ndarray]:
        a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
        out = function(a, b, **options)
        out.square().sum().backward()
        return [t.detach().numpy() for t in (out, a.grad, b.grad)]

    found = run()
    assert served() >= 2
    for got, expected in zip(found, by_library(run, monkeypatch), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4)


def test_a_program_is_made_once_there_was_much_of_its_kind_and_of_its_shape(monkeypatch):
    monkeypatch.setattr(programs, "PRODUCTS_PER_ELEMENT", 1)
    monkeypatch.setattr(runner, "PATIENCE", 5 * 1000)
    monkeypatch.setattr(runner, "SHAPE_PATIENCE", 2 * 1000)
    x, y, other = np.ones((10, 10)), np.ones((10, 10)), np.ones((10, 20))
    for calls in range(1, 9):
        matmul.evaluate((x, y), {})
        assert served() == (calls >= 6)  # the fifth is the first of its shape that counts
    matmul.evaluate((y.T, other), {})
    assert served() == 2  # twice the work
    matmul.evaluate((x.astype(np.float32), y.astype(np.float32)), {})
    assert served() == 2  # of another kind: nothing yet


@pytest.mark.usefixtures("at_once")
def test_the_library_computes_what_compiled_code_must_not(monkeypatch):
    x = tensor(10, 10)
    tj.use_deterministic_algorithms(True)
    try:
        x @ x
    finally:
        tj.use_deterministic_algorithms(False)
    monkeypatch.setattr(config, "disabled", True)
    x @ x
    monkeypatch.setattr(config, "disabled", False)
    tj.ones(10, 10, dtype=tj.int64) @ tj.ones(10, 10, dtype=tj.int64)
    tj.ones(10, 10, dtype=tj.complex64) @ tj.ones(10, 10, dtype=tj.complex64)
    assert not served()
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        x @ tensor(9, 9)
    x @ x
    assert served() == 1


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A note for each product that the library is given one thread for."""
    notes: list[bool] = []

    @contextmanager
    def one_thread() -> Iterator[None]:
        notes.append(True)
        yield

    monkeypatch.setattr(library_threads, "one_thread", one_thread)
    return notes


def test_the_library_gets_one_thread_for_little_work_and_where_there_is_to_be_no_other(entered):
    few, some, many = np.ones((16, 16)), np.ones((100, 100)), np.ones((300, 300))
    before = tj.get_num_threads()
    try:
        for threads, expected in ((2, [0, 1, 0]), (1, [0, 1, 1])):
            tj.set_num_threads(threads)
            found = []
            for x in (few, some, many):
                entered.clear()
                product = library_threads.multiplied(x, x)
                found.append(len(entered))
                assert product[0, 0] == len(x)
            assert found == expected
    finally:
        tj.set_num_threads(before)
