"""What native code tells apart before it serves a call: modes, layouts, keywords, constants, numbers, Python state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import ready, served
from tracejit import config
from tracejit.runtime.native.native import native
from tracejit.trace.routes import MAX_ROUTES

pytestmark = pytest.mark.skipif(
    not native().knows_objects, reason="native code leaves the objects of this Python alone"
)


def both(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function.function(*args, **kwargs), function(*args, **kwargs)


def equal(found: tuple[Any, Any]) -> bool:
    eager, compiled = found
    return bool(np.array_equal(eager.numpy(), compiled.numpy(), equal_nan=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(0,), (), (1,), (7,), (3, 5), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64, tj.int64, tj.bool, tj.bfloat16])
def test_any_shape_and_type(shape: tuple[int, ...], dtype: Any) -> None:
    values = np.resize([1.5, -2.0, np.inf, np.nan, 0.0, -0.0, 3.0], shape)
    if dtype in (tj.int64, tj.bool):
        values = np.nan_to_num(values, posinf=9)
    x = tj.tensor(values).to(dtype)
    f = ready(lambda x: (x + x, x.sum()), x)
    for eager, compiled in zip(*both(f, x), strict=True):
        assert compiled.dtype is eager.dtype
        assert equal((eager.float(), compiled.float()))


def test_layouts_devices_and_gradients_are_told_apart() -> None:
    x = tj.randn(4, 4)
    f = ready(lambda x: x * 2 + 1, x)
    for other in (x.T, x[::2], tj.randn(4, 4).double(), x.clone().requires_grad_(), x[1:, 1:]):
        for _ in range(4):
            eager, compiled = both(f, other)
            assert equal((eager.detach(), compiled.detach()))
            assert compiled.requires_grad is eager.requires_grad


def test_a_view_goes_the_general_way() -> None:
    base = tj.randn(4, 4)
    f = ready(lambda x: x + 1, base.clone())
    assert served(f, base.clone()) == 1
    assert served(f, base.view(4, 4)) == 0


def test_modes_are_told_apart() -> None:
    x = tj.ones(3, requires_grad=True)
    f = ready(lambda x: x * x, x)
    for _ in range(3):
        with tj.no_grad():
            assert not f(x).requires_grad
        with tj.inference_mode():
            assert f(x).is_inference()
        assert f(x).requires_grad


def test_modes_of_other_threads_are_theirs() -> None:
    x = tj.ones(3, requires_grad=True)
    f = ready(lambda x: x * x, x)
    found: list[Any] = []

    def run() -> None:
        found.append(f(x).requires_grad)  # a thread that never set a mode
        with tj.no_grad():
            found.append(f(x).requires_grad)

    with tj.no_grad():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert found == [True, False]


def test_the_default_type_is_told_apart() -> None:
    x = tj.ones(3)
    f = ready(lambda x: x + tj.ones(3), x)
    tj.set_default_dtype(tj.float64)
    try:
        for _ in range(3):
            assert f(x).dtype is tj.float64
    finally:
        tj.set_default_dtype(tj.float32)
    assert f(x).dtype is tj.float32


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    x = tj.ones(3, requires_grad=True)
    f = ready(lambda x: x * x, x)
    seen: list[Any] = []
    with tj.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        f(x)
    assert seen


def test_compilation_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tj.ones(3)
    f = ready(lambda x: x + 1, x)
    monkeypatch.setattr(config, "disabled", True)
    before = f.stats.calls
    f(x)
    assert f.stats.calls == before


def test_a_tensor_given_twice_is_not_two_tensors() -> None:
    x, y = tj.ones(3), tj.ones(3)
    f = ready(lambda x, y: x.add_(1) + y, x.clone(), y)
    for _ in range(3):
        one, two = tj.ones(3), tj.ones(3)
        assert f(one, one).tolist() == (two.add_(1) + two).tolist()
        assert f(tj.ones(3), y).tolist() == [3.0] * 3


def test_keywords_lists_and_constants_are_told_apart() -> None:
    x = tj.ones(3)

    def function(x, *rest, scale=2, parts=(), flag=None):
        total = x * scale
        for part in (*rest, *parts):
            total = total + part
        return -total if flag else total

    f = ready(function, x, scale=3)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {"scale": 3}),
        ((x,), {"scale": 4}),
        ((x,), {"flag": True}),
        ((x,), {"flag": True, "scale": 3}),
        ((x,), {"scale": 3, "flag": True}),
        ((x, x), {}),
        ((x, tj.ones(3)), {}),
        ((x,), {"parts": [x, tj.ones(3)]}),
        ((x,), {"parts": (x, tj.ones(3))}),
        ((x,), {"parts": [tj.ones(3)]}),
        ((x,), {"parts": {0: x}.values()}),
        ((x,), {"parts": {x: 1}}),
        ((x,), {"scale": 2.5}),
        ((x,), {"scale": True}),
    ]
    for _ in range(4):
        for args, kwargs in calls:
            assert equal(both(f, *args, **kwargs)), (args, kwargs)


@pytest.mark.parametrize("kind", [int, float])
def test_numbers_that_vary(kind: type) -> None:
    x = tj.ones(3)
    f = tj.compile(lambda x, s, *, t=1.0: x * s + t)
    for i in range(8):
        assert equal(both(f, x, kind(i), t=i / 2))
    before = int(f.stats.served[0])
    for i in range(8, 20):
        assert equal(both(f, x, kind(i), t=i / 2))
    assert f.stats.served[0] == before + 12
    assert equal(both(f, x, True, t=0.5))
    assert equal(both(f, x, -0.0, t=float("nan")))


def test_python_state_is_looked_at() -> None:
    state = {"scale": 2.0}
    x = tj.ones(3)
    f = ready(lambda x: x * state["scale"], x)
    state["scale"] = 3.0
    assert f(x).tolist() == [3.0] * 3
    state["scale"] = 2.0
    assert f(x).tolist() == [2.0] * 3


def test_subclasses_of_tensors_are_tensors() -> None:
    class Mine(tj.Tensor):
        pass

    x = tj.ones(3)
    f = ready(lambda x: x + 1, x)
    mine: Any = Mine.__new__(Mine)
    tj.Tensor.__init__(mine)
    mine._array = np.ones(3, np.float32)
    for other in (tj.nn.Parameter(tj.ones(3), requires_grad=False), mine):
        for _ in range(3):
            assert f(other).tolist() == [2.0] * 3


def test_more_signatures_than_routes() -> None:
    f = tj.compile(lambda x: x + 1, dynamic=False)
    for _ in range(3):
        for n in range(MAX_ROUTES + 5):
            assert f(tj.ones(n)).tolist() == [2.0] * n
    assert len(f._routes) == MAX_ROUTES


def test_dicts_are_told_apart_by_their_keys_in_order() -> None:
    def function(batch):
        total = 0.0
        for i, value in enumerate(batch.values()):
            total = total + value * (i + 1)
        return total

    x, y, z = tj.ones(3), tj.full((3,), 2.0), tj.full((3,), 3.0)
    f = ready(function, {"a": x, "b": y})
    made = "".join(("", "a"))
    batches = [
        {"a": x, "b": y},
        {"b": y, "a": x},
        {"a": y, "b": x},
        {"a": x},
        {"a": x, "b": y, "c": z},
        {"a": x, "c": y},
        {made: x, "b": y},
        {"a": x, "b": [y]["".count("x")]},
        {1: x, 2: y},
        {},
    ]
    for _ in range(4):
        for batch in batches[:-1]:
            assert equal(both(f, batch)), batch
        assert f({}) == 0.0
    assert served(f, {"a": z, "b": x}) == 1


def test_a_dict_that_grows_while_others_are_called() -> None:
    x = tj.ones(3)
    batch = {"a": x}
    f = ready(lambda batch: sum(batch.values()), batch)
    for i in range(6):
        batch[f"k{i}"] = tj.ones(3)
        assert f(batch).tolist() == [i + 2.0] * 3
