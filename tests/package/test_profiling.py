"""Profiles see every launch, count the work of every kernel, and leave nothing behind."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tracejit import nn
from tracejit.cli import main
from tracejit.profiling import floor
from tracejit.profiling.floor import Floor
from tracejit.profiling.operations import float_operations
from tracejit.runtime.program import alive


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Floor:
    """Limits that need not be measured."""
    found = Floor(1, (4e10, 3e10, 2e10, 1e10), 1e11, 5e10)
    monkeypatch.setattr("tracejit.profiling.profiles.machine", lambda threads: found)
    return found


def compiled(function: Any, *args: Any) -> Any:
    found = tj.compile(function, strict=True)
    for _ in range(2):
        found(*args)
    return found


def by_name(profile: Any) -> dict[str, Any]:
    return {k.name: k for k in profile.kernels}


def test_kernels_with_their_bytes_and_operations():
    x, y = tj.ones(100, 50), tj.ones(50)
    f = compiled(lambda x, y: (x * y + 1.0).exp(), x, y)
    with tj.profile() as p:
        f(x, y), f(x, y)
    (kernel,) = p.kernels
    assert (kernel.name, kernel.kind, kernel.runs) == ("k_mul_add_exp", "kernel", 2)
    assert kernel.bytes == 4 * (5000 + 50 + 5000)
    assert kernel.flops == (2 + float_operations(["exp_f32"])) * 5000
    assert 0 < kernel.least <= kernel.each <= kernel.total
    assert (p.launches, p.allocations) == (2, 2)
    assert p.allocated == 2 * 4 * 5000
    assert [(c.name, c.kind, c.calls) for c in p.calls] == [("<lambda>", "call", 2)]


def test_an_array_read_through_two_views_counts_once():
    x = tj.ones(1000)
    f = compiled(lambda x: x[1:] - x[:-1], x)
    with tj.profile() as p:
        f(x)
    assert p.kernels[0].bytes == 4 * (1000 + 999)


@pytest.mark.parametrize("size", [7, 12])
def test_products_of_any_size(size: int):
    """The second size is bound to the plan of the first."""
    f = compiled(lambda a, b: (a @ b).relu(), tj.ones(3, 4), tj.ones(4, 5))
    a, b = tj.ones(2, size), tj.ones(size, 9)
    for _ in range(2):
        f(a, b)
    with tj.profile() as p:
        f(a, b)
    product = by_name(p)["matmul"]
    assert product.kind == "product"
    assert product.flops == 2 * 2 * 9 * size
    assert product.bytes == 4 * (2 * size + size * 9 + 2 * 9)


def test_a_batch_of_products_and_double_precision():
    a, b = tj.ones(6, 3, 4, dtype=tj.float64), tj.ones(6, 4, 5, dtype=tj.float64)
    f = compiled(lambda a, b: a @ b, a, b)
    with tj.profile() as p:
        f(a, b)
    (product,) = p.kernels
    assert product.double
    assert product.flops == 2 * 6 * 3 * 4 * 5
    assert product.bytes == 8 * 6 * (12 + 20 + 15)


def test_loops_count_all_their_rounds():
    w, x = tj.ones(8, 8) * 0.1, tj.ones(4, 8)

    def function(h: Any) -> Any:
        for _ in range(30):
            h = (h @ w).tanh()
        return h

    f = compiled(function, x)
    with tj.profile() as p:
        f(x)
    (loop,) = [k for k in p.kernels if k.kind == "loop"]
    assert loop.name == "loop(matmul, k_tanh)"
    assert loop.flops == 30 * (2 * 4 * 8 * 8 + float_operations(["tanh_f32"]) * 4 * 8)
    assert p.launches >= 60


def test_library_calls_are_seen():
    x = tj.eye(40) * 2.0
    f = compiled(lambda x: tj.linalg.inv(x + 1.0), x)
    with tj.profile() as p:
        f(x)
    assert {k.kind for k in p.kernels} >= {"library call"}
    assert all(p.distance(k) is None for k in p.kernels if k.kind == "library call")


def test_training_steps_with_their_backward_passes():
    model = nn.Linear(8, 4)
    x = tj.ones(16, 8)
    f = tj.compile(lambda x: model(x).square().sum(), strict=True)
    for _ in range(2):
        f(x).backward()
    with tj.profile() as p:
        for _ in range(3):
            f(x).backward()
    assert {(c.kind, c.calls) for c in p.calls} == {("call", 3), ("backward", 3)}
    assert all(k.runs % 3 == 0 for k in p.kernels)


def test_results_are_those_of_other_calls_and_programs_made_inside_are_seen():
    x = tj.linspace(-1.0, 1.0, 64)
    f = tj.compile(lambda x: (x.sin() * x).sum(), strict=True)
    want = f(x)
    with tj.profile() as p:
        have = f(x)  # compiles in here
    assert have.item() == pytest.approx(want.item(), rel=1e-6)
    assert p.kernels


def test_nothing_is_left_behind():
    x = tj.ones(10)
    f = compiled(lambda x: x + 1, x)
    call = tj.CompiledFunction.__call__
    (program,) = [p for p in alive() if p in list(f._all()[0].programs())]
    before = dict(program.run.__globals__)
    with pytest.raises(ZeroDivisionError), tj.profile():
        f(x)
        raise ZeroDivisionError
    assert program.run.__globals__ == before
    assert program.run.__globals__["run_slots"] is program.table.run_slots
    assert tj.CompiledFunction.__call__ is call
    with tj.profile() as p:
        f(x)
    assert p.launches == 1


def test_profiles_do_not_nest():
    with (
        tj.profile(),
        pytest.raises(RuntimeError, match="already"),
        tj.profile(),
    ):
        pass


def test_threads_are_seen_and_told_apart(tmp_path: Path):
    x = tj.ones(10)
    f = compiled(lambda x: x + 1, x)
    with tj.profile() as p:
        f(x)
        thread = threading.Thread(target=f, args=(x,))
        thread.start()
        thread.join()
    assert p.kernels[0].runs == 2
    p.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    timed = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in timed} == {0, 1}
    assert {e["cat"] for e in timed} == {"call", "kernel"}
    kernel = next(e for e in timed if e["cat"] == "kernel")
    assert kernel["args"]["bytes"] == 80
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in timed)


def test_profile_of_a_function_and_its_report(tmp_path: Path, machine: Floor):
    f = tj.compile(lambda x: (x * 2).exp().sum())
    p = f.profile(tj.ones(1000))
    assert p.seconds is not None
    text = str(p)
    assert "k_mul_exp_sum" in text
    assert "a call without stopwatch" in text
    kernel = by_name(p)["k_mul_exp_sum"]
    operations = 1000.0 * (2 + float_operations(["exp_f32"]))
    assert p.distance(kernel) == pytest.approx(kernel.each / machine.seconds(4004.0, operations))
    p.roofline(tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").stat().st_size > 1000
    short = [replace(kernel, each=0.0) for kernel in p.kernels]
    replace(p, kernels=short).roofline(tmp_path / "short.png")
    assert (tmp_path / "short.png").stat().st_size > 1000
    assert str(replace(p, kernels=short))
    assert json.loads(json.dumps(p.to_dict()))["kernels"][0]["name"] == p.kernels[0].name


def test_profile_says_why_there_is_nothing():
    f = tj.compile(lambda x: x.numpy().sum())
    assert "ran no compiled kernel" in str(f.profile(tj.ones(3)))


def test_profile_of_methods_and_modules():
    class Scale(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 + 1

    class Plain:
        @tj.compile
        def double(self, x: Any) -> Any:
            return x * 2 + 1

    x = tj.ones(5)
    for function in (tj.compile(Scale()), Plain().double):
        assert [k.name for k in function.profile(x).kernels] == ["k_mul_add"]


SCRIPT = """
import sys
import tracejit as tj
f = tj.compile(lambda x: (x * 2).tanh())
for _ in range(int(sys.argv[1])):
    f(tj.ones(100))
print("done", sys.argv[2:])
sys.exit(int(sys.argv[3]))
"""


def test_the_command_runs_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script, trace, figures = (tmp_path / name for name in ("s.py", "t.json", "f.json"))
    script.write_text(SCRIPT)
    options = ["--trace", str(trace), "--json", str(figures)]
    assert main(["profile", *options, str(script), "5", "--flag", "0"]) == 0
    shown = capsys.readouterr().out
    assert "done ['--flag', '0']" in shown
    assert "k_mul_tanh" in shown
    assert json.loads(figures.read_text())["kernels"][0]["runs"] == 4
    assert len(json.loads(trace.read_text())["traceEvents"]) > 8


def test_the_command_tells_a_failing_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "s.py"
    script.write_text(SCRIPT)
    assert main(["profile", str(script), "2", "-", "3"]) == 1
    assert "exit code 3" in capsys.readouterr().err


def test_the_machine_is_measured_in_another_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    assert floor.machine(1).matmul32 > 1e6
