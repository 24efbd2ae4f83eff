"""What programs become when they are traced, against PyTorch: code, graphs and errors, with one name for the other."""

from __future__ import annotations

import importlib
import inspect
import math
from typing import Any

import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")
for package in ("torch", "tracejit"):
    importlib.import_module(f"{package}.fx")
pytestmark = pytest.mark.filterwarnings("ignore")


def traced(make: Any, t: Any, **options: Any) -> str:
    """Code and graph of a program made for a package, or the error."""
    try:
        found = t.fx.symbolic_trace(make(t), **options)
    except Exception as error:  # noqa: BLE001  (compared)
        return f"{type(error).__name__}: {error}".replace("torch", "tracejit")
    return f"{found.code}{found.graph}".replace("torch", "tracejit")


#: Programs of ``x``, as text that is run with ``t``, a package, and ``c``, a tensor.
PROGRAMS = {
    "constants": "c + x, c.add(x), c @ x, c[x], c == x, c - x, c / x, c ** x, c // x, c % x, c > x",
    "reflected": "1 - x, 1 / x, 2 ** x, 2 // x, 2 % x, 2 > x, 1 & x, 1 | x, 1 ^ x, 1 << x",
    "operators": "-x + abs(x) - ~x, (x > 0) & (x < 1), x @ x, x ** 2 + x % 3",
    "factories": "t.arange(x.shape[0]), t.full((2,), x), t.ones_like(x)",
    "namespaces": "t.linalg.eigh(x), t.fft.fft(x), t.special.erfcx(x), t.einsum('ij->ji', x)",
    "questions": "t.is_tensor(x), t.numel(x), t.is_floating_point(x)",
    "dtypes": "x.to(t.float16).to(t.device('cpu')).to(dtype=t.float64, copy=True).type(t.long)",
    "written": "c.__setitem__(0, x)",
    "joined": "t.cat([c, x]), t.stack((x, x), dim=-1), t.chunk(x, 2, dim=1)[0], t.split(x, 2)",
    "shapes": "c.reshape(x.shape), c.view(-1, x.shape[0]), t.flatten(x, 1), x.size()[0] * x.dim()",
    "methods": "x.add_(1), x.T.mT.grad, x.float().detach(), t.max(x, 1)[0].sum().item()",
    "in place": "t.relu_(x), F.relu_(x)",
    "nested": "[x, {'a': (x, None, ..., slice(None, x))}], x[..., None, 1:2, x]",
    "numbers": "x + math.inf - float('nan') * 1j, t.where(x > 0, x, 0.0)",
    "arguments": "t.add(x, x, alpha=2).mul(other=x).sub(1, alpha=3)",
    "layers": "F.gelu(x), F.linear(x, x), F.conv2d(x, x, padding=1), t.conv2d(x, x, padding=1)",
    "math": "math.sqrt(x), math.floor(x)",
    "unpacked": "(lambda a, b: a + b)(*x)",
    "asserted": "t._assert(x.shape[0] > 1, 'no')",
    "nothing": "None",
    "parts of functions": "t.ops.aten.add.Tensor(x, x), t.ops.aten.relu(x)",
    "attributes": "getattr(x, 'data'), x.view('a')",
    **{f"int {name}": f"{name}(x)" for name in ("int", "range", "round", "float", "len", "list")},
    "divmod": "divmod(x, 2)",
    "branch": "1 if x.sum() > 0 else 2",
    "among": "x in [1]",
    "loop": "[y for y in x]",
    "mapping": "dict(**x)",
    "key": "x.f({x: 1})",
    "set": "x.f({1, 2})",
    "object": "x.f(object())",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    def make(t: Any) -> Any:
        names = {"t": t, "F": t.nn.functional, "c": t.tensor([1.0, 2.0]), "math": math}
        exec(f"def f(x): return {PROGRAMS[name]}", names)
        return names["f"]

    assert traced(make, tj) == traced(make, torch)


def _parameters(t: Any) -> Any:
    def f(x, *rest, scale=3, y: int = 2, **named):
        return x + rest[0] + scale * y + named["z"]

    return f


def _annotated(t: Any) -> Any:
    def f(a, b=None, c=1.5):
        return a

    f.__annotations__ = {"a": list[int], "b": t.Tensor, "c": int | float, "return": tuple[int, ...]}
    return f


def _own_rule(t: Any) -> Any:
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return lambda x: Double.apply(x) + 1


def test_functions_with_a_backward_of_their_own():
    assert traced(_own_rule, tj) == traced(_own_rule, torch)


def test_parameters():
    assert traced(_parameters, tj) == traced(_parameters, torch)
    assert traced(_annotated, tj) == traced(_annotated, torch)


#: Functions that PyTorch calls otherwise, has more arguments of, or checks before it looks for proxies.
APART = {
    *("threshold", "threshold_", "sigmoid", "tanh", "grouped_mm", "l1_loss", "normalize"),
    *("prelu", "conv_tbc", "channel_shuffle", "native_channel_shuffle", "pixel_shuffle"),
    *("pixel_unshuffle", "softmax", "softmin", "log_softmax"),
}


def test_functions_of_layers_are_spelled_out():
    different = {}
    for name in set(tj.nn.functional.__all__) - APART:
        try:
            known = inspect.signature(getattr(torch.nn.functional, name)).parameters.values()
            needed = [p for p in known if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
            count = len(needed) if all(p.kind is not p.VAR_POSITIONAL for p in known) else 2
        except ValueError:
            count = 3 if "attention" in name or name == "bilinear" else 2
            one = ("one_hot", "pdist", "gelu", "logsigmoid", "softplus", "softshrink", "hardshrink")
            count = 1 if name.endswith("_") or name in one else count

        def make(t: Any, name: str = name, count: int = count) -> Any:
            names = {"f": getattr(t.nn.functional, name)}
            given = ", ".join("abcdefg"[:count])
            exec(f"def g({given}): return f({given})", names)
            return names["g"]

        mine, theirs = traced(make, tj), traced(make, torch)
        if mine != theirs:
            different[name] = f"\n- {theirs}\n+ {mine}"
    assert not different, "".join(different.values())


class Models:
    """Modules of a package, by name."""

    def __init__(self, t: Any) -> None:
        self.t = t

    def residual(self) -> Any:
        t, nn = self.t, self.t.nn

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.conv, self.norm = nn.Conv2d(3, 3, 3, 1, 1), nn.BatchNorm2d(3)
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                out = self.norm(self.conv(x))
                out += x
                return self.relu(out)

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.Sequential(Block(), Block())
                self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(3, 2)

            def forward(self, x):
                return self.fc(t.flatten(self.pool(self.layers(x)), 1))

        return Net()

    def attention(self) -> Any:
        t, nn = self.t, self.t.nn

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)
                self.place = nn.Parameter(t.zeros(1, 4, 8))
                self.register_buffer("mask", t.tril(t.ones(4, 4)))
                self.outs = nn.ModuleDict({"a": nn.Linear(8, 2)})

            def forward(self, x, scale: float = 0.5):
                b, n, c = (x + self.place).shape
                q, k, v = self.qkv(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
                a = (q @ k.transpose(-2, -1)) * scale
                a = a.masked_fill(self.mask[:4, :4] == 0, float("-inf")).softmax(dim=-1)
                a = t.nn.functional.dropout(a, 0.0, self.training)
                y = (a @ v).transpose(1, 2).reshape(b, n, c)
                y = t.nn.functional.layer_norm(y, (8,), self.norm.weight, self.norm.bias)
                return {"out": self.outs["a"](y), "more": (y, [y.shape[0]])}

        return Net()

    def shared(self) -> Any:
        t, nn = self.t, self.t.nn

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = nn.Linear(4, 4)
                self.b, self.constant = self.a, t.arange(4.0)

            def forward(self, x, y=None, *, flag=True):
                x = self.a(input=self.b(x)) + self.constant + t.ones(4)
                return t.nn.functional.linear(x, self.a.weight, self.a.bias)

        return Net()

    def recurrent(self) -> Any:
        nn = self.t.nn

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.lstm = nn.LSTM(4, 4, batch_first=True)
                self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

            def forward(self, x):
                out, (h, _) = self.lstm(x)
                return self.heads(out, out, out, need_weights=False)[0], h[-1]

        return Net()


INPUTS = {
    "residual": (2, 3, 4, 4),
    "attention": (2, 4, 8),
    "shared": (2, 4),
    "recurrent": (2, 3, 4),
}


def _modules(name: str) -> list[Any]:
    return [(t, t.fx.symbolic_trace(getattr(Models(t), name)())) for t in (tj, torch)]


@pytest.mark.parametrize("name", INPUTS)
def test_model(name):
    found = []
    for t, module in _modules(name):
        shape_prop = importlib.import_module(f"{t.__name__}.fx.passes.shape_prop")
        shape_prop.ShapeProp(module).propagate(t.ones(INPUTS[name]))
        meta = [str(node.meta.get("tensor_meta")) for node in module.graph.nodes]
        again = t.fx.symbolic_trace(module)
        moved = t.fx.Transformer(module).transform()
        texts = (
            module.print_readable(False),
            str(module),
            str(module.graph),
            again.code,
            moved.code,
        )
        stacks = [
            [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
            for node in module.graph.nodes
        ]
        seen = f"{texts} {meta} {stacks} {list(module.state_dict())}"
        found.append(seen.replace("torch", "tracejit"))
    assert found[0] == found[1]
