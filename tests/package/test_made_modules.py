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
