"""Modules made of names of others, and what is refused under the names PyTorch has for it."""

from __future__ import annotations

import importlib.util

import pytest

import tracejit as tj


@pytest.mark.parametrize("path", ["nn.modules.loss", "optim.adamw"])
def test_modules_made_of_others_are_found_by_what_looks_for_modules(path: str) -> None:
    found = importlib.util.find_spec(f"tracejit.{path}")
    assert found is not None
    assert found.name == f"tracejit.{path}"


def test_graphs_captured_by_hand_are_refused() -> None:
    for make in (tj.cuda.CUDAGraph, tj.cuda.graph, tj.cuda.make_graphed_callables):
        with pytest.raises(tj.errors.DeviceError, match="use compile"):
            make()


def test_names_of_pytorchs_own_surroundings() -> None:
    assert tj.torch is tj  # as in code that writes torch.torch.Tensor
    assert tj._subclasses.fake_tensor.is_fake(tj.ones(2)) is False


def test_models_with_places_for_quantization_compute_as_without() -> None:
    from tracejit.ao.quantization import DeQuantStub, QuantStub, convert

    x = tj.randn(2, 3)
    layer = tj.nn.Linear(3, 2)
    model = tj.nn.Sequential(QuantStub(), layer, DeQuantStub("mine"))
    assert tj.equal(model(x), layer(x))
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    assert model[2].qconfig == "mine"
    sums = tj.nn.quantized.FloatFunctional()
    assert tj.equal(sums.add_relu(x, -2 * x), (-x).relu())
    assert tj.equal(sums.cat([x, x], 1), tj.cat([x, x], 1))
    with pytest.raises(NotImplementedError, match="bfloat16"):
        tj.quantization.observer.MinMaxObserver()
    with pytest.raises(NotImplementedError, match="bfloat16"):
        convert(model)


def test_a_mode_that_takes_functions_over_is_asked() -> None:
    answer = {"__torch_function__": lambda self, func, types, args=(), kwargs=None: "answered"}
    mode = type("Answers", (tj.overrides.TorchFunctionMode,), answer)()
    with mode:
        assert tj.relu(tj.nn.Parameter) == "answered"
    with pytest.raises(NotImplementedError), tj.overrides.TorchFunctionMode():
        tj.zeros(1)


def test_libraries_tell_how_their_operators_would_be_exported() -> None:
    @tj.onnx.symbolic_helper.parse_args("v", "i")
    def symbolic(g: object, axis: int) -> int:
        return axis

    tj.onnx.register_custom_op_symbolic("shop::nms", symbolic, 11)
    assert symbolic(None, 2) == 2


def test_streams_and_marks_have_the_packages_names_too() -> None:
    assert (tj.Stream, tj.Event) == (tj.cuda.Stream, tj.cuda.Event)
