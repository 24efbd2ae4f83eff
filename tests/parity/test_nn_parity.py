"""Modules, optimizers and schedules against PyTorch, with the same weights and inputs."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn, optim
from tracejit.optim import lr_scheduler as lrs

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")


def both(*shape: int, seed: int = 0, dtype=np.float32):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return tj.tensor(values), torch.tensor(values)


def close(ours, theirs, tolerance: float = 2e-6) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance
    )


LAYERS = {
    "Linear": (4, 3),
    "Bilinear": (4, 4, 3),
    "LayerNorm": (4,),
    "RMSNorm": (4,),
    "PReLU": (1,),
    "Softmax": (-1,),
    "LogSoftmax": (-1,),
    "Softmin": (0,),
    "GLU": (),
    "Threshold": (0.1, 20.0),
    **dict.fromkeys(("ReLU", "ReLU6", "GELU", "SiLU", "Mish", "ELU", "CELU", "SELU"), ()),
    **dict.fromkeys(("Tanh", "Sigmoid", "LogSigmoid", "Softplus", "Softsign", "Tanhshrink"), ()),
    **dict.fromkeys(("LeakyReLU", "Hardtanh", "Hardswish", "Hardsigmoid"), ()),
    **dict.fromkeys(("Hardshrink", "Softshrink", "Flatten", "Identity"), ()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    theirs = getattr(torch.nn, name)(*LAYERS[name])
    ours = getattr(nn, name)(*LAYERS[name])
    assert repr(ours) == repr(theirs)
    state = {k: tj.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    pairs = [both(5, 4, seed=s) for s in range(2 if name == "Bilinear" else 1)]
    for a, b in pairs:
        a.requires_grad_()
        b.requires_grad_()
    out, expected = ours(*(a for a, _ in pairs)), theirs(*(b for _, b in pairs))
    close(out, expected)
    (out * out).sum().backward()
    (expected * expected).sum().backward()
    for a, b in pairs:
        close(a.grad, b.grad, 2e-5)
    for (_, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        close(p.grad, q.grad, 2e-5)


CLASS_LOSSES = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"ignore_index": 2},
    {"label_smoothing": 0.2},
    {"weight": True},
    {"weight": True, "label_smoothing": 0.1, "ignore_index": 0},
]


@pytest.mark.parametrize("options", CLASS_LOSSES)
@pytest.mark.parametrize("shape", [(4,), (6, 4), (2, 4, 3)])
def test_cross_entropy(options, shape):
    (x, tx), (w, tw) = both(*shape), both(4, seed=1)
    labels = np.random.default_rng(2).integers(1, 4, (*shape[:1], *shape[2:])[len(shape) == 1 :])
    ours = nn.CrossEntropyLoss(
        **{**options, **({"weight": w.abs()} if "weight" in options else {})}
    )
    theirs = torch.nn.CrossEntropyLoss(
        **{**options, **({"weight": tw.abs()} if "weight" in options else {})}
    )
    x.requires_grad_()
    tx.requires_grad_()
    a, b = ours(x, tj.tensor(labels)), theirs(tx, torch.tensor(labels))
    close(a, b)
    a.sum().backward()
    b.sum().backward()
    close(x.grad, tx.grad)


@pytest.mark.filterwarnings(
    "ignore:reduction. 'mean' divides the total loss"
)  # of KLDivLoss, theirs
@pytest.mark.parametrize("name", ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "KLDivLoss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_regression_loss(name, reduction):
    (x, tx), (t, tt) = both(4, 3), both(4, 3, seed=1)
    close(
        getattr(nn, name)(reduction=reduction)(x, t.abs()),
        getattr(torch.nn, name)(reduction=reduction)(tx, tt.abs()),
    )


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.9)}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"maximize": True}),
    ("Adafactor", {"lr": 0.1, "d": 1.5, "eps": (1e-6, 1e-3), "weight_decay": 0.1}),
    ("Adafactor", {"maximize": True, "beta2_decay": -0.3}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "weight_decay": 0.01}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimizer(name, options, dtype):
    last = (2, 1, 3) if name == "Adafactor" else (0, 3)  # which PyTorch divides by its size
    pairs = [both(*shape, seed=9, dtype=dtype) for shape in ((4, 5), (7,), last)]
    ours = [nn.Parameter(a) for a, _ in pairs]
    theirs = [torch.nn.Parameter(b) for _, b in pairs]
    opt, oracle = (
        getattr(optim, name)(ours, **options),
        getattr(torch.optim, name)(theirs, **options),
    )
    for step in range(5):
        for p, q in zip(ours, theirs, strict=True):
            p.grad, q.grad = both(*p.shape, seed=step, dtype=dtype)
        opt.step()
        oracle.step()
    for p, q in zip(ours, theirs, strict=True):
        close(p, q, 1e-5 if dtype is np.float32 else 1e-12)
    saved = oracle.state_dict()["state"]
    for index, values in opt.state_dict()["state"].items():
        for key, value in values.items():
            close(value, saved[index][key], 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "nesterov": False, "momentum": 0.3, "weight_decay": 0.0},
        {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    ],
)
def test_muon(options):
    pairs = [both(*shape, seed=9) for shape in ((4, 5), (7, 2), (3, 3))]
    ours = [nn.Parameter(x) for x, _ in pairs]
    theirs = [torch.nn.Parameter(x) for _, x in pairs]
    opt, oracle = optim.Muon(ours, **options), torch.optim.Muon(theirs, **options)
    for step in range(3):
        for p, q in zip(ours, theirs, strict=True):
            p.grad, q.grad = both(*p.shape, seed=step)
        opt.step()
        oracle.step()
    for p, q in zip(ours, theirs, strict=True):
        close(p, q, 2e-2)  # the directions are computed in bfloat16
        close(opt.state[p]["momentum_buffer"], oracle.state[q]["momentum_buffer"], 1e-5)


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([nn.Parameter(tj.ones(3))])


SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda e: 0.95**e),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.9, 7),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 8, 2.0),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=21),
    "three phases": lambda s, o: s.OneCycleLR(o, 0.5, 21, three_phase=True),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, total_iters=3), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)], [4, 10]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    ours = optim.SGD([nn.Parameter(tj.tensor([1.0]))], lr=0.4, momentum=0.9)
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4, momentum=0.9)
    a, b = SCHEDULES[name](lrs, ours), SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    for _ in range(20):
        for opt, schedule in ((ours, a), (theirs, b)):
            opt.step()
            schedule.step()
        for key in ("lr", "momentum"):
            assert ours.param_groups[0][key] == pytest.approx(
                theirs.param_groups[0][key], rel=1e-12
            )
