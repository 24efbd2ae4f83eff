"""Random numbers of eager code on a device: made there, and the host's bit for bit."""

from __future__ import annotations

from typing import Any

import graph_tools as tools
import numpy as np
import pytest
from ptx_text import assert_sound

import tracejit as tj
from tracejit.codegen.cuda.draws import write_draw
from tracejit.errors import DeviceError
from tracejit.ops import random as sources

pytestmark = pytest.mark.usefixtures("gpu")
F = tj.nn.functional
FLOATS = [tj.float32, tj.float64, tj.float16, tj.bfloat16]


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x.detach().cpu().array).tobytes()


def agree(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same draws on both, and none of those of the device made by the host."""
    tj.manual_seed(11)
    expected = [draw("cpu") for _ in range(3)]
    tj.manual_seed(11)

    def no_host(*_: Any) -> Any:
        raise AssertionError("drawn on the host")

    with monkeypatch.context() as patch:
        patch.setattr(sources, "philox_blocks", no_host)
        found = [draw("cuda") for _ in range(3)]
    for a, b in zip(found, expected, strict=True):
        assert (a.is_cuda, a.spec) == (True, b.spec)
        assert bits(a) == bits(b)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(0,), (), (1,), (255,), (3, 87), (1031,)], ids=str)
def test_floats(dtype: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    agree(lambda d: tj.rand(shape, dtype=dtype, device=d), monkeypatch)
    agree(lambda d: tj.randn(shape, dtype=dtype, device=d), monkeypatch)


@pytest.mark.parametrize(
    "draw",
    [
        lambda d: tj.randint(-5, 1 << 40, (77,), device=d),
        lambda d: tj.randint(9, (77,), dtype=tj.uint8, device=d),
        lambda d: tj.randperm(50, device=d),
        lambda d: tj.rand_like(tj.ones(9, device=d)),
        lambda d: tj.randint_like(tj.ones(9, device=d), 7),
        lambda d: tj.normal(tj.zeros(9, device=d), 2.0),
        lambda d: tj.bernoulli(tj.full((99,), 0.4, device=d)),
        lambda d: tj.ones(9, device=d).uniform_(2, 3),
        lambda d: tj.ones(9, dtype=tj.float16, device=d).normal_(),
        lambda d: tj.ones(9, device=d).bernoulli_(0.3),
        lambda d: tj.ones(9, dtype=tj.int32, device=d).random_(),
        lambda d: F.dropout(tj.ones(99, device=d), 0.3),
        lambda d: F.dropout2d(tj.ones(4, 9, 2, 2, device=d), 0.3),
        lambda d: F.alpha_dropout(tj.ones(99, device=d), 0.3, training=True),
        lambda d: F.rrelu(-tj.ones(9, device=d), training=True),
    ],
)
def test_whatever_draws(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agree(draw, monkeypatch)


def test_elementary_functions_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in (
        lambda d: tj.ones(99, device=d).exponential_(),
        lambda d: F.gumbel_softmax(tj.zeros(5, 7, device=d)),
        lambda d: tj.ones(9, device=d).log_normal_(),
    ):
        tj.manual_seed(1)
        expected = draw("cpu")
        tj.manual_seed(1)
        with monkeypatch.context() as patch:
            patch.setattr(sources, "philox_blocks", None)
            found = draw("cuda")
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5)
    weights = tj.tensor([[1.0, 2.0, 3.0, 0.5]]).expand(6, 4)
    for replacement in (False, True):
        tj.manual_seed(1)
        expected = tj.multinomial(weights, 3, replacement)
        tj.manual_seed(1)
        found = tj.multinomial(weights.cuda(), 3, replacement)
        assert found.tolist() == expected.tolist()


def test_generators_of_their_own_and_large_ordinals() -> None:
    for seed, count in ((-1, 0), (1 << 63, 5), (3, (1 << 63) - 1), (0, (1 << 64) - 1)):
        found = []
        for device in ("cpu", "cuda"):
            generator = tj.Generator().manual_seed(seed)
            generator.count = count
            found.append(bits(tj.rand(13, generator=generator, device=device)))
        assert found[0] == found[1]


def test_the_second_device_and_streams(library: Any) -> None:
    tj.manual_seed(2)
    expected = tj.rand(5)
    tj.manual_seed(2)
    with tj.cuda.stream(tj.cuda.Stream()):
        found = tj.rand(5, device="cuda:1")
    assert (found.get_device(), found.tolist()) == (1, expected.tolist())
    assert [name for name, _ in library.launched] == ["k_random_uniform_f32"]


def test_a_recorded_run_draws_what_its_replay_draws() -> None:
    f = tj.compile(lambda x: F.dropout(x, 0.4) + tj.randn(50, device="cuda"), strict=True)
    tj.manual_seed(5)
    expected = [F.dropout(tj.ones(50), 0.4) + tj.randn(50) for _ in range(3)]
    tj.manual_seed(5)
    for want in expected:
        assert bits(f(tj.ones(50).cuda())) == bits(want)
    assert f.stats.compiled_calls == 2


def test_a_draw_that_cannot_be_queued_is_an_error(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(library, "_launch", launch)
    with pytest.raises(DeviceError, match="a draw of random_uniform could not be queued"):
        tj.rand(3, device="cuda")
    library.errors.clear()
    monkeypatch.undo()


@pytest.mark.parametrize("op", [sources.random_uniform, sources.random_normal, sources.random_bits])
def test_kernels_of_draws_are_sound(op: Any) -> None:
    for short in op.scalars:
        dtype = next(d for d in (*FLOATS, tj.int64) if d.short == short)
        launch = write_draw(op, dtype)
        for architecture in ("sm_75", "sm_80", "sm_90"):
            assert_sound(tools.ptx_of(launch.source, launch.name, architecture), launch.source)


def test_a_seed_of_the_gpu_has_effect_and_leaves_the_host_alone() -> None:
    def draws() -> list[Any]:
        return [tj.rand(3, device=device).tolist() for device in ("cuda", "cpu", "cuda")]

    tj.manual_seed(5)
    together = draws()
    tj.manual_seed(5)
    assert draws() == together
    tj.cuda.manual_seed_all(9)
    first = tj.rand(3, device="cuda").tolist()
    tj.cuda.manual_seed(9)
    assert tj.rand(3, device="cuda").tolist() == first
    assert tj.cuda.initial_seed() == 9
    assert tj.initial_seed() == 5
    host = tj.get_rng_state().tolist()
    tj.rand(2, device="cuda")
    assert tj.get_rng_state().tolist() == host
    tj.manual_seed(5)
    assert draws() == together


def test_compiled_draws_follow_the_seed_of_the_gpu() -> None:
    function = tj.compile(lambda x: tj.nn.functional.dropout(x, 0.5) + tj.rand_like(x))
    x = tj.ones(8, device="cuda")
    tj.manual_seed(1)
    found = [function(x).tolist() for _ in range(3)]
    tj.cuda.manual_seed_all(1)
    assert [function(x).tolist() for _ in range(3)] == found
    state = tj.cuda.get_rng_state()
    after = function(x).tolist()
    tj.cuda.set_rng_state(state)
    assert function(x).tolist() == after
    assert function.stats.compiled_calls > 5


def test_a_fork_puts_the_state_of_the_gpu_back() -> None:
    tj.cuda.manual_seed(3)
    states = tj.cuda.get_rng_state_all()
    with tj.random.fork_rng():
        tj.cuda.manual_seed(4)
        tj.rand(3, device="cuda")
    assert [s.tolist() for s in tj.cuda.get_rng_state_all()] == [s.tolist() for s in states]
    tj.cuda.seed_all()
    tj.cuda.seed()
    tj.cuda.set_rng_state_all(states)
    assert tj.cuda.initial_seed() == 3
    tj.manual_seed(0)
