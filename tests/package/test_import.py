"""What importing the package loads, and what comes when it is asked for."""

from __future__ import annotations

import pytest

from process_tools import printed

COMPILER = (
    "codegen.kernel",
    "passes",
    "trace.recording.recorder",
    "trace.tree.tree",
    "runtime.plan.plan",
    "jit",
)


@pytest.mark.parametrize(
    "use",
    [
        "tj.ones(3).exp().sum()",
        "x = tj.ones(3, requires_grad=True); (x * x).sum().backward()",
        "x = tj.ones(800, 800); x + x, x.sum(0), x.softmax(1)",  # which several threads compute
        "tj.nn.Linear(2, 2)(tj.ones(1, 2)), tj.optim.AdamW([tj.ones(2, requires_grad=True)]).step()",
    ],
)
def test_eager_programs_do_without_the_compiler(use: str) -> None:
    script = f"""
import sys
import tracejit as tj
{use}
print([name for name in {COMPILER!r} if f"tracejit.{{name}}" in sys.modules])
"""
    assert printed(script, TRACEJIT_LOAD_EARLY="0").strip() == "[]"


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "asked",
    [
        "tj.compile(lambda x: x + 1)",
        "from tracejit import compile",
        "from tracejit import *; compile(lambda x: x + 1)",
        "tj.CompiledFunction",
        "from tracejit.jit import compile",
        "tj.jit.script(lambda x: x)",
    ],
)
def test_the_compiler_comes_when_it_is_asked_for(asked: str) -> None:
    script = f"""
import sys
import tracejit as tj
assert "compile" in dir(tj)
{asked}
print("tracejit.trace.tree.tree" in sys.modules)
"""
    assert printed(script).strip() == "True"


def test_dir_shows_what_programs_use() -> None:
    import tracejit as tj

    shown = dir(tj)
    assert {"Tensor", "compile", "errors", "fx", "nn", "relu", "__version__"} <= {*shown}
    assert not {"absent", "dispatch", "frames", "steps", "tensor_core", "_ops"} & {*shown}
    assert all(hasattr(tj, name) for name in shown)


def test_names_that_pytorch_keeps_beside_its_script_compiler() -> None:
    script = """
import tracejit as tj
from tracejit.jit.annotations import BroadcastingList2
from tracejit._jit_internal import Final
print(tj.jit.annotations.BroadcastingList1 is BroadcastingList2 is list)
print(issubclass(tj.nn.Linear, tj.jit.ScriptModule), tj.jit._overload(len) is len)
"""
    assert printed(script).split() == ["True", "True", "True"]


def test_modules_that_are_there_without_being_imported() -> None:
    script = """
import tracejit as tj
print(tj.utils._pytree.tree_leaves([1, [2]]), tj.utils.weak.WeakIdRef is not None)
"""
    assert printed(script).strip() == "[1, 2] True"
