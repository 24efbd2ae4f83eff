"""``Module.compile``: the module's own calls run compiled, and it stays what it is."""

from __future__ import annotations

import copy
import pickle

import numpy as np

import tracejit as tj
from tracejit import nn


def net() -> nn.Sequential:
    tj.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def calls(module: nn.Module) -> int:
    """How many calls of the module ran compiled."""
    assert module._hooks is not None
    assert module._hooks.compiled is not None
    return module._hooks.compiled[1].stats.compiled_calls


def test_results_and_gradients_are_those_of_eager_code() -> None:
    x = tj.tensor(np.linspace(-1, 1, 6).reshape(2, 3))
    plain, compiled = net().double(), net().double()
    keys, text = list(compiled.state_dict()), repr(compiled)
    assert compiled.compile(fullgraph=True) is None
    for _ in range(4):
        for model in (plain, compiled):
            model(x).square().sum().backward()
        assert np.allclose(plain(x).detach().numpy(), compiled(x).detach().numpy(), rtol=1e-12)
    for p, q in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert np.allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)
    assert calls(compiled) == 7
    assert type(compiled) is nn.Sequential
    assert (list(compiled.state_dict()), repr(compiled)) == (keys, text)


def test_hooks_and_modes_count() -> None:
    model, seen = net(), []
    model.compile()
    x = tj.ones(2, 3)
    for _ in range(3):
        model(x)
    handle = model[1].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    outer = model.register_forward_hook(lambda module, args, out: out + 1)
    after = [model(x).detach() for _ in range(3)]
    assert len(seen) == 3
    outer.remove()
    assert np.allclose(model(x).detach().numpy() + 1, after[-1].numpy())
    handle.remove()
    model(x)
    assert len(seen) == 4
    model.append(nn.Dropout(1.0))
    assert [model(x).abs().sum().item() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert model.eval()(x).abs().sum().item() > 0


def test_copies_and_files_are_plain_and_apart() -> None:
    model, x = net(), tj.ones(2, 3)
    model.compile()
    before = [model(x).detach().numpy() for _ in range(3)][-1]
    others = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)
    for other in others[:2]:
        assert other._hooks is not None
        assert other._hooks.compiled is None
    with tj.no_grad():
        model[0].weight.mul_(2)
    count = calls(model)
    for other in others[:2]:
        assert np.allclose(other(x).detach().numpy(), before, rtol=1e-5)
    assert np.allclose(others[2](x).detach().numpy(), net_result(model, x))
    assert calls(model) == count


def net_result(model: nn.Module, x: tj.Tensor) -> np.ndarray:
    return model._call_impl(x).detach().numpy()


def test_inside_a_compiled_function() -> None:
    model = net()
    model[0].compile()
    f = tj.compile(lambda x: model(x) * 2, fullgraph=True)
    x = tj.ones(2, 3)
    results = [f(x).detach().numpy() for _ in range(3)]
    assert np.allclose(results, 2 * net_result(model, x))
    assert f.stats.compiled_calls == 2


def test_disabled() -> None:
    model = net()
    model.compile(disable=True)
    assert np.array_equal(model(tj.ones(2, 3)).detach().numpy(), net_result(model, tj.ones(2, 3)))
