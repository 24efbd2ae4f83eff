"""The stand-in for CuPy takes nothing that CuPy would refuse: its names and arguments are those of a release."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import cupy_surface
import numpy as np
import pytest
import stand_in
import stand_in_arrays

import tracejit
from tracejit.ops import special_functions

CLASSES = {
    "cupy.ndarray": stand_in_arrays.ndarray,
    "cupy.cuda.Device": stand_in_arrays.Device,
    "cupy.cuda.Event": stand_in.Event,
    "cupy.cuda.Graph": stand_in.Graph,
    "cupy.cuda.MemoryPointer": stand_in_arrays.MemoryPointer,
    "cupy.cuda.MemoryPool": stand_in_arrays.Pool,
    "cupy.cuda.Stream": stand_in.Stream,
}


def _public(owner: Any) -> dict[str, Any]:
    return {n: m for n, m in vars(owner).items() if not n.startswith("_")}


@pytest.mark.parametrize("path", CLASSES)
def test_methods_are_those_of_cupy(path: str) -> None:
    known = cupy_surface.facts()[path]
    for name, member in _public(CLASSES[path]).items():
        if name == "bytes" or not inspect.isfunction(member):
            continue
        assert name in known, f"{path} has no {name}"
        parameters = list(inspect.signature(member).parameters.values())
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue  # these ask at each call
        named = {p.name: None for p in parameters[1:] if p.kind is p.POSITIONAL_OR_KEYWORD}
        positional = len([p for p in parameters[1:] if p.default is p.empty and p.name in named])
        given = list(named)[positional:]
        cupy_surface.check_call(path, name, [None] * positional, dict.fromkeys(given), method=True)


def test_functions_of_the_runtime_are_those_of_cupy() -> None:
    module, _ = stand_in.make_module()
    for path, owner in (
        ("cupy.cuda", module.cuda),
        ("cupy.cuda.runtime", module.cuda.runtime),
        ("cupy.cuda.memory", module.cuda.memory),
    ):
        for name, member in vars(owner).items():
            if isinstance(member, type(module.cuda)):
                continue  # a module of its own
            assert cupy_surface.has(path, name), f"{path} has no {name}"
            if inspect.isfunction(member):
                count = len(inspect.signature(member).parameters)
                cupy_surface.check_call(path, name, [None] * count, {})


def test_names_that_the_package_asks_the_runtime_for_exist() -> None:
    folder = Path(tracejit.__file__).parent
    texts = [p.read_text(encoding="utf-8") for p in folder.rglob("*.py")]
    wanted = {m for t in texts for m in re.findall(r"(?:module|namespace\(\))\.cuda\.(\w+)", t)}
    assert {"Device", "Stream", "alloc"} <= wanted
    for name in wanted - {"runtime", "memory"}:
        assert cupy_surface.has("cupy.cuda", name), name
    for name in {m for t in texts for m in re.findall(r"\.cuda\.runtime\.(\w+)", t)}:
        assert cupy_surface.has("cupy.cuda.runtime", name), name
    for name in {m for t in texts for m in re.findall(r"cupyx\.scipy\.special\.(\w+)", t)}:
        assert cupy_surface.has("cupyx.scipy.special", name), name


def test_what_cupy_refuses_is_refused(gpu: Any) -> None:
    x = gpu.asarray(np.ones(3, np.float32))
    with pytest.raises(AssertionError, match="casting"):
        gpu.concatenate([x], 0, nonsense=1)
    with pytest.raises(AttributeError, match="spacing"):
        gpu.spacing(x)
    with pytest.raises(TypeError, match="Wrong type"):
        cupy_surface.loop("cupy", "bitwise_and", [x.dtype, x.dtype])
    with pytest.raises(AssertionError, match="float64"):
        stand_in.Function(np.exp, "cupyx.scipy.special", "erf")(gpu.asarray(np.ones(3, np.float16)))
    with pytest.raises(AssertionError, match="has no"):
        cupy_surface.check_call("cupy", "no_such_function", [], {})
    with pytest.raises(AssertionError, match="sum"):
        x.sum(where=True)


def test_the_facts_are_those_of_the_cupy_that_is_installed() -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    version = importlib.import_module("cupy").__version__
    if version != cupy_surface.facts()["version"]:
        pytest.skip(f"CuPy {version} is not the release whose names are kept")
    assert cupy_surface.read() == cupy_surface.facts()


def test_counts_of_poisson_variables_by_halving_are_those_of_scipy() -> None:
    draws = np.random.default_rng(3)
    x, y = draws.random(3000), draws.random(3000) * 10.0 ** draws.integers(-3, 6, 3000)
    x[:6], y[:6] = [0, 1, -0.1, 0.5, 0.5, np.nan], [3, 3, 3, 0, np.nan, 3]
    expected = np.asarray(special_functions.poisson_quantile.evaluate((x, y), {}))
    found = special_functions._least_count(np, x, y)
    np.testing.assert_array_equal(found, expected)
