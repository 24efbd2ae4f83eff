"""Tensors on a device: where they lie, how they move, what mixes, and that every op computes there as on the host."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import stand_in

import tracejit as tj
from tracejit import dtypes
from tracejit.cuda.arrays import is_on_device
from tracejit.errors import DeviceError, DtypeError
from tracejit.ops.table import Elementwise, Op, all_ops
from tracejit.testing import samples

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional


def test_a_tensor_knows_where_it_lies() -> None:
    x = tj.tensor([1.0, 2.0], device="cuda")
    assert x.device == tj.device("cuda:0") == tj.device(0)
    assert (x.is_cuda, x.get_device()) == (True, 0)
    assert tj.zeros(2, device="cuda:1").device == tj.device("cuda", 1)
    assert not tj.zeros(2).is_cuda
    assert repr(x) == "tensor([1., 2.], device='cuda:0')"


def test_moving_there_and_back() -> None:
    x = tj.arange(6.0).reshape(2, 3)
    y = x.cuda()
    assert y is y.cuda() is y.to("cuda")
    assert x is x.cpu()
    assert y.to("cuda:1").device == tj.device("cuda:1")
    assert y.cpu().tolist() == x.tolist() == y.tolist()
    z = x.to(y)
    assert (z.device, z.dtype) == (y.device, y.dtype)
    assert x.to("cuda", tj.float64).dtype is tj.float64
    assert x.T.cuda().tolist() == x.T.tolist()
    y[0, 0] = 7.0
    assert (x[0, 0].item(), y[0, 0].item()) == (0.0, 7.0)
    assert x.to(1).get_device() == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda d: tj.zeros(2, 3, device=d),
        lambda d: tj.full((2,), 1.5, device=d),
        lambda d: tj.arange(4, device=d),
        lambda d: tj.linspace(0, 1, 5, device=d),
        lambda d: tj.eye(3, device=d),
        lambda d: tj.rand(4, device=d),
        lambda d: tj.randn(4, device=d),
        lambda d: tj.randint(0, 9, (5,), device=d),
        lambda d: tj.randperm(6, device=d),
        lambda d: tj.tensor([[1, 2], [3, 4]], device=d),
        lambda d: tj.as_tensor(np.arange(3.0), device=d),
        lambda d: tj.empty(2, device=d).fill_(1.0),
        lambda d: tj.logspace(0, 2, 3, device=d),
        lambda d: tj.nn.Linear(3, 2, device=d).weight.detach(),
        lambda d: tj.nn.BatchNorm1d(3, device=d).running_var,
    ],
)
def test_factories_make_the_same_on_a_device(make: Any) -> None:
    found = {}
    for device in ("cpu", "cuda"):
        tj.manual_seed(3)
        found[device] = make(device)
        assert found[device].device.type == device
    assert found["cpu"].tolist() == found["cuda"].tolist()


def test_likes_and_news_lie_where_the_other_does() -> None:
    x = tj.ones(2, device="cuda")
    made = [tj.zeros_like(x), tj.rand_like(x), x.new_zeros(3), x.new_full((2,), 1), x.clone()]
    made += [tj.randint_like(x, 4), x.detach(), x[0], x.reshape(1, 2)]
    assert {t.device for t in made} == {x.device}
    assert tj.zeros_like(x, device="cpu").device.type == "cpu"


def test_tensors_of_two_devices_do_not_mix() -> None:
    x, y = tj.ones(2, device="cuda"), tj.ones(2)
    for other in (y, tj.zeros(2), tj.ones(2, device="cuda:1"), tj.tensor([1.0, 2.0])):
        with pytest.raises(DeviceError, match="Expected all tensors to be on the same device"):
            x + other
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        x @ tj.ones(2, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"cpu and cuda:0"):
        tj.cat([x, y])


def test_numbers_go_where_they_are_needed() -> None:
    x = tj.ones(2, device="cuda")
    for number in (2, 2.5, tj.tensor(2.5), np.float32(2.5)):
        assert (x * number).device == x.device
        assert (number * x).device == x.device if not isinstance(number, np.generic) else True
    index = tj.tensor([1, 0], device="cuda")
    assert x.gather(0, index).device == x.device
    assert F.cross_entropy(tj.randn(3, 4, device="cuda"), tj.tensor([0, 1, 2]).cuda()).is_cuda
    assert F.dropout(x, 0.5).is_cuda
    assert x.triu().is_cuda if x.ndim > 1 else True
    assert tj.ones(3, 3, device="cuda").tril().is_cuda


@pytest.mark.parametrize("index", [[2, 0], [True, False, True]], ids=["positions", "mask"])
def test_indices_of_the_host_select_on_a_device(index: list[int]) -> None:
    x, here = tj.arange(6.0).reshape(3, 2), tj.tensor(index)
    there = x.cuda()
    assert there[here].tolist() == x[here].tolist()
    assert there[here, 1].tolist() == x[here, 1].tolist()
    for value in (5, tj.tensor([[7.0, 8.0]])):
        there[here] = value.cuda() if isinstance(value, tj.Tensor) else value
        x[here] = value
        assert there.tolist() == x.tolist()
    with pytest.raises(DeviceError):
        x[here.cuda()]


@pytest.mark.parametrize("dtype", [tj.bool, tj.int8, tj.int64, tj.complex64, tj.bfloat16])
def test_sums_at_positions_of_every_dtype(dtype: Any) -> None:
    x, y = (tj.randint(0, 2, shape).to(dtype) for shape in ((5, 2), (3, 2)))
    index = tj.tensor([4, 0, 4])
    found = x.cuda().index_put((index.cuda(),), y.cuda(), accumulate=True)
    assert found.cpu().equal(x.index_put((index,), y, accumulate=True))


def test_numpy_needs_the_host() -> None:
    x = tj.ones(2, device="cuda")
    with pytest.raises(
        TypeError, match=r"can't convert cuda:0 device type tensor to numpy[\s\S]*cpu\(\)"
    ):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    assert (x.sum().item(), float(x[0]), bool(x[0]), int(x[1])) == (2.0, 1.0, True, 1)


def test_other_libraries_read_the_same_memory(gpu: Any) -> None:
    x = tj.arange(4.0, device="cuda")
    assert gpu.asarray(x).data.ptr == x.data_ptr()
    y = tj.from_dlpack(gpu.from_dlpack(x))
    assert (y.data_ptr(), y.device) == (x.data_ptr(), x.device)
    assert tj.as_tensor(x.array).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (2, 0)
    assert gpu.from_dlpack(x).data.ptr == x.data_ptr()
    z = tj.as_tensor(gpu.arange(3.0))
    assert (z.is_cuda, z.tolist()) == (True, [0.0, 1.0, 2.0])
    assert not hasattr(tj.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = x.requires_grad_().__cuda_array_interface__


def test_views_and_writes_share_storage() -> None:
    x = tj.zeros(3, 4, device="cuda")
    x[1] = 2.0
    x[:, 0].add_(1.0)
    x.T[3].copy_(tj.tensor([7.0, 8.0, 9.0]))
    assert x.tolist() == [[1, 0, 0, 7], [3, 2, 2, 8], [1, 0, 0, 9]]
    assert x[1].untyped_storage() == x.untyped_storage()
    assert x[1].storage_offset() == 4
    with pytest.raises(RuntimeError, match="single memory location"):
        tj.zeros(1, device="cuda").expand(3).add_(1.0)
    host = tj.zeros(4)
    host.copy_(x[1])
    assert host.tolist() == [3, 2, 2, 8]


def test_gradients_arrive_where_the_leaf_lies() -> None:
    host = tj.tensor([1.0, 2.0], requires_grad=True)
    there = tj.tensor([3.0, 4.0], device="cuda", requires_grad=True)
    (host.cuda() * there).sum().backward()
    assert (host.grad.device.type, there.grad.device.type) == ("cpu", "cuda")
    assert (host.grad.tolist(), there.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    scale = tj.tensor(2.0, requires_grad=True)
    (there.detach() * scale).sum().backward()
    assert (scale.grad.device.type, scale.grad.item()) == ("cpu", 7.0)


def test_copies_and_pickles_stay_on_the_device(tmp_path: Any) -> None:
    x = tj.nn.Parameter(tj.arange(3.0, device="cuda"))
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x.detach())):
        assert (other.device, other.tolist()) == (x.device, x.tolist())
    tj.save({"x": x.detach()}, tmp_path / "x")
    assert tj.load(tmp_path / "x")["x"].device.type == "cpu"
    assert tj.load(tmp_path / "x", map_location="cuda:1")["x"].device == tj.device("cuda:1")


def test_streams_events_and_memory() -> None:
    kept = tj.zeros(1, device="cuda")
    before = tj.cuda.memory_allocated()
    x = tj.zeros(1000, device="cuda")
    assert tj.cuda.memory_allocated() - before == 4000
    assert tj.cuda.max_memory_allocated() >= before + 4000
    del x
    assert (tj.cuda.memory_allocated(), kept.item()) == (before, 0.0)
    tj.cuda.reset_peak_memory_stats()
    tj.cuda.empty_cache()
    stream, start, end = tj.cuda.Stream(), tj.cuda.Event(True), tj.cuda.Event(True)
    with tj.cuda.stream(stream):
        assert tj.cuda.current_stream() == stream
        start.record()
        stream.wait_stream(tj.cuda.default_stream())
    end.record()
    tj.cuda.synchronize()
    assert start.elapsed_time(end) == 0.5
    assert stand_in.LOG == ["item", "record", "record", "wait", "record", "synchronize"]
    assert tj.cuda.get_device_capability() == (9, 0)
    assert tj.cuda.get_device_name(1) == "stand-in 1"
    with tj.cuda.device(1):
        assert tj.zeros(1, device="cuda").get_device() == tj.cuda.current_device() == 1
    assert tj.cuda.current_device() == 0


def test_devices_that_are_not_there() -> None:
    for make in (lambda: tj.zeros(1, device="cuda:2"), lambda: tj.ones(1).cuda(5)):
        with pytest.raises(DeviceError, match=r"no device 'cuda:\d': 2 found"):
            make()
    with pytest.raises(ValueError, match="Expected a cuda device"):
        tj.cuda.synchronize("cpu")


def trained(device: str, optimizer: Any) -> list[Any]:
    tj.manual_seed(0)
    model = tj.nn.Sequential(
        tj.nn.Linear(6, 8),
        tj.nn.BatchNorm1d(8),
        tj.nn.ReLU(),
        tj.nn.Dropout(0.2),
        tj.nn.Linear(8, 3),
    ).to(device)
    x, y = tj.randn(10, 6).to(device), tj.randint(0, 3, (10,)).to(device)
    steps = optimizer(model.parameters())
    losses = []
    for _ in range(4):
        steps.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        tj.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        losses.append(loss.item())
    assert all(p.device.type == device for p in model.parameters())
    assert all(p.grad.device.type == device for p in model.parameters())
    return [losses, [p.tolist() for p in model.parameters()]]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_training_on_a_device_is_training_on_the_host(name: str, fused: bool) -> None:
    kind = getattr(tj.optim, name)
    options = {"fused": True} if fused and name in ("SGD", "Adam", "AdamW", "Adagrad") else {}

    def optimizer(parameters: Any) -> Any:
        return kind(parameters, lr=0.05, **options)

    host, there = trained("cpu", optimizer), trained("cuda", optimizer)
    np.testing.assert_allclose(host[0], there[0], rtol=1e-5)
    for a, b in zip(host[1], there[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


# --- every op -------------------------------------------------------------------------------------------------------

_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.bool_)


def _bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8).tolist()


def _takes(op: Op, dtype: dtypes.DType) -> bool:
    """Is this an elementwise op on numbers of this kind?"""
    if not isinstance(op, Elementwise):
        return False
    infos = tuple((dtypes.bool_ if n == "condition" else dtype, 2) for n in op.operands)
    try:
        op.types(infos, samples.concrete(op, next(iter(samples.cases(op))), dtype, "").attributes)
    except DtypeError:
        return False
    return True


@pytest.mark.sampled(4)
@pytest.mark.parametrize("op", list(all_ops()), ids=lambda op: op.name)
def test_ops_compute_on_a_device_as_on_the_host(op: Op, gpu: Any) -> None:
    if op.name == "to_device":
        pytest.skip("is what this test uses")
    tj.zeros(1, device="cuda")
    for dtype in _DTYPES:
        if not dtype.is_floating_point and not _takes(op, dtype):
            continue
        for case in samples.cases(op, dtype):
            arrays = [gpu.asarray(x) if isinstance(x, np.ndarray) else x for x in case.operands]
            expected = op.evaluate(case.operands, case.attributes)
            found = op.evaluate(arrays, case.attributes)
            if any(map(is_on_device, arrays)) and "random" not in op.name:
                assert is_on_device(found), case.label
            found = found.get() if is_on_device(found) else found
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            kind = np.complex128 if found.dtype.kind == "c" else np.float64
            same = found.astype(kind), np.asarray(expected).astype(kind)
            if op.kind == "contraction" and dtype.is_floating_point:  # another order of sums
                np.testing.assert_allclose(*same, rtol=1e-5 if dtype is dtypes.float32 else 1e-2)
            else:
                assert _bits(found) == _bits(expected), case.label


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", list(all_ops()), ids=lambda op: op.name)
def test_ops_refuse_on_a_device_what_they_refuse_on_the_host(op: Op) -> None:
    for case in samples.invalid(op):
        moved = [tj.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for x in case.operands]
        assert case.error is not None
        with pytest.raises(case.error, match=case.match):
            op(*moved, **case.attributes)
