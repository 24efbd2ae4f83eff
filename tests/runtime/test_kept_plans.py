"""Plans that an earlier process made: what they compute, when they are found, and when they are made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from process_tools import python
from tracejit import config
from tracejit.codegen.cuda.functions import divisor
from tracejit.extents import Extents
from tracejit.runtime.counts import COUNTS
from tracejit.runtime.kept.data import Decoder, Encoder, NotKept
from tracejit.runtime.kept.plans import PLANNING, modules_of, put_waiting
from tracejit.runtime.kept.scope import state
from tracejit.runtime.machine_code import store
from tracejit.runtime.plan.records import KeptPlan
from tracejit.runtime.streaming import STREAMED_BYTES

F = tj.nn.functional


def matrices(x: tj.Tensor) -> tj.Tensor:
    return F.gelu(x @ x.T + 1).softmax(-1) @ x


def convolved(x: tj.Tensor) -> tj.Tensor:
    return F.max_pool2d(F.conv2d(x[None, None], tj.ones(4, 1, 3, 3) / 3).relu(), 2)


def rounds(x: tj.Tensor) -> tj.Tensor:
    for _ in range(20):
        x = (x * 0.9 + x.roll(1, 0) * 0.1).tanh()
    return x


def recurrence(x: tj.Tensor) -> tj.Tensor:
    h = tj.zeros(x.shape[1])
    found = []
    for row in x:
        h = (h @ x[: x.shape[1]] + row).tanh()
        found.append(h)
    return tj.stack(found)


def until(x: tj.Tensor) -> tj.Tensor:
    while (x * x).sum() > 1:
        x = x * 0.7
    return x


def library(x: tj.Tensor) -> tj.Tensor:
    return x.sort(-1)[0].cumsum(0) + tj.linalg.svdvals(x).sum()


def branches(x: tj.Tensor) -> tj.Tensor:
    return x.exp().sum(0) if x.sum() > 0 else x.sin().sum(1)


def written(x: tj.Tensor) -> tj.Tensor:
    y = x.clone()
    y[1:, ::2] -= x[:-1, ::2]
    y[0] = y.mean(0)
    return y


def drawn(x: tj.Tensor) -> tj.Tensor:
    return F.dropout(x, 0.3).square() + tj.randn(x.shape[-1])


def small_matrices(x: tj.Tensor) -> tj.Tensor:
    a = x[:4, :4] @ x[:4, :4].T + 4 * tj.eye(4)
    return tj.linalg.solve(a, x[:4]) + tj.linalg.inv(a).sum()


def waves(x: tj.Tensor) -> tj.Tensor:
    for _ in range(12):
        x = tj.fft.irfft(0.9 * tj.fft.rfft(x), n=x.shape[-1])
    return x + tj.fft.ifft2(tj.fft.fft2(x)).real


PROGRAMS: dict[str, Callable[[tj.Tensor], tj.Tensor]] = {
    f.__name__: f
    for f in (
        *(matrices, convolved, rounds, recurrence, until, library, branches, written, drawn),
        small_matrices,
        waves,
    )
}


def values(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(n * m).normal(size=(n, m)).astype(np.float32)


def run(
    name: str, sizes: tuple[tuple[int, int], ...] = ((12, 8), (20, 8), (9, 6))
) -> list[list[bytes]]:
    """What a program gives compiled, with its gradient, for some sizes."""
    compiled = tj.compile(PROGRAMS[name])
    found = []
    for n, m in sizes:
        for _ in range(3):
            tj.manual_seed(3)
            x = tj.tensor(values(n, m), requires_grad=True)
            y = compiled(x)
            y.sum().backward()
        assert x.grad is not None
        found.append([y.detach().numpy().tobytes(), x.grad.numpy().tobytes()])
    return found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[store.KernelStore]:
    """A store of plans that nobody has used."""
    plans = store.KernelStore(tmp_path, kind="plans")
    monkeypatch.setattr(store, "_plans", plans)
    config.keeps_plans = True
    yield plans
    config.keeps_plans = False


def counted(function: Callable[[], Any]) -> tuple[Any, int, int]:
    """What a function returns, and how many plans were made and read meanwhile."""
    made, read = COUNTS.plans_made, COUNTS.plans_read
    found = function()
    return found, COUNTS.plans_made - made, COUNTS.plans_read - read


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_read_compute_what_plans_made_do(name: str, kept: store.KernelStore) -> None:
    first, made, read = counted(lambda: run(name))
    assert made > read
    again, made_again, read_again = counted(lambda: run(name))
    assert again == first
    assert made_again == 0, "a plan was made though an equal one is kept"
    assert read_again == made + read


SCRIPT = """
import sys, json, warnings
warnings.simplefilter("error")
sys.path[:0] = sys.argv[1:2]
import test_kept_plans as t
from tracejit.runtime.counts import COUNTS
import tracejit.config
tracejit.config.keeps_plans = True
found = {name: [[x.hex() for x in pair] for pair in t.run(name)] for name in t.PROGRAMS}
print(json.dumps([found, COUNTS.plans_made, COUNTS.plans_read, COUNTS.compiled]))
"""


def test_a_second_process_plans_nothing(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent)

    def process() -> tuple[Any, int, int, int]:
        done = python(
            "-c",
            SCRIPT,
            tests,
            TRACEJIT_CACHE_DIR=str(tmp_path),
            PYTHONPATH=str(Path(tests).parent),
        )
        assert done.returncode == 0, done.stderr
        return tuple(json.loads(done.stdout.splitlines()[-1]))  # type: ignore[return-value]

    cold, warm = process(), process()
    assert warm[0] == cold[0]
    assert cold[1] > 0
    assert warm[1] == 0
    assert warm[2] == cold[1] + cold[2]
    assert warm[3] == 0


def test_what_a_kept_plan_does_can_be_read(kept: store.KernelStore) -> None:
    x = tj.tensor(values(12, 8))

    def explained() -> tuple[str, list[Any]]:
        compiled = tj.compile(matrices)
        for _ in range(3):
            compiled(x)
        return str(compiled.explain()), [p.plan for e in compiled._all() for p in e.programs()]

    (explanation, made), (again, read) = explained(), explained()
    assert not any(isinstance(plan, KeptPlan) for plan in made)
    assert all(isinstance(plan, KeptPlan) for plan in read)
    assert again == explanation
    for one, other in zip(made, read, strict=True):
        assert str(one.graph) == str(other.graph)
        assert [k.keys for k in one.kernels] == [k.keys for k in other.kernels]
        assert one.launches == other.launches > 0


def test_sizes_that_come_later_need_no_other_plan(kept: store.KernelStore) -> None:
    run("matrices", ((12, 8),))
    found, made, read = counted(lambda: run("matrices", ((12, 8), (31, 9))))
    assert (made, read) == (0, 2)
    config.keeps_plans = False
    assert run("matrices", ((12, 8), (31, 9))) == found


def test_large_results_choose_their_kernel_when_sizes_are_known(kept: store.KernelStore) -> None:
    def found() -> list[bytes]:
        compiled = tj.compile(lambda x: (x * 3 + 1).relu())
        sizes = (100, 100, STREAMED_BYTES // 4 + 64)
        return [compiled(tj.arange(n, dtype=tj.float32)).numpy().tobytes() for n in sizes]

    first, made, _ = counted(found)
    again, made_again, _ = counted(found)
    assert made > 0 == made_again
    assert again == first


@pytest.mark.parametrize("what", ["grain", "dtype", "layout", "function", "default"])
def test_other_circumstances_are_other_plans(
    what: str, kept: store.KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tj.tensor(values(12, 8))

    def call(function: Callable[[Any], Any], x: tj.Tensor) -> None:
        compiled = tj.compile(function)
        for _ in range(2):
            compiled(x)

    _, made, _ = counted(lambda: call(lambda x: x.exp() + 1, x))
    assert made == 1
    _, made, read = counted(lambda: call(lambda x: x.exp() + 1, x))
    assert (made, read) == (0, 1)
    function, given = (lambda x: x.exp() + 1), x
    if what == "grain":
        monkeypatch.setattr(config, "grain_elements", 999)
    elif what == "dtype":
        given = x.double()
    elif what == "layout":
        given = x.T
    elif what == "function":
        function = lambda x: x.exp() + 2  # noqa: E731
    else:
        tj.set_default_dtype(tj.float64)
    try:
        _, made, read = counted(lambda: call(function, given))
    finally:
        tj.set_default_dtype(tj.float32)
    assert (made, read) == (1, 0)


def test_plans_are_those_of_the_modules_as_they_are(tmp_path: Path) -> None:
    for name in PLANNING:
        (tmp_path / name / "inner" / "__pycache__").mkdir(parents=True)
    (tmp_path / "nn").mkdir()
    places = [tmp_path, tmp_path / "passes", tmp_path / "runtime" / "inner", tmp_path / "nn"]
    for place in places:
        (place / "module.py").write_text("a = 1\n")
    found = [modules_of(tmp_path)]
    for place in places[:-1]:
        (place / "module.py").write_text("a = 12\n")
        found.append(modules_of(tmp_path))
    (tmp_path / "ir" / "new.py").touch()
    found.append(modules_of(tmp_path))
    (tmp_path / "ir" / "new.py").rename(tmp_path / "ir" / "inner" / "new.py")
    found.append(modules_of(tmp_path))
    assert len(set(found)) == len(found) == 6
    (tmp_path / "nn" / "module.py").write_text("a = 12\n")
    (tmp_path / "ops" / "inner" / "__pycache__" / "module.cpython-311.pyc").touch()
    assert modules_of(tmp_path) == found[-1]


def test_without_their_kernels_plans_are_made_again(
    kept: store.KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracejit.runtime.machine_code import kernels, vector_modules

    first, made, _ = counted(lambda: run("matrices"))
    monkeypatch.setattr(store, "_default", store.KernelStore(tmp_path / "none"))
    for module in (kernels, vector_modules):
        monkeypatch.setattr(module, "_addresses", {})
    monkeypatch.setattr(vector_modules, "_by_key", {})
    compiled = COUNTS.compiled
    again, made_again, read = counted(lambda: run("matrices"))
    assert again == first
    assert 0 < made_again <= made == read, (
        "some were read, and made when their kernels were not found"
    )
    assert COUNTS.compiled > compiled


def test_damaged_plans_are_made_again(kept: store.KernelStore) -> None:
    first, made, _ = counted(lambda: run("rounds"))
    put_waiting()
    assert kept.directory is not None
    for path in (kept.directory / kept.folder).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])
    kept._memory.clear()
    again, made_again, _ = counted(lambda: run("rounds"))
    assert again == first
    assert made_again == made


def test_operators_of_programs_are_not_kept(kept: store.KernelStore) -> None:
    class Twice(tj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: tj.Tensor) -> tj.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: tj.Tensor) -> tj.Tensor:
            return g * 3

    def found() -> list[float]:
        compiled = tj.compile(lambda x: Twice.apply(x).sum())
        x = tj.ones(3, requires_grad=True)
        for _ in range(3):
            x.grad = None
            compiled(x).backward()
        assert x.grad is not None
        return x.grad.tolist()

    assert found() == found() == [3.0, 3.0, 3.0]


def test_numbers_that_may_be_addresses_are_refused() -> None:
    encoder = Encoder()
    assert encoder(1 << 31) == 1 << 31
    with pytest.raises(NotKept, match="address"):
        encoder(0x7F00_1234_5678)
    with pytest.raises(NotKept, match="function"):
        encoder(test_numbers_that_may_be_addresses_are_refused)
    with pytest.raises(NotKept, match="object"):
        encoder([object()])


def test_data_is_read_as_it_was_written() -> None:
    scope = Extents()
    n = scope.symbol(5)
    data = (1, -0.0, float("inf"), "x", True, None, 2j, [n * 3, (n,)], {"a": tj.float32})
    encoder = Encoder()
    text = json.dumps([encoder(data), encoder.tables()])
    found, tables = json.loads(text)
    again = Decoder(scope, tables)(found)
    assert repr(again) == repr(data)
    assert again[7][0] is n * 3


def test_the_state_of_sizes_is_told_as_it_grows() -> None:
    """Asked for at each step, or once at the end, it is the same; and another one where anything differs."""

    def steps(sizes: Extents) -> Iterator[None]:
        n = sizes.symbol(6)
        yield
        half = n // 4
        yield
        sizes.call(divisor, n)
        yield
        sizes.call(divisor, half + 3)
        yield

    grown = Extents()
    found = [state(grown) for _ in steps(grown)]
    assert len({repr(x) for x in found}) == len(found) == 4
    for count, known in enumerate(found, 1):
        fresh = Extents()
        [*zip(range(count), steps(fresh), strict=False)]
        assert state(fresh) == known
    n = Extents()
    n.symbol(6), n.symbol(7)
    told = state(n)
    n.symbols[1].value = 8
    assert state(n) != told
    n.symbols[1].value = 7
    assert state(n) == told
    n.equal[1] = 0
    assert state(n) != told
