"""What programs import from PyTorch's compiled core, and what it answers here."""

from __future__ import annotations

import pytest

import tracejit as tj


def test_questions_to_the_core():
    core = tj._C
    assert (core._is_tracing(), core._get_tracing_state()) == (False, None)
    assert core._log_api_usage_once("x") is None
    assert not core._jit_set_profiling_mode(True)
    assert isinstance(tj.ones(1), core._TensorBase)
    parse, cpu = core._nn._parse_to, tj.device("cpu")
    assert parse("cpu") == (cpu, None, False, None)
    assert parse(tj.ones(1).double(), True) == (cpu, tj.float64, True, None)
    assert parse(tj.float16, memory_format=tj.channels_last)[1::2] == (tj.float16, tj.channels_last)
    assert parse(dtype=tj.float32, non_blocking=True) == (None, tj.float32, True, None)


@pytest.mark.parametrize("name", tj._C._SCRIPTED)
def test_classes_that_editors_import_from_the_core(name):
    torch = pytest.importorskip("torch", reason="the oracle of this test is PyTorch")
    ours, theirs = (getattr(lib._C, name) for lib in (tj, torch))
    assert (ours.__name__, isinstance(ours, type)) == (theirs.__name__, isinstance(theirs, type))
    assert not isinstance(None, ours)
    with pytest.raises(TypeError):
        ours()
    if name not in ("Graph", "FunctionSchema"):
        with pytest.raises(TypeError):
            theirs()
