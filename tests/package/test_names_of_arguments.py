"""Arguments by the names and in the places that PyTorch gives them, and names that programs look for."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F


def test_files_are_called_f() -> None:
    file = io.BytesIO()
    tj.save({"a": 1}, f=file, pickle_module=None, pickle_protocol=4)
    file.seek(0)
    assert tj.load(f=file, map_location="cpu", weights_only=None, mmap=None) == {"a": 1}
    file.seek(0)
    assert tj.load(file, None, None) == {"a": 1}
    tj.serialization.clear_safe_globals()
    assert tj.serialization.get_safe_globals() == []


def test_dtypes_turn_into_others() -> None:
    assert tj.complex128.to_real() is tj.float64
    assert tj.float32.to_real() is tj.float32
    assert tj.float32.to_complex() is tj.complex64
    assert tj.promote_types(type1=tj.uint8, type2=tj.int8) is tj.int16


@pytest.mark.parametrize("layer", [F.softmax, F.log_softmax, F.softmin])
def test_the_depth_of_a_warning_comes_before_the_dtype(layer: Callable[..., Any]) -> None:
    x = tj.tensor([0.0, 1.0])
    wanted = layer(x, 0, dtype=tj.float64)
    for found in (layer(x, 0, 3, tj.float64), layer(x, 0, 3, dtype=tj.float64)):
        assert found.dtype is tj.float64
        assert tj.equal(found, wanted)
    assert layer(x, 0, 3).dtype is tj.float32


def test_what_follows_keepdim_in_a_norm() -> None:
    x = tj.tensor([3.0, 4.0])
    assert tj.norm(x, 2, 0, False, None, tj.float64).dtype is tj.float64
    assert x.norm(2, 0, True, tj.float64).tolist() == [5.0]
    out = tj.zeros(())
    assert tj.norm(x, 2, 0, False, out) is out
    assert out.item() == 5.0
    with pytest.raises(TypeError):
        tj.norm(x, 2, 0, False, None, tj.float64, 3)


def test_windows_that_begin_with_the_signal() -> None:
    x, window = tj.arange(20.0), tj.arange(1.0, 5.0)
    found = tj.stft(x, 8, 2, 4, window, center=False, return_complex=True, align_to_window=True)
    assert found.shape == (5, 9)
    # the first window is on the first four points: 0*1 + 1*2 + 2*3 + 3*4
    assert found[0, 0].item() == pytest.approx(20.0)
    with pytest.raises(RuntimeError, match="only be set when center = false"):
        tj.stft(x, 8, 2, 4, window, return_complex=True, align_to_window=False)


def test_gradients_by_their_earlier_name() -> None:
    x = tj.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        tj.autograd.backward(x * 2, grad_variables=tj.tensor([1.0, 2.0]))
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="both passed"):
        tj.autograd.backward(x * 2, tj.ones(2), grad_variables=tj.ones(2))


def test_memory_of_others_and_copies_of_it() -> None:
    held = np.arange(3.0)
    assert tj.from_dlpack(ext_tensor=held).data_ptr() == held.ctypes.data
    assert tj.from_dlpack(held, device="cpu", copy=False).data_ptr() == held.ctypes.data
    assert tj.from_dlpack(held, copy=True).data_ptr() != held.ctypes.data


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("state", lambda x: tj.set_rng_state(new_state=tj.get_rng_state())),
        ("expand", lambda x: x.expand(3, 2, 2, implicit=True)),
        ("names of a compiled function", lambda x: tj.compile(abs, name="f", recompile_limit=3)),
        ("batches", lambda x: tj.nn.SyncBatchNorm(2, bias=False)(x[None].mT)),
        ("parameters", lambda x: tj.nn.ParameterDict(parameters={"a": x})),
        ("more", lambda x: tj.nn.ParameterDict().update(parameters={"a": x})),
        ("axes", lambda x: x.swapaxes(axis0=0, axis1=1)),
        ("sections", lambda x: tj.hsplit(x, sections=2)),
        ("indices", lambda x: x.vsplit(indices=(1,))),
        ("matrix", lambda x: tj.linalg.det(A=x)),
        ("input", lambda x: tj.linalg.norm(input=x)),
        ("driver", lambda x: tj.linalg.svd(x, driver=None)),
        ("values", lambda x: tj.linalg.svdvals(x, driver=None)),
        ("squeeze", lambda x: x[None].clone().squeeze_(dim=0)),
        ("template", lambda x: tj.ones(4).resize_as_(the_template=x)),
        ("format", lambda x: x.cpu(memory_format=tj.preserve_format)),
        ("root mean square", lambda x: tj.nn.RMSNorm(2)(x=x)),
        ("half", lambda x: tj.distributions.HalfNormal(1.0).icdf(prob=x / 2)),
        ("key", lambda x: tj.nn.Sequential(tj.nn.ReLU()).pop(key=0)),
        (
            "random state",
            lambda x: tj.utils.checkpoint.set_device_states([], [], device_type="cpu"),
        ),
    ],
)
def test_arguments_that_have_these_names(name: str, call: Callable[[Any], Any]) -> None:
    x = tj.tensor([[1.0, 0.5], [0.25, 1.0]])
    call(x)
    assert x.tolist() == [[1.0, 0.5], [0.25, 1.0]]


def test_modules_that_occur_twice() -> None:
    layer = tj.nn.ReLU()
    model = tj.nn.Sequential(layer, layer)
    assert len(list(model.modules())) == 2
    assert len(list(model.modules(remove_duplicate=False))) == 3
    with pytest.raises(AttributeError, match="no attribute `missing`"):
        model.set_submodule("missing", layer, strict=True)
    model.set_submodule("1", tj.nn.Tanh(), strict=True)
    assert repr(model[1]) == "Tanh()"


def test_two_tensors_change_places() -> None:
    x = tj.ones(1, requires_grad=True)
    (x * 3).sum().backward()
    y = tj.nn.Parameter(tj.zeros(2))
    y.mark = "y"
    tj.utils.swap_tensors(x, y)
    assert type(x) is tj.nn.Parameter
    assert (x.tolist(), x.mark, x.grad) == ([0.0, 0.0], "y", None)
    assert (y.tolist(), y.grad.tolist(), hasattr(y, "mark")) == ([1.0], [3.0], False)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_backends_by_name() -> None:
    assert tj.compiler.get_default_backend() == "inductor"
    assert "inductor" in tj._dynamo.list_backends()
    with pytest.raises(RuntimeError, match="Invalid backend: 'nowhere'"):
        tj._dynamo.lookup_backend("nowhere")


def test_programs_are_not_written_to_files() -> None:
    model = tj.nn.ReLU()
    assert tj.jit.trace_module(model, {"forward": tj.ones(1)}) is model
    with pytest.raises(NotImplementedError, match=r"model\.state_dict\(\)"):
        tj.jit.save(model, "model.pt")
    with pytest.raises(NotImplementedError, match="load_state_dict"):
        tj.jit.load("model.pt")


def test_results_by_the_names_of_their_functions() -> None:
    x = tj.eye(2)
    assert isinstance(tj.linalg.slogdet(x), tj.return_types.linalg_slogdet)
    assert isinstance(tj.frexp(x), tj.return_types.frexp)
    assert isinstance(tj.linalg.qr(x), tj.return_types.qr)
