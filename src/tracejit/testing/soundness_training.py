"""Whole training steps in random stories: a model, an optimizer, a schedule, clipping, averages of parameters."""

from __future__ import annotations

from dataclasses import replace

from .choices import Choices
from .soundness_world import Feature, templates

#: Optimizers with options, each of which is given or not.
_OPTIMIZERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "SGD",
        (
            "momentum=0.9",
            "momentum=0.5, nesterov=True",
            "momentum=0.9, dampening=0.1",
            "maximize=True",
        ),
    ),
    ("Adam", ("amsgrad=True", "betas=(0.8, 0.9)", "eps=1e-4", "maximize=True")),
    ("AdamW", ("amsgrad=True", "betas=(0.8, 0.9)", "eps=1e-4")),
    ("RMSprop", ("centered=True", "momentum=0.5", "alpha=0.9")),
    ("Adagrad", ("lr_decay=0.01", "initial_accumulator_value=0.1")),
    ("Adadelta", ("rho=0.8",)),
    ("Adamax", ("betas=(0.8, 0.9)",)),
    ("NAdam", ("momentum_decay=0.01", "decoupled_weight_decay=True")),
    ("RAdam", ("decoupled_weight_decay=True",)),
    ("Rprop", ("etas=(0.6, 1.1)",)),
    ("ASGD", ("t0=3",)),
)
_SCHEDULES = (
    "StepLR(opt, 2, 0.5)",
    "ExponentialLR(opt, 0.9)",
    "CosineAnnealingLR(opt, 5)",
    "LambdaLR(opt, lambda n: 1.0 / (n + 1))",
    "LinearLR(opt, 0.5, total_iters=3)",
    "OneCycleLR(opt, 0.1, total_steps=200, cycle_momentum=False)",
)
#: Modules from rows of N to rows of N; ``{m}`` is another one of them.
_LAYERS = (
    "nn.Linear(N, N)",
    "nn.Linear(N, N, bias=False)",
    "nn.Sequential(nn.Linear(N, 4), nn.{a}, nn.Linear(4, N))",
    "nn.Sequential({m}, nn.{a}, {m})",
    "nn.Sequential(nn.LayerNorm(N), {m})",
    "nn.Sequential(nn.Linear(N, 3), nn.BatchNorm1d(3), nn.{a}, nn.Linear(3, N))",
    "nn.Sequential(nn.Linear(N, 4), nn.GroupNorm(2, 4), nn.{a}, nn.Linear(4, N))",
    "nn.Sequential(nn.RMSNorm(N), nn.{a})",
    "nn.Sequential({m}, nn.Dropout({r}))",
    "nn.Sequential(nn.Unflatten(1, (1, N)), nn.Conv1d(1, 2, 3, padding=1), nn.{a}, nn.Flatten(), nn.Linear(2 * N, N))",
    "nn.Sequential(nn.Unflatten(1, (1, N)), nn.Conv1d(1, 3, 1), nn.BatchNorm1d(3), nn.AdaptiveAvgPool1d(1), "
    "nn.Flatten(), nn.Linear(3, N))",
    "Plus({m})",
    "Plus({m}, 0.5)",
    "Both({m}, {m})",
    "Both({m}, nn.Linear(N, N))",
    "Twice({m})",
    "Weighed({m})",
    "nn.GRUCell(N, N)",
    "Recurrent(nn.LSTM(N, N, batch_first=True))",
    "Recurrent(nn.GRU(N, N, batch_first=True))",
    "Recurrent(nn.RNN(N, N, 2, batch_first=True))",
    "Attending(nn.MultiheadAttention(N, 1, batch_first=True))",
    "nn.Sequential({m}, nn.PReLU())",
    "nn.utils.parametrizations.weight_norm(nn.Linear(N, N))",
)
_ACTIVATIONS = (
    "ReLU()",
    "Tanh()",
    "GELU()",
    "SiLU()",
    "ELU()",
    "Sigmoid()",
    "LeakyReLU(0.1)",
    "Hardtanh()",
)
_PARTS = """
class Plus(nn.Module):
    def __init__(self, inner, scale=1.0):
        super().__init__()
        self.inner, self.scale = inner, scale

    def forward(self, v):
        return v + self.inner(v) * self.scale


class Both(nn.Module):
    def __init__(self, one, other):
        super().__init__()
        self.parts = nn.ModuleList([one, other])

    def forward(self, v):
        if v.mean() > 0.5:
            return self.parts[0](v)
        return sum(p(v) for p in self.parts) / len(self.parts)


class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, v):
        for _ in range(2):
            v = tj.tanh(self.inner(v))
        return v


class Weighed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.gain = nn.Parameter(tj.full((N,), 0.5))
        self.register_buffer("mean", tj.zeros(N))

    def forward(self, v):
        if self.training:
            with tj.no_grad():
                self.mean.lerp_(v.mean(0), 0.1)
        return self.inner(v - self.mean) * self.gain


class Recurrent(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, v):
        return self.inner(v.unsqueeze(0))[0][0]


class Attending(Recurrent):
    def forward(self, v):
        v = v.unsqueeze(0)
        return self.inner(v, v, v, need_weights=False)[0][0]
"""
_MASTER = Feature(
    "train",
    """
master = nn.Parameter(stage.tensor(N, N))
opt = {optimizer}
""",
    tests=("master.grad is None",),
    values=("{x} @ master.to({x}.dtype)",),
    writes=(
        "opt.zero_grad()\n({x}.detach() @ master.to({x}.dtype)).square().mean().backward()\nopt.step()",
        "opt.zero_grad(set_to_none=False)\n({x}.detach() @ master.to({x}.dtype)).square().mean()"
        ".backward()\nnn.utils.clip_grad_norm_([master], 0.5)\nopt.step()",
        "opt.zero_grad()",
    ),
    changes=(
        "opt.param_groups[0]['lr'] = 0.05",
        "opt.step()",
        "opt.zero_grad()",
        "master.grad = None",
        "opt.load_state_dict(opt.state_dict())",
        "opt.param_groups[0]['weight_decay'] = 0.01",
        "hook = opt.register_step_post_hook(lambda *a: items.append(0.5) if 'items' in globals() else None)",
    ),
    often=1.0,
)
_RULED = "rule.zero_grad()\n({x}.detach() @ ruled.to({x}.dtype)).square().mean().backward()\n"
#: An optimizer whose step is Python of the story's, and replaces what it keeps.
RULE = Feature(
    "rule",
    """
class Rule(tj.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))

    @tj.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["count"] = 0
                    state["slow"] = tj.zeros_like(p)
                state["count"] += 1
                state["slow"] = state["slow"] * 0.9 + p.grad
                state["norms"] = (p.grad.norm(), *state.get("norms", ()))[:2]
                p.sub_(state["slow"], alpha=group["lr"] / state["count"])

    @tj.no_grad()
    def climb(self):
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                by = p.grad * 0.05
                p.add_(by)
                self.state[p]["by"] = by

    @tj.no_grad()
    def back(self):
        for p in self.param_groups[0]["params"]:
            if "by" in self.state[p]:
                p.sub_(self.state[p]["by"])
        self.state["climbs"] = self.state.get("climbs", 0) + 1


ruled = nn.Parameter(stage.tensor(N, N))
rule = Rule([ruled])
""",
    numbers=("rule.param_groups[0]['lr']", "rule.state[ruled].get('count', 0)"),
    tests=("'slow' in rule.state[ruled]", "ruled.grad is None"),
    values=("{x} @ ruled.to({x}.dtype)", "rule.state[ruled].get('slow', ruled).detach()[0]"),
    writes=(
        _RULED + "rule.step()",
        _RULED + "rule.step()\nrule.step()",
        _RULED + "rule.climb()\nrule.back()\nrule.step()",
        _RULED + "rule.climb()",
        "rule.back()",
        "rule.state[ruled]['slow'] = ruled.detach() * 0.5",
        "rule.state[ruled]['slow'] = rule.state[ruled]['by'] = ruled.detach().clone()",
        "kept = rule.state[ruled].pop('slow', None)",
    ),
    changes=(
        "rule.param_groups[0]['lr'] = 0.05",
        "rule.state[ruled].clear()",
        "rule.state.clear()",
        "rule.load_state_dict(copy.deepcopy(rule.state_dict()))",
        "rule.state[ruled]['slow'] = tj.ones_like(ruled)",
        "rule.state[ruled]['slow'] = ruled.detach()",
        "rule.state[ruled]['by'] = rule.state[ruled].get('slow', ruled.detach())",
        "kept = rule.state[ruled].get('slow')",
        "kept = rule.state[ruled].get('by')",
        "if isinstance(globals().get('kept'), tj.Tensor):\n    kept.detach().mul_(0.5)",
        "rule.state[ruled] = {'slow': ruled.detach() * 2, 'count': 3}",
        "ruled.grad = None",
        "ruled.grad = tj.ones_like(ruled)",
        "rule = Rule([ruled])",
    ),
    often=1.0,
)
#: The body of a step; ``{d}`` are rows without history.
_STEPS = templates(
    """
opt.zero_grad()
loss = model({d}).square().mean()
loss.backward()
opt.step()

opt.zero_grad(set_to_none=False)
loss = F.mse_loss(model({d}), {d})
loss.backward()
nn.utils.clip_grad_norm_(model.parameters(), 0.1)
opt.step()
plan.step()

loss = F.smooth_l1_loss(model({d}), {d} * 0.5)
loss.backward()
nn.utils.clip_grad_value_(model.parameters(), 0.05)
opt.step()
opt.zero_grad()

opt.zero_grad()
for part in ({d}, {d} * 0.5):
    (model(part).square().mean() / 2).backward()
opt.step()
plan.step()

loss = model({d}).square().mean()
grads = tj.autograd.grad(loss, list(model.parameters()), allow_unused=True)
with tj.no_grad():
    for p, g in zip(model.parameters(), grads):
        if g is not None:
            p -= 0.05 * g

opt.zero_grad()
loss = model({d}).square().mean()
if loss > 0.05:
    loss.backward()
    opt.step()

opt.zero_grad()
loss = model({d}).square().mean()
loss.backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
if norm.isfinite() and norm < 5:
    opt.step()
    plan.step()

opt.zero_grad()
loss = model({d}).abs().mean()
loss.backward()
with tj.no_grad():
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(0.5)
opt.step()

opt.zero_grad()
model({d}).mean().backward()
opt.step()
with tj.no_grad():
    for p, q in zip(average.parameters(), model.parameters()):
        p.lerp_(q, 0.25)

opt.zero_grad()
plan.step()

def closure():
    opt.zero_grad()
    found = model({d}).square().mean()
    found.backward()
    return found
loss = opt.step(closure)
"""
)
_CHANGES = (
    "opt.param_groups[0]['lr'] = 0.05",
    "opt.param_groups[0]['lr'] *= 0.5",
    "opt.param_groups[0]['weight_decay'] = 0.01",
    "opt.step()",
    "opt.zero_grad()",
    "opt.zero_grad(set_to_none=False)",
    "plan.step()",
    "saved = copy.deepcopy(opt.state_dict())",
    "opt.load_state_dict(copy.deepcopy(opt.state_dict()))",
    "kept = copy.deepcopy(model.state_dict())",
    "model.load_state_dict(kept) if 'kept' in globals() else None",
    "model.eval()",
    "model.train()",
    "for p in list(model.parameters())[:1]:\n    p.requires_grad_(not p.requires_grad)",
    "for p in model.parameters():\n    p.grad = None",
    "for p in model.parameters():\n    p.grad = tj.ones_like(p)",
    "hook = opt.register_step_post_hook(lambda *a: hooked.append(1))",
    "hook = opt.register_step_pre_hook(lambda *a: hooked.append(2))",
    "hook.remove() if 'hook' in globals() else None",
    "opt.add_param_group({'params': [nn.Parameter(tj.ones(N))], 'lr': 0.2}) if len(opt.param_groups) < 2 else None",
    "model = copy.deepcopy(model)",
    "opt = type(opt)(model.parameters(), lr=0.02)",
    "first = next(model.parameters())\nhook = first.register_hook(lambda g: g * 0.5)",
    "first = next(model.parameters())\nhook = first.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))",
    "with tj.no_grad():\n    for p in model.parameters():\n        p.mul_(0.9)",
)


def optimizer(choices: Choices, parameters: str) -> str:
    """An optimizer with some of its options."""
    name, options = choices.pick(_OPTIMIZERS)
    given = [
        parameters,
        *([] if name == "Adadelta" else [f"lr={choices.pick(['0.1', '0.01', '0.05'])}"]),
    ]
    given += [choices.pick(options)] if choices.chance(0.5) else []
    given += ["weight_decay=0.1"] if choices.chance(0.3) and name != "Rprop" else []
    return f"tj.optim.{name}({', '.join(given)})"


def model(choices: Choices, depth: int = 0) -> str:
    """A module of modules from rows of N to rows of N."""
    layers = [x for x in _LAYERS if depth < 2 or "{m}" not in x]
    text = str(choices.pick(layers)).replace("{r}", str(choices.pick(["0.1", "0.25", "0.5"])))
    while "{m}" in text:
        text = text.replace("{m}", model(choices, depth + 1), 1)
    while "{a}" in text:
        text = text.replace("{a}", str(choices.pick(_ACTIVATIONS)), 1)
    return text


def lesson(choices: Choices) -> Feature:
    """A model in training."""
    setup = (
        f"{_PARTS}\n\nmodel = {model(choices)}\naverage = copy.deepcopy(model)\n"
        f"opt = {optimizer(choices, 'model.parameters()')}\n"
        f"plan = tj.optim.lr_scheduler.{choices.pick(_SCHEDULES)}\nhooked = []\n"
    )
    steps = [str(choices.pick(_STEPS)) for _ in range(2)]
    return Feature(
        "lesson",
        setup,
        numbers=("opt.param_groups[0]['lr']",),
        tests=("model.training", "next(model.parameters()).grad is None", "len(opt.state) > 0"),
        values=("model(rows({x}).float()).mean(0)", "model(rows({x}).float())[0]"),
        writes=tuple(s.replace("{d}", "rows({x}).detach().float()") for s in steps),
        changes=_CHANGES,
        often=1.0,
    )


def master(choices: Choices) -> Feature:
    """A parameter, and an optimizer for it."""
    return replace(
        _MASTER, setup=_MASTER.setup.replace("{optimizer}", optimizer(choices, "[master]"))
    )
