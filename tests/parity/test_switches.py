"""Switches of autocast and of the search for anomalies, beside PyTorch, eagerly and in compiled functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from parity_tools import torch

import tracejit as tj


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for of in (tj, torch):
        for kind, dtype in (("cpu", of.bfloat16), ("cuda", of.float16)):
            of.set_autocast_enabled(kind, False)
            of.set_autocast_dtype(kind, dtype)
        of.set_autocast_cache_enabled(True)
        of.set_anomaly_enabled(False)
        of.set_warn_always(False)


def state(of: Any) -> list[Any]:
    kinds = ("cpu", "cuda", "xpu")
    product = of.ones(2, 2) @ of.ones(2, 2)
    found = [of.is_autocast_enabled(kind) for kind in kinds]
    found += [of.is_autocast_enabled(), of.is_autocast_cpu_enabled()]
    dtypes = [of.get_autocast_dtype(kind) for kind in kinds[:2]]
    dtypes += [of.get_autocast_cpu_dtype(), of.get_autocast_gpu_dtype(), product.dtype]
    found += [str(x).rpartition(".")[2] for x in dtypes]
    found += [of.is_autocast_cache_enabled(), of.is_anomaly_enabled()]
    return [*found, of.is_anomaly_check_nan_enabled(), of.is_warn_always_enabled()]


CHANGES = [
    "t.set_autocast_enabled('cpu', True)",
    "t.set_autocast_dtype('cpu', t.float16)",
    "t.set_autocast_cpu_dtype(t.float64)",
    "t.set_autocast_cpu_dtype(t.float32)",
    "t.set_autocast_enabled(True)",
    "t.set_autocast_gpu_dtype(t.bfloat16)",
    "t.set_autocast_cpu_enabled(False)",
    "t.set_autocast_enabled(enabled=False)",
    "t.set_autocast_enabled(device_type='cpu', enabled=False)",
    "t.set_autocast_cache_enabled(False)",
    "t.clear_autocast_cache()",
    "t.set_anomaly_enabled(True)",
    "t.set_anomaly_enabled(True, False)",
    "t.set_anomaly_enabled(False, check_nan=False)",
    "t.set_warn_always(True)",
    "t.set_autocast_enabled()",
    "t.set_autocast_enabled('cpu')",
    "t.set_autocast_enabled(1)",
    "t.set_autocast_enabled('cpu', 1)",
    "t.set_autocast_enabled('toaster', True)",
    "t.set_autocast_enabled('meta', True)",
    "t.set_autocast_dtype('cpu', 3)",
    "t.set_autocast_dtype('toaster', t.float16)",
    "t.set_autocast_cpu_enabled(1)",
    "t.set_autocast_gpu_dtype(1)",
    "t.set_autocast_cache_enabled(1)",
    "t.set_anomaly_enabled(1)",
    "t.set_warn_always(1)",
    "t.get_autocast_dtype('toaster')",
    "t.is_autocast_enabled('toaster')",
    "(t.autocast_increment_nesting(), t.autocast_decrement_nesting())",
]


def outcome(of: Any, change: str) -> tuple[str, str]:
    try:
        return "result", str(eval(change, {"t": of}))
    except TypeError as error:
        kind, words = "TypeError", str(error)
    except RuntimeError as error:
        kind, words = "RuntimeError", str(error)
    words = words.partition("\n")[0].partition(" - got")[0]
    return kind, words.replace("torch.dtype", "tracejit.dtype")


def test_every_switch() -> None:
    for change in CHANGES:
        expected, found = (outcome(of, change) for of in (torch, tj))
        assert found == expected, change
        assert state(tj) == state(torch), change


def test_blocks_switch_one_kind_of_device() -> None:
    for of in (torch, tj):
        of.set_autocast_dtype("cpu", of.float16)
    seen: list[list[Any]] = []
    for of in (torch, tj):
        seen.append([])
        with of.autocast("cpu", cache_enabled=False):
            seen[-1].append(state(of))
            with of.autocast("cuda", enabled=False), of.autocast("cpu", of.bfloat16):
                seen[-1].append(state(of))
                of.set_autocast_enabled("cpu", False)
                seen[-1].append(state(of))
            seen[-1].append([*state(of), of.autocast_increment_nesting()])
            of.autocast_decrement_nesting()
        seen[-1].append([*state(of), of.autocast_increment_nesting()])
        of.autocast_decrement_nesting()
    assert seen[0] == seen[1]


def test_compiled_functions_follow_switches_between_calls() -> None:
    @tj.compile
    def f(x):
        y = x @ x
        if tj.is_autocast_enabled("cuda"):
            y = y + 1
        return y, tj.get_autocast_dtype("cpu").itemsize, tj.is_autocast_cache_enabled()

    x = tj.eye(2) * 1.001
    settings = [
        ("cpu", True, tj.bfloat16),
        ("cpu", True, tj.float16),
        ("cpu", False, tj.float64),
        ("cuda", True, tj.float16),
    ]
    for _ in range(4):
        for kind, on, dtype in settings:
            tj.set_autocast_enabled("cpu", False)
            tj.set_autocast_enabled("cuda", False)
            tj.set_autocast_enabled(kind, on)
            tj.set_autocast_dtype(kind, dtype)
            found, expected = f(x), f.function(x)
            assert found[0].dtype is expected[0].dtype
            assert (found[0].tolist(), *found[1:]) == (expected[0].tolist(), *expected[1:])
            assert found[0].dtype is (dtype if kind == "cpu" and on else tj.float32)
    assert f.stats.compiled_calls >= 8


@pytest.mark.parametrize(
    "body",
    [
        "tj.set_autocast_enabled('cpu', not tj.is_autocast_enabled('cpu'))",
        "tj.set_autocast_dtype('cpu', tj.float16)",
        "tj.set_anomaly_enabled(not tj.is_anomaly_enabled(), False)",
        "tj.autograd.set_detect_anomaly(not tj.is_anomaly_enabled())",
        "tj.set_warn_always(not tj.is_warn_always_enabled())",
        "tj.set_autocast_cache_enabled(False)",
    ],
)
def test_switches_in_a_compiled_function_stay(body: str) -> None:
    space: dict[str, Any] = {"tj": tj}
    exec(f"def f(x):\n    y = x @ x\n    {body}\n    return y + x @ x", space)
    ends = []
    for g in (tj.compile(space["f"]), space["f"]):
        found = []
        for _ in range(4):
            found += [g(tj.eye(2) * 1.001).tolist(), state(tj)]
        ends.append(found)
        tj.set_autocast_enabled("cpu", False)
        tj.set_autocast_dtype("cpu", tj.bfloat16)
        tj.set_autocast_cache_enabled(True)
        tj.set_anomaly_enabled(False)
        tj.set_warn_always(False)
    assert ends[0] == ends[1]


def test_questions_of_anomalies_are_answered_at_every_call() -> None:
    @tj.compile
    def f(x):
        return x + 1 if tj.is_anomaly_enabled() else x * 2

    def g(x):
        y = x @ x
        tj.autocast_increment_nesting()
        return y

    for on in (False, True, False, True, True, False):
        tj.set_anomaly_enabled(on)
        assert f(tj.ones(1)).tolist() == [2.0]
        assert f(tj.zeros(1)).tolist() == [1.0 if on else 0.0]
    counting = tj.compile(g)
    for _ in range(3):
        counting(tj.eye(2))
    assert [tj.autocast_decrement_nesting() for _ in range(3)] == [2, 1, 0]
