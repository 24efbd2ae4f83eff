"""Statements of random stories whose sizes only the values tell: found positions, masks, distinct values, counts."""

from __future__ import annotations

from .soundness_world import templates

SIZES = templates(
    """
{z} = rows({x})
{z} = {z}[{z}[:, 0] > 0]
{t} = {z}.sum(0)

{z} = rows({x})
{t} = {z}[{z}.sum(-1) > {n}].sum(0) + {y}

{z} = {x}[{x} > {n}]
{t} = {x} + ({z}.sum() if len({z}) else 0.5)

{z} = {x}[{x} > 0]
{t} = {x} * {z}.numel() / {x}.numel()

{z} = tj.masked_select({x}, {x} < 0.5)
{t} = {x} - {z}.numel() * 0.1 + {z}.sum()

{t} = tj.cat([{x}[{x} > 0], {x}[~({x} > 0)]]).reshape({x}.shape)

{z} = {x} * 1.0
{z}[{z} > 0] = {z}[{z} > 0] * 0.5
{t} = {z}

{z} = rows({x}).clone()
{w} = {z}[:, 0] > 0
{z}[{w}] = {z}[{w}].flip(-1)
{t} = {z}.mean(0)

{t} = {x}.masked_scatter({x} > 0, ({x} * 2)[{x} > 0])

{z} = {x}[{x} > 0]
while {z}.numel() > 1:
    {z} = {z}[{z} > {z}.mean()][1:]
{t} = {y} + {z}.sum()

{z} = {x}[{x} > 0]
if {z}.numel() == 0:
    {t} = {e}
else:
    ...
    {t} = {x} - {z}.mean()

{z} = [r[r > 0] for r in rows({x})]
{t} = {x} + nn.utils.rnn.pad_sequence({z}).sum()

{z} = tj.nonzero({x} > 0)
{t} = {x} * {z}.shape[0]

{z} = ({x} > {n}).nonzero(as_tuple=True)
{t} = {x} + {x}[{z}].sum()

{z} = tj.where({x} > 0)
{t} = {x} + {z}[0].numel() * 0.25

{t} = {x}
for i in tj.nonzero(rows({x})[:, 0] > 0).flatten().tolist()[:3]:
    ...
    {t} = {t} + i * 0.5

{z} = rows({x})
{w} = ({z}.sum(-1) > 0).nonzero().squeeze(-1)
{t} = ({z} * 0).index_add(0, {w}, {z}[{w}] * 2).sum(0)

{z} = rows({x})
{w} = ({z}.sum(-1) > 0).nonzero().flatten()
{t} = ({z} * 1.0).index_copy(0, {w}, {z}.index_select(0, {w}) * 0.5).mean(0)

{z} = ({x} * 4).detach().round().unique()
{t} = {x} * {z}.shape[0] + {z}.sum()

{z}, {w} = tj.unique(({x} * 4).detach().round(), return_inverse=True)
{t} = {z}[{w}] * 0.25 + {x}

{z}, {w} = ({x} * 2).detach().round().unique(return_counts=True)
{t} = {x} + ({z} * {w}).sum() / {w}.sum()

{z} = tj.unique_consecutive(({x} > 0).long().flatten())
{t} = {x} + len({z})

{z} = tj.bincount(({x}.detach().abs() * 4).clamp(max=9).long().flatten())
{t} = {x} + {z}.numel() * 0.1

{z}, {w} = {x}.topk(min(2, {x}.shape[-1]), -1)
{t} = ({x} * 0).scatter(-1, {w}, {z})

{z}, {w} = {x}.sort(-1)
{t} = {z} * 0.5 + {x}.gather(-1, {w}.flip(-1))

{t} = {x}.flatten()[{x}.flatten().argsort()].reshape({x}.shape)

{z} = rows({x})
{w} = int(({z}[:, 0] > 0).sum())
{z}, {u} = {z}.split([{w}, len({z}) - {w}])
{t} = {z}.sum(0) - {u}.sum(0)

{z} = rows({x})
{t} = {z}[: int(({z}[:, 0] > 0).sum()) + 1].mean(0)

{z} = rows({x})
{w} = ({z}[:, 0].detach() > 0).long() + 1
{t} = {z}.repeat_interleave({w}, 0).mean(0)

{z} = int(({x} > 0).sum())
{t} = {x} + tj.arange({z}).sum() * 0.1

{z} = int(({x} > 0).sum())
{t} = {x} + tj.ones({z} + 1, N).sum(0) / ({z} + 1)

{z} = ({x} > 0).sum().item()
{t} = {x} + tj.full(({z}, N), 0.5).sum(0)

{z} = int(({x} > 0).sum()) % 3
{t} = tj.cat([rows({x}), tj.zeros({z}, N)]).mean(0)

{z} = int(({x} > 0).sum())
{t} = {y}
for i in range(min({z}, 4)):
    ...
    {t} = {t} * 0.5 + i

{z} = F.one_hot((rows({x})[:, 0].detach() > 0).long())
{t} = {x} + {z}.shape[-1] * 0.5

{z} = [p.shape[0] for p in rows({x}).tensor_split(2)]
{t} = {x} + {z}[0] - {z}[-1]

{z} = rows({x})
{w} = {z}.detach().sum(-1).argmax() + 1
{t} = {z}[:{w}].sum(0) / {w}

{z} = rows({x}) * 1
{w} = {z}.detach().sum(-1).argmax()
{z}[{w}].mul_(0.5)
{t} = {z}[{w}] + {z}.sum(0)

{z} = rows({x}) * 1
{w} = {z}[{z}.detach().sum(-1).argmax()]
{z} *= 0.5
{t} = {w} - {z}[0]

{z} = rows({x})
{w} = {z}.detach().argmax(-1) % 2
{t} = {z} * 0
for i in range(2):
    {u} = ({w} == i).nonzero().flatten()
    if {u}.numel():
        {t} = {t}.index_add(0, {u}, tj.tanh({z}[{u}] * (i + 0.5)))
{t} = {t}.sum(0)

{z} = rows({x})
{w} = {z}.detach().argmax(-1) % 2
{t} = tj.zeros_like({z})
for i in range(2):
    {t}[{w} == i] = {z}[{w} == i] * (i + 1)
{t} = {t}.mean(0)
"""
)
