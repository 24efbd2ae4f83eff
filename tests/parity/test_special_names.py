"""Special functions that only ``special`` has, against PyTorch, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from parity_tools import close

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

POSITIVE = np.abs(np.random.default_rng(2).normal(size=(3, 5))) * 4 + 0.01
ONE = """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0""".split()  # noqa: SIM905
POLYNOMIALS = [name for name in tj.special.__all__ if "_polynomial_" in name]


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64"])
def test_functions(name: str, kind: str) -> None:
    x = POSITIVE.astype(kind) + (1 if kind == "int64" else 0)
    ours, theirs = getattr(tj.special, name), getattr(torch.special, name)(torch.tensor(x))
    tolerance = 1e-6 if kind == "float64" else 2e-5  # PyTorch's approximations
    compiled = tj.compile(ours)
    compiled(tj.tensor(x))
    for found in (ours(tj.tensor(x)), compiled(tj.tensor(x))):
        close(found, theirs, tolerance)


def test_at_the_edges() -> None:
    ends = np.array([0.0, np.inf, np.nan])
    for name in ("modified_bessel_k0", "bessel_y0", "spherical_bessel_j0"):
        close(
            getattr(tj.special, name)(tj.tensor(ends)),
            getattr(torch.special, name)(torch.tensor(ends)),
        )


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    x, n = np.linspace(-2, 2, 9)[:, None], np.array([-1.0, 0.0, 1.0, 2.7, 5.0, 9.0])
    ours, theirs = getattr(tj.special, name), getattr(torch.special, name)
    expected = theirs(torch.tensor(x), torch.tensor(n))
    compiled = tj.compile(ours)
    compiled(tj.tensor(x), tj.tensor(n))
    for call in (ours, compiled):
        close(call(tj.tensor(x), tj.tensor(n)), expected, 1e-6)
    close(ours(tj.tensor(x), 3), theirs(torch.tensor(x), 3))
    close(ours(0.5, tj.tensor([1, 2])), theirs(0.5, torch.tensor([1, 2])), 1e-6)
    for kind in ("uint8", "int64"):
        whole = [library.tensor([0, 1, 3], dtype=getattr(library, kind)) for library in (tj, torch)]
        close(ours(whole[0], 3), theirs(whole[1], 3), 1e-6)


def test_there_are_twelve_polynomials() -> None:
    assert len(POLYNOMIALS) == 12
