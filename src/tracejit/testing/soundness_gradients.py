"""Statements of random stories about gradients: taken inside, of functions, with hooks, by functions of one's own."""

from __future__ import annotations

from .soundness_world import Feature, templates

GRADIENTS = templates(
    """
{t} = {x} * 0.5
if {x}.requires_grad:
    {t} = tj.autograd.grad(({x} * {x}).sum(), {x}, retain_graph=True)[0]

{t} = {x} + 0.5
if {x}.requires_grad and tj.is_grad_enabled():
    {t} = tj.autograd.grad(tj.sin({x}).sum(), {x}, create_graph=True)[0]

if {x}.requires_grad:
    {t} = tj.autograd.grad(({x} * {x}).sum(), {x})[0]
else:
    {t} = {x}

{t} = {x} * 2
if {t}.requires_grad:
    ({x} * {x}).mean().backward()

{t} = {x}
if {x}.requires_grad:
    ({x} * 0.5).sum().backward(retain_graph=True)

{t} = {x}.detach().requires_grad_()
{t} = tj.autograd.grad(tj.sin({t}).sum(), {t})[0] * {x}

{z} = {x}.detach().clone().requires_grad_()
({z} * {z}).sum().backward()
{t} = {x} * {z}.grad

{z} = {x}.detach().clone().requires_grad_()
{w} = {z} * {y}.detach()
{w}.sum().backward(retain_graph=True)
({w} * {n}).sum().backward()
{t} = {z}.grad * 0.5

{z} = {x}.detach().clone().requires_grad_()
{w} = tj.zeros(())
for part in rows({z}):
    if part.sum() > 0:
        {w} = {w} + part.square().sum()
if {w}.requires_grad:
    {w}.backward()
{t} = {y} if {z}.grad is None else {z}.grad

{z} = {x}.detach() * 1.0
for i in range(2):
    {z}.requires_grad_()
    {w} = tj.autograd.grad(tj.cos({z}).sum(), {z})[0]
    {z} = ({z} - 0.1 * {w}).detach()
{t} = {z} + {x} * 0.5

{z} = {x}.detach().clone().requires_grad_()
for i in range(3):
    ({z} * {z}).sum().backward()
    with tj.no_grad():
        {z} -= 0.1 * {z}.grad
        {z}.grad.zero_()
{t} = {z}.detach() + {x}

{z} = {x}.detach().clone().requires_grad_()
{w} = tj.autograd.grad(tj.sin({z}).sum(), {z}, create_graph=True)[0]
{w}.square().sum().backward()
{t} = {z}.grad + {x}

{z} = {x}.detach().clone().requires_grad_()
{w} = {z} * 2
{w}.retain_grad()
{w}.sin().sum().backward()
{t} = {w}.grad + {x}

{z} = {x}.detach().clone().requires_grad_()
{w} = [({z} * k).sum() for k in (0.5, {n})]
tj.autograd.backward({w})
{t} = {z}.grad * {x}

{t} = tj.func.grad(lambda v: (v * v).sum())({x}.detach()) * 0.5 + {x}

{t}, {z} = tj.func.grad_and_value(lambda v: tj.sin(v).sum())({x}.detach())
{t} = {t} + {z} + {x}

{z} = {n}
{t} = tj.func.grad(lambda v: (v * {z}).square().sum())({x}.detach())

{t} = tj.func.vjp(tj.sin, {x}.detach())[1](tj.ones_like({x}))[0] + {y}

{t} = tj.func.vmap(lambda v: v * v.sum())(rows({x})).mean(0)

{t} = tj.utils.checkpoint.checkpoint(lambda v: tj.sin(v) * v, {x}, use_reentrant=False)

{t} = {x} * 1.5
if {t}.requires_grad:
    {t}.register_hook(lambda g: g * 0.5)

{t} = {x} * 1.5
if {t}.requires_grad:
    {t}.retain_grad()

{t} = ({x} * 2).detach()
{t}.requires_grad_({x}.requires_grad)
{t} = {t} * 0.5

with tj.no_grad():
    {z} = {x} * {y}
{t} = {x} * {z} - {z}

{t} = {x} * 2
{t} = {t}.detach_() + {y}

{t} = {x} + ({y} - {x}).detach()

{x}.requires_grad_()
{t} = tj.autograd.grad(tj.sin({x}).sum(), {x}, create_graph=True)[0] * {y}

{z} = {x} * 2 + {x}[..., :1]
{w} = {x}.detach()
{x}.requires_grad = True
{t} = {x} * {z} + {w}

{z} = {x}[..., :1]
{x}.requires_grad_({x}.is_leaf and {x}.is_floating_point())
{t} = {x} * {y}
if {t}.requires_grad:
    {t}.square().sum().backward(retain_graph=True)
{t} = {t} + {z}

if {x}.is_leaf and {x}.is_floating_point():
    {x}.requires_grad_(True)
    {z} = tj.autograd.grad({x}.square().sum(), {x})[0]
    {x}.requires_grad_(False)
    {t} = {z} * {x}
else:
    {t} = {x} * 0.25

if {x}.is_leaf and {q}:
    {x}.requires_grad_(not {x}.requires_grad)
{t} = {x} * 1.25
"""
)
#: Functions with derivatives of their own.
OWN = Feature(
    "own",
    """
factor = 0.5


class Twice(tj.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v * 2 + v * v

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g * (2 + 2 * v)


class Clipped(tj.autograd.Function):
    @staticmethod
    def forward(ctx, v, k):
        ctx.k = k
        return v.clamp(-k, k)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * factor, None


class Put(tj.autograd.Function):
    @staticmethod
    def forward(ctx, scratch, v, index):
        ctx.index = index
        scratch.data[index] = v
        return scratch

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None
""",
    numbers=("factor",),
    values=("Twice.apply({x})", "Clipped.apply({x}, 0.5)", "Clipped.apply({x}, factor)"),
    changes=(
        "factor = 0.75",
        "Twice.backward = staticmethod(lambda ctx, g: g * 3)",
        "Twice.forward = staticmethod(Clipped.forward)",
        "Clipped, Twice = Clipped, Twice",
    ),
    statements=(
        "{t} = Twice.apply({x}) * {n}",
        "{z} = {x}.detach().clone().requires_grad_()\nTwice.apply({z}).sum().backward()\n{t} = {z}.grad + {x}",
        "if {q}:\n    {t} = Twice.apply({x})\nelse:\n    {t} = Clipped.apply({y}, {n})",
        "{z} = Put.apply(tj.zeros(N, 2), live_row({x}).float(), (slice(None), 0))\n"
        "{z} = Put.apply({z}, live_row({y}).float(), (slice(None), 1))\n{t} = {z}.sum(-1) + {x}",
        "{z} = tj.zeros(N, 2)\n{w} = Put.apply({z}, live_row({x}).float(), (slice(None), 0))\n"
        "{w} = Put.apply({w}, ({w}[..., 0] * {n}).sin(), (slice(None), 1))\n{t} = {w}.mean(-1) * {x}",
        "{z} = Put.apply(rows({x}) * 1.0, rows({x})[:, :1] * {n}, (slice(None), slice(0, 1))).mean(0)\n{t} = {z} + {x}",
        "{z} = {x} * 2\n{z}.data.clamp_(-0.5, 0.5)\n{t} = {z} * {y}",
        "{z} = {x} * 2\nwith tj.no_grad():\n    {z}[..., :1].mul_({n})\n{t} = {z} + {x}",
        "{t} = {x}\nfor i in range(3):\n    {t} = Clipped.apply({t} * 1.5, 0.75 - i * 0.1)",
    ),
)
