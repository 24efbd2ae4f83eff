"""Special functions come from SciPy without the package around them, and are the same ones."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import scipy.special

import tracejit as tj
from process_tools import printed
from tracejit.ops import namespace
from tracejit.ops.special_functions import poisson_quantile

NAMES = ("expit", "erf", "erfc", "gammaln", "digamma", "erfinv", "polygamma")


def run(code: str) -> object:
    return json.loads(printed(code))


def test_the_package_is_not_imported_for_what_its_c_module_has() -> None:
    code = """
import json, sys, warnings
warnings.simplefilter("error")
import tracejit as tj
x = tj.linspace(-3, 3, 50, requires_grad=True)
y = (x.sigmoid() * x.erf()).sum() + tj.nn.functional.gelu(x).sum() + (x * x + 1).lgamma().sum()
before = "scipy.special" in sys.modules
y.backward()
after = "scipy.special" in sys.modules
import scipy.special
from scipy.special import _special_ufuncs, _ufuncs
same = all(getattr(scipy.special, n) is tj.ops.namespace.special(n) for n in ("erf", "expit", "gammaln"))
whole = float(scipy.special.betainc(0.2, 3.5, 0.4)) > 0 and len(scipy.special.roots_legendre(3)) == 2
there = hasattr(_special_ufuncs, "erf")  # not so in older releases
print(json.dumps([before and there, after, same, whole, hasattr(scipy.special, "_ufuncs")]))
"""
    assert run(code) == [False, True, True, True, True]  # the gradient of lgamma is digamma


def test_the_package_is_used_when_it_is_there() -> None:
    code = """
import json, scipy.special
from tracejit.ops import namespace
from tracejit.ops.special_functions import poisson_quantile
print(json.dumps(all(namespace.special(n) is getattr(scipy.special, n) for n in %r)))
"""
    assert run(code % (NAMES,)) is True


@pytest.mark.parametrize("spec", ["none", "raises"])
def test_a_scipy_without_that_module_still_serves(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        if spec == "raises":
            raise ImportError("made differently")

    monkeypatch.delitem(sys.modules, namespace._FUNCTIONS)
    namespace._functions.cache_clear()
    namespace._on_the_host.cache_clear()
    monkeypatch.delitem(sys.modules, "scipy.special")
    if spec == "none":
        monkeypatch.setattr(namespace.importlib.machinery.PathFinder, "find_spec", broken)
    else:
        monkeypatch.setattr(namespace.importlib.util, "module_from_spec", broken)
    assert namespace._functions() is None
    monkeypatch.undo()
    for name in NAMES:
        assert namespace.special(name) is getattr(scipy.special, name)
    namespace._functions.cache_clear()


def test_the_values_are_scipys() -> None:
    x = np.array([-np.inf, -2.5, -0.0, 0.0, 1e-30, 0.7, 30.0, np.inf, np.nan])
    for dtype in (np.float32, np.float64):
        for name in ("expit", "erf", "erfc", "gammaln"):
            have = namespace.special(name)(x.astype(dtype))
            want = getattr(scipy.special, name)(x.astype(dtype))
            assert have.dtype == want.dtype
            assert have.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_exponential_units_of_not_a_number_have_no_slope(name):
    x = tj.tensor([float("nan"), -1.0, 2.0], requires_grad=True)
    for function in (getattr(tj.nn.functional, name), tj.compile(getattr(tj.nn.functional, name))):
        x.grad = None
        function(x).sum().backward()
        assert x.grad.isnan().tolist() == [True, False, False]


@pytest.mark.parametrize("base", [2.0, 0.5, 0.0, -1.5, 3])
def test_powers_of_a_number_have_gradients_in_compiled_code(base):
    expected = None
    values = tj.tensor([0.5, 2.0, -1.0])
    for function in (lambda y: base**y, tj.compile(lambda y: base**y, strict=True)):
        for _ in range(2):
            y = values.clone().requires_grad_()
            function(y).sum().backward()
            expected = y.grad.numpy() if expected is None else expected
            np.testing.assert_allclose(y.grad.numpy(), expected, 1e-6)


def test_counts_of_poisson_variables_are_those_of_the_library() -> None:
    """Small means are counted up to, which takes a tenth of the time; large ones are the library's."""
    rng = np.random.default_rng(0)
    levels = np.r_[rng.random(3000), 0.0, 1 - 1e-16, 0.5, np.nan, 0.5, 0.5, 1.0, -0.1]
    means = np.r_[10 ** rng.uniform(-3, 3, 3000), 3.0, 3.0, 0.0, 2.0, np.nan, np.inf, 2.0, 2.0]
    expected = np.maximum(np.ceil(scipy.special.pdtrik(levels, means)), 0)
    for part in (slice(None), means <= 50, means > 50, slice(3000, 3003)):
        found = poisson_quantile(tj.tensor(levels[part]), tj.tensor(means[part]))
        np.testing.assert_array_equal(found.numpy(), expected[part])
    one = poisson_quantile(
        tj.tensor(0.7, dtype=tj.float64), tj.tensor([0.1, 80.0], dtype=tj.float64)
    )
    np.testing.assert_array_equal(one.numpy(), np.ceil(scipy.special.pdtrik(0.7, [0.1, 80.0])))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [tj.float32, tj.float64])
def test_slopes_of_the_logarithm_of_a_probability_near_one(dtype, compiled):
    def slopes(x):
        (first,) = tj.autograd.grad(tj.special.log_ndtr(x).sum(), x, create_graph=True)
        return first, tj.autograd.grad(first.sum(), x)[0]

    run = tj.compile(slopes) if compiled else slopes
    far = [4.9, 5.1, 9.0, 13.0, 40.0, 1e20]
    x = tj.tensor([*far, -3.0, -30.0], dtype=dtype).requires_grad_()
    for _ in range(3 if compiled else 1):
        first, second = run(x)
    wide = x.detach().double()
    density = tj.exp(wide * wide / -2) / math.sqrt(2 * math.pi)
    expected = (density / tj.special.ndtr(wide))[: len(far)]
    bound = 1e-3 if dtype is tj.float32 else 1e-9
    least = 1e-30 if dtype is tj.float32 else 1e-300
    assert tj.allclose(first.double()[: len(far)], expected, rtol=bound, atol=least)
    slope = -expected * (wide[: len(far)] + expected)
    assert tj.allclose(second.double()[: len(far)], slope, rtol=bound, atol=least)
    assert first[len(far) :].tolist() == pytest.approx([3.2830986549304755, 30.033259667433677])
    assert second.isfinite().all()
