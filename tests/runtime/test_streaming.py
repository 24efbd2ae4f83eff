"""Large results written past the caches: the same elements, wherever they lie; which programs do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from kernel_tools import compiled, kernel
from tracejit.codegen.lower.lower import lower_kernel
from tracejit.profiling.pieces import pieces_of
from tracejit.runtime import streaming
from tracejit.runtime.machine_code import kernels
from tracejit.runtime.machine_code.kernels import COUNTS

BODY = "for i in range(lo, hi):\n    out[i] = x[i] * x[i] + float32(0.5)\nreturn 0"
ROWS = """
for i in range(lo, hi):
    for j in range(n):
        out[i * n + j] = x[i * n + j] * y[j]
return 0
"""


def text_of(source: str) -> str:
    lowered = lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512)
    assert lowered.widened
    return lowered.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("offset", [0, 1, 3, 16])
@pytest.mark.parametrize("count", [0, 1, 15, 64, 255, 4096, 5000])
def test_elements_are_the_same_wherever_they_lie(count: int, offset: int) -> None:
    random = np.random.default_rng(count)
    x = random.standard_normal(count + 32).astype(np.float32)
    found, expected = np.full((2, count + 64), -7.0, np.float32)
    for kind, out in (("streamed ", found), ("", expected)):
        run = compiled(kernel(f'x: "f32*", out: "{kind}f32*"', BODY))
        assert run(x, out[offset:], 0, count, 0) == 0
    np.testing.assert_array_equal(found, expected)
    assert (found[offset + count :] == -7.0).all()


@pytest.mark.parametrize("length", [1, 31, 64, 100, 192])
def test_rows_are_the_same_whatever_their_length(length: int) -> None:
    random = np.random.default_rng(length)
    x, y = random.random(50 * length, np.float32), random.random(length, np.float32)
    found, expected = np.zeros((2, 50 * length), np.float32)
    for kind, out in (("streamed ", found), ("", expected)):
        parameters = f'x: "f32*", y: "f32*", out: "{kind}f32*", n: "i64"'
        compiled(kernel(parameters, ROWS))(x, y, out, np.int64(length), 0, 50, 0)
    np.testing.assert_array_equal(found, expected)
    assert found.any()


def test_only_what_is_asked_for_goes_past_the_caches() -> None:
    streamed = text_of(kernel('x: "f32*", out: "streamed f32*"', BODY))
    assert streamed.count("!nontemporal") == 2  # the vectors that go together
    assert streamed.count("fence seq_cst") == 1
    plain = text_of(kernel('x: "f32*", out: "f32*"', BODY))
    assert "!nontemporal" not in plain
    assert "fence" not in plain


def test_what_a_loop_reads_again_stays_in_the_caches() -> None:
    body = "for i in range(lo, hi):\n    x[i] = x[i] + float32(1.0)\nreturn 0"
    assert "!nontemporal" not in text_of(kernel('x: "streamed f32*"', body))


@pytest.mark.parametrize("spelled", ["flowing f32*", "streamed f32", "padded  f32*"])
def test_kinds_of_memory_are_checked(spelled: str) -> None:
    source = kernel(f'x: "{spelled}"', "return 0")
    with pytest.raises(RuntimeError, match="unknown type"):
        lower_kernel(source, "k", noalias=True, vector_bits=512, lacking=(), widen=512)


# --- Programs ---------------------------------------------------------------------------------------------


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many functions that stream were called for; from 4 KiB on results are streamed."""
    before = set(kernels._originals)
    monkeypatch.setattr(streaming, "STREAMED_BYTES", 1 << 12)
    return lambda: len(set(kernels._originals) - before)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y: x * y + x,
    "two results": lambda x, y: (x + y, (x - y).abs().sqrt()),
    "comparison": lambda x, y: x > y,
    "doubles": lambda x, y: x.double() * y,
    "halves": lambda x, y: (x * y).bfloat16(),
    "integers": lambda x, y: (x * 100).to(tj.int32) + 1,
    "rows": lambda x, y: x * y[0] + y[:, :1],
    "columns": lambda x, y: x.t() + y.t(),
    "pieces": lambda x, y: tj.cat([x, y * 2.0], 1).relu(),
    "gathered": lambda x, y: x.flip(1) * y,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(64, 64), (37, 101), (3, 4096)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_the_same(name: str, shape: tuple[int, int], called: Any) -> None:
    run = PROGRAMS[name]
    tj.manual_seed(0)
    x, y = tj.randn(*shape), tj.randn(*shape)
    x[0, :3] = tj.tensor([float("nan"), float("inf"), -0.0])
    expected = run(x, y)
    function = tj.compile(lambda x, y: run(x, y))
    for _ in range(3):
        found = function(x, y)
    for one, other in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert tj.equal(one.isnan(), other.isnan())
        kept = ~one.isnan()
        assert tj.equal(one[kept], other[kept])


def test_sizes_decide_which_form_is_called(called: Any) -> None:
    function = tj.compile(lambda x, y: x * 3.25 + y)
    small, large = tj.randn(100), tj.randn(5000)
    for _ in range(3):
        function(small, small)
    assert called() == 0
    compiled_before = COUNTS.compiled + COUNTS.loaded
    for _ in range(3):
        found = function(large, large)
    assert called() == 1
    assert COUNTS.compiled + COUNTS.loaded == compiled_before + 1
    for size in (6000, 7000, 50):
        more = tj.randn(size)
        for _ in range(2):
            assert tj.equal(function(more, more), more * 3.25 + more)
    assert called() == 1
    assert tj.equal(found, large * 3.25 + large)


def test_reductions_and_results_in_place_of_operands_are_not_streamed(called: Any) -> None:
    def step(x: Any, y: Any) -> Any:
        x.mul_(0.75).add_(y)
        return x.sum()

    x, y = tj.ones(5000), tj.ones(5000)
    function = tj.compile(step)
    for _ in range(3):
        function(x, y)
    assert called() == 0
    assert x[0].item() == ((0.75 + 1) * 0.75 + 1) * 0.75 + 1


def test_profiles_know_the_kernel_by_its_name(called: Any) -> None:
    function = tj.compile(lambda x: x * 2.125 - 1.0)
    x = tj.randn(5000)
    for _ in range(3):
        function(x)
    assert called() == 1
    programs = [p for entry in function._all() for p in entry.programs()]
    names = [piece.name for each in programs for piece in pieces_of(each)]
    assert "k_mul_sub" in names


def test_gradients_of_large_tensors(called: Any) -> None:
    x = tj.randn(5000, requires_grad=True)
    function = tj.compile(lambda x: (x.tanh() * x).sum())
    for _ in range(3):
        x.grad = None
        function(x).backward()
    compiled_gradient, x.grad = x.grad, None
    (x.tanh() * x).sum().backward()
    assert called() > 0
    tj.testing.assert_close(compiled_gradient, x.grad)
