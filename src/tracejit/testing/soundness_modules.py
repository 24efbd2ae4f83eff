"""Modules as state of random stories: parameters, buffers, modes, hooks, statistics."""

from __future__ import annotations

from dataclasses import replace

from .soundness_tensors import BANK, CACHE, DRAWS, FOREIGN, GENERATOR, TRAINING, VIEW, WEIGHT
from .soundness_world import (
    CLOSURE,
    CONFIG,
    COUNT,
    FLAG,
    HELPER,
    ITEMS,
    SCALE,
    SLOTTED,
    TABLE,
    Feature,
)

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
)


def net(lines: list[str], norm: str, compiled: bool) -> Feature:
    """A module whose forward does these things."""
    setup = (
        _SETUP.replace("{body}", "\n".join(f"        {line}" for line in lines))
        .replace("{norm}", norm)
        .replace("    {decorator}\n", "    @stage.compile\n" if compiled else "")
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
            "net.mix({x})",
            "net.total",
            "net.lin({x}.to(net.total.dtype))",
        ),
        writes=("net.total.add_(row({x}))", "net.k = net.k * 0.5", "net.total = row({x})"),
        changes=_CHANGES,
        often=0.3,
    )


def training(optimizer: str) -> Feature:
    """A parameter, and an optimizer for it."""
    return replace(TRAINING, setup=TRAINING.setup.replace("{optimizer}", optimizer))


NORMS = (
    "LayerNorm(N)",
    "BatchNorm1d(N)",
    "BatchNorm1d(N, track_running_stats=False)",
    "Identity()",
    "GroupNorm(1, N)",
)
OPTIMIZERS = (
    "SGD([master], lr=0.1, momentum=0.9)",
    "SGD([master], lr=0.1)",
    "Adam([master], lr=0.01)",
    "AdamW([master], lr=0.01)",
    "RMSprop([master], lr=0.01)",
)
BODY = _BODY
FEATURES = (
    SCALE,
    FLAG,
    COUNT,
    ITEMS,
    TABLE,
    CONFIG,
    SLOTTED,
    BANK,
    VIEW,
    CACHE,
    WEIGHT,
    CLOSURE,
    HELPER,
    GENERATOR,
    DRAWS,
    FOREIGN,
)
