"""Tensors in Python: numbers, sequences, sizes, storage, copies, pickles."""

from __future__ import annotations

import copy
import pickle

import pytest

import tracejit as tj


def test_numbers():
    x = tj.tensor([2.5])
    assert (float(x), int(x), x.item(), complex(x)) == (2.5, 2, 2.5, 2.5)
    assert [10, 20, 30][tj.tensor(1)] == 20
    assert bool(tj.tensor(0.5))
    assert not tj.tensor([0])
    assert type(tj.tensor(True).item()) is bool
    assert type(tj.tensor(3).item()) is int
    assert type(tj.tensor(1.5, dtype=tj.bfloat16).item()) is float


def test_numbers_refused():
    with pytest.raises(
        RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"
    ):
        tj.tensor([1.0, 2.0]).item()
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(tj.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        bool(tj.tensor([]))
    with pytest.raises(
        TypeError, match="only integer tensors of a single element can be converted to an index"
    ):
        [1, 2][tj.tensor(1.0)]


def test_sequence():
    x = tj.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert len(x) == 2
    rows = list(x)
    assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
    assert rows[0].requires_grad
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3, 4], [1, 2]]
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(tj.tensor(1.0))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(tj.tensor(1.0))


def test_contains():
    x = tj.tensor([1.0, 2.0])
    assert 2 in x
    assert 3.0 not in x
    assert tj.tensor(1.0) in x
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        assert "a" in x


def test_hash_and_identity():
    x, y = tj.tensor([1.0]), tj.tensor([1.0])
    assert {x: "x", y: "y"}[x] == "x"
    assert len({x, y, x}) == 2


def test_tolist():
    assert tj.tensor(3).tolist() == 3
    assert tj.tensor([[True], [False]]).tolist() == [[True], [False]]
    assert tj.tensor([1.5], dtype=tj.float16).tolist() == [1.5]


def test_sizes():
    x = tj.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert tuple(x.size()) == (2, 3)
    assert (x.size(0), x.size(-1), x.dim(), x.ndim, x.numel(), x.nelement()) == (2, 3, 2, 2, 6, 6)
    assert (x.element_size(), x.itemsize, x.nbytes) == (4, 4, 24)
    assert x.stride() == (3, 1)
    assert x.stride(1) == 1
    assert x.is_contiguous()
    assert x.is_floating_point()
    assert not tj.tensor([1]).is_floating_point()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.size(2)


def test_storage_of_views():
    x = tj.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    row = x[1]
    assert row.storage_offset() == 3
    assert row.data_ptr() == x.data_ptr() + 12
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert row.untyped_storage().nbytes() == 24
    assert x[1:].is_contiguous()
    assert x.detach().untyped_storage().data_ptr() == x.data_ptr()


def test_deepcopy():
    x = tj.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    other = copy.deepcopy(x)
    assert other.tolist() == [1, 2]
    assert other.requires_grad
    assert other.grad.tolist() == [3, 3]
    assert other.data_ptr() != x.data_ptr()
    both = copy.deepcopy([x, x])
    assert both[0] is both[1]
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_copy_shares_storage():
    x = tj.tensor([1.0, 2.0], requires_grad=True)
    other = copy.copy(x)
    assert other is not x
    assert other.data_ptr() == x.data_ptr()
    assert other.requires_grad


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_pickle(protocol, dtype):
    x = tj.tensor([[1, 0], [3, 4]], dtype=getattr(tj, dtype))
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.tolist() == x.tolist()
    assert y.dtype is x.dtype
    y.zero_()
    assert y.tolist() != x.tolist()


def test_pickle_of_views_leaves_and_empty_tensors():
    x = tj.tensor([[1.0, 2.0], [3.0, 4.0]])
    part = pickle.loads(pickle.dumps(x[1]))
    assert part.tolist() == [3, 4]
    leaf = pickle.loads(pickle.dumps(tj.tensor([1.0], requires_grad=True)))
    assert leaf.requires_grad
    assert tuple(pickle.loads(pickle.dumps(tj.tensor([[], []]))).shape) == (2, 0)
    assert pickle.loads(pickle.dumps(tj.tensor(2.0))).item() == 2
    assert pickle.loads(pickle.dumps(tj.float32)) is tj.float32
    assert pickle.loads(pickle.dumps(tj.device("cpu"))) == tj.device("cpu")


def test_dir_and_missing_attribute():
    assert {"backward", "sum", "grad"} <= set(dir(tj.tensor([1.0])))
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nonsense'"):
        tj.tensor([1.0]).nonsense  # noqa: B018


def test_deepcopy_inside_compiled_code_keeps_the_order_of_memory():
    def copied(x):
        return copy.deepcopy(x.detach()), copy.deepcopy(x.detach()) * 2

    compiled = tj.compile(copied)
    for x in (tj.arange(6.0).view(2, 3).T, tj.arange(24.0).view(2, 3, 4).permute(1, 2, 0)):
        expected = copied(x)
        for _ in range(3):
            found = compiled(x)
            assert found[0].stride() == expected[0].stride() == x.stride()
            assert all((a == b).all() for a, b in zip(found, expected, strict=True))
