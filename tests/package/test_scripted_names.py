"""Names of the compiled core that PyTorch has at the top, too."""

from __future__ import annotations

import pytest

import tracejit as tj


@pytest.mark.parametrize("name", ["TensorType", "IntType", "Graph", "Value", "DispatchKey"])
def test_classes_of_scripted_programs_are_at_the_top_too(name: str) -> None:
    assert getattr(tj, name) is getattr(tj._C, name)
    assert not hasattr(tj, f"No{name}")
