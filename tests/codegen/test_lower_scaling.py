"""Powers of two that are floats already are scaled by as they are, with the bits that integers give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir_graphs import SPECIAL
from kernel_tools import Loaded, kernel
from tracejit.codegen import llvm
from tracejit.codegen.lower.function import FunctionLowering
from tracejit.codegen.lower.lower import lower_kernel

KINDS = {"f32": np.float32, "f64": np.float64}
LIMITS = {"f32": (-104.5, 90.0), "f64": (-746.0, 711.0)}
EDGES = [*SPECIAL, 88.72, 88.73, -103.97, -103.99, -87.4, 709.8, -745.2, 1e30]


def source(name: str, kind: str) -> str:
    body = f"for i in range(lo, hi):\n    out[i] = {name}_{kind}(x[i])\nreturn 0"
    return kernel(f'x: "{kind}*", out: "{kind}*"', body)


def text_of(name: str, kind: str, bits: int = 512, lacking: tuple[str, ...] = ()) -> str:
    found = lower_kernel(
        source(name, kind), "k", noalias=True, vector_bits=bits, lacking=lacking, widen=bits
    )
    return found.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid"])
def test_no_power_is_converted_twice(name: str, kind: str) -> None:
    text = text_of(name, kind)
    assert "avx512.mask.scalef" in text
    assert "llvm.ldexp.v" not in text


def test_other_machines_scale_by_integers() -> None:
    assert "scalef" not in text_of("exp", "f32", bits=256)
    lacking = ("ldexp.f32.i32", "ldexp.f64.i32")
    for kind in KINDS:
        assert "scalef" not in text_of("exp", kind, lacking=lacking)


@pytest.mark.skipif(
    llvm.vector_bits() != 512 or llvm._lacking() != (), reason="needs AVX-512, and LLVM 22"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "sigmoid", "tanh"])
def test_the_bits_are_those_that_integers_give(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.concatenate(
        [
            np.array(EDGES),
            np.linspace(*LIMITS[kind], 100_001),
            np.random.default_rng(1).normal(0.0, 30.0, 50_000),
        ]
    ).astype(KINDS[kind])

    def computed() -> Any:
        out = np.empty_like(x)
        Loaded(llvm.compile_source(source(name, kind), "k"), "k")(x, out, 0, len(x), 0)
        return out

    found = computed()
    by_integers = property(lambda self: False, lambda self, scales: None)
    monkeypatch.setattr(FunctionLowering, "scales", by_integers, raising=False)
    wanted = computed()
    assert np.isnan(found[np.isnan(wanted)]).all()
    numbers = ~np.isnan(wanted)
    assert found[numbers].tobytes() == wanted[numbers].tobytes()
