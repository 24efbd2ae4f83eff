"""NumPy and DLPack, both ways, without copying."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


def test_numpy_shares_memory():
    x = tj.tensor([1.0, 2.0])
    a = x.numpy()
    a[0] = 7
    assert x.tolist() == [7, 2]
    a.resize((2, 1), refcheck=False)  # in place: the shape belongs to this array alone
    assert tuple(x.shape) == (2,)


def test_numpy_of_a_tensor_that_requires_grad():
    x = tj.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        x.numpy()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1]
    assert x.detach().numpy().tolist() == [1]


@pytest.mark.parametrize("mode", [tj.no_grad, tj.inference_mode])
def test_numpy_where_gradients_are_off(mode):
    x = tj.tensor([1.0], requires_grad=True)
    with mode():
        x.numpy()[0] = 3
        assert np.asarray(x).tolist() == [3]
    assert x.tolist() == [3]


def test_from_numpy_shares_memory():
    a = np.zeros((2, 3))[:, ::2]
    x = tj.from_numpy(a)
    x.add_(1)
    assert a.tolist() == [[1, 1], [1, 1]]
    assert x.stride() == (3, 2)


def test_from_numpy_refuses():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        tj.from_numpy([1.0])
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type object"):
        tj.from_numpy(np.array([None]))
    with pytest.raises(TypeError, match="byte order"):
        tj.from_numpy(np.zeros(2, ">f4"))


def test_read_only_array():
    a = np.zeros(2)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = tj.from_numpy(a)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert (x + 1).tolist() == [1, 1]


def test_array_protocol():
    x = tj.tensor([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array([tj.tensor(1.0), tj.tensor(2.0)], dtype=np.float32).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)


def test_operators_with_arrays_give_tensors():
    x = tj.tensor([1.0, 2.0], requires_grad=True)
    a = np.array([3.0, 4.0], np.float32)
    for result in (x * a, a * x):
        assert isinstance(result, tj.Tensor)
        assert result.tolist() == [3, 8]
    (a * x).sum().backward()
    assert x.grad.tolist() == [3, 4]
    assert (a - x).tolist() == [2, 2]
    assert (np.float64(2) * x).dtype is tj.float32
    assert (x.detach() * np.array(2.5)).tolist() == (
        np.array(2.5) * x
    ).tolist()  # an array without dimensions
    assert (a > x).dtype is tj.bool


def test_functions_of_numpy_that_are_no_ufuncs():
    x = tj.tensor([-1.26, 5.0])
    for found, expected in (
        (np.clip(x, 0, 2), [0.0, 2.0]),
        (np.round(x), [-1.0, 5.0]),
        (np.around(x, 1), [-1.3, 5.0]),
        (np.linalg.inv(tj.eye(2) * 2), [[0.5, 0.0], [0.0, 0.5]]),
    ):
        assert type(found) is tj.Tensor
        assert found.dtype is tj.float32
        assert tj.allclose(found, tj.tensor(expected))


def test_ufuncs():
    x = tj.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(x), tj.Tensor)
    assert np.sqrt(x).tolist() == [1, 2]
    out = np.zeros(2, np.float32)
    assert np.exp2(x, out=out) is out
    assert out.tolist() == [2, 16]
    assert np.add.reduce(x).item() == 5
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.sqrt(tj.tensor([1.0], requires_grad=True))


def test_dlpack_both_ways():
    x = tj.tensor([[1.0, 2.0], [3.0, 4.0]])
    a = np.from_dlpack(x)
    assert np.shares_memory(a, x.numpy())
    b = np.arange(3.0)
    y = tj.from_dlpack(b)
    b[0] = 9
    assert y.tolist() == [9, 1, 2]
    assert tj.from_dlpack(x).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_refuses():
    with pytest.raises(BufferError, match="require gradient"):
        tj.tensor([1.0], requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="bfloat16"):
        tj.tensor([1.0], dtype=tj.bfloat16).__dlpack__()
    with pytest.raises(TypeError, match="__dlpack__"):
        tj.from_dlpack([1.0])


def test_buffers_are_looked_at() -> None:
    memory = bytearray(np.arange(5, dtype=np.int32).tobytes())
    x = tj.frombuffer(memory, dtype=tj.int32, count=3, offset=4)
    assert x.tolist() == [1, 2, 3]
    memory[4] = 9
    x[2] = 7
    assert x.tolist() == [9, 2, 7]
    assert memory[12] == 7
    learned = tj.frombuffer(bytearray(8), dtype=tj.float32, requires_grad=True)
    assert learned.is_leaf
    assert learned.requires_grad


def test_buffers_that_are_read_only_warn() -> None:
    with pytest.warns(UserWarning, match="not writable"):
        x = tj.frombuffer(b"\x01\x02", dtype=tj.uint8)
    assert x.tolist() == [1, 2]
