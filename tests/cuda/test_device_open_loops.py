"""Loops that tensors of a device end: native code reads the truth after every round, and Python is not asked."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from test_while_programs import SHAPES, program

import tracejit as tj
from while_rolled import ROLLED

pytestmark = pytest.mark.usefixtures("gpu")


def halved(x: Any) -> Any:
    while x.max() > 1:
        x = x / 2
    return x


def numbers(result: Any) -> list[Any]:
    """Results as arrays of the host."""
    parts = result if isinstance(result, tuple) else (result,)
    return [x.cpu().numpy() if isinstance(x, tj.Tensor) else np.array(x) for x in parts]


def agree(found: Any, wanted: Any) -> None:
    for a, b in zip(numbers(found), numbers(wanted), strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 1e-6)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("function", ROLLED, ids=lambda f: f.__name__)
def test_results_are_those_of_the_host(function: Any, library: Any) -> None:
    compiled = tj.compile(function)
    values = [[8.0, 3.0, 0.5], [900.0, 2.0, 1.0], [0.2, 0.3, 0.1], [70.0, 80.0, 90.0]]
    for value in [*values, *values]:
        x = tj.tensor(value)
        agree(compiled(x.cuda()), function(x))
    assert library.reads, compiled.explain()
    assert compiled.stats.compiled_calls >= 3, compiled.explain()


def test_other_numbers_of_rounds_are_no_other_recordings(library: Any) -> None:
    compiled = tj.compile(halved)
    for exponent in (6, 6, 2, 9, 13, 4):
        x = tj.tensor([2.0**exponent, 1.0])
        before = library.reads
        assert compiled(x.cuda()).tolist() == halved(x).tolist()
        rounds = library.reads - before
    assert rounds == 4 - 1  # the first round is told from the others
    assert compiled.stats.recordings == 1, compiled.explain()
    assert "until" in str(compiled.graphs[0])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("part", range(4))
def test_random_loops(part: int, library: Any) -> None:
    for seed in range(100 + part * 6, 106 + part * 6):
        f, source = program(seed)
        compiled = tj.compile(f)
        rng = np.random.default_rng(seed)
        shape = SHAPES[seed % len(SHAPES)]
        with np.errstate(all="ignore"):
            for scale in (3.0, 0.3, 1e3, float("nan"), 3.0, 0.01):
                x = tj.tensor(rng.uniform(0, 1, shape).astype(np.float32) * np.float32(scale))
                for found, wanted in zip(numbers(compiled(x.cuda())), numbers(f(x)), strict=True):
                    np.testing.assert_allclose(found, wanted, 2e-5, 1e-6, err_msg=source)
    assert library.reads


def test_gradients_come_by_way_of_guards(library: Any) -> None:
    compiled = tj.compile(halved)
    for value in (5.0, 5.0, 5.0, 20.0):
        x = tj.tensor([value, 1.0]).cuda().requires_grad_()
        compiled(x).sum().backward()
        y = tj.tensor([value, 1.0]).requires_grad_()
        halved(y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()
    assert not library.reads
    assert compiled.stats.compiled_calls == 2, compiled.explain()


def test_tensors_of_the_host_beside_it_stay_guards(library: Any) -> None:
    def function(x: Any, step: Any) -> Any:
        count = tj.zeros(())
        while x.max() > 1:
            x, count = x / step, count + 1
        return x, count

    compiled = tj.compile(function)
    for value in (8.0, 8.0, 8.0, 32.0):
        x, step = tj.tensor([value, 1.0]), tj.tensor(2.0)
        agree(compiled(x.cuda(), step), function(x, step))
    assert not library.reads


def test_two_threads_read_their_own_truths() -> None:
    compiled = tj.compile(halved)
    wrong: list[float] = []

    def calls(exponent: int) -> None:
        for _ in range(15):
            (found, _) = compiled(tj.tensor([2.0**exponent, 1.0]).cuda()).tolist()
            if found != 1.0:
                wrong.append(found)

    threads = [threading.Thread(target=calls, args=(n,)) for n in (3, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_such_programs_are_no_graphs(library: Any) -> None:
    compiled = tj.compile(halved, mode="reduce-overhead")
    for _ in range(8):
        x = tj.tensor([64.0, 1.0])
        agree(compiled(x.cuda()), halved(x))
    assert library.reads > 20


def test_what_the_driver_says_is_told(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tj.compile(halved)
    compiled(tj.tensor([8.0, 1.0]).cuda())
    refuse = type(library.cuStreamSynchronize)(lambda stream: 700)
    monkeypatch.setattr(library, "cuStreamSynchronize", refuse)
    with pytest.raises(tj.errors.DeviceError, match="error 700"):
        compiled(tj.tensor([8.0, 1.0]).cuda())


def test_a_profile_shows_the_loop() -> None:
    compiled = tj.compile(halved)
    x = tj.tensor([64.0, 1.0]).cuda()
    compiled(x)
    with tj.profile() as profile:
        agree(compiled(x), halved(x.cpu()))
    assert "device loop" in {kernel.kind for kernel in profile.kernels}
