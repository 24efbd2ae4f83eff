"""Rare arguments of common functions against PyTorch: dtypes, empty inputs, results written elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import same_error

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(3)
NUMBERS = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
REAL = RNG.normal(size=(4, 4))

CASES = [
    # complex numbers
    "t.sigmoid(z)",
    "t.exp2(z)",
    "f.silu(z)",
    "f.softsign(z)",
    "t.logsumexp(z, 1)",
    "t.logsumexp(z * 400, (0, 1), keepdim=True)",
    "t.float_power(z, 2)",
    "t.float_power(x, z[0])",
    "t.cov(z)",
    "t.std_mean(z)",
    "t.lerp(z, z * 2, z * 0.3)",
    "t.linalg.matrix_norm(z, float('inf'))",
    "t.log1p(t.tensor([1e-19 + 1e-18j, 1e-10j, 1e-5 + 1e-5j, -1 + 1j, 1e10 + 1j, 0.5 - 1j, -1e-19 + 0j]))",
    "t.log1p(t.tensor([1e-19 + 1e-18j, 1e-10j], dtype=t.complex128)) * 1e20",
    "t.logaddexp(t.tensor([complex(np.inf, 0), 1j]), t.tensor([complex(np.inf, 0), 2j]))",
    "t.nan_to_num(t.tensor([complex(np.nan, 1), complex(1, np.inf), complex(-np.inf, 2)]))",
    "t.nan_to_num(t.tensor([complex(np.nan, 1), complex(1, np.inf)]), nan=3.0, posinf=9.0)",
    # matrices that have no inverse, and older names of tolerances
    "t.linalg.cond(t.stack([t.zeros(2, 2), t.eye(2), t.ones(2, 2)]), 1)",
    "t.linalg.cond(t.ones(2, 2), 'fro')",
    "t.linalg.cond(x, float('-inf'))",
    "t.linalg.matrix_rank(t.diag(t.tensor([3.0, 1.0, 0.1])), 0.5)",
    "t.linalg.matrix_rank(t.diag(t.tensor([3.0, 1.0, 0.1])), tol=2.0, hermitian=True)",
    "t.linalg.pinv(t.diag(t.tensor([3.0, 1.0, 0.1])), 0.5)",
    "t.linalg.pinv(t.diag(t.tensor([3.0, 1.0, 0.1])), rcond=0.2, hermitian=True)",
    "t.linalg.eigvalsh(x, 'u')",
    "t.linalg.eigh(x, 'l').eigenvalues",
    "t.fft.fftn(x, s=3, dim=1)",
    "t.fft.irfftn(x, s=5, dim=-1)",
    # complex numbers alone
    "t.log1p(t.tensor(0.1 + 0.2j))",
    "t.logaddexp(t.tensor(1.0 - 2.0j), t.tensor(-0.5 + 1.0j))",
    # numbers beside whole ones are cut
    "t.threshold(t.tensor([-1, 0, 1, 2]), -0.5, 1.5)",
    "f.threshold(t.tensor([-1, 0, 1, 2]), 0.1, 20.0, inplace=True)",
    # between complex numbers
    "t.linspace(0, 1j, 5)",
    "t.linspace(1 + 1j, 3, 4, dtype=t.complex128)",
    "t.logspace(0, 1j, 5, dtype=t.complex128)",
    "t.linspace(0, 1, 3, dtype=t.complex64)",
    # half precision is rounded once
    "t.sinc(t.tensor([17.0, -2.34375, 19.625, 0.0, 0.01, 3.0]).bfloat16()).float()",
    "t.sinc(t.tensor([-2.642578125, 12.8046875, 0.5]).half())",
    "t.round(t.tensor([0.82666, 31.671875, -15.1640625]).half(), decimals=3)",
    "t.round(t.tensor([-18.625, 37.25, 0.3]).bfloat16(), decimals=3).float()",
    # NumPy's numbers
    "t.float_power(x.abs(), np.float32(2.5))",
    "t.lerp(x, x * 2, np.float64(0.25))",
    "t.clamp_min(x, np.int64(1))",
    "t.full((2,), np.int64(3))",
    "np.int32(1) << t.tensor([1, 2], dtype=t.int64)",
    "np.int64(9) >> t.tensor([1, 2], dtype=t.uint8)",
    "t.vander(x[0, :0])",
    # gradients
    "slope(t, lambda a: a.median(), t.tensor([2.0, 1.0, 2.0, 5.0, 2.0]))",
    "slope(t, lambda a: a.nanmedian(), t.tensor([2.0, 1.0, float('nan'), 2.0]))",
    "slope(t, lambda a: a.median(), t.tensor([2.0, float('nan'), float('nan'), 2.0]))",
    "slope(t, lambda a: t.nextafter(a, x + 1).sum(), x)",
    "slope(t, lambda a: t.nextafter(x, a).sum(), x)",
    "slope(t, lambda a: t.nextafter(a, x.clamp(min=0)).sum(), x)",
    "slope(t, lambda a: t.nextafter(x.clamp(min=0), a).sum(), x)",
    "slope(t, lambda a: t.cholesky_inverse(a).sum(), t.tril(x) + 3 * t.eye(4))",
    "slope(t, lambda a: t.cholesky_inverse(a, upper=True)[0, 1], t.triu(x) + 3 * t.eye(4))",
    "slope(t, lambda a: factor_inverse(t, a), t.linalg.cholesky(z @ z.mH))",
    "slope(t, lambda a: factor_inverse(t, a, upper=True), t.linalg.cholesky(z @ z.mH, upper=True))",
    "slope(t, lambda a: t.addmm(a, x, x, beta=0).sum(), x)",
    "slope(t, lambda a: t.addr(a, x[0], x[1], beta=0.0).sum(), x[:1])",
    "slope(t, lambda a: t.baddbmm(a, x[None], x[None], beta=0, alpha=2).sum(), x[None] * np.inf)",
    # dtypes
    "t.logaddexp2(x.half(), x[0].half() > 0)",
    "t.logaddexp2(t.tensor([1, 2]), x[0, :2].half())",
    "t.ldexp(x.double(), t.tensor(2.5, dtype=t.float16))",
    "t.ldexp(x.half(), t.tensor([1, 2, 3, 4]))",
    "t.linalg.vander(t.tensor([2, 3], dtype=t.uint8), N=4)",
    "t.ones(2, 3, dtype=t.bool).sum_to_size(1, 3)",
    "t.ones(2, 3, dtype=t.uint8).sum_to_size(2, 3)",
    "t.tensor(2, dtype=t.int32).sum_to_size(())",
    # numbers have no dimensions to exchange
    "t.tensor(2.0).mT",
    "t.tensor(2.0).mH",
    "t.tensor(2.0 + 1j).adjoint()",
    # memory read as what it is takes no gradient, and what has a shape keeps it
    "t.tensor(x.requires_grad_().view(x.dtype).requires_grad)",
    "t.tensor(t.broadcast_tensors(x, x[0])[0] is x)",
    # methods
    "x.abs().polygamma(2)",
    "x.abs().polygamma_(1)",
    "x.clone().arcsin_()",
    "x.clone().addbmm_(t.ones(2, 4, 3), t.ones(2, 3, 4), beta=2)",
    "t.tensor([12, 18]).gcd_(t.tensor([8, 27]))",
    "x.clone().greater_(0.5)",
    "x.clone().mvlgamma_(1)",
    # lists as indices: read as tuples where they hold more than numbers
    "t.arange(24.0).reshape(4, 3, 2)[[[0, 1], [1, 2]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[0, [1, 2]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[0, 1]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[[0, 1], [1, 2]]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[(0, 1), range(1, 3), [0, 1]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[t.tensor(0), t.tensor(1)]]",
    "t.arange(24.0).reshape(4, 3, 2)[[np.array([0, 1]), [0]]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[True, False, True, False], 0]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[], []]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[0]] * 32]",
    "t.arange(24.0).reshape(4, 3, 2)[[0, 1]]",
    "t.arange(24.0).reshape(4, 3, 2)[[[0, 1], [1, 2]], 0]",
    "written(t.zeros(4, 3, 2), [[0, 1], [1, 2]])",
    "written(t.zeros(4, 3, 2), [None, 1])",
    # truth values as indices: masks without dimensions, which are broadcast with index tensors
    "t.arange(6).reshape(2, 3)[True]",
    "t.arange(6).reshape(2, 3)[False]",
    "t.arange(6).reshape(2, 3)[True, True]",
    "t.arange(6).reshape(2, 3)[:, False, True]",
    "t.arange(6).reshape(2, 3)[True, t.tensor([0, 1])]",
    "t.arange(6).reshape(2, 3)[True, None, t.tensor([0, 1])]",
    "t.arange(6).reshape(2, 3)[True, :, t.tensor([0, 1, 1])]",
    "t.arange(6).reshape(2, 3)[True, t.tensor([True, False])]",
    "t.tensor(3)[True, True]",
    "written(t.zeros(2, 3), (True, True))",
    "written(t.zeros(2, 3), False)",
    "written(t.zeros(2, 3), (True, t.tensor([1])))",
    # Python's types as dtypes
    "t.zeros(2, dtype=float)",
    "t.ones(2).to(float)",
    "t.ones(2).sum(dtype=float)",
    "t.ones(2, dtype=complex)",
    "t.full((2,), 1, dtype=bool)",
    # reading backwards
    "reversed(t.arange(6).reshape(3, 2))",
    "reversed(t.tensor(2))",
    # diagonals that begin again
    "t.zeros(8, 3).fill_diagonal_(1, wrap=True)",
    "t.zeros(7, 3).fill_diagonal_(1, wrap=True)",
    "t.zeros(4, 3).fill_diagonal_(1, wrap=True)",
    "t.zeros(3, 7).fill_diagonal_(1, wrap=True)",
    "t.zeros(3, 3, 3).fill_diagonal_(1)",
    # membership: of numbers, among many, of NaN
    "t.isin(1, t.tensor([[1, 2]]))",
    "t.isin(t.arange(200).reshape(2, 100), t.arange(150, 700, 2))",
    "t.isin(t.arange(9.0), t.arange(3, 300).half(), invert=True)",
    "t.isin(t.tensor([1.0, np.nan]), t.tensor([np.nan] * 100))",
    "t.isin(t.zeros(0), t.zeros(100))",
    # every NaN is one of its own
    "t.unique(t.tensor([np.nan, 2.0, 1.0, np.nan]), return_inverse=True, return_counts=True)",
    "t.unique(t.tensor([np.nan, 2.0, 1.0, np.nan] * 30), return_counts=True)",
    # slopes beside infinite numbers
    "t.gradient(t.tensor([2.0, -2.0, np.inf, np.inf, -np.inf, 1.0, 2.0]))[0]",
    "t.gradient(t.tensor([2, -2, 4, 5, 7]), spacing=2)[0]",
    # what is left out
    "t.repeat_interleave(t.tensor([1, 2, 0, 3]))",
    "t.randint(high=1, size=(2, 3))",
    "t.block_diag()",
    # windows and joins of nothing
    "t.tensor(0.5).unfold(0, 0, 1)",
    "t.ones(3).unfold(0, 0, 1)",
    "t.cat([t.zeros(0), t.zeros(0)], dim=1)",
    "t.cat([t.zeros(0), x, t.zeros(0)], dim=1)",
    # nothing to compute with
    "f.batch_norm(t.ones(0, 3, 2), t.zeros(3), t.ones(3), training=True)",
    "t.nn.BatchNorm1d(3)(t.zeros(0, 3, 2))",
    # out=
    "t.linalg.det(x, out=t.empty(()))",
    "t.linalg.qr(x, out=(t.empty(4, 4), t.empty(4, 4))).R.abs()",
    "t.fft.fft(x, out=t.empty(4, 4, dtype=t.complex64))",
    "t.special.ndtr(x, out=t.empty(2))",
    "beside(t.arange, 0, 4)",
    "beside(t.linspace, 0, 3, 4)",
    "beside(t.logspace, 0, 3, 4)",
    "t.arange(4, out=t.zeros(2, 2))",
]


def written(x: Any, index: Any) -> Any:
    x[index] = 7.0
    return x


def beside(function: Any, *args: Any) -> Any:
    """A tensor of which ``function`` writes to a part without its first column."""
    whole = function(*args).new_zeros(2, 3)
    function(*args, out=whole[:, 1:])
    return whole


def slope(t: Any, function: Any, x: Any) -> Any:
    x = x.detach().requires_grad_()
    return t.autograd.grad(function(x), x)[0]


def factor_inverse(t: Any, factor: Any, upper: bool = False) -> Any:
    """A number that depends on all elements of the inverse in ways of their own."""
    found = t.cholesky_inverse(factor, upper=upper)
    return (found * t.arange(found.numel()).view(found.shape)).abs().sum()


NAMES = {
    "np": np,
    "written": written,
    "beside": beside,
    "slope": slope,
    "factor_inverse": factor_inverse,
}


def result(t: Any, code: str) -> Any:
    """What ``code`` gives in one library, as an array."""
    x, z = t.tensor(REAL), t.tensor(NUMBERS)
    if "out=" in code or "_(" in code:
        x, z = x.float(), z.to(t.complex64)
    found = eval(code, {**NAMES, "t": t, "f": t.nn.functional, "x": x, "z": z})
    flat = found if isinstance(found, tuple) else (found,)
    return [(str(y.dtype).rpartition(".")[2], y.detach().resolve_conj().numpy()) for y in flat]


@pytest.mark.filterwarnings("ignore:.* is deprecated on 0-D tensors")
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence for multidimensional indexing")
@pytest.mark.parametrize("code", CASES)
def test_values(code: str) -> None:
    for (ours, a), (theirs, b) in zip(result(tj, code), result(torch, code), strict=True):
        assert ours == theirs
        tolerance = 1e-5 if a.dtype in (np.float32, np.complex64) else 1e-9
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("code", [code for code in CASES if "rand" not in code])
def test_compiled_values(code: str) -> None:
    compiled = tj.compile(lambda: result(tj, code))
    for _ in range(2):
        for (ours, a), (theirs, b) in zip(compiled(), result(tj, code), strict=True):
            assert ours == theirs
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_shifts_write_in_place() -> None:
    x = tj.tensor([1, 2])
    same, version = x, x._version
    x <<= 2
    x >>= 1
    assert same is x
    assert x.tolist() == [2, 4]
    assert x._version == version + 2


def test_lazy_layers_keep_the_dtype_they_are_converted_to() -> None:
    layer = tj.nn.LazyConv2d(3, 2).double()
    assert layer(tj.ones(1, 2, 4, 4, dtype=tj.float64)).dtype is tj.float64
    assert layer.bias.dtype is tj.float64


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "ASGD"]
)
def test_groups_of_optimizers_show_the_same_options(name: str) -> None:
    """What a scheduler, a checkpoint or a program that reads hyperparameters finds there."""
    groups = []
    for t in (tj, torch):
        options = {"foreach": True}
        optimizer = getattr(t.optim, name)([t.ones(2, requires_grad=True)], lr=0.1, **options)
        groups.append({k: v for k, v in optimizer.param_groups[0].items() if k != "params"})
    assert groups[0] == groups[1]


@pytest.mark.parametrize(
    "code",
    [
        "t.optim.Adam([t.ones(1, requires_grad=True)], lr=-1.0)",
        "t.tensor([1.0]).polygamma_(-1)",
        "t.nn.BatchNorm1d(3)(t.zeros(1, 3))",
        "t.zeros(1).expand(3).copy_(t.ones(1))",
        "t.zeros(1).expand(3).copy_(t.ones(()))",
        "t.zeros(3)[t.tensor([0, 1], dtype=t.int8)]",
        "t.zeros(3)[t.tensor([0, 1], dtype=t.int16)]",
        "t.pdist(t.ones(3, 2), -1.0)",
        "t.addmm(t.ones(7), t.ones(3, 3), t.ones(3, 3), beta=0)",
        "t.addmm(t.ones(2, 3, 3), t.ones(3, 3), t.ones(3, 3))",
        "t.addmv(t.ones(2, 3), t.ones(3, 3), t.ones(3))",
    ],
)
def test_errors(code: str) -> None:
    same_error(lambda t, f: eval(code, {"t": t}))


@pytest.mark.parametrize("kind", ["int64", "float32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(7,), (1,), (3, 5), (4, 1, 6)])
@pytest.mark.parametrize("values", [2, 50])
def test_most_frequent_elements(kind: str, shape: tuple[int, ...], values: int) -> None:
    x = np.random.default_rng(0).integers(0, values, shape).astype(kind)
    for dim in range(-len(shape), len(shape)):
        wanted = torch.mode(torch.tensor(x), dim)
        for found in (tj.mode(tj.tensor(x), dim), tj.compile(tj.mode)(tj.tensor(x), dim)):
            assert found.values.tolist() == wanted.values.tolist()
            assert found.indices.tolist() == wanted.indices.tolist()


def test_the_most_frequent_of_many_needs_no_memory_for_all_pairs() -> None:
    x = np.random.default_rng(0).integers(0, 9, 300_000)
    assert tj.mode(tj.tensor(x)).values.item() == torch.mode(torch.tensor(x)).values.item()
