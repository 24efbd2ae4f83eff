"""Where factories make new tensors: as `with device(...)` and `set_default_device` say, eager and compiled."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn

pytestmark = pytest.mark.usefixtures("gpu")
MADE = {
    "empty": lambda **o: tj.empty(2, **o),
    "empty_permuted": lambda **o: tj.empty_permuted((2, 3), (1, 0), **o),
    "empty_strided": lambda **o: tj.empty_strided((2, 3), (1, 2), **o),
    "zeros": lambda **o: tj.zeros(2, **o),
    "ones": lambda **o: tj.ones(2, **o),
    "full": lambda **o: tj.full((2,), 3.0, **o),
    "arange": lambda **o: tj.arange(3, **o),
    "linspace": lambda **o: tj.linspace(0, 1, 3, **o),
    "logspace": lambda **o: tj.logspace(0, 1, 3, **o),
    "eye": lambda **o: tj.eye(3, **o),
    "tril_indices": lambda **o: tj.tril_indices(3, 3, **o),
    "triu_indices": lambda **o: tj.triu_indices(3, 3, **o),
    "rand": lambda **o: tj.rand(2, **o),
    "randn": lambda **o: tj.randn(2, **o),
    "randint": lambda **o: tj.randint(3, (2,), **o),
    "randperm": lambda **o: tj.randperm(4, **o),
    "tensor": lambda **o: tj.tensor([1.0, 2.0], **o),
    "scalar_tensor": lambda **o: tj.scalar_tensor(2.0, **o),
    "asarray": lambda **o: tj.asarray([1.0], **o),
    "as_tensor of an array": lambda **o: tj.as_tensor(np.ones(2), **o),
    "as_tensor of a tensor": lambda **o: tj.as_tensor(tj.ones(2, device="cpu"), **o),
    "hann_window": lambda **o: tj.hann_window(4, **o),
    "kaiser_window": lambda **o: tj.kaiser_window(4, **o),
    "windows.cosine": lambda **o: tj.signal.windows.cosine(4, **o),
    "fftfreq": lambda **o: tj.fft.fftfreq(4, **o),
    "rfftfreq": lambda **o: tj.fft.rfftfreq(4, **o),
    "sparse": lambda **o: tj.sparse_coo_tensor([[0, 1], [1, 0]], [3.0, 4.0], (2, 2), **o),
}
FROM_OTHERS = {
    "from_numpy": lambda x: tj.from_numpy(np.ones(2)),
    "frombuffer": lambda x: tj.frombuffer(bytearray(8), dtype=tj.float32),
    "zeros_like": tj.zeros_like,
    "randn_like": tj.randn_like,
    "new_ones": lambda x: x.new_ones(2),
    "new_empty_strided": lambda x: x.new_empty_strided((2,), (1,)),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "Tensor": lambda x: tj.Tensor([1.0]),
    "normal": lambda x: tj.normal(0.0, 1.0, (2,)),
    "normal that requires grad": lambda x: tj.normal(0.0, 1.0, (2,), requires_grad=True),
    "softmax": lambda x: x.softmax(0),
    "one_hot": lambda x: nn.functional.one_hot(x.long(), 3),
    "dropout": lambda x: nn.functional.dropout(x, 0.5),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(
        *[x[None, :, None]] * 3, is_causal=True
    ),
    "Parameter": nn.Parameter,
    "load": lambda x: loaded(x),
    "Normal": lambda x: tj.distributions.Normal(x, x).sample(),
}
MODULES = {
    "Linear": lambda: nn.Linear(2, 3),
    "Conv2d": lambda: nn.Conv2d(2, 3, 3),
    "BatchNorm1d": lambda: nn.BatchNorm1d(3),
    "LSTM": lambda: nn.LSTM(2, 3, 2),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 8),
    "Embedding": lambda: nn.Embedding(3, 4),
    "PReLU": nn.PReLU,
    "weighted loss": lambda: nn.CrossEntropyLoss(weight=tj.ones(3)),
    "of a user": lambda: Own(),
}


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(tj.randn(3))
        self.empty = nn.Parameter()
        self.register_buffer("places", tj.arange(3).cumsum(0))


def loaded(x: Any) -> Any:
    file = io.BytesIO()
    tj.save(x, file)
    file.seek(0)
    return tj.load(file)


@contextmanager
def for_good(where: str) -> Iterator[None]:
    tj.set_default_device(where)
    try:
        yield
    finally:
        tj.set_default_device(None)


@pytest.fixture(params=["with", "set_default_device"])
def default(request: Any) -> Any:
    return tj.device if request.param == "with" else for_good


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["cuda:0", "cuda:1", "meta"])
@pytest.mark.parametrize("name", MADE)
def test_factories(name: str, where: str, default: Any) -> None:
    expected = MADE[name]()
    with default(where):
        assert tj.get_default_device() == tj.device(where)
        inside, explicit = MADE[name](), MADE[name](device="cpu")
    assert inside.device == tj.device(where)
    assert inside.spec == expected.spec
    for host in (expected, explicit, MADE[name]()):
        assert host.device.type == "cpu"
    if where != "meta" and "rand" not in name:
        assert inside.tolist() == expected.tolist() == explicit.tolist()


@pytest.mark.parametrize("where", ["cuda", "meta"])
@pytest.mark.parametrize("name", FROM_OTHERS)
def test_what_is_made_from_others_lies_beside_them(name: str, where: str, default: Any) -> None:
    x = tj.ones(2)
    with default(where):
        assert FROM_OTHERS[name](x).device.type == "cpu"


@pytest.mark.parametrize("where", ["cuda:1", "meta"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, where: str, default: Any) -> None:
    with default(where):
        module = MODULES[name]()
    assert {x.device for x in module.state_dict().values()} == {tj.device(where)}


def test_a_step_on_the_device_alone() -> None:
    with tj.device("cuda"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        optimizer = tj.optim.Adam(model.parameters())
        for function in (model, tj.compile(model)):
            for _ in range(2):
                loss = nn.functional.mse_loss(function(tj.randn(5, 3)), tj.ones(5, 1))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    assert loss.device == tj.device("cuda:0")


def test_the_innermost_device_counts() -> None:
    tj.set_default_device("cuda:1")
    try:
        with tj.device("meta"):
            with tj.device("cpu"):
                assert tj.ones(1).device.type == "cpu"
                tj.set_default_device("cuda:0")
                assert tj.ones(1).device.type == "cpu"
            assert tj.ones(1).is_meta
        assert tj.ones(1).device == tj.device("cuda:0")
    finally:
        tj.set_default_device("cpu")
    assert tj.ones(1).device.type == "cpu"


def test_without_a_number_the_current_device_counts() -> None:
    made = tj.compile(lambda: tj.ones(2) * 3)
    with tj.device("cuda"):
        for index in (0, 1, 0, 1):
            with tj.cuda.device(index):
                assert tj.get_default_device() == tj.device(index)
                assert tj.ones(2).device == made().device == tj.device(index)
    assert made().device.type == "cpu"


def test_each_thread_has_its_own() -> None:
    found: list[Any] = []
    with tj.device("cuda"):
        thread = threading.Thread(target=lambda: found.append(tj.ones(1).device.type))
        thread.start()
        thread.join()
    assert found == ["cpu"]


def test_a_device_decorates_functions() -> None:
    @tj.device("cuda")
    def made(count: int) -> Any:
        """Ones."""
        return tj.ones(count)

    assert made(2).is_cuda
    assert made.__doc__ == "Ones."
    assert not tj.ones(2).is_cuda


def test_a_device_that_is_not_there() -> None:
    for enter in (tj.set_default_device, lambda where: tj.device(where).__enter__()):
        with pytest.raises(RuntimeError):
            enter("cuda:7")
        with pytest.raises(RuntimeError):
            enter("xla")
    assert tj.get_default_device() == tj.device("cpu")


def test_compiled_calls_follow_the_setting() -> None:
    function = tj.compile(lambda n: (tj.arange(3) * n, tj.ones(2) + tj.randn(2)))
    for _ in range(3):
        for where in ("cuda:1", "cpu", "cuda:0"):
            tj.manual_seed(4)
            with tj.device(where):
                ours = function(2)
            assert {x.device for x in ours} == {tj.device(where)}
            tj.manual_seed(4)
            with tj.device(where):
                expected = tj.arange(3) * 2, tj.ones(2) + tj.randn(2)
            assert [x.tolist() for x in ours] == [x.tolist() for x in expected]
    assert function.stats.compiled_calls >= 6


def test_compiled_functions_choose_a_device_inside() -> None:
    @tj.compile
    def function(x: Any) -> Any:
        with tj.device("cuda"):
            return x * tj.arange(3) + tj.ones(3)

    x = tj.ones(3, device="cuda")
    for _ in range(3):
        assert function(x).tolist() == [1, 2, 3]
    assert function.stats.compiled_calls == 2


def test_functions_that_set_a_device_for_good_run_eagerly() -> None:
    @tj.compile
    def function() -> Any:
        tj.set_default_device("cuda")
        return tj.ones(3)

    try:
        for _ in range(3):
            assert function().is_cuda
            assert tj.get_default_device() == tj.device("cuda:0")
            tj.set_default_device(None)
    finally:
        tj.set_default_device(None)
    assert "default dtype or device" in str(function.explain())
