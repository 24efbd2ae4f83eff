"""Other spellings of arguments: NumPy's names, sizes by keyword, results put into given tensors."""

from __future__ import annotations

import pytest

import tracejit as tj

X = [[1.0, 4.0, 2.0], [3.0, 0.0, 5.0]]


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "argmax", "prod", "amax", "all", "logsumexp", "std", "var", "argmin", "median"],
)
def test_axis_is_dim(name):
    x = tj.tensor(X)
    x = x > 2 if name == "all" else x
    expected = getattr(tj, name)(x, dim=1, keepdim=True)
    for found in (
        getattr(tj, name)(x, axis=1, keepdims=True),
        getattr(x, name)(axis=1, keepdims=True),
        getattr(tj, name)(a=x, axis=1, keepdim=True),
    ):
        found, wanted = (v if isinstance(v, tj.Tensor) else v[0] for v in (found, expected))
        assert tj.equal(found, wanted)


def test_axis_where_tensors_are_joined_and_ordered():
    x = tj.tensor(X)
    assert tj.cat([x, x], axis=1).shape == (2, 6)
    assert tj.concatenate([x, x], axis=1).shape == (2, 6)
    assert tj.stack([x, x], axis=2).shape == (2, 3, 2)
    assert tj.equal(x.cumsum(axis=1), x.cumsum(1))
    assert x.sort(axis=0, descending=True)[0].tolist()[0] == [3.0, 4.0, 5.0]
    assert x.unsqueeze(axis=0).squeeze(axis=0).shape == (2, 3)
    assert x.max(axis=1).indices.tolist() == [1, 2]


def test_sizes_by_keyword():
    for make in (tj.zeros, tj.ones, tj.empty, tj.rand, tj.randn):
        assert make(size=(2, 3)).shape == (2, 3)
    x = tj.ones(2)
    for name in ("new_zeros", "new_ones", "new_empty"):
        assert getattr(x, name)(size=(2, 3)).shape == (2, 3)
    assert tj.randint(3, size=(4,)).max().item() < 3
    assert x.expand(size=(3, 2)).shape == (3, 2)
    assert tj.permute(tj.ones(2, 3), dims=(1, 0)).shape == tj.ones(2, 3).permute(dims=(1, 0)).shape
    assert tj.tile(x, dims=(2,)).shape == (4,)


def test_arguments_of_factories_without_effect():
    assert tj.zeros(2, layout=tj.strided, pin_memory=True).tolist() == [0.0, 0.0]
    assert tj.tensor([1], pin_memory=True).item() == 1
    assert tj.arange(3, layout=tj.strided).tolist() == [0, 1, 2]


@pytest.mark.parametrize("compiled", [False, True])
def test_results_go_where_they_are_wanted(compiled):
    def run(x, y, out, pair):
        first = tj.matmul(x, y, out=out[0])
        tj.add(x, x, out=out[1])
        tj.exp(x, out=out[2])
        tj.cat([x, x], dim=0, out=out[3])
        found = tj.max(x, 1, out=pair)
        return first, found.values, found.indices

    run = tj.compile(run, strict=True) if compiled else run
    x = tj.tensor(X)
    for _ in range(3):
        out = [tj.zeros(2, 2), tj.zeros(2, 3), tj.zeros(2, 3), tj.zeros(4, 3)]
        pair = (tj.zeros(2), tj.zeros(2).long())
        first, values, indices = run(x, x.T.contiguous(), out, pair)
        assert tj.equal(out[0], x @ x.T)
        assert tj.equal(first, out[0])
        assert tj.equal(out[1], x + x)
        assert tj.allclose(out[2], x.exp())
        assert tj.equal(out[3], tj.cat([x, x]))
        assert (values.tolist(), indices.tolist()) == ([4.0, 5.0], [1, 2])
        assert (pair[0].tolist(), pair[1].tolist()) == ([4.0, 5.0], [1, 2])


def test_results_that_do_not_fit_are_refused():
    out = tj.zeros(0)
    assert tj.add(tj.ones(2), 1, out=out) is out
    assert out.tolist() == [2.0, 2.0]
    assert tj.arange(3, out=tj.zeros(3)).dtype is tj.float32
    assert tj.randperm(3, out=tj.zeros(3).long()).sum().item() == 3
    x = tj.ones(2)
    assert tj.mul(x, 2, out=x) is x
    assert x.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        tj.add(tj.ones(2), 1, out=tj.zeros(2).long())
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        tj.add(tj.ones(2, requires_grad=True), 1, out=tj.zeros(2))
    with tj.no_grad():
        tj.add(tj.ones(2, requires_grad=True), 1, out=tj.zeros(2))
    with pytest.raises(TypeError, match="unexpected keyword"):
        tj.sum(tj.ones(2), ax=0)


def test_scales_before_what_they_scale():
    p, g, h = tj.ones(2), tj.tensor([1.0, 2.0]), tj.tensor([2.0, 4.0])
    assert p.clone().add_(-0.5, g).tolist() == [0.5, 0.0]
    assert p.sub(2, g).tolist() == [-1.0, -3.0]
    assert p.clone().addcmul_(0.5, g, h).tolist() == [2.0, 5.0]
    assert p.addcdiv(-1, g, h).tolist() == [0.5, 0.5]


_MADE = {
    "device": "cpu",
    "layout": tj.strided,
    "dtype": tj.float64,
    "requires_grad": True,
    "pin_memory": False,
}
_MAKERS = {
    "randint": lambda **o: tj.randint(0, 5, (3,), **o),
    "randperm": lambda **o: tj.randperm(3, **o),
    "normal": lambda **o: tj.normal(0.0, 1.0, (3,), **o),
    "rand": lambda **o: tj.rand(3, **o),
    "randn": lambda **o: tj.randn(3, **o),
    "full": lambda **o: tj.full((3,), 2.0, **o),
    "linspace": lambda **o: tj.linspace(0, 1, 3, **o),
    **{
        f"{name}_like": lambda name=name, **o: getattr(tj, f"{name}_like")(
            tj.ones(3), *((5,) if name in ("randint", "full") else ()), **o
        )
        for name in ("empty", "full", "ones", "rand", "randint", "randn", "zeros")
    },
}


@pytest.mark.parametrize("name", _MAKERS)
def test_functions_that_make_tensors_take_the_same_keywords(name):
    kinds = {"memory_format": tj.preserve_format} if name.endswith("_like") else {}
    made = _MAKERS[name](**_MADE, **kinds)
    assert (made.dtype, made.requires_grad, made.is_leaf) == (tj.float64, True, True)
    assert made.shape == (3,)
