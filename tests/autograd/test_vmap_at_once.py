"""vmap runs a function once for all samples, and what it gives is what samples one after the other give."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tracejit as tj
from tracejit.func import batching

F = tj.nn.functional
grad, vmap = tj.func.grad, tj.func.vmap


def given(*shapes):
    rng = np.random.default_rng(5)
    return [tj.from_numpy(rng.normal(size=shape).astype("f4")) for shape in shapes]


def leaves(value):
    """All tensors in nested results."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in leaves(part)]
    return [value]


def run(function, arguments, tracked):
    """Results, and gradients with respect to all arguments where these are asked for."""
    arguments = [x.detach().clone().requires_grad_(tracked) for x in arguments]
    results = leaves(function(*arguments))
    found = [x.detach() for x in results]
    if tracked:
        sum((x * x).sum() for x in results if x.requires_grad).backward()
        found += [x.grad for x in arguments]
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.spec == b.spec
            np.testing.assert_allclose(a.numpy(), b.numpy(), 2e-5, 2e-6)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def loss(w, x):
    return F.cross_entropy(x @ w, tj.tensor([1, 0]))


def pooled(x, w):
    return F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2)


def several(x):
    return {
        "sorted": x.sort().values,
        "parts": (x.cumsum(0), x.std(), x[1:].prod()),
        "t": x.topk(2)[0],
    }


def looked_up(x):
    return x[tj.tensor([0, 2, 2])] * x[1] + x.gather(0, tj.tensor([2, 1, 0]))


def put_into(x):
    return tj.zeros(5).scatter_add(0, tj.tensor([0, 3, 0]), x) + tj.zeros(5).index_add(
        0, tj.tensor([1, 1, 4]), x
    )


def joined(x):
    return tj.cat([F.pad(x, (1, 1)), tj.stack([x.sum(), x.mean()]), x.flip(0)])


#: Functions, and the shapes of their arguments.
PROGRAMS = {
    "elementwise": (vmap(lambda x: (x * x).sin()), [(4, 3)]),
    "one for all": (vmap(lambda x, w: (x @ w).tanh(), (0, None)), [(4, 3), (3, 5)]),
    "closure": (lambda x, w: vmap(lambda x: (x @ w).tanh())(x), [(4, 3), (3, 5)]),
    "dims": (vmap(lambda x, y: (x @ y, x.sum()), (1, 2), (1, 0)), [(3, 4), (3, 2, 4)]),
    "numbers of each": (vmap(lambda s, x: s * x, (0, None)), [(4,), (3,)]),
    "nested": (vmap(vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None)), [(4, 3), (5, 3)]),
    "pairs": (vmap(vmap(lambda a, b: a @ b)), [(4, 2, 3), (4, 2, 3)]),
    "gradients of each": (vmap(grad(loss), (None, 0)), [(3, 4), (5, 2, 3)]),
    "gradients of a batch": (
        grad(lambda w, x: vmap(lambda r: (r * w).sin().sum())(x).sum()),
        [(3,), (4, 3)],
    ),
    "between": (vmap(grad(lambda x: vmap(lambda r: (r * r).sum())(x).sin().sum())), [(4, 3, 2)]),
    "jacobian": (vmap(tj.func.jacrev(lambda x: x.sin() * x.sum())), [(4, 3)]),
    "hessian": (vmap(tj.func.hessian(lambda x: (x**3).sum() * x[0])), [(4, 3)]),
    "along": (
        vmap(lambda x, t: tj.func.jvp(lambda y: y.sin() * y.sum(), (x,), (t,))),
        [(4, 3), (4, 3)],
    ),
    "pulled": (
        lambda x, v: vmap(tj.func.vjp(lambda y: y.sin() * y.sum(), x)[1])(v),
        [(3,), (5, 3)],
    ),
    "norm": (vmap(lambda x: F.layer_norm(x, (3,))), [(4, 2, 3)]),
    "attention": (vmap(attention), [(3, 2, 4, 8)] * 3),
    "convolution": (vmap(pooled, (0, None)), [(4, 1, 2, 6, 6), (3, 2, 3, 3)]),
    "kernels of each": (vmap(pooled), [(4, 1, 2, 6, 6), (4, 3, 2, 3, 3)]),
    "several results": (vmap(several), [(4, 5)]),
    "lookups": (vmap(looked_up), [(4, 3)]),
    "writes elsewhere": (vmap(put_into), [(4, 3)]),
    "joined": (vmap(joined), [(4, 3)]),
    "matrices": (
        vmap(lambda a, b: tj.linalg.solve(a @ a.mT + 4 * tj.eye(3), b)),
        [(4, 3, 3), (4, 3)],
    ),
    "einsum": (vmap(lambda a, b: tj.einsum("ij,kj->ik", a, b), (0, None)), [(4, 2, 3), (5, 3)]),
    "the same for all": (lambda x, w: vmap(lambda x: (w * 2, x.sum()))(x), [(4, 3), (5,)]),
    "chosen": (vmap(lambda x: tj.where(x > 0, x, x.exp()).max(0)[0]), [(4, 3)]),
    "windows": (vmap(lambda x: x.unfold(0, 3, 2).mean(1)), [(4, 9)]),
    "spectrum": (vmap(lambda x: tj.fft.fft(x).abs()), [(4, 8)]),
}


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_samples_at_once_are_the_samples_one_by_one(name, tracked, monkeypatch):
    function, shapes = PROGRAMS[name]
    arguments = given(*shapes)
    found = run(function, arguments, tracked)
    monkeypatch.setattr(batching, "may_batch", lambda: False)
    assert_same(found, run(function, arguments, tracked))


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name):
    function, shapes = PROGRAMS[name]
    compiled = tj.compile(function, strict=True)
    for number in range(3):
        arguments = [x * (1 + 0.1 * number) for x in given(*shapes)]
        assert_same(run(compiled, arguments, False), run(function, arguments, False))
    assert compiled.stats.compiled_calls == 2


def test_the_function_is_called_once():
    calls = []

    def function(x):
        calls.append(x.shape)
        return x.sum()

    vmap(function)(tj.ones(5, 3))
    assert calls == [(3,)]


@pytest.mark.parametrize("compiled", [False, True])
def test_who_looks_at_elements_gets_the_samples_one_by_one(compiled):
    def function(x):
        return x * 2 if x.sum() > 0 else x - 1

    f = vmap(function)
    f = tj.compile(f) if compiled else f
    x = tj.tensor([[1.0, 2.0], [-3.0, 1.0], [0.5, 0.0]])
    assert f(x).tolist() == [[2.0, 4.0], [-4.0, 0.0], [1.0, 0.0]]


def test_writes():
    x = tj.arange(6.0).reshape(2, 3)
    inside = vmap(lambda x: (x * 2).add_(1).mul_(x))(x)
    assert tj.equal(inside, (x * 2 + 1) * x)

    def to_a_part(x):
        y = x.new_zeros(3) + x
        y[0] = 7.0
        y[1:].neg_()
        return y

    assert vmap(to_a_part)(x).tolist() == [[7.0, -1.0, -2.0], [7.0, -4.0, -5.0]]
    given = x.clone()
    vmap(lambda x: x.add_(1))(given)  # what it was given is changed, once
    assert tj.equal(given, x + 1)


def test_strides_are_those_of_each_sample():
    x = tj.arange(24.0).reshape(2, 12)
    found = vmap(lambda x: x.as_strided((2, 3), (4, 1), 1))(x)
    assert found[:, :, 0].tolist() == [[1.0, 5.0], [13.0, 17.0]]
    turned = vmap(lambda x: x.as_strided((2,), (2,)), 1)(x.t().contiguous())
    assert turned.tolist() == [[0.0, 2.0], [12.0, 14.0]]


def test_draws():
    x = tj.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x + tj.rand(3))(x)
    same = vmap(lambda x: x + tj.rand(3), randomness="same")(x)
    assert all(tj.equal(row, same[0]) for row in same)
    different = vmap(lambda x: x + tj.rand(3), randomness="different")(x)
    assert not tj.equal(different[0], different[1])


def test_values_are_checked_in_all_samples():
    shares = tj.tensor([[0.5, 0.1], [0.2, 1.5]])
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        vmap(lambda x: F.binary_cross_entropy(x, x.round()))(shares)
    assert vmap(lambda x: F.binary_cross_entropy(x, x.round()))(shares * 0.5).shape == (2,)


def test_compiled_functions_inside_run_as_they_are_written():
    inner = tj.compile(lambda x: (x * 3).sum())
    x = tj.ones(4, 3)
    for _ in range(3):
        assert vmap(inner)(x).tolist() == [9.0] * 4
    assert inner(x).item() == 36.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: vmap(lambda r: r * n)(x),
        lambda x, n: vmap(lambda r: n - r.sum())(x),
        lambda x, n: vmap(grad(lambda r: (r * n).sin().sum()))(x),
        lambda x, n: grad(lambda z: vmap(lambda r: (r * n).exp())(z).sum())(x),
        lambda x, n: vmap(vmap(lambda r: tj.where(r > n, r, n)))(x),
        lambda x, n: tj.func.hessian(lambda r: (r * n).sin().sum())(x[0]),
    ],
)
def test_numbers_vary_inside(function):
    compiled = tj.compile(function)
    x = tj.arange(6.0).reshape(2, 3) / 7
    for n in (0.5, 1.5, 2.5, -1.0, 0.0, 3, 4, 5):
        assert tj.allclose(compiled(x, n), function(x, n), atol=1e-6)
    assert compiled.stats.recordings <= 4


def test_a_sample_that_got_out_says_so():
    kept = []
    vmap(lambda x: kept.append(x) or x.sum())(tj.ones(2, 3))
    with pytest.raises(RuntimeError, match="after that has returned"):
        kept[0].sum().item()


def test_threads_batch_side_by_side():
    x = tj.arange(12.0).reshape(4, 3)
    expected = vmap(grad(lambda r: (r * r).sin().sum()))(x)
    stop, failed = threading.Event(), []

    def plain():
        while not stop.is_set():
            if (x * 2 + 1).sum().item() != 144.0:
                failed.append("plain")

    def batched():
        found = [vmap(grad(lambda r: (r * r).sin().sum()))(x) for _ in range(50)]
        if not all(tj.equal(y, expected) for y in found):
            failed.append("batched")

    threads = [threading.Thread(target=batched) for _ in range(2)]
    beside = threading.Thread(target=plain)
    for thread in (beside, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    beside.join()
    assert not failed
