"""Functions with a backward of their own, as people write them."""

from __future__ import annotations

from typing import Any, NamedTuple

import tracejit as tj
from tracejit.autograd import Function, once_differentiable


class Exp(Function):
    """Keeps its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class OfItsClass(Function):
    """Written as methods of the class."""

    power = 2

    @classmethod
    def forward(cls, ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**cls.power

    @classmethod
    def backward(cls, ctx: Any, g: Any) -> Any:
        return g * cls.power * ctx.saved_tensors[0]


class Parts(NamedTuple):
    """What a backward pass hands on to itself."""

    gradient: Any
    factor: Any


class Named(Function):
    """Goes through a named tuple."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        parts = Parts(g, ctx.saved_tensors[0] * 2)
        return parts.gradient * parts.factor


class Reversed(Function):
    """Returns a view of its argument, and reads a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, strength: float) -> Any:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.neg() * ctx.strength, None


class Rounded(Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Same(Function):
    """Returns its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 0.5


class Clipped(Function):
    """Whose backward is not linear."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.5

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(-0.5, 0.5)


class Swish(Function):
    """Computes again in backward what forward computed."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s * (1 + x * (1 - s)))


class Linear(Function):
    """With a context set up apart from forward."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x @ w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        gx = g @ w.t() if ctx.needs_input_grad[0] else None
        return gx, x.t() @ g if ctx.needs_input_grad[1] else None


class Relu(Function):
    """Writes to what backward made itself; reads a mask that was not saved."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        h = g.clone()
        h[~ctx.mask] = 0
        return h


class Scaled(Function):
    """Gives what backward made another shape, and no history, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, scale = ctx.saved_tensors
        total = (g * x).sum()
        total.unsqueeze_(0)
        turned = (g * scale).t_().contiguous()
        return turned.detach_().t_(), total


class Pair(Function):
    """Two results, used together or apart."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b, a + b

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b + h, g * a / h.exp()


class Codes(Function):
    """Vector quantisation: one result is not differentiable."""

    @staticmethod
    def forward(ctx: Any, z: Any, book: Any) -> Any:
        index = ((z.unsqueeze(1) - book) ** 2).sum(-1).argmin(1)
        ctx.save_for_backward(index, book)
        ctx.mark_non_differentiable(index)
        return book[index], index

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        index, book = ctx.saved_tensors
        return g, tj.zeros_like(book).index_add_(0, index, g)


class Again(Function):
    """Runs forward again, and a backward pass through that."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x.sin() * x).exp()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with tj.enable_grad():
            y = (x.sin() * x).exp()
        return tj.autograd.grad(y, x, g)[0]


class SinGradient(Function):
    """The gradient of a sine as a function of its own."""

    @staticmethod
    def forward(ctx: Any, g: Any, x: Any) -> Any:
        ctx.save_for_backward(g, x)
        return g * x.cos()

    @staticmethod
    def backward(ctx: Any, h: Any) -> Any:
        g, x = ctx.saved_tensors
        return h * x.cos(), -h * g * x.sin()


class Sin(Function):
    """Calls another function in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return SinGradient.apply(g, ctx.saved_tensors[0])


class Once(Function):
    """Must not be differentiated twice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


class Partly(Function):
    """Gives no gradient for an argument that wants one."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[1], None


class Unrolled(Function):
    """Loops in forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        for _ in range(9):
            x = (x * 0.5).sin()
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        xs = [ctx.saved_tensors[0]]
        for _ in range(8):
            xs.append((xs[-1] * 0.5).sin())
        for x in reversed(xs):
            g = g * 0.5 * (x * 0.5).cos()
        return g
