"""Making tensors from Python data: inference of dtype and shape, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, "int64", ()),
        (True, "bool", ()),
        (1.5, "float32", ()),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        ([1, 2], "int64", (2,)),
        ([1, 2.0], "float32", (2,)),
        ([True, 2], "int64", (2,)),
        ([True, 2.5], "float32", (2,)),
        (((1, 2), (3, 4), (5, 6)), "int64", (3, 2)),
        (range(4), "int64", (4,)),
        (np.float64(1.5), "float64", ()),
        ([np.float64(1.5)], "float64", (1,)),
        (np.arange(3, dtype=np.int16), "int16", (3,)),
        ([np.arange(2), np.arange(2)], "int64", (2, 2)),
    ],
)
def test_inferred(data, dtype, shape):
    x = tj.tensor(data)
    assert x.dtype is getattr(tj, dtype)
    assert tuple(x.shape) == shape


def test_values_survive():
    assert tj.tensor([2**62, -1]).tolist() == [2**62, -1]
    assert tj.tensor([2**53 + 1]).item() == 2**53 + 1
    assert tj.tensor([0.1], dtype=tj.float64).item() == 0.1
    assert tj.tensor([[1, 0], [2, -3]], dtype=tj.bool).tolist() == [[True, False], [True, True]]
    assert tj.tensor([1.9, -1.9], dtype=tj.int32).tolist() == [1, -1]
    assert np.signbit(tj.tensor([-0.0]).numpy())[0]
    assert tj.tensor([1.0, 2.5], dtype=tj.bfloat16).tolist() == [1.0, 2.5]


def test_tensors_inside_sequences():
    x = tj.tensor([tj.tensor(1.0), 2])
    assert x.tolist() == [1, 2]
    assert tj.tensor([[tj.tensor(1), tj.tensor(2)]]).tolist() == [[1, 2]]


def test_default_dtype():
    tj.set_default_dtype(tj.float64)
    try:
        assert tj.tensor([1.5]).dtype is tj.float64
    finally:
        tj.set_default_dtype(tj.float32)


def test_data_is_copied():
    a = np.zeros(2, np.float32)
    x = tj.tensor(a)
    a[0] = 5
    assert x.tolist() == [0, 0]


def test_tensor_of_a_tensor_warns():
    x = tj.tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        y = tj.tensor(x)
    assert not y.requires_grad
    assert y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        ([[1, 2], [3]], ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ([[1], 2], TypeError, "expected a sequence at dim 1, got int"),
        ([1, [2]], TypeError, "only numbers can be at depth 1"),
        ("text", TypeError, "invalid data type 'str'"),
        (["a"], TypeError, "invalid data type 'str'"),
        ([1, "2"], TypeError, "invalid data type 'str'"),
        (None, RuntimeError, "Could not infer dtype of NoneType"),
        (np.array([object()]), TypeError, "can't convert np.ndarray of type"),
        (2**70, RuntimeError, "Overflow"),
    ],
)
def test_refused(data, error, match):
    with pytest.raises(error, match=match):
        tj.tensor(data)


def test_overflow_of_small_integers():
    with pytest.raises(RuntimeError, match="without overflow"):
        tj.tensor([300], dtype=tj.int8)


def test_devices():
    assert tj.tensor([1.0], device="cpu").device == tj.device("cpu")
    assert tj.device("cuda:1").index == 1
    assert str(tj.device("cuda", 0)) == "cuda:0"
    assert repr(tj.device("cuda:1")) == "device(type='cuda', index=1)"
    assert {tj.device("cpu"): 1}[tj.device("cpu")] == 1
    with pytest.raises(RuntimeError, match="device type at start of device string: gpu"):
        tj.device("gpu")
    with pytest.raises(RuntimeError, match="Invalid device string"):
        tj.tensor([1.0], device="cpu:x")


@pytest.mark.skipif(tj.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_is_missing():
    with pytest.raises(tj.errors.DeviceError, match=r"no GPU can be used: .*driver"):
        tj.tensor([1.0], device="cuda")
    with pytest.raises(tj.errors.DeviceError, match="no GPU can be used"):
        tj.tensor([1.0]).cuda()


def test_as_tensor_shares():
    x = tj.tensor([1.0])
    assert tj.as_tensor(x) is x
    a = np.zeros(2)
    shared = tj.as_tensor(a)
    a[1] = 4
    assert shared.tolist() == [0, 4]
    assert tj.as_tensor(a, dtype=tj.float32).dtype is tj.float32
    y = tj.tensor([1.0], requires_grad=True) * 2
    assert tj.as_tensor(y, dtype=tj.float64).requires_grad


def test_asarray():
    a = np.zeros(2)
    assert tj.asarray(a).data_ptr() == a.__array_interface__["data"][0]
    assert tj.asarray(a, copy=True).data_ptr() != a.__array_interface__["data"][0]
    with pytest.raises(ValueError, match="copy"):
        tj.asarray([1.0], copy=False)


def test_devices_that_can_only_be_named():
    other = tj.device("xla")
    assert other != tj.device("cpu")
    assert str(tj.device("mps:0")) == "mps:0"
    with pytest.raises(RuntimeError, match="no tensors on device 'xla'"):
        tj.zeros(2, device=other)
    with pytest.raises(RuntimeError, match="Expected one of"):
        tj.device("nowhere")


@pytest.mark.parametrize("data", ["2", ["2"], [1, "2"], b"2"])
def test_text_is_no_number_for_the_class_either(data):
    for kind in (tj.Tensor, tj.FloatTensor, tj.LongTensor):
        with pytest.raises(TypeError, match="invalid data type"):
            kind(data)
