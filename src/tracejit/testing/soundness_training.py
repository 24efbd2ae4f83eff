"""Whole training steps in random stories: a model, an optimizer, a schedule, clipping, averages of parameters."""

from __future__ import annotations

from dataclasses import replace

from .choices import Choices
from .soundness_world import Feature, templates

_OPTIMIZERS = (
    "SGD({p}, lr=0.1, momentum=0.9)",
    "SGD({p}, lr=0.1)",
    "SGD({p}, lr=0.05, momentum=0.5, nesterov=True, weight_decay=0.01)",
    "Adam({p}, lr=0.01)",
    "Adam({p}, lr=0.01, amsgrad=True, weight_decay=0.1)",
    "AdamW({p}, lr=0.01)",
    "RMSprop({p}, lr=0.01)",
    "RMSprop({p}, lr=0.01, centered=True, momentum=0.5)",
    "Adagrad({p}, lr=0.05)",
    "Adadelta({p})",
    "NAdam({p}, lr=0.01)",
    "Rprop({p}, lr=0.01)",
)
_SCHEDULES = (
    "StepLR(opt, 2, 0.5)",
    "ExponentialLR(opt, 0.9)",
    "CosineAnnealingLR(opt, 5)",
    "LambdaLR(opt, lambda n: 1.0 / (n + 1))",
    "LinearLR(opt, 0.5, total_iters=3)",
    "OneCycleLR(opt, 0.1, total_steps=200, cycle_momentum=False)",
)
_MODELS = (
    "nn.Sequential(nn.Linear(N, 4), nn.Tanh(), nn.Linear(4, N))",
    "nn.Sequential(nn.Linear(N, N), nn.LayerNorm(N), nn.ReLU(), nn.Dropout(0.25), nn.Linear(N, N, bias=False))",
    "nn.Sequential(nn.Linear(N, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, N))",
    "nn.GRUCell(N, N)",
)
_MASTER = Feature(
    "train",
    """
master = nn.Parameter(stage.tensor(N, N))
opt = tj.optim.{optimizer}
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


def lesson(choices: Choices) -> Feature:
    """A model in training."""
    optimizer = str(choices.pick(_OPTIMIZERS)).replace("{p}", "model.parameters()")
    setup = (
        f"model = {choices.pick(_MODELS)}\naverage = copy.deepcopy(model)\nopt = tj.optim.{optimizer}\n"
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
    optimizer = str(choices.pick(_OPTIMIZERS)).replace("{p}", "[master]")
    return replace(_MASTER, setup=_MASTER.setup.replace("{optimizer}", optimizer))
