"""Statements of random stories about numbers read from tensors: arithmetic, mathematics, text, choices, use again."""

from __future__ import annotations

from .soundness_world import templates

#: Numbers.
SCALARS = (
    "{x}.sum().item()",
    "float({x}.detach().mean())",
    "math.sqrt(abs({x}.detach().sum().item()))",
    "round(float({x}.detach().mean()), 1)",
    "int(({x} > 0).sum())",
    "max({x}.detach().amax().item(), 0.25)",
    "len({x})",
    "{x}.shape[-1]",
    "min(1.0, abs(float({x}.detach().sum())))",
    "{x}.numel() / 4",
    "{x}.sum().item() * {n} + 0.5",
    "math.floor(float({x}.detach().sum())) % 3",
    "math.exp(-abs({x}.detach().mean().item()))",
    "abs({x}.detach().mean().item()) ** 0.5 // 0.25",
    "math.copysign({n}, {x}.detach().sum().item())",
    "sum(v.item() for v in {x}.detach().flatten()[:3])",
    "max({x}.detach().flatten().tolist()[:3])",
    "math.hypot(*{x}.detach().flatten().tolist()[:2])",
    "int({x}.detach().sum() * 4) & 3",
    "divmod({x}.detach().sum().item(), 0.5)[1]",
    "({x}.detach().amax() - {x}.detach().amin()).item()",
    "math.tanh({x}.detach().mean().item()) + math.log1p({x}.shape[0])",
    "float({x}.detach().mean()) / ({x}.shape[0] + 1)",
    "-(-{x}.numel() // 2)",
    "float(bool({x}.detach().sum() > 0))",
    "tj.numel({x}) - {x}.dim()",
    "round({x}.detach().sum().item())",
    "int(float({x}.detach().abs().sum())) % 4 + 1",
    "float(np.sqrt(abs({x}.detach().mean().item())))",
    "1.0 / (1.0 + abs({x}.detach().sum().item()))",
)
#: Statements.
NUMBERS = templates(
    """
{s} = {x}.detach().sum().item()
{t} = {x} * {s} if {s} > 0 else {x} - {s}

{s} = {x}.detach().mean().item()
if 0 < {s} < 0.5:
    ...
    {t} = {e}
else:
    {t} = {x} * {s}

{s} = {x}.detach().mean().item()
if f'{{{s}:.1f}}'.startswith('-'):
    ...
    {t} = {e}
else:
    {t} = {x} + {s}

{s} = {x}.detach().mean().item()
{t} = {x} + len(f'{{{s}:.3f}} of {{{x}.shape[0]}}')

{s} = round({x}.detach().sum().item(), 1)
{t} = {x} + len(str({s})) * 0.25

{s} = {{'a': {x}.detach().sum().item(), 'b': {n}}}
{t} = {x} * {s}['a'] + {s}['b']

{s} = [{x}.detach().mean().item(), {n}, 0.5]
{s}.sort()
{t} = {x} * {s}[1]

{s} = int({x}.detach().sum())
{t} = {{0: tj.sin, 1: tj.cos}}.get({s}, tj.tanh)({x})

{s} = int({x}.detach().abs().sum()) % 3
{t} = [tj.sin, tj.cos, tj.tanh][{s}]({x})

{s} = 'abc'[int({x}.detach().abs().sum()) % 3]
if {s} == 'a':
    ...
    {t} = {e}
else:
    {t} = {x} * 0.5

{s} = {x}.detach().sum().item()
{t} = {x} + tj.tensor([{s}, 1.0]).sum()

{s} = float({x}.detach().mean())
{t} = {x} + tj.full((N,), {s})

{s} = float({x}.detach().mean())
{t} = tj.add({x}, {y}, alpha={s})

{s} = abs(float({x}.detach().mean())) + 0.1
{t} = {x}.clamp(-{s}, {s})

{s} = abs(float({x}.detach().mean()))
{t} = F.leaky_relu({x}, {s}) + F.softplus({x}, beta={s} + 0.5)

{s} = int({x}.detach().sum())
{t} = {x}.roll({s}, -1)

{s} = float({x}.detach().sum())
{t} = tj.where({x} > {s}, {x}, {s})

{s} = int(({x} > 0).sum())
{t} = {x}
while {s} > 0:
    {t} = {t} * 0.75
    {s} -= 2

{s} = 0
{t} = tj.tanh({x} * 1.0)
while {t}.abs().sum() > 0.3 and {s} < 4:
    {t} = {t} * 0.5
    {s} += 1
{t} = {t} + {s}

{s} = 0.0
for {z} in rows({x}):
    {s} += {z}.detach().sum().item()
    if {s} > 1:
        break
{t} = {x} * {s}

{s} = {n}
for {z} in range({x}.shape[0]):
    {s} = {s} * 0.5 + {z}
{t} = {x} + {s}

{s} = {x}.detach().sum().item()
{t} = {x} * (math.sin({s}) if math.isfinite({s}) else 0.0)

{s} = {x}.detach().tolist()
{t} = {y} + tj.tensor({s}).sum()

{s} = {x}.detach().flatten()[0].item()
{z} = {y}.detach().flatten()[0].item()
{t} = {x} * max({s}, {z}) - min({s}, {z})

{s} = {x}.detach().sum().item() > {n}
{t} = {x} * {s} + (not {s})

{s} = ({x}.sum() > 0).item()
{t} = {x} + int({s})

{s} = int({x}.detach().abs().sum() * 3)
if {s} % 2 == 0 or {s} in (1, 5):
    ...
    {t} = {e}
else:
    {t} = {x} - {s}

{s} = bool({x}.detach().sum() > 0) + bool({y}.detach().sum() > 0)
{t} = {x} * {s}

{s} = {x}.detach().numpy().sum()
{t} = {x} + float({s})

{s} = {x}.detach().mean()
{t} = {x} if {s} > 0 else {y} * {s}

{s} = complex({x}.detach().mean().item(), 0.5)
{t} = {x} * abs({s})

{s} = (rows({x}) > 0).sum(0).tolist()
{t} = [{x}, {y}, {x} * 0.5][{s}[0] % 3] + {s}[-1]

{s} = rows({x}).detach().argmax(-1).tolist()
{t} = {x}
for {z} in {s}:
    {t} = {t} * {{0: 0.5, 1: 2.0}}.get({z}, {n})

{s} = ({x}.detach().flatten()[:3] * 2).long().tolist()
{t} = {y} if {s} == [0] * len({s}) else {x} * (max({s}) + {s}[0] % 2)

{s} = (rows({x}) > 0.5).any(0).tolist()
{t} = {x} * sum({s})
if {s}[0]:
    ...
    {t} = {e}

{s} = (rows({x}) > 0).sum(-1).tolist()
{t} = {y}
for {z} in range({s}[0]):
    {t} = {t} * 0.75 + len(set({s}))

{s} = (rows({x}) > 0)[:1].long().tolist()
{t} = {x} + sum({s}[0])
"""
)
