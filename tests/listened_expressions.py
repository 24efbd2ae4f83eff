"""Expressions that listeners are told of alike in PyTorch and here, and what both are told."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

#: ``T`` is the package, ``F`` its functions of layers; the other names are those of :func:`values`.
EXPRESSIONS = """
a+b
a-b
a*b
a/b
a+1
1+a
1-a
2*a
2/a
a/2
a**2
a**3
a**0.5
-a
abs(a)
a%2
a@m
T.mm(a,m)
a.t()@b
T.matmul(a,v)
T.mv(a,v)
T.dot(v,v)
T.addmm(b5,a,m)
T.bmm(q,k)
T.matmul(q,m)
T.matmul(q4,k4)
T.baddbmm(qq,q,k)
T.outer(v,v)
F.linear(a,m.t(),v5)
F.linear(a,m.t())
F.linear(q,m.t(),v5)
a.sum()
a.sum(1)
a.sum(-1,keepdim=True)
a.mean()
a.mean(0)
a.var()
a.var(1)
a.max()
a.min()
a.max(1)[0]
a.amax(1)
a.argmax(1)
a.norm()
T.linalg.vector_norm(a,dim=1)
a.cumsum(0)
a.logsumexp(1)
F.softmax(a,-1)
F.log_softmax(a,1)
T.softmax(a,0)
a.softmax(1,dtype=T.float64)
F.relu(a)
T.relu(a)
F.gelu(a)
F.gelu(a,approximate='tanh')
F.silu(a)
F.sigmoid(a)
F.tanh(a)
F.leaky_relu(a,0.1)
F.elu(a)
F.selu(a)
F.celu(a)
F.softplus(a)
F.hardtanh(a)
F.relu6(a)
F.hardswish(a)
F.hardsigmoid(a)
F.mish(a)
F.glu(a,1)
F.prelu(a,v)
F.softsign(a)
F.tanhshrink(a)
F.threshold(a,0.1,2.0)
F.dropout(a,0.5,training=False)
F.layer_norm(a,(4,),v,v)
F.layer_norm(a,(4,))
F.group_norm(img,3)
F.batch_norm(img,rm,rv,g3,g3,training=True)
F.batch_norm(img,rm,rv,g3,g3,training=False)
F.instance_norm(img)
F.rms_norm(a,(4,),v)
F.conv2d(img,w)
F.conv2d(img,w,padding=1,stride=2)
F.conv1d(seq,w1)
F.conv_transpose2d(img,wt)
F.conv3d(vol,w3)
F.max_pool2d(img,2)
F.avg_pool2d(img,2)
F.adaptive_avg_pool2d(img,1)
F.adaptive_avg_pool2d(img,2)
F.max_pool1d(seq,2)
F.avg_pool1d(seq,2)
F.adaptive_max_pool2d(img,2)
F.interpolate(img,scale_factor=2)
F.interpolate(img,scale_factor=2,mode='bilinear')
F.interpolate(img,size=5,mode='bicubic')
F.pad(img,(1,1,1,1))
F.pad(img,(1,1,1,1),mode='reflect')
F.pad(img,(1,1,1,1),mode='replicate')
F.pixel_shuffle(img4,2)
F.pixel_unshuffle(img4,2)
F.unfold(img,3)
F.embedding(i,m)
F.embedding(i,m,padding_idx=1)
F.cross_entropy(a,t)
F.cross_entropy(a,a.detach().softmax(1))
F.nll_loss(a,t)
F.mse_loss(a,b)
F.l1_loss(a,b)
F.smooth_l1_loss(a,b)
F.huber_loss(a,b)
a.view(12)
a.view(-1)
a.reshape(4,3)
a.t().reshape(12)
a.transpose(0,1)
a.t()
a.T
a.mT
a.permute(1,0)
a.unsqueeze(1)
a.unsqueeze(1).squeeze(1)
a.unsqueeze(0).squeeze()
a.flatten()
a.expand(2,3,4)
a.expand_as(q0)
a.contiguous()
a.t().contiguous()
a.clone()
a.detach()
a[0]
a[:,1]
a[1:]
a[:,1:3]
a[...,0]
a[None]
a[i]
a[:,i]
a[bm]
a[0,1]
a.select(0,1)
a.narrow(1,0,2)
a.chunk(2,1)[0]
a.split(2,1)[1]
T.split(a,[1,3],1)[1]
a.unbind(0)[0]
a.index_select(0,i)
a.gather(1,gi)
a.masked_fill(bm,0.0)
T.where(bm,a,b)
T.where(bm,a,0.0)
a.where(bm,b)
a.where(bm,0.5)
bm.where(bm.t().t(),a>b)
T.cat([a,b])
T.cat([a,b],1)
T.stack([a,b])
T.hstack([a,b])
T.vstack([a,b])
a.repeat(2,1)
a.tile((2,))
a.repeat_interleave(2,0)
a.roll(1,0)
a.flip(0)
T.tril(a)
T.triu(a,1)
a.diagonal()
T.diag(v)
a.exp()
a.log()
a.sqrt()
a.rsqrt()
a.sin()
a.cos()
a.tan()
a.tanh()
a.sigmoid()
a.erf()
a.square()
a.reciprocal()
a.abs()
a.sign()
a.floor()
a.round()
a.clamp(0,1)
a.clamp(min=0.5)
a.clip(0,1)
T.lerp(a,b,0.3)
T.addcmul(a,b,b)
T.add(a,b,alpha=2)
a>0
a>b
a==b
a<=1
(a>0)&(b>0)
~(a>0)
(a>0).any()
(a>0).all(1)
T.isnan(a)
a.to(T.float64)
a.double()
a.float()
a.half()
a.type_as(b)
a.int()
a.long()
a.bool()
a.sort(1)[0]
a.argsort(1)
a.topk(2)[0]
a.median()
T.zeros(2,3)
T.ones(2,3)
T.full((2,),1.5)
T.arange(5)
T.arange(1,5,2)
T.linspace(0,1,5)
T.eye(3)
T.rand(2,3)
T.randn(2,3)
T.randint(0,5,(2,))
T.randperm(5)
T.zeros_like(a)
T.ones_like(a)
T.full_like(a,2.0)
T.rand_like(a)
T.randn_like(a)
a.new_zeros(2)
a.new_ones(2)
a.new_full((2,),1.0)
a.detach().clone().add_(1)
a.clone().add_(b)
a.clone().mul_(2)
a.clone().relu_()
a.clone().masked_fill_(bm,0.)
a.clone().sub_(b,alpha=2)
a.clone().div_(2)
a.detach().clone().normal_()
a.detach().clone().uniform_()
a.clone().exp_()
iadd(a.clone(),b)
a.item_() if 0 else a.sum().item()
bool((a>0).any())
a.tolist()
a.detach().numpy()
T.bernoulli(a.detach().sigmoid())
T.multinomial(a.detach().sigmoid(),2)
T.linalg.norm(a)
T.meshgrid(v,v,indexing='ij')[0]
T.nonzero(bm)
T.unique(i)
T.bincount(i)
T.searchsorted(v.detach(),a.detach())
T.allclose(a,b)
T.equal(a,b)
T.count_nonzero(bm)
T.log1p(a)
T.expm1(a)
T.log2(a)
T.movedim(a,0,1)
T.swapaxes(a,0,1)
T.broadcast_to(a,(2,3,4))
T.unflatten(a,1,(2,2))
""".strip().split("\n")


def values(of: Any) -> dict[str, Any]:
    """Tensors by the names that expressions have for them."""
    draw = np.random.default_rng(0)

    def leaf(*shape: int, grad: bool = True) -> Any:
        return of.tensor(draw.random(shape).astype("float32") + 0.1, requires_grad=grad)

    shapes = {
        "a": (3, 4),
        "b": (3, 4),
        "m": (4, 5),
        "v": (4,),
        "v5": (5,),
        "v3": (3,),
        "b5": (3, 5),
        "q": (2, 3, 4),
        "k": (2, 4, 5),
        "qq": (2, 3, 5),
        "q0": (2, 3, 4),
        "q4": (2, 2, 5, 4),
        "k4": (2, 2, 4, 5),
        "img": (2, 3, 8, 8),
        "img4": (2, 4, 8, 8),
        "w": (4, 3, 3, 3),
        "wt": (3, 4, 3, 3),
        "w3": (2, 3, 2, 2, 2),
        "vol": (1, 3, 4, 4, 4),
        "seq": (2, 3, 8),
        "w1": (4, 3, 3),
        "g3": (3,),
        "sq": (4, 4),
        "c3": (2, 3),
    }
    found = {name: leaf(*shape) for name, shape in shapes.items()}
    found |= {name: leaf(3, grad=False) for name in ("rm", "rv")}
    found["i"], found["t"] = of.tensor([0, 2, 1]), of.tensor([1, 0, 3])
    found["gi"] = of.tensor([[0, 1], [1, 2], [3, 0]])
    found["bm"] = of.tensor(draw.random((3, 4)) > 0.5)
    found |= {"T": of, "F": of.nn.functional, "iadd": _add_in_place}
    return found


def _add_in_place(x: Any, y: Any) -> Any:
    x += y
    return x


def listener(of: Any) -> Any:
    """A mode that notes what it is told, as text."""
    base = import_module(f"{of.__name__}.utils._python_dispatch").TorchDispatchMode

    def shown(x: Any) -> str:
        if isinstance(x, of.Tensor):
            return f"{str(x.dtype).split('.')[-1]}{list(x.shape)}"
        if isinstance(x, of.dtype):
            return str(x).split(".")[-1]
        if isinstance(x, (list, tuple)):
            return f"[{', '.join(map(shown, x))}]"
        return f"{x:.5g}" if isinstance(x, float) else str(x).replace(of.__name__, "T")

    class Notes(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.lines: list[str] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = [
                f"{k}={shown(v)}" for k, v in sorted((kwargs or {}).items()) if k not in _UNTOLD
            ]
            self.lines.append(f"{func}({', '.join([*map(shown, args), *named])})")
            return func(*args, **(kwargs or {}))

    return Notes()


#: What PyTorch passes on of factories though it is what it is without.
_UNTOLD = ("device", "pin_memory", "layout", "requires_grad")
#: What PyTorch does for itself: it hides results from their own nodes, and copies gradients that others hold.
_OWN = re.compile(r"aten\.(detach\.default|empty\.memory_format\(\[0\]|new_empty_strided)")


def kept(lines: list[str]) -> list[str]:
    """What PyTorch and this package are both to tell."""
    found = []
    copies = False
    for line in lines:
        if _OWN.match(line):
            copies = "new_empty_strided" in line
        elif not (copies and line.startswith("aten.copy_")):
            found.append(line)
            copies = False
    return found


def told(of: Any, expression: str) -> tuple[list[str], list[str], Any, list[Any]]:
    """What a listener hears of an expression, and of its backward pass; the result, and gradients."""
    names = values(of)
    with listener(of) as forward:
        result = eval(expression, names)
    heard: list[str] = []
    if isinstance(result, of.Tensor) and result.requires_grad:
        seed = of.ones_like(result)
        with listener(of) as backward:
            result.backward(seed)
        heard = kept(backward.lines)
    leaves = [x for x in names.values() if isinstance(x, of.Tensor)]
    gradients = [x.grad.tolist() for x in leaves if x.requires_grad and x.grad is not None]
    value = result.tolist() if isinstance(result, of.Tensor) else result
    return kept(forward.lines), heard, value, gradients
