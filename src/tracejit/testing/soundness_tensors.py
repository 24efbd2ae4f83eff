"""Tensors, parameters and random streams as state of random stories."""

from __future__ import annotations

from .soundness_world import Feature

BANK = Feature(
    "bank",
    "bank = stage.tensor(N)",
    tests=("bank.requires_grad", "bank.dtype == tj.float64"),
    values=("bank", "bank * {x}", "({x} + bank)", "bank.detach()", "bank.data", "bank.flip(-1)"),
    writes=(
        "bank.add_(row({x}))",
        "bank.mul_(0.5)",
        "bank.copy_(row({x}))",
        "bank[0] = 0.5",
        "bank[..., :1].mul_(0.5)",
        "bank.data.mul_(0.9)",
        "bank.detach().add_(0.1)",
        "bank += 0.1",
        "bank = bank * 0.5",
        "bank.copy_(live_row({x}))",
        "bank.data = row({x})",
        "bank[:] = row({x})",
        "bank.copy_(tj.add(bank, 0.25))",
    ),
    changes=(
        "bank = stage.tensor(N)",
        "bank = bank.double()",
        "bank.add_(0.1)",
        "bank = bank.clone()",
        "bank.data = tj.full((N,), 0.25)",
        "bank.requires_grad_(True)",
        "bank.detach_()",
        "bank = bank.detach()",
        "bank.grad = None",
        "bank = stage.tensor(N, layout='strided')",
        "bank = stage.tensor(N, 2)[:, 0]",
        "bank.zero_()",
    ),
    often=1.0,
)
VIEW = Feature(
    "view",
    "store = stage.tensor(2, N)\nview = store[1]\nspot = tj.tensor(1)",
    values=(
        "store.sum(0)",
        "view",
        "view + store[0]",
        "store[:1].reshape(N)",
        "store.T.mean(-1)",
        "store[spot]",
        "store[spot] * store[1 - spot]",
    ),
    writes=(
        "view.mul_(0.5)",
        "store[0].add_(row({x}))",
        "store.T[0] = 0.25",
        "view.copy_(row({x}))",
        "store.mul_(0.5)",
        "store[1, 0] = 0.75",
        "store.view(-1)[:1].add_(0.5)",
        "store[:, view > 0] = 0.0",
        "store.index_fill_(0, tj.tensor([0]), 0.5)",
        "store[spot].mul_(0.5)",
        "store[spot] += row({x})",
        "store[spot][0] = 0.25",
        "spot.copy_(1 - spot)",
    ),
    changes=(
        "view = store[0]",
        "store = store.clone()",
        "view.add_(0.25)",
        "store = stage.tensor(2, N)",
        "view = store[1].clone()",
        "store[0] = view",
        "store = view.expand(2, N)",
        "spot = 1 - spot",
        "spot -= 1",
        "view = store[spot]",
    ),
)
CACHE = Feature(
    "cache",
    "cache = tj.zeros(4, N)\npos = 0",
    numbers=("pos",),
    tests=("pos > 1",),
    values=(
        "cache.mean(0)",
        "cache[: pos % 4 + 1].sum(0)",
        "tj.softmax({x} @ cache.T.to({x}.dtype), -1) @ cache.to({x}.dtype)",
        "cache[pos % 4]",
    ),
    writes=(
        "cache[pos % 4] = row({x})",
        "cache[:, :1].add_(0.1)",
        "cache[pos % 4].copy_(row({x}))",
        "cache[:-1] = cache[1:].clone()",
        "pos += 1",
        "cache[:-1] = cache[1:]",
        "cache.narrow(0, pos % 4, 1).copy_(row({x}))",
    ),
    changes=(
        "pos += 1",
        "pos += 1",
        "cache.zero_()",
        "cache = stage.tensor(4, N)",
        "pos = 0",
        "cache = cache[:, :].clone()",
    ),
)
WEIGHT = Feature(
    "weight",
    "weight = stage.tensor(N, N, grad=True)",
    tests=("weight.grad is None", "weight.requires_grad"),
    values=(
        "{x} @ weight.to({x}.dtype)",
        "tj.tanh({x} @ weight.to({x}.dtype))",
        "weight.sum(0)",
        "F.linear({x}, weight.to({x}.dtype))",
        "weight.detach()[0]",
        "weight[0] * {x}",
    ),
    writes=(
        "with tj.no_grad():\n    weight.mul_(0.9)",
        "weight.data.mul_(0.9)",
        "weight.grad = None",
        "weight.data[0] = 0.25",
        "with tj.no_grad():\n    weight[0].copy_(row({x}))",
        "weight.detach().add_(0.05)",
        "weight.mul_(0.5)",
    ),
    changes=(
        "weight.grad = None",
        "weight.requires_grad_(False)",
        "weight.requires_grad_()",
        "with tj.no_grad():\n    weight.sub_(0.01)",
        "if weight.grad is not None:\n    weight.data.add_(weight.grad, alpha=-0.01)",
        "weight = stage.tensor(N, N, grad=True)",
        "weight.data = weight.data * 0.5",
        "weight = weight.detach()",
        "weight = stage.tensor(N, N, layout='transposed', grad=True)",
        "weight = (weight * 0.5)",
        "hook = weight.register_hook(lambda g: g * 0.5)",
        "hook.remove() if 'hook' in globals() else None",
    ),
    often=0.6,
)
GENERATOR = Feature(
    "gen",
    "gen = tj.Generator().manual_seed(3)\nstate = gen.get_state()",
    values=(
        "tj.rand(N, generator=gen)",
        "tj.randn(N, generator=gen) * {x}",
        "tj.bernoulli(tj.sigmoid({x}), generator=gen)",
        "{x} + tj.empty(N).uniform_(0, 1, generator=gen)",
        "tj.randint(0, 5, (N,), generator=gen)",
    ),
    tests=("tj.rand((), generator=gen) > 0.5",),
    changes=(
        "gen.manual_seed(5)",
        "state = gen.get_state()",
        "gen.set_state(state)",
        "gen = tj.Generator().manual_seed(4)",
        "spare = tj.rand(2, generator=gen)",
    ),
)
DRAWS = Feature(
    "draws",
    "state0 = tj.get_rng_state()",
    values=(
        "F.dropout({x}, 0.4)",
        "tj.rand_like({x}.double())",
        "tj.randn(N)",
        "tj.bernoulli(tj.sigmoid({x}))",
        "tj.randint(0, 5, (N,))",
        "{x} + tj.normal(0.0, 0.5, (N,))",
        "tj.randperm(N)",
        "F.dropout({x}, 0.5, training=False)",
        "({x} * 0).double().normal_()",
        "tj.multinomial(tj.full((N,), 0.5), 1)",
        "tj.empty(N).exponential_()",
    ),
    tests=("tj.rand(()) > 0.5", "tj.rand(2).sum().item() > 1"),
    writes=("tj.manual_seed(4)", "tj.set_rng_state(state0)"),
    changes=(
        "tj.manual_seed(7)",
        "state0 = tj.get_rng_state()",
        "tj.set_rng_state(state0)",
        "spare = tj.rand(3)",
    ),
    often=0.1,
)
FOREIGN = Feature(
    "foreign",
    "coefs = np.array([0.5, 0.25])",
    numbers=("float(coefs[0])", "float(coefs.sum())", "random.random()", "float(np.random.rand())"),
    values=("{x} * float(coefs[0])",) * 3 + ("tj.from_numpy(coefs).sum() * {x}",),
    writes=("coefs *= 0.5",),
    changes=(
        "coefs[0] = 0.75",
        "coefs = np.array([0.1, 0.2])",
        "random.seed(1)",
        "np.random.seed(2)",
        "spare = random.random()",
    ),
    often=0.1,
)
TALLY = Feature(
    "tally",
    """
class Tally(nn.Module):
    count = 0
    rate = 0.5


tally = Tally()
tally.count, tally.rate = 0, 0.5""",
    numbers=("tally.count", "tally.rate", "(tally.rate + tally.count % 3)"),
    tests=("tally.rate > 0.6", "tally.count % 2"),
    writes=("tally.count += 1", "tally.count -= 1", "tally.rate *= 0.5"),
    changes=(
        "tally.count = 1.5",
        "tally.count = 0",
        "tally.rate = 2",
        "tally.rate = 0.25",
        "tally.count += 1",
        "tally = Tally()",
    ),
    often=0.15,
)
