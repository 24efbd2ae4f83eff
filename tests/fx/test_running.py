"""Modules of graphs with everything else: compiled, trained, copied, changed; and functions left as they were."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import threading
from typing import Any

import pytest

import tracejit as tj
from tracejit import fx, nn
from tracejit.fx import interception
from tracejit.nn import functional as F
from trap_tools import user_module


class Net(nn.Module):
    """Layers, functions, a buffer, a constant and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4), nn.LayerNorm(4)
        self.register_buffer("scale", tj.arange(4.0))
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: tj.Tensor, y: float = 2.0) -> Any:
        x = F.gelu(self.first(x)) * self.scale + tj.ones(4)
        for layer in self.layers:
            x = x + tj.softmax(layer(self.norm(x)), dim=-1) / math.sqrt(x.size(-1))
        return {"out": x.mean(0), "more": (x[:, 1:].sum() * y,)}


X = tj.arange(6.0).reshape(2, 3) / 3


def leaves(found: Any) -> list[tj.Tensor]:
    return tj.utils._pytree.tree_leaves(found)


def assert_alike(found: Any, wanted: Any) -> None:
    pairs = zip(leaves(found), leaves(wanted), strict=True)
    assert all(tj.allclose(a, b, atol=1e-6) for a, b in pairs)


def gradients(run: Any, module: nn.Module) -> dict[str, tj.Tensor]:
    module.zero_grad()
    sum(x.sum() for x in leaves(run(X))).backward()
    return {name: p.grad.clone() for name, p in module.named_parameters()}


def test_traced_module_is_the_module():
    net = Net()
    traced = fx.symbolic_trace(net)
    traced.graph.lint()
    again = pickle.loads(pickle.dumps(traced))
    copies = (copy.deepcopy(traced), copy.copy(traced), again, fx.Transformer(traced).transform())
    for module in (traced, *copies):
        assert_alike(module(X), net(X))
        assert module.code.count("self.norm(") == 2
        assert set(net.state_dict()) < set(module.state_dict())
    wanted = gradients(net, net)
    for module in (traced, copies[0], again):
        found = gradients(module, module)
        assert found.keys() == wanted.keys()
        assert all(tj.equal(found[name], wanted[name]) for name in wanted)
    copies[0].first.weight.data.zero_()
    assert_alike(traced(X), net(X))  # a deep copy has parameters of its own


def test_compiled_like_eager():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    compiled = tj.compile(traced)
    for _ in range(3):
        assert_alike(compiled(X), traced(X))
    assert compiled.stats.compiled_calls == 2
    wanted = gradients(traced, traced)
    found = gradients(compiled, traced)
    assert all(tj.allclose(found[name], wanted[name], atol=1e-6) for name in wanted)


def test_compiled_module_sees_another_graph():
    traced = fx.symbolic_trace(lambda x: tj.relu(x))
    compiled, x = tj.compile(traced), tj.tensor([-1.0, 2.0])
    for _ in range(3):
        assert compiled(x).tolist() == [0.0, 2.0]
    (node,) = traced.graph.find_nodes(op="call_function", target=tj.relu)
    node.target = tj.neg
    assert compiled(x).tolist() == [0.0, 2.0]  # as the module itself, until its code is made
    traced.recompile()
    assert compiled(x).tolist() == traced(x).tolist() == [1.0, -2.0]
    seen = []
    traced.register_forward_hook(lambda module, args, out: seen.append(out.tolist()))
    traced.graph = fx.symbolic_trace(lambda x: x + 1).graph
    assert compiled(x).tolist() == [0.0, 3.0]
    assert seen == [[0.0, 3.0]]


def test_whole_training_steps():
    net = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    other = copy.deepcopy(net)
    optimizers = [tj.optim.SGD(m.parameters(), 0.1) for m in (net, other)]

    def step(module: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = module(X).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = tj.compile(lambda: step(net, optimizers[0]))
    for _ in range(4):
        assert_alike(compiled(), step(other, optimizers[1]))
    assert compiled.stats.compiled_calls > 1


def test_compiled_parts_are_traced():
    inner, function = tj.compile(nn.Linear(3, 2)), tj.compile(lambda x: tj.relu(x))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return function(self.inner(x)) + function(tj.ones(2))

    outer = Outer()
    for root in (outer, tj.compile(outer)):
        traced = fx.symbolic_trace(root)
        kinds = [node.op for node in traced.graph.nodes]
        assert kinds.count("call_module") == kinds.count("get_attr") == 1
        assert_alike(traced(X), outer(X))


def test_functions_are_left_as_they_were():
    before = {name: getattr(F.gelu, name) for name in ("__code__", "__defaults__")}
    signature, called = inspect.signature(F.dropout), nn.Module.__call__
    fx.symbolic_trace(Net())
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: 1 if F.gelu(x) else 2)
    assert before == {name: getattr(F.gelu, name) for name in before}
    assert (inspect.signature(F.dropout), nn.Module.__call__) == (signature, called)
    assert not interception.intercepting()
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    node = F.dropout(proxy, 0.1).node
    assert (node.target, node.kwargs["p"]) == (F.dropout, 0.1)
    assert interception.intercepting()
    assert F.dropout(tj.ones(2), 0.0).tolist() == [1.0, 1.0]  # what is no proxy is computed
    compiled = tj.compile(lambda x: F.layer_norm(tj.relu(x), (3,)).sum(0))
    for _ in range(3):
        assert_alike(compiled(X), F.layer_norm(tj.relu(X), (3,)).sum(0))
    assert compiled.stats.compiled_calls == 2
    del proxy, node
    assert tj.add(tj.ones(1), 1).tolist() == [2.0]
    assert not interception.intercepting()
    assert F.gelu.__code__ is before["__code__"]


def test_other_threads_compute_meanwhile():
    wrong, end = [], threading.Event()

    def work() -> None:
        x = tj.arange(4.0)
        while not end.is_set():
            found = (tj.add(x, 1) * 2).tolist(), F.relu(x).sum().item()
            if found != ([2.0, 4.0, 6.0, 8.0], 6.0):
                wrong.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(20):
        fx.symbolic_trace(lambda x: tj.relu(F.softmax(x, 1)) + 1)
    end.set()
    thread.join()
    assert not wrong


def test_positions_of_a_buffer():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", tj.arange(20.0).reshape(1, 10, 2))

        def forward(self, x: Any) -> Any:
            return x + self.table[:, : x.size(1)]

    traced = fx.symbolic_trace(Positions())
    for length in (3, 5):
        x = tj.ones(2, length, 2)
        assert tj.equal(traced(x), Positions()(x))


def test_errors_name_the_line(capsys):
    traced = fx.symbolic_trace(lambda x: x.nope() + 1)
    with pytest.raises(AttributeError, match="nope"):
        traced(tj.ones(1))
    told = capsys.readouterr().err
    assert "line 5 of the traced Module's generated forward function:" in told
    assert "nope = x.nope();  x = None" in told
    with pytest.raises(AttributeError, match="While executing %nope") as error:
        fx.Interpreter(traced).run(tj.ones(1))
    assert "call_method[target=nope]" in str(error.value)


def test_fused_layers_and_observers():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    x = tj.arange(72.0).reshape(2, 1, 6, 6).sin()
    model(x)
    traced = fx.symbolic_trace(model.eval())
    conv, norm = (traced.get_submodule(name) for name in "01")
    factor = norm.weight * (norm.running_var + norm.eps).rsqrt()
    fused = copy.deepcopy(conv)
    fused.weight = nn.Parameter((conv.weight * factor.reshape(-1, 1, 1, 1)).detach())
    fused.bias = nn.Parameter(((conv.bias - norm.running_mean) * factor + norm.bias).detach())
    traced.add_submodule("fused", fused)
    first, second = traced.graph.find_nodes(op="call_module")[:2]
    first.target = "fused"
    second.replace_all_uses_with(first)
    traced.graph.erase_node(second)
    traced.delete_all_unused_submodules()
    traced.recompile()
    assert [name for name, _ in traced.named_children()] == ["2", "fused"]
    assert tj.allclose(traced(x), model(x), atol=1e-5)
    times: dict[str, int] = {}

    class Profile(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            times[n.name] = times.get(n.name, 0) + 1
            return super().run_node(n)

    assert_alike(Profile(traced).run(x), traced(x))
    assert times == dict.fromkeys(map(str, traced.graph.nodes), 1)


def test_packages_of_files(tmp_path, monkeypatch):
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    with pytest.warns(UserWarning, match="saved as pickled files instead: "):
        traced.to_folder(tmp_path / "written_net", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    from written_net import Written

    assert_alike(Written()(X), traced(X))


def test_operators_of_programs():
    @tj.library.custom_op("graphs::twice", mutates_args=())
    def twice(x: tj.Tensor) -> tj.Tensor:
        return x * 2

    traced = fx.symbolic_trace(lambda x: tj.ops.graphs.twice(twice(x)))
    assert traced.code.count("tracejit.ops.graphs.twice(") == 2
    assert pickle.loads(pickle.dumps(traced))(X).tolist() == (X * 4).tolist()


# Out here, for ``pytest`` writes asserts of tests in another way.
CHECKED = """
class Checked(nn.Module):
    def forward(self, x, y):
        assert x.sum() > 0, "of a comparison"
        assert x
        a, b = y
        return x * a + b
"""


def test_asserts_are_written_down():
    class Asserting(fx.Tracer):
        trace_asserts = True

    graph = Asserting().trace(user_module(CHECKED).Checked())
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    assert targets.count(fx.proxy.assert_fn) == 2


class Doubled(tj.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_functions_with_a_backward_of_their_own_are_written_down():
    traced = fx.symbolic_trace(lambda x: Doubled.apply(x) + 1)
    assert [node.name for node in traced.graph.nodes] == ["x", "mul", "add", "output"]
    assert traced(tj.ones(2)).tolist() == [3.0, 3.0]
