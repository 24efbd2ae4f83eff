"""Statements of random stories that change the shape, the flags or the history of tensors in place."""

from __future__ import annotations

from .soundness_world import templates

TURNS = templates(
    """
{t} = {x} * 2
{t}.unsqueeze_(0)
{t}.squeeze_(0)

{t} = {x}.sum(-1, keepdim=True)
{t}.squeeze_(-1)
{t}.mul_(0.5)
{t}.unsqueeze_(-1)

{t} = {x} * {n}
{t}.unsqueeze_(0)

{z} = rows({x}) * 1.5
{z}.t_()
{t} = {z}.mean(1) + {x}

{t} = rows({x}) * rows({y})
{t}.transpose_(0, 1)
{t}.add_(0.25)
{t}.swapaxes_(0, 1)

{z} = {x} * 0.5
{w} = {z}[..., :1]
{z}.unsqueeze_(0)
{t} = {z}[0] * {w}

{z} = {x} * 0.5
{w} = {z}[..., :1]
{z}.unsqueeze_(0)
{z}.mul_({n})
{t} = {w} + {x}

{t} = {x}.detach()
{t}.unsqueeze_(0)

{t} = {x}[..., :1]
{t}.unsqueeze_(0)
{t} = {t} * {y}

{z} = {x}.detach()
{w} = {z}[..., 1:]
{z}.unsqueeze_(0)
{t} = {z}[0] * {w}.sum() + {x}

{t} = {x} * 2
{t}.detach_()
{t} = {t} * {y}

{z} = {x} * {n}
{w} = {z}.sin()
{z}.detach_()
{t} = {z} + {w}

{t} = tj.zeros_like({x})
{t}.unsqueeze_(0)
{t} += {x}

{z} = rows({x}).t() * 1.0
{z}.t_()
{t} = {z}

{z} = tj.zeros(N, 1)
{z}.squeeze_()
{z}.add_(live_row({x}))
{t} = {z} * {y}

{t} = {x}
for i in range(3):
    {z} = {t}.abs().amax(-1, keepdim=True)
    {z}.squeeze_(-1).unsqueeze_(-1)
    {t} = {t} / ({z} + 1)
"""
)
