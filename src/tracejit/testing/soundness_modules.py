"""Modules as state of random stories: parameters, buffers, modes, hooks, statistics."""

from __future__ import annotations

from .choices import Choices
from .soundness_world import Feature, templates

_CHANGES = (
    "net.train()",
    "net.eval()",
    "net.train(not net.training)",
    "net.lin = nn.Linear(N, N)",
    "net.lin.weight = nn.Parameter(stage.tensor(N, N))",
    "net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items() if v.is_floating_point()}, strict=False)",
    "handle = net.register_forward_hook(halve)",
    "handle = net.lin.register_forward_hook(halve)",
    "handle = net.register_forward_pre_hook(shift_input)",
    "handle.remove() if 'handle' in globals() else None",
    "handle = net.lin.register_full_backward_hook(lambda m, i, o: None)",
    "net.k = 0.25",
    "net.k = 0.75",
    "net.drop.p = 0.1",
    "net.requires_grad_(False)",
    "net.requires_grad_(True)",
    "net.zero_grad()",
    "net.double()",
    "net.float()",
    "net.lin.bias = None",
    "Net.mix = lambda self, v: v * 0.5 - self.k",
    "net.mix = lambda v: v + 0.5",
    "net.total = tj.ones(N)",
    "net.total.add_(0.5)",
    "net = Net()",
    "net.lin = nn.Identity()",
    "with tj.no_grad():\n    net.lin.weight.mul_(0.9)",
    "for p in net.parameters():\n    p.data.add_(0.01)",
    "net.lin.train(not net.lin.training)",
    "net.register_buffer('more', tj.ones(N))",
    "net.apply(lambda m: setattr(m, 'seen', True))",
    "net.parts = net.parts[:1] if hasattr(net, 'parts') else None",
    "net, other = other, net",
    "other.lin = net.lin",
    "net.layers.append(nn.ReLU())",
    "net.layers[0] = nn.Tanh()",
    "del net.layers[0]",
    "net.layers.insert(0, nn.Dropout(0.5))",
    "net.lin.weight.data = net.lin.weight.data * 0.5",
    "net.lin.weight.requires_grad_(not net.lin.weight.requires_grad)",
    "net.lin.weight.grad = tj.ones(N, N)",
    "handle = net.register_forward_hook(halve, prepend=True)",
    "handle = net.lin.register_forward_pre_hook(shift_input)",
    "halve.__code__ = (lambda module, inputs, output: output * 0.25).__code__",
    "net.forward = lambda v: v * 0.5",
    "del net.forward",
    "tj.nn.init.constant_(net.lin.weight, 0.25)",
    "net = copy.deepcopy(net)",
    "net.to(tj.float64)",
    "net.layers.requires_grad_(False)",
    "nn.modules.module.register_module_forward_hook(lambda m, i, o: None).remove()",
)

_SETUP = """
def halve(module, inputs, output):
    return output * 0.5


def shift_input(module, inputs):
    return (inputs[0] + 0.25,)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(N, N)
        self.drop = nn.Dropout(0.3)
        self.norm = nn.{norm}
        self.register_buffer("total", tj.zeros(N))
        self.layers = nn.ModuleList([nn.Linear(N, N, bias=False), nn.Tanh()])
        self.k = 0.5
        self.calls = 0

    def mix(self, v):
        return v * self.k

    {decorator}
    def forward(self, v):
        v = v.to(self.total.dtype)
{body}
        return v


net = Net()
other = Net()
"""
_BODY = (
    "v = self.lin(v)",
    "v = self.mix(v)",
    "v = self.drop(v)",
    "v = self.norm(v.reshape(-1, N)).reshape(v.shape)",
    "self.total.add_(row(v))",
    "self.total.mul_(0.9).add_(row(v), alpha=0.1)",
    "v = v + self.total",
    "v = tj.relu(v)",
    "if self.training:\n            v = v * 0.5",
    "if v.sum() > 0:\n            v = self.mix(v)",
    "self.calls += 1",
    "v = v * (1 + self.k)",
    "for child in self.children():\n            v = v * 0.9",
    "v = v + getattr(self, 'more', 0.0)",
    "self.total = self.total * 0.5 + row(v)",
    "v = v + self.lin.weight.sum(0)",
    "for layer in self.layers:\n            v = layer(v)",
    "v = self.layers[-1](v) * len(self.layers)",
    "if v.ndim > 1 and v.mean() > 0:\n            return v",
    "v = v.clone()\n        v[..., :1] = v[..., :1] * self.k",
)


_NORMS = (
    "LayerNorm(N)",
    "BatchNorm1d(N)",
    "BatchNorm1d(N, track_running_stats=False)",
    "Identity()",
    "GroupNorm(1, N)",
)
_STATEMENTS = templates(
    """
{z} = {{k: p * 0.5 for k, p in net.named_parameters()}}
{t} = tj.func.functional_call(net, {z}, ({x},))

{z} = net.lin.register_forward_hook(halve)
{t} = net({x})
{z}.remove()

{z} = net.training
net.train(not {z})
{t} = net({x})
net.train({z})

{t} = {x}
for p in net.parameters():
    {t} = {t} + p.sum() * 0.1

{z} = dict(net.named_buffers())
{t} = {x} + len({z}) + {z}['total']

if {q}:
    {t} = net({x})
else:
    {t} = other({x})

{t} = {x}
for m in (net, other, net):
    {t} = m({t})

{t} = sum(p.square().sum() for k, p in net.named_parameters() if 'weight' in k) * 0.1 + {x}

{z} = nn.Sequential(net.lin, nn.Tanh(), net)
{t} = {z}({x}.to(net.total.dtype))
"""
)


def net(choices: Choices) -> Feature:
    """A module whose forward does some of many things, and another of its class."""
    lines = [choices.pick(_BODY) for _ in range(choices.whole(1, 5))]
    setup = (
        _SETUP.replace("{body}", "\n".join(f"        {line}" for line in lines))
        .replace("{norm}", choices.pick(_NORMS))
        .replace("    {decorator}\n", "    @stage.compile\n" if choices.chance(0.15) else "")
    )
    return Feature(
        "net",
        setup,
        numbers=("net.k",),
        tests=("net.training", "net.lin.bias is None", "hasattr(net, 'more')"),
        values=(
            "net({x})",
            "net({x})",
            "net({x})",
            "other({x})",
            "net.mix({x})",
            "net.total",
            "net.lin({x}.to(net.total.dtype))",
        ),
        writes=("net.total.add_(row({x}))", "net.k = net.k * 0.5", "net.total = row({x})"),
        changes=_CHANGES,
        often=0.3,
        statements=_STATEMENTS,
    )
