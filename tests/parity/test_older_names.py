"""What older programs say: constructors by kind, shapes changed in place, schedules that begin again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import close

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

VALUES = """
t.Tensor([1, 2]) ; t.FloatTensor([[1, 2], [3, 4]]) ; t.LongTensor([3, 4]) ; t.BoolTensor([True, False]) ; t.DoubleTensor([0.5]) ; t.IntTensor([1])
t.Tensor(2, 3).fill_(1) ; t.ByteTensor(2).zero_() ; t.Tensor() ; t.FloatTensor(t.Size([2, 1])).fill_(3) ; t.arange(3).new([5, 6]) ; t.ones(2).new(2, 2).zero_()
t.ones(2).new_tensor([1, 2]) ; t.ones(2).new_tensor(3, dtype=t.int64) ; t.autograd.Variable(t.ones(2)) ; t.ones(2, 3).t_() ; t.ones(1, 2, 1).squeeze_() ; t.ones(2, 1, 3).squeeze_(1)
t.arange(6.0).reshape(2, 3).transpose_(0, 1) ; t.ones(2).unsqueeze_(0) ; t.arange(4).resize_(2) ; t.arange(4).resize_(2, 2) ; t.zeros(2).resize_as_(t.ones(1))
t.arange(3.0).apply_(lambda x: x * 2) ; t.arange(3.0).map_(t.ones(3), lambda a, b: a - b) ; t.arange(6).as_strided((2, 2), (3, 1)) ; t.arange(9.0).as_strided((3,), (4,), 0)
t.arange(6).split(split_size=4)[1] ; t.arange(5).tensor_split(sections=2)[0] ; t.tensor([[1, 2]]).repeat(repeats=(2, 1)) ; t.zeros(3).set_(t.arange(2.0))
t.div(t.tensor([5.0, -5.0]), 2, rounding_mode="floor") ; t.ones(2, 3, 4).mH ; t.tensor([1.0]).is_nonzero() ; t.ones(2).is_cpu ; t.ones(2).is_same_size(t.zeros(2)) ; t.ones(1).is_sparse
t.arange(6).as_strided_((2, 2), (3, 1)) ; t.arange(9.0).as_strided_((3,), (4,), 0).add_(1) ; isinstance(2, t.SymInt) ; isinstance(t.ones(2).shape[0], (t.SymInt, t.SymBool, t.SymFloat))
isinstance(t.ones(1), t.FloatTensor) ; isinstance(t.ones(1), t.LongTensor) ; isinstance(t.ones(1), t.autograd.Variable) ; isinstance(1, t.FloatTensor) ; t.FloatTensor(np.ones((2, 3))) ; t.LongTensor(np.arange(3)) ; t.FloatTensor(np.int64(2)).zero_() ; t.ones(2).layout == t.strided
isinstance(t.ones(1), t.cuda.FloatTensor) ; isinstance(t.arange(2), (t.LongTensor, t.cuda.LongTensor)) ; isinstance(t.ones(1), (t.cuda.ByteTensor, t.cuda.HalfTensor)) ; t.cuda.IntTensor.is_cuda ; t.ShortTensor.is_cuda
t.arange(3).broadcast_to(2, 3) ; t.arange(3).broadcast_to((2, 3)) ; t.arange(3).broadcast_to(size=(2, 3)) ; t.arange(2).broadcast_to(3, -1) ; "bias=1" in repr(t.nn.LSTMCell(2, 3, bias=1))
"""  # noqa: E501


@pytest.mark.parametrize(
    "code", [c.strip() for c in VALUES.replace("\n", ";").split(";") if c.strip()]
)
def test_values(code: str) -> None:
    ours, theirs = (eval(code, {"t": t, "np": np}) for t in (tj, torch))
    if isinstance(theirs, bool):
        assert ours is theirs
        return
    close(ours, theirs)
    if theirs.is_contiguous():
        assert ours.is_contiguous()


@pytest.mark.skipif(tj.cuda.is_available(), reason="about a GPU that is not there")
def test_kinds_of_tensors_say_where_they_are() -> None:
    """Without a GPU nothing is made of the kinds of GPUs, which names alone gave a tensor on the host for."""
    for code in ('t.ones(1).type("torch.cuda.LongTensor")', "t.ones(1).type(t.cuda.LongTensor)"):
        for t in (tj, torch):
            with pytest.raises(RuntimeError):
                eval(code, {"t": t})
    kind = tj.cuda.FloatTensor
    for ask, given in ((kind, 2), (tj.set_default_tensor_type, kind)):
        with pytest.raises(RuntimeError, match="no GPU"):
            ask(given)
    assert tj.zeros(1).type() == "tracejit.FloatTensor"


ERRORS = """
t.FloatTensor(t.arange(2)) ; t.Tensor("a") ; t.ones(2, requires_grad=True).unsqueeze_(0) ; t.ones(2, requires_grad=True).resize_(1) ; t.ones(2, requires_grad=True).apply_(abs)
t.arange(4).as_strided((3,), (2,)) ; t.ones(2).set_(t.arange(2)) ; t.ones(2, 2, 2).t_()
"""  # noqa: E501


@pytest.mark.parametrize(
    "code", [c.strip() for c in ERRORS.replace("\n", ";").split(";") if c.strip()]
)
def test_errors(code: str) -> None:
    if "as_strided" in code:  # PyTorch grows the memory of what it may resize
        with pytest.raises(RuntimeError, match="out of bounds"):
            eval(code, {"t": tj})
        return
    with pytest.raises(Exception) as theirs:
        eval(code, {"t": torch})
    with pytest.raises(theirs.type):
        eval(code, {"t": tj})


def test_gradients_through_shapes_changed_in_place() -> None:
    found = []
    for t in (tj, torch):
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = (x * 2).transpose_(0, 1).unsqueeze_(0)
        y.mul_(3.0)
        (y * t.arange(6.0).reshape(1, 3, 2)).sum().backward()
        found.append(x.grad)
    close(*found)


SCHEDULES = [
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 3}),
    (
        "CyclicLR",
        {
            "base_lr": 0.1,
            "max_lr": 1.0,
            "step_size_up": 2,
            "step_size_down": 3,
            "mode": "triangular2",
        },
    ),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 1.0, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9},
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.1,
            "max_lr": 1.0,
            "step_size_up": 2,
            "scale_fn": lambda x: 1 / x,
            "cycle_momentum": False,
        },
    ),
]


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_schedules_that_begin_again(name: str, options: dict[str, Any], kind: str) -> None:
    sides = []
    for t in (tj, torch):
        extra = {"momentum": 0.5} if kind == "SGD" else {}
        opt = getattr(t.optim, kind)([t.zeros(1, requires_grad=True)], lr=0.7, **extra)
        schedule = getattr(t.optim.lr_scheduler, name)(opt, **options)
        found = []
        for _ in range(12):
            group = opt.param_groups[0]
            found.append((group["lr"], group.get("momentum", group.get("betas", (0,))[0])))
            opt.step()
            schedule.step()
        if name.startswith("Cosine"):
            for epoch in (0.5, 1.7, 4.2, 9.0):
                schedule.step(epoch)
                found.append((opt.param_groups[0]["lr"], 0.0))
        sides.append(found)
    np.testing.assert_allclose(sides[0], sides[1], 1e-12)


@pytest.mark.parametrize("t", [tj, torch])
def test_schedules_refuse_what_pytorch_refuses(t: Any) -> None:
    opt = t.optim.SGD([t.zeros(1, requires_grad=True)], lr=0.1)
    kinds = t.optim.lr_scheduler
    for call in (
        lambda: kinds.CosineAnnealingWarmRestarts(opt, 0),
        lambda: kinds.CosineAnnealingWarmRestarts(opt, 2, T_mult=0),
        lambda: kinds.CosineAnnealingWarmRestarts(opt, 2).step(-1),
        lambda: kinds.CyclicLR(opt, 0.1, 1.0, mode="round"),
    ):
        with pytest.raises(ValueError):
            call()


def test_switches_of_libraries_are_kept() -> None:
    before = tj.backends.cudnn.benchmark
    tj.backends.cudnn.benchmark = True
    assert tj.backends.cudnn.benchmark
    tj.backends.cudnn.benchmark = before
    assert not tj.backends.mps.is_available()
    tj.backends.cuda.matmul.allow_tf32 = True
    assert tj.get_float32_matmul_precision() == "high"
    tj.backends.cuda.matmul.allow_tf32 = False
    assert tj.get_float32_matmul_precision() == "highest"
    tj.cuda.manual_seed_all(1)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_limits_of_floats_read_as_pytorch_s(name: str) -> None:
    ours, theirs = (t.finfo(getattr(t, name)) for t in (tj, torch))
    assert repr(ours) == repr(theirs)
    facts = ("min", "max", "eps", "tiny", "smallest_normal", "resolution", "bits", "dtype")
    assert [getattr(ours, fact) for fact in facts] == [getattr(theirs, fact) for fact in facts]


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_limits_of_integers_read_as_pytorch_s(name: str) -> None:
    ours, theirs = (t.iinfo(getattr(t, name)) for t in (tj, torch))
    assert repr(ours) == repr(theirs)
    assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)
