"""Lazy layers against PyTorch: what they become, identity of parameters, training."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from parity_tools import close

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(2)
CASES = [
    ("LazyLinear(3, bias=False)", (4, 5)),
    ("LazyConv1d(4, 3, padding=1)", (2, 3, 6)),
    ("LazyConv2d(4, (3, 2), stride=2, groups=2)", (2, 4, 6, 6)),
    ("LazyConv3d(2, 2)", (3, 4, 4, 4)),
    ("LazyConvTranspose1d(4, 3)", (2, 3, 6)),
    ("LazyConvTranspose2d(4, 3, 2, 1)", (2, 3, 6, 6)),
    ("LazyBatchNorm1d()", (4, 3)),
    ("LazyBatchNorm2d(eps=1e-3, affine=False)", (2, 3, 4, 4)),
    ("LazyInstanceNorm2d(affine=True, track_running_stats=True)", (2, 3, 4, 4)),
    ("LazyInstanceNorm1d()", (2, 3, 4)),
    ("LazyInstanceNorm2d(1e-3, 0.2, False)", (2, 3, 4, 4)),
    ("LazyInstanceNorm3d(affine=False, track_running_stats=False)", (2, 3, 2, 2, 2)),
]


@pytest.mark.filterwarnings("ignore")  # of PyTorch, that lazy modules are new
@pytest.mark.parametrize(("code", "shape"), CASES)
def test_lazy_layers_become_what_pytorchs_do(code: str, shape: tuple[int, ...]) -> None:
    sides = [eval(f"nn.{code}", {"nn": t.nn}) for t in (tj, torch)]
    assert repr(sides[0]) == repr(sides[1])
    assert list(sides[0].state_dict()) == list(sides[1].state_dict())
    for name in ("in_features", "in_channels", "num_features", "kernel_size", "eps", "affine"):
        assert getattr(sides[0], name, None) == getattr(sides[1], name, None)
    known = [list(m.parameters()) for m in sides]
    assert len(known[0]) == len(known[1])
    optimizers = [
        t.optim.SGD(k, lr=0.1) if k else None for t, k in zip((tj, torch), known, strict=True)
    ]
    x = RNG.normal(size=shape).astype(np.float32)
    outputs = []
    for t, m in zip((tj, torch), sides, strict=True):
        m(t.tensor(x))
        m.reset_parameters()
    assert type(sides[0]).__name__ == type(sides[1]).__name__
    assert list(sides[0].state_dict()) == list(sides[1].state_dict())
    sides[0].load_state_dict({k: tj.tensor(v.numpy()) for k, v in sides[1].state_dict().items()})
    for t, m, o in zip((tj, torch), sides, optimizers, strict=True):
        y = m(t.tensor(x))
        if o is not None:
            y.pow(2).sum().backward()
            o.step()
        outputs.append(m(t.tensor(x)))
    close(outputs[0], outputs[1], 1e-4)
    assert all(a is b for a, b in zip(known[0], sides[0].parameters(), strict=True))


def test_lazy_layers_wait_inside_models() -> None:
    model = tj.nn.Sequential(tj.nn.LazyLinear(4), tj.nn.ReLU(), tj.nn.LazyLinear(2)).eval()
    assert isinstance(model[0], tj.nn.Linear)
    assert isinstance(model[0].weight, tj.nn.UninitializedParameter)
    assert model[0].has_uninitialized_params()
    assert "Uninitialized" in repr(model[0].weight)
    compiled = tj.compile(model)
    for _ in range(3):
        assert compiled(tj.ones(1, 3)).shape == (1, 2)
    assert type(model[2]) is tj.nn.Linear
    assert not model[2].training
    assert not isinstance(model[0].weight, tj.nn.UninitializedParameter)


def test_data_parallel_and_names_of_old() -> None:
    model = tj.nn.DataParallel(tj.nn.Linear(2, 1))
    x = tj.ones(3, 2)
    assert tj.equal(model(x), model.module(x))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    w = tj.zeros(3, 2)
    assert tj.nn.init.constant(w, 2.0) is w
    assert tj.nn.init._calculate_fan_in_and_fan_out(w) == (2, 3)
    assert tj.nn.utils.clip_grad_norm is tj.nn.utils.clip_grad_norm_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("code", "shape"), CASES)
def test_states_tell_sizes(code: str, shape: tuple[int, ...]) -> None:
    x = tj.tensor(RNG.normal(size=shape).astype(np.float32))
    full = eval(f"nn.{code}", {"nn": tj.nn})
    full(x)
    lazy = eval(f"nn.{code}", {"nn": tj.nn})
    known = list(lazy.parameters())
    waiting = bool(known) or any(b.ndim for b in lazy.buffers())
    assert lazy.has_uninitialized_params() is waiting
    empty = lazy.state_dict()
    assert all(tj.nn.parameter.is_lazy(v) for k, v in empty.items() if "batches" not in k)
    if waiting:
        with pytest.raises(RuntimeError, match="shape of an uninitialized"):
            full.load_state_dict(empty)
    other = copied(lazy)
    lazy.load_state_dict(empty)  # nothing to tell
    assert lazy.has_uninitialized_params() is waiting
    lazy.load_state_dict(full.state_dict())
    assert not lazy.has_uninitialized_params()
    assert all(a is b for a, b in zip(known, lazy.parameters(), strict=True))
    assert type(lazy) is not type(full)  # until it is called
    assert tj.equal(lazy.eval()(x), full.eval()(x))
    assert type(lazy) is type(full)
    assert repr(lazy) == repr(full)
    assert other.has_uninitialized_params() is waiting
    assert other(x).shape == full(x).shape


def copied(module: tj.nn.Module) -> tj.nn.Module:
    return pickle.loads(pickle.dumps(copy.deepcopy(module)))


class Shift(tj.nn.modules.lazy.LazyModuleMixin, tj.nn.Module):
    """A layer of one's own that becomes no other."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.by = tj.nn.UninitializedParameter(dtype=tj.float64)

    def initialize_parameters(self, x, *, start=0.0):
        self.calls += 1
        self.by.materialize(x.shape[-1:])
        tj.nn.init.constant_(self.by, start)

    def forward(self, x, *, start=0.0):
        return x + self.by


@pytest.mark.parametrize("compiled", [False, True])
def test_lazy_modules_of_programs(compiled: bool) -> None:
    shift, seen = Shift(), []
    shift.register_forward_pre_hook(lambda m, args: seen.append(m.has_uninitialized_params()))
    shift.register_forward_hook(lambda m, args, out: out * 2)
    optimizer = tj.optim.SGD(shift.parameters(), lr=1.0)
    f = tj.compile(shift) if compiled else shift
    for _ in range(3):
        assert f(tj.ones(2, 3, dtype=tj.float64), start=1.5).tolist() == [[5.0] * 3] * 2
    assert seen[0] is False
    assert (shift.calls, shift.by.dtype, type(shift)) == (1, tj.float64, Shift)
    f(tj.ones(2, 3, dtype=tj.float64)).sum().backward()
    optimizer.step()
    assert shift.by.tolist() == [-2.5] * 3

    class Idle(Shift):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="not been fully initialized"):
        Idle()(tj.ones(2))


def test_what_has_no_shape_says_so() -> None:
    layer = tj.nn.LazyLinear(2)
    for use in (
        lambda: layer.weight.shape,
        lambda: sum(p.numel() for p in layer.parameters()),
        lambda: tj.nn.utils.weight_norm(layer),
        lambda: tj.nn.utils.spectral_norm(layer),
    ):
        with pytest.raises((RuntimeError, ValueError), match=r"uninitialized"):
            use()
    half = tj.nn.LazyLinear(2).half()
    half.weight.materialize((2, 5))
    assert (half.weight.shape, half.weight.dtype) == ((2, 5), tj.float16)
    assert type(half.weight) is tj.nn.Parameter
