"""Graphs, changed by hand and by rewriting, and tracers with rules of their own, against PyTorch."""

from __future__ import annotations

import copy
import importlib
import itertools
import math
import operator
from typing import Any

import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
for package in ("torch", "tracejit"):
    importlib.import_module(f"{package}.fx")
    importlib.import_module(f"{package}.fx.passes.split_module")
pytestmark = pytest.mark.filterwarnings("ignore")

USES: dict[str, Any] = {}


def use(function: Any) -> Any:
    """Something that is done with ``fx``; what it returns, or raises, is compared as text."""
    USES[function.__name__] = function
    return function


def net(t: Any) -> Any:
    """A module with all kinds of parts."""
    nn = t.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l, self.b = nn.Linear(2, 2), nn.Parameter(t.ones(2))
            self.seq = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
            self.register_buffer("buf", t.ones(2))
            self.unused = nn.Linear(1, 1)

        def forward(self, x, y=1):
            z = t.relu(self.l(x) + self.b) * self.buf
            return self.seq(z).sum() + y

    return Net()


def trace(t: Any) -> Any:
    return t.fx.symbolic_trace(net(t))


@use
def nodes(t):
    return [
        (
            *(n.op, n.name, str(n.args), str(n.kwargs), list(map(str, n.users)), n.all_input_nodes),
            *(n.type, sorted(n.meta), n.format_node(), str(n.next), str(n.prev)),
        )
        for n in trace(t).graph.nodes
    ]


@use
def inserting(t):
    module = trace(t)
    for n in module.graph.find_nodes(op="call_function", target=t.relu):
        with module.graph.inserting_after(n):
            new = module.graph.call_function(t.sigmoid, (n,))
        n.replace_all_uses_with(new)
        new.args = (n,)
    module.recompile()
    return module.code


@use
def dead_code(t):
    def f(x):
        t.rand(3), t._assert(x.shape[0] > 1, "a"), x.add_(1), x + 1
        operator.setitem(x, 0, 1)
        return x

    module = t.fx.symbolic_trace(f)
    changed = module.graph.eliminate_dead_code()
    return changed, module.recompile().src


@use
def names(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    functions = (t.add, t.add, operator.add, max, abs, len, t.nn.functional.relu, t.sum)
    methods = ("__getitem__", "sum", "to", "float", "camelCase")
    wanted = ("a_1", "a_1", "a_2", "a", "1x", "a b", "", "self", "x_3", "x", "x")
    return (
        [str(graph.create_node("call_function", f, (x,))) for f in functions],
        [str(graph.create_node("call_method", m, (x,))) for m in methods],
        [str(graph.create_node("placeholder", "in", name=n)) for n in wanted],
    )


@use
def order(t):
    found = list(trace(t).graph.nodes)
    found[3].prepend(found[4])
    found[1].append(found[0])
    graph = found[0].graph
    return [a < b for a, b in itertools.pairwise(found)], list(reversed(graph.nodes))


@use
def arguments(t):
    found = list(trace(t).graph.nodes)
    last = found[-2]
    last.update_arg(1, 5)
    last.insert_arg(0, found[2])
    last.update_kwarg("k", [found[0], {"a": found[0]}])
    last.replace_input_with(found[0], found[1])
    kinds = type(last.kwargs["k"]).__name__, type(last.kwargs["k"][1]).__name__
    return last.format_node(), found[1].users, found[0].users, found[2].users, kinds


@use
def unchanging(t):
    n = list(trace(t).graph.nodes)[2]
    n.args = ([1, 2],)
    with pytest.raises(TypeError) as error:
        n.args[0].append(3)
    return str(error.value).partition(".")[0]


@use
def erased_in_use(t):
    graph = trace(t).graph
    graph.erase_node(next(iter(graph.nodes)))


@use
def wrong_target(t):
    return t.fx.Graph().create_node("call_function", "x")


@use
def lint_order(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(t.relu, (x,))
    graph.output(y)
    y.append(x)
    graph.lint()


@use
def lint_module(t):
    module = trace(t)
    with module.graph.inserting_before(module.graph.output_node()):
        module.graph.create_node("get_attr", "foo.bar")
    module.graph.lint()


@use
def copies(t):
    module, made = trace(t), t.fx.Graph()
    for n in module.graph.nodes:
        n.meta["told"] = n.name
    module.meta["a"] = 1
    made.output(made.graph_copy(module.graph, {}))
    again, moved = copy.deepcopy(module), t.fx.Transformer(module).transform()
    told = [[n.meta.get("told") for n in m.graph.nodes] for m in (again, moved)]
    return str(made), str(copy.deepcopy(module.graph)), told, again.meta, copy.copy(module).meta


@use
def from_parts(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_module("a.b", (x,)), graph.get_attr("a.w")))
    module = t.fx.GraphModule({"a.b": t.nn.ReLU(), "a.w": t.ones(2)}, graph, "Made")
    return str(module), list(module.state_dict()), type(module).__name__


@use
def missing_part(t):
    graph = t.fx.Graph()
    graph.output(graph.call_module("a.b", (graph.placeholder("x"),)))
    return t.fx.GraphModule({}, graph)


@use
def submodules(t):
    module = trace(t)
    done = [module.add_submodule("p.q.r", t.nn.ReLU()), module.delete_submodule("nope.x")]
    done += [module.delete_submodule("p.q"), module.add_submodule("b.x", t.nn.ReLU())]
    before = [name for name, _ in module.named_modules()]
    module.delete_all_unused_submodules()
    return done, before, [name for name, _ in module.named_modules()]


@use
def own_code(t):
    class Listed(t.fx.graph.CodeGen):
        def gen_fn_def(self, free_vars, returned):
            return f"def forward(self, given):\n    {', '.join(free_vars)} = given"

        def process_inputs(self, *inputs):
            return inputs[0]

    module = t.fx.symbolic_trace(lambda a, b: a + b)
    module.graph.set_codegen(Listed())
    with module.graph.on_generate_code(lambda _: lambda body: ["# first\n", *body]):
        module.recompile()
    return module.code, module([1, 2]), t.fx.Interpreter(module).run([1, 2])


@use
def code_of_odd_nodes(t):
    graph = t.fx.Graph()
    x = graph.placeholder("lambda")
    y = graph.call_function(math.sqrt, (x,))
    z = graph.call_function(operator.iadd, (x, y))
    graph.call_function(operator.setitem, (x, 0, z))
    odd = [graph.call_function(getattr, (x, name)) for name in ("shape", "a b")]
    given = (t.float32, t.device("cpu"), t.Size([1, 2]), math.inf, 1j, "s", None, ..., slice(1))
    odd += [graph.call_function(t.add, (x, t.ones(2), *given)), graph.get_attr("0.w")]
    graph.output(odd)
    return graph.python_code("self").src, str(graph), t.fx.Graph().python_code("self").src


@use
def told_values(t):
    def f(x, flag, d=None):
        if flag:
            return x
        return -x if d is None else x + d

    told = ({"flag": True}, {"flag": False, "d": None}, {"flag": 3}, {"flag": "a"})
    return [t.fx.symbolic_trace(f, values).code for values in told]


@use
def told_containers(t):
    def f(x, d):
        return {"out": x + d["a"] + d["b"][0]}

    module = t.fx.symbolic_trace(f, {"d": {"a": t.fx.PH, "b": [t.fx.PH, 1]}})
    return module.code, module(1, {"a": 2, "b": [3, 1]}), module(1, {"a": 2, "b": [3, 2]})


@use
def rules_of_a_tracer(t):
    class Tracer(t.fx.Tracer):
        proxy_buffer_attributes = True

        def to_bool(self, obj):
            return False

        def iter(self, obj):
            return iter([obj[0], obj[1]])

        def create_arg(self, a):
            return "object" if type(a) is object else super().create_arg(a)

        def is_leaf_module(self, m, name):
            return name == "seq"

    class Net(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seq, self.act = t.nn.Sequential(t.nn.ReLU()), t.nn.ReLU()
            self.register_buffer("b", t.ones(2))

        def forward(self, x):
            if x > 0:
                return 1
            return self.act(self.seq(sum(list(x)))) + x.f(object()) + self.b.sum() + self.b

    tracer = Tracer()
    return str(tracer.trace(Net())), tracer.root_module_name, list(tracer.node_name_to_scope)


@use
def constant_shapes(t):
    class Net(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = t.nn.Parameter(t.ones(2, 3))

        def forward(self, x):
            return x + self.w if self.w.shape[0] == 2 and self.w.dim() == 2 else x

    known = str(t.fx.Tracer(param_shapes_constant=True).trace(Net()))
    return known, t.fx.symbolic_trace(Net())


@use
def foreign_parameter(t):
    weight = t.nn.Parameter(t.ones(2))
    return t.fx.symbolic_trace(lambda x: x + weight)


@use
def foreign_module(t):
    layer = t.nn.Linear(1, 1)
    return t.fx.symbolic_trace(lambda x: layer(x))


@use
def interpreted(t):
    module = t.fx.symbolic_trace(lambda x, y=2: x * y)
    runs = t.fx.Interpreter(module)
    return runs.run(3), runs.run(3, 4), runs.boxed_run([5, 6]), runs.boxed_run([1])


@use
def interpreter_fails(t):
    return t.fx.Interpreter(t.fx.symbolic_trace(lambda x, y: x[y])).run({}, 3)


@use
def patterns(t):
    def f(x, a, b):
        return x + t.max(t.cat([a, b]).sum()) + t.max(t.cat([a, b]).sum()), t.relu(t.relu(x)) + 1

    module = t.fx.symbolic_trace(f)
    rewrite = t.fx.replace_pattern
    found = rewrite(module, lambda a, b: t.cat([a, b]).sum(), lambda a, b: t.stack([a, b]))
    more = rewrite(module, lambda x: t.relu(x), lambda x: t.sigmoid(x))
    none = rewrite(module, lambda x: t.tanh(x), lambda x: x)
    return module.code, str(found), len(more), none


@use
def patterns_that_overlap(t):
    def pair(x, y):
        a = x + y
        return a, a.sum()

    module = t.fx.symbolic_trace(lambda x: ((x + x).sum(), (x + 1).sum(), (x + 2) * 3))
    found = t.fx.replace_pattern(module, pair, lambda x, y: (x * y, x.mean()))
    filtered = t.fx.subgraph_rewriter.replace_pattern_with_filters
    more = filtered(module, lambda x: (x + 1) * 3, lambda x: x, ignore_literals=True)
    return module.code, str(found), str(more)


@use
def pattern_with_parts(t):
    module = t.fx.symbolic_trace(lambda x: t.relu(x) + 1)
    brought = t.fx.symbolic_trace(t.nn.Sequential(t.nn.Linear(2, 2)))
    t.fx.replace_pattern(module, lambda x: t.relu(x), brought)
    return module.code, [name for name, _ in module.named_modules()]


@use
def divided(t):
    def thirds() -> Any:
        count = iter(range(100))
        return lambda _: next(count) // 3

    split, names = t.fx.passes.split_module.split_module, {}
    plain = split(trace(t), net(t), thirds(), names)
    own = {"keep_original_node_name": True, "keep_original_input_name": False}
    other = split(trace(t), net(t), thirds(), keep_original_order=True, partition_affix="pp", **own)
    codes = [[m.code, *(c.code for c in m.children())] for m in (plain, other)]
    return codes, names, list(plain.state_dict())


@use
def loose_proxies(t):
    module, graph = t.fx.symbolic_trace(lambda x: t.sigmoid(t.relu(x)).sum()), t.fx.Graph()
    rules = {t.relu: lambda x: (x > 0) * x, t.sigmoid: lambda x: 1 / (1 + t.exp(-x))}
    env: dict[str, Any] = {}
    tracer = t.fx.proxy.GraphAppendingTracer(graph)
    for n in module.graph.nodes:
        if n.target in rules:
            given = [t.fx.Proxy(env[x.name], tracer) for x in n.args]
            env[n.name] = rules[n.target](*given).node
        else:
            env[n.name] = graph.node_copy(n, lambda x: env[x.name])
    return t.fx.GraphModule(module, graph).code


@use
def assigned_graph(t):
    module = trace(t).eval()
    module.graph = t.fx.symbolic_trace(lambda x: x + 1).graph
    return module.code, module(1), module.training, t.fx.GraphModule(module, module.graph).training


@pytest.mark.parametrize("name", USES)
def test_use(name):
    found = []
    for t in (tj, torch):
        try:
            result = USES[name](t)
            text = result if isinstance(result, str) else repr(result)
        except Exception as error:  # noqa: BLE001  (compared)
            text = f"{type(error).__name__}: {error}".partition("\nUse tlparse")[0]
        found.append(text.replace("torch", "tracejit"))
    assert found[0] == found[1]
