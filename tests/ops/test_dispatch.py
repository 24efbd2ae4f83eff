"""The door of every op call: operands it takes, views it recognises, errors it gives."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit.modes import MODES
from tracejit.ops.table import lookup


class Listener:
    """Stands where a recorder does and notes what it is told."""

    watched = None

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))

    def guard(self, tensor, value):
        self.calls.append(("guard", tensor, value))
        return value


@pytest.fixture
def listener():
    MODES.recorder = Listener()
    yield MODES.recorder
    MODES.recorder = None


def test_numpy_scalars_are_numbers():
    x = tj.tensor([1.0, 2.0])
    assert (x * np.float64(2)).dtype is tj.float32
    assert (x + np.int64(1)).tolist() == [2, 3]
    assert lookup("add")(x, np.bool_(True)).tolist() == [2, 3]


def test_other_operands_are_refused():
    x = tj.tensor([1.0])
    with pytest.raises(
        TypeError,
        match=r"(?s)add\(\): argument 'other' \(position 2\) must be Tensor, not str.*test_dispatch.py",
    ):
        lookup("add")(x, "1")
    with pytest.raises(TypeError):
        x + "1"


def test_results_of_view_ops_alias():
    x = tj.tensor([[1.0, 2.0], [3.0, 4.0]])
    permute, reshape = lookup("permute"), lookup("reshape")
    turned = permute(x, dims=(1, 0))
    x.mul_(2)
    assert turned.tolist() == [[2, 6], [4, 8]]
    flat = reshape(turned, shape=(4,))
    x.mul_(2)
    assert flat.tolist() == [2, 6, 4, 8]


def test_recorder_hears_of_everything(listener):
    x = tj.tensor([1.0, 2.0])
    listener.calls.clear()
    y = x * 2
    assert listener.calls[-1][0] == "record"
    assert listener.calls[-1][4] is y
    y.add_(1)
    assert [c[0] for c in listener.calls[-3:]] == ["record", "trial_writes", "assign"]
    listener.calls.clear()
    assert bool(y[0] > 0)
    assert listener.calls[-1][0] == "guard"
    assert listener.calls[-1][2] is True
    y.detach()
    assert listener.calls[-1][0] == "detach"
    y.numpy()
    assert listener.calls[-1][0] == "array_of"


def test_printing_is_not_recorded(listener):
    x = tj.tensor([1.0, 2.0])
    listener.calls.clear()
    assert repr(x) == "tensor([1., 2.])"
    assert [c[0] for c in listener.calls] == ["escape"]


def test_constants_are_written_down_while_recording(listener):
    x = tj.tensor([1.0, 2.0, 2.0])
    assert x.tolist() == [1, 2, 2]
    names = [c[1].name for c in listener.calls if c[0] == "record"]
    assert names == ["full", "full", "full", "cat", "reshape"]
    listener.calls.clear()
    x = tj.tensor(list(range(1000)))
    names = [c[1].name for c in listener.calls if c[0] == "record"]
    assert names == ["clone"]  # a copy of what is kept
    assert x.tolist() == list(range(1000))
    assert not any(c[0] == "unsupported" for c in listener.calls)


def test_modes_are_restored_after_an_error():
    x = tj.tensor([1.0], requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert tj.is_grad_enabled()
