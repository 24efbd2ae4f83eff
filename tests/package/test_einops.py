"""einops on tensors of this package: eagerly, compiled, with gradients, and as layers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from process_tools import printed
from tracejit.nn.module import not_a_module

einops = pytest.importorskip("einops", reason="einops is not installed (pip install einops)")

REDUCTIONS = ("min", "max", "sum", "mean", "prod", "any", "all")


def values(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[Any, Any]] = {
    "patches": (
        lambda x: einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=4),
        lambda a: (
            a.reshape(len(a), 3, 2, 2, 2, 4).transpose(0, 2, 4, 3, 5, 1).reshape(len(a), 4, 24)
        ),
    ),
    "moved": (
        lambda x: einops.rearrange(x, "b ... w -> w ... b"),
        lambda a: a.transpose(3, 1, 2, 0),
    ),
    "pooled": (
        lambda x: einops.reduce(x, "b c (h p) (w q) -> b c h w", "mean", p=2, q=2),
        lambda a: a.reshape(len(a), 3, 2, 2, 4, 2).mean((3, 5)),
    ),
    "greatest": (lambda x: einops.reduce(x, "b c h w -> b c", "max"), lambda a: a.max((2, 3))),
    "repeated": (
        lambda x: einops.repeat(x, "b c h w -> b c (h k) w r", k=2, r=3),
        lambda a: np.repeat(a, 2, 2)[..., None] * np.ones(3, a.dtype),
    ),
    "einsum": (
        lambda x: einops.einsum(x, x, "b c h w, b d h w -> b c d"),
        lambda a: np.einsum("bchw,bdhw->bcd", a, a),
    ),
    "stacked": (
        lambda x: einops.rearrange([x, 2 * x], "n b c h w -> b (n c) h w"),
        lambda a: np.concatenate([a, 2 * a], 1),
    ),
    "packed": (
        lambda x: einops.pack([x.sum(3), x], "b c *")[0],
        lambda a: np.concatenate([a.sum(3), a.reshape(len(a), 3, 32)], 2),
    ),
    "unpacked": (
        lambda x: einops.unpack(x, [(), (2, 3), (1,)], "b c h *")[1],
        lambda a: a[..., 1:7].reshape(len(a), 3, 4, 2, 3),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    """Eagerly, and compiled: every batch size is recorded once, and compiled from its second call on."""
    function, reference = CASES[case]
    compiled = tj.compile(lambda x: function(x) * 2)
    for calls, batch in enumerate([2, 2, 2, 5, 5, 7, 7, 2], 1):
        a = values(batch, 3, 4, 8)
        x, y = (tj.tensor(a, requires_grad=True) for _ in range(2))
        eager, result = function(x) * 2, compiled(y)
        for found in (eager, result):
            np.testing.assert_allclose(
                einops.asnumpy(found), 2 * reference(a), rtol=2e-5, atol=2e-5
            )
        weights = tj.randn(*eager.shape)
        (eager * weights).sum().backward()
        (result * weights).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-4)
        assert compiled.stats.calls == calls
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (3, 5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions(reduction: str) -> None:
    a = values(3, 4, 5) > 0 if reduction in ("any", "all") else values(3, 4, 5)
    found = einops.reduce(tj.tensor(a), "a b c -> b", reduction)
    np.testing.assert_allclose(found.numpy(), getattr(a, reduction)((0, 2)), rtol=1e-5)


def test_what_einops_refuses() -> None:
    x = tj.ones(2, 3, dtype=tj.int64)
    with pytest.raises(einops.EinopsError, match="Shape mismatch"):
        einops.rearrange(x, "a (b c) -> a b c", b=2)
    with pytest.raises(NotImplementedError, match="non-floating"):
        einops.reduce(x, "a b -> a", "mean")
    assert einops.parse_shape(x, "a _") == {"a": 2}
    assert einops.asnumpy(tj.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_results_are_views_as_elsewhere() -> None:
    x = tj.zeros(2, 6)
    einops.rearrange(x, "a (b c) -> b c a", b=2)[1, 2, 0] = 5
    assert x[0].tolist() == [0, 0, 0, 0, 0, 5]


def test_backend_has_all_that_einops_may_ask() -> None:
    backend: Any = einops._backends.get_backend(tj.ones(1))
    assert backend.framework_name == "tracejit"
    assert backend is einops._backends.get_backend(tj.nn.Parameter(tj.ones(1)))
    assert backend.arange(1, 4).tolist() == [1, 2, 3]
    assert backend.tile(tj.ones(2), (3,)).shape == (6,)
    assert backend.add_axis(tj.ones(2), 1).shape == (2, 1)
    assert backend.from_numpy(np.ones(2)).requires_grad
    assert not backend.from_numpy(np.ones(2, int)).requires_grad
    assert backend.layers().Rearrange is tj.einops_layers.Rearrange


def test_others_do_not_disturb_compiled_functions() -> None:
    """einops keeps what it computed for each pattern and shape: what it keeps for others is nothing to guard."""
    compiled = tj.compile(lambda x: einops.rearrange(x, "a b -> b a").exp())
    x = tj.ones(2, 3)
    for size in range(1, 12):
        compiled(x)
        einops.rearrange(tj.ones(size, 2), "first second -> (second first)")
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (1, 10)


def test_sizes_found_at_run_time() -> None:
    def function(x: Any) -> Any:
        y = x[x > 0]
        return einops.repeat(y, "n -> k n", k=2), einops.reduce(y, "n ->", "sum")

    compiled = tj.compile(function)
    for _ in range(6):
        a = values(20)
        rows, total = compiled(tj.tensor(a))
        assert rows.tolist() == [a[a > 0].tolist()] * 2
        np.testing.assert_allclose(total.item(), a[a > 0].sum(), rtol=1e-5)
    assert compiled.stats.recordings == 1


def test_state_of_functions_that_einops_calls() -> None:
    scale = 2.0

    def scaled(x: Any, axes: Any) -> Any:
        return x.sum(axes) * scale

    compiled = tj.compile(lambda x: einops.reduce(x, "a b -> a", scaled))
    for scale in (2.0, 2.0, 3.0, 3.0, 5.0):
        assert compiled(tj.ones(2, 4)).tolist() == [4 * scale] * 2
    assert compiled.stats.compiled_calls >= 2


def test_first_tensor_in_a_call_that_is_watched() -> None:
    script = """
import einops
import tracejit as tj

@tj.compile
def f(x, draws=False):
    state = tj.get_rng_state() if draws else None  # a reason to watch every call
    return einops.rearrange(x, "a b -> b a") * 2

for _ in range(3):
    f(tj.ones(2, 3))
print(f.stats.compiled_calls)
"""
    assert printed(script).split() == ["2"]  # whose backend einops has to look for


def network() -> Any:
    from tracejit.einops_layers import EinMix, Rearrange, Reduce

    return tj.nn.Sequential(
        Rearrange("b (h d) -> b h d", h=2),
        EinMix("b h d -> b (h o)", weight_shape="h d o", bias_shape="h o", h=2, d=3, o=4),
        Reduce("b (h o) -> b h", "max", h=2),
    )


def test_layers() -> None:
    net = network()
    assert sorted(net.state_dict()) == ["1.bias", "1.weight"]
    assert repr(net[0]) == "Rearrange('b (h d) -> b h d', h=2)"
    weight, bias = net[1].weight.detach().numpy(), net[1].bias.detach().numpy()
    compiled = tj.compile(net)
    for batch in (3, 3, 5, 5):
        a = values(batch, 6)
        expected = (np.einsum("bhd,hdo->bho", a.reshape(batch, 2, 3), weight) + bias).max(-1)
        for layer in (net, compiled, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            if layer is not net and layer is not compiled:
                layer.load_state_dict(net.state_dict())
            np.testing.assert_allclose(layer(tj.tensor(a)).detach().numpy(), expected, rtol=1e-5)
    assert compiled.stats.compiled_calls == 2
    with pytest.raises(einops.EinopsError, match="Error while preparing Rearrange"):
        tj.einops_layers.Rearrange("a b -> c")


def test_layers_that_are_changed_are_recorded_again() -> None:
    layer = tj.einops_layers.Rearrange("b (h d) -> b h d", h=2)
    compiled = tj.compile(layer)
    for heads in (2, 2, 3, 3):
        layer._axes_lengths = (("h", heads),)
        assert compiled(tj.ones(2, 6)).shape == (2, heads, 6 // heads)
    assert compiled.stats.compiled_calls >= 1


def test_layers_for_torch_where_there_is_no_torch() -> None:
    script = """
import sys
sys.modules["torch"] = None
import tracejit as torch
from einops.layers.torch import EinMix, Rearrange, Reduce
import einops.layers
print(Rearrange.__module__, einops.layers.torch.Reduce is Reduce)
print(*torch.nn.Sequential(Rearrange("a b -> b a"))(torch.ones(2, 3)).shape)
"""
    assert printed(script).split() == ["tracejit.einops_layers", "True", "3", "2"]


def test_this_package_in_the_place_of_torch() -> None:
    script = """
import sys, tracejit
sys.modules["torch"] = tracejit
from einops import rearrange
from einops.layers.torch import Rearrange
x = tracejit.ones(2, 3)
print(*tracejit.nn.Sequential(Rearrange("a b -> b a"))(x).shape, *rearrange(x, "a b -> b a").shape)
"""
    assert printed(script).split() == ["3", "2", "3", "2"]


def test_modules_of_torch_are_named_as_such() -> None:
    base = type("Module", (), {"__module__": "torch.nn.modules.module"})
    for home, place in (
        ("einops.layers.torch", "einops_layers"),
        ("torch.nn.modules.linear", "nn"),
    ):
        layer = type("Rearrange", (base,), {"__module__": home})()
        assert f"Import it from tracejit.{place} instead" in str(not_a_module(layer))
        with pytest.raises(TypeError, match="makes modules of PyTorch"):
            tj.nn.Sequential(layer)


def test_opt_einsum() -> None:
    opt_einsum = pytest.importorskip("opt_einsum", reason="opt_einsum is not installed")
    a, b, c = values(2, 3), values(3, 4), values(4, 5)
    for pattern in ("ab,bc,cd->da", "ab,bc,cd->"):
        found = opt_einsum.contract(pattern, *map(tj.tensor, (a, b, c)))
        np.testing.assert_allclose(found.numpy(), np.einsum(pattern, a, b, c), rtol=1e-4, atol=1e-5)
