"""Tensors without memory: shapes, dtypes and strides as with numbers, modules built without any, and refusals."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn import functional as F
from tracejit.ops.table import all_ops
from tracejit.testing import samples
from tracejit.testing.samples import Case

CASES = [
    case for case in samples.every_case() if any(isinstance(x, np.ndarray) for x in case.operands)
]


def hangs_on_values(case: Case) -> bool:
    return bool(case.op.dynamic or case.op.tells_values)


def meta(*shape: int, **options: Any) -> Any:
    return tj.empty(*shape, device="meta", **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", all_ops(), ids=lambda op: op.name)
def test_every_op_tells_what_it_would_give(op: Any) -> None:
    if op.name == "to_device":
        return  # moves between devices have tests of their own
    for case in (c for c in CASES if c.op is op and not hangs_on_values(c)):
        real = [tj.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in case.operands]
        lacking = [x.to("meta") if isinstance(x, tj.Tensor) else x for x in real]
        expected, found = op(*real, **case.attributes), op(*lacking, **case.attributes)
        assert found.is_meta, case
        assert found.spec == expected.spec, case
        shares = op.is_view and expected._base is not None
        assert (found._base is lacking[0]) is shares or not found.numel(), case
        if shares and found.numel():
            assert found.stride() == expected.stride(), case


@pytest.mark.parametrize("case", [c for c in CASES if hangs_on_values(c)], ids=repr)
def test_shapes_that_hang_on_values_are_refused(case: Case) -> None:
    lacking = [
        tj.from_numpy(x).to("meta") if isinstance(x, np.ndarray) else x for x in case.operands
    ]
    with pytest.raises(NotImplementedError, match="hangs on values"):
        case.op(*lacking, **case.attributes)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x: (x + 1) * x.mean() - x.std(0),
    "softmax": lambda x: x.softmax(-1),
    "cross entropy": lambda x: F.cross_entropy(x, tj.zeros(4, dtype=tj.int64, device=x.device)),
    "layer norm": lambda x: F.layer_norm(x, (6,)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "convolution": lambda x: F.conv1d(x[None], tj.ones(2, 4, 3, device=x.device)),
    "sorting": lambda x: x.sort(1).indices,
    "top values": lambda x: x.topk(2, dim=1).values,
    "factors": lambda x: tj.linalg.svd(x).S,
    "spectrum": lambda x: tj.fft.rfft(x),
    "einsum": lambda x: tj.einsum("ij,kj->ik", x, x),
    "slices": lambda x: x[1:3, ::2].t(),
    "dropout": lambda x: F.dropout(x, 0.5),
    "resizing": lambda x: F.interpolate(x[None], scale_factor=2, mode="linear"),
    "distances": lambda x: tj.cdist(x, x),
    "windows": lambda x: F.max_pool1d(x[None], 2),
    "joined": lambda x: tj.cat([x, x * 2], dim=1),
    "a lookup": lambda x: x[tj.zeros(3, dtype=tj.int64, device=x.device)],
    "halves": lambda x: x.half() @ x.half().t(),
    "comparison": lambda x: tj.where(x > 0, x, 0.0),
    "batches": lambda x: tj.vmap(lambda row: row.softmax(0).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_made_of_ops(name: str) -> None:
    expected, found = FUNCTIONS[name](tj.rand(4, 6)), FUNCTIONS[name](meta(4, 6))
    assert (found.is_meta, str(found.device)) == (True, "meta")
    assert (found.shape, found.dtype, found.stride()) == (
        expected.shape,
        expected.dtype,
        expected.stride(),
    )


def test_memory_is_not_needed() -> None:
    x = meta(1 << 20, 1 << 22)
    for big in (
        x,
        x + 1,
        x.t(),
        tj.ones(1 << 20, 1 << 22, device="meta"),
        tj.rand_like(x),
        x.half().float(),
    ):
        assert big.numel() == 1 << 42
    assert x.sum().shape == ()


FACTORIES: dict[str, Callable[..., Any]] = {
    "empty": lambda **o: tj.empty(2, 3, **o),
    "zeros": lambda **o: tj.zeros(2, 3, **o),
    "ones": lambda **o: tj.ones(2, 3, **o),
    "full": lambda **o: tj.full((2, 3), 4.0, **o),
    "rand": lambda **o: tj.rand(2, 3, **o),
    "randn": lambda **o: tj.randn(2, 3, **o),
    "randint": lambda **o: tj.randint(0, 9, (2, 3), **o),
    "arange": lambda **o: tj.arange(6, **o),
    "linspace": lambda **o: tj.linspace(0, 1, 6, **o),
    "eye": lambda **o: tj.eye(3, **o),
    "tensor": lambda **o: tj.tensor([1.0, 2.0], **o),
    "zeros_like": lambda **o: tj.zeros_like(tj.ones(2), **o),
}


@pytest.mark.parametrize("name", [n for n in FACTORIES if n != "zeros_like"])
def test_factories_make_them(name: str) -> None:
    make = FACTORIES[name]
    expected = make()
    explicit = make(device="meta")
    with tj.device("meta") as where:
        assert tj.get_default_device() == where
        inside = make()
    after = make()
    for found in (explicit, inside):
        assert found.is_meta
        assert found.spec == expected.spec
    assert not after.is_meta
    tj.set_default_device("meta")
    try:
        assert make().is_meta
    finally:
        tj.set_default_device(None)
    assert not make().is_meta


def test_the_host_may_be_asked_for_inside() -> None:
    with tj.device("meta"):
        assert tj.ones(2, device="cpu").tolist() == [1, 1]
        with tj.device("cpu"):
            assert tj.ones(2).tolist() == [1, 1]
        assert tj.ones(2).is_meta
        real = tj.ones(3, device="cpu")
        assert not real.softmax(
            0
        ).is_meta  # what functions make for themselves lies beside their operands


def test_random_numbers_are_not_drawn() -> None:
    tj.manual_seed(3)
    expected = tj.rand(2).tolist()
    tj.manual_seed(3)
    tj.rand(4, device="meta")
    nn.Linear(3, 4, device="meta")
    meta(4).normal_()
    F.dropout(meta(5), 0.5)
    assert tj.rand(2).tolist() == expected


def test_writes_are_counted_and_do_nothing() -> None:
    x = meta(3)
    x.add_(1)
    x.zero_()
    x.uniform_()
    x[0] = 2.0
    x.copy_(tj.ones(3))
    assert x._version == 5
    assert x.is_meta
    with pytest.raises(NotImplementedError, match="no data"):
        tj.ones(3).copy_(x)


def test_gradients() -> None:
    x = meta(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    assert (x.grad.is_meta, x.grad.shape) == (True, (3,))


REFUSED: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "item": (RuntimeError, lambda x: x.item()),
    "bool": (RuntimeError, bool),
    "float": (RuntimeError, float),
    "tolist": (NotImplementedError, lambda x: x.tolist()),
    "numpy": (TypeError, lambda x: x.numpy()),
    "an array": (TypeError, np.asarray),
    "cpu": (NotImplementedError, lambda x: x.cpu()),
    "to": (NotImplementedError, lambda x: x.to("cpu")),
    "save": (NotImplementedError, lambda x: tj.save(x, io.BytesIO())),
    "pickle": (NotImplementedError, pickle.dumps),
    "allclose": (RuntimeError, lambda x: tj.allclose(x, x)),
    "bytes": (NotImplementedError, lambda x: x.untyped_storage().tolist()),
    "a ufunc": (NotImplementedError, lambda x: np.add(x.array, 1)),
    "a function of NumPy": (NotImplementedError, lambda x: np.stack([x.array, x.array])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_numbers_are_refused(what: str) -> None:
    error, ask = REFUSED[what]
    with pytest.raises(error):
        ask(meta())


def test_they_say_what_they_are() -> None:
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    text = repr(meta(2, dtype=tj.float64, requires_grad=True))
    assert "dtype=tracejit.float64" in text
    assert "requires_grad=True" in text
    assert (meta(2).data_ptr(), meta(2).get_device()) == (0, -1)


def network() -> Any:
    return nn.Sequential(
        *(
            nn.Linear(6, 8),
            nn.ReLU(),
            nn.LayerNorm(8),
            nn.TransformerEncoderLayer(8, 2, batch_first=True),
        ),
        *(
            nn.LSTM(8, 4),
            nn.Conv1d(4, 4, 1),
            nn.BatchNorm1d(4),
            nn.Embedding(5, 3),
            nn.Bilinear(2, 3, 4),
        ),
    )


def test_modules_are_built_and_filled_later() -> None:
    with tj.device("meta"):
        model = network()
    assert all(x.is_meta for x in model.state_dict().values())
    real = network()
    with pytest.warns(UserWarning, match="no-op"):
        model.load_state_dict(real.state_dict())
    assert model[0].weight.is_meta
    assert model.load_state_dict(real.state_dict(), assign=True)
    for name, x in model.state_dict().items():
        assert not x.is_meta
        assert tj.equal(x, real.state_dict()[name])
    assert isinstance(model[0].weight, nn.Parameter)
    assert model[0].weight.requires_grad


def test_modules_move_there_and_get_memory() -> None:
    layer = nn.Linear(3, 2)
    weight = layer.weight
    assert layer.to("meta").weight is weight
    assert weight.is_meta
    assert layer(meta(5, 3)).shape == (5, 2)
    with pytest.raises(NotImplementedError, match="to_empty"):
        layer.to("cpu")
    copied = copy.deepcopy(layer)
    assert (copied.weight.is_meta, copied.weight.requires_grad) == (True, True)
    assert layer.to_empty(device="cpu") is layer
    assert (weight.is_meta, weight.shape, weight.requires_grad) == (False, (2, 3), True)
    weight.data.fill_(1.0)
    assert layer.weight.sum().item() == 6


def test_only_the_module_itself() -> None:
    model = nn.Sequential(nn.Linear(2, 2, device="meta"))
    model.to_empty(device="cpu", recurse=False)
    assert model[0].weight.is_meta


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "RMSprop"])
def test_optimizers_step_over_them(kind: str) -> None:
    layer = nn.Linear(3, 2, device="meta")
    optimizer = getattr(tj.optim, kind)(layer.parameters(), lr=0.1)
    for _ in range(3):
        layer(meta(4, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert layer.weight.is_meta
    assert all(x.is_meta for x in optimizer.state[layer.weight].values() if x.ndim)


def test_compiled_functions_tell_shapes_eagerly() -> None:
    function = tj.compile(lambda x: x * 2 + 1)
    for _ in range(3):
        assert function(tj.ones(3)).tolist() == [3, 3, 3]
        assert function(meta(3)).is_meta
    assert function.stats.compiled_calls == 2
    layer = nn.Linear(3, 3, device="meta")
    captured = tj.compile(lambda x: layer(x))
    for _ in range(3):
        assert captured(tj.ones(2, 3)).is_meta
    assert captured.stats.compiled_calls == 0


def test_custom_operators_tell_what_they_would_give() -> None:
    @tj.library.custom_op("tests_meta::halved", mutates_args=())
    def halved(x: tj.Tensor) -> tj.Tensor:
        return tj.from_numpy(x.numpy() / 2)

    halved.register_fake(lambda x: tj.empty_like(x))
    assert halved(tj.ones(2)).tolist() == [0.5, 0.5]
    assert halved(meta(2)).is_meta


def test_memory_that_is_not_there_is_refused_beside_tensors_without_memory() -> None:
    """Where there are such tensors, operations take another way, and raise the same errors."""
    beside = tj.empty(3, device="meta")
    for compiled in (False, True):

        def zeros(x: tj.Tensor) -> tj.Tensor:
            return tj.zeros(2**50) * x

        with pytest.raises(RuntimeError, match="allocate"):
            (tj.compile(zeros) if compiled else zeros)(tj.ones(1))
    assert beside.is_meta
