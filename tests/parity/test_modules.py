"""Modules against PyTorch: how they print, the names and shapes of their state, outputs, gradients, statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from module_tools import normal, pair, run
from parity_tools import array, close, same_error, torch

import tracejit as tj

IMAGE, LINE, VOLUME = (2, 4, 6, 7), (2, 4, 9), (2, 4, 4, 5, 6)
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", (4, 6, 3), {}, LINE),
    ("Conv1d", (4, 6, 3), {"padding": "same", "dilation": 2, "bias": False}, LINE),
    ("Conv2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, IMAGE),
    ("Conv2d", (4, 6, (3, 2)), {"padding": (1, 2), "padding_mode": "reflect"}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": "same", "padding_mode": "circular"}, IMAGE),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "replicate", "dilation": 2}, IMAGE),
    ("Conv2d", (4, 4, 3), {"padding": "valid", "groups": 4}, IMAGE),
    ("Conv3d", (4, 2, 2), {"stride": (1, 2, 1)}, VOLUME),
    ("Conv2d", (4, 6, 3), {}, IMAGE[1:]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2}, LINE),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, IMAGE),
    ("ConvTranspose2d", (4, 6, 3, 2, 1, 1, 2, False, 2), {}, IMAGE),
    ("ConvTranspose3d", (4, 2, 2), {}, VOLUME),
    ("MaxPool1d", (2,), {}, LINE),
    ("MaxPool2d", (3, 2, 1), {"return_indices": True}, IMAGE),
    ("MaxPool2d", ((2, 3),), {"ceil_mode": True}, IMAGE),
    ("MaxPool3d", (2,), {"dilation": 2}, VOLUME),
    ("AvgPool1d", (2,), {"padding": 1}, LINE),
    ("AvgPool2d", (3, 2, 1), {"count_include_pad": False, "ceil_mode": True}, IMAGE),
    ("AvgPool3d", (2,), {"divisor_override": 3}, VOLUME),
    ("AdaptiveAvgPool1d", (2,), {}, LINE),
    ("AdaptiveAvgPool2d", ((None, 3),), {}, IMAGE),
    ("AdaptiveAvgPool3d", (1,), {}, VOLUME),
    ("AdaptiveMaxPool1d", (2,), {}, LINE),
    ("AdaptiveMaxPool2d", (3,), {"return_indices": True}, IMAGE),
    ("AdaptiveMaxPool3d", ((2, 2, 4),), {}, VOLUME),
    ("LPPool1d", (2, 2), {}, LINE),
    ("LPPool2d", (2, 3), {"stride": 2}, IMAGE),
    ("BatchNorm1d", (4,), {}, LINE),
    ("BatchNorm1d", (4,), {"affine": False}, (5, 4)),
    ("BatchNorm2d", (4,), {"momentum": None}, IMAGE),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, IMAGE),
    ("BatchNorm2d", (4,), {"bias": False, "eps": 0.1}, IMAGE),
    ("BatchNorm3d", (4,), {"momentum": 0.4}, VOLUME),
    ("InstanceNorm1d", (4,), {}, LINE),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, IMAGE),
    ("InstanceNorm2d", (4,), {"track_running_stats": True, "momentum": 0.4}, IMAGE[1:]),
    ("InstanceNorm3d", (4,), {"affine": True}, VOLUME),
    ("LocalResponseNorm", (3,), {"alpha": 0.5}, IMAGE),
    ("Upsample", (), {"scale_factor": 2}, IMAGE),
    ("Upsample", (), {"size": (9, 5), "mode": "bilinear"}, IMAGE),
    ("Upsample", (), {"scale_factor": (1.5, 2), "mode": "bicubic", "align_corners": True}, IMAGE),
    ("UpsamplingNearest2d", (), {"scale_factor": 3}, IMAGE),
    ("UpsamplingBilinear2d", (), {"size": 5}, IMAGE),
    ("PixelShuffle", (2,), {}, IMAGE),
    ("PixelUnshuffle", (2,), {}, (2, 3, 4, 6)),
    ("ChannelShuffle", (2,), {}, IMAGE),
    ("Unfold", (3,), {"padding": 1, "stride": 2}, IMAGE),
    ("Fold", ((4, 5), 2), {}, (2, 8, 12)),
    ("ZeroPad1d", (2,), {}, LINE),
    ("ZeroPad2d", ((1, 2, 0, 1),), {}, IMAGE),
    ("ZeroPad3d", (1,), {}, VOLUME),
    ("ConstantPad1d", (1, 0.5), {}, LINE),
    ("ConstantPad2d", ((1, -1, 2, 0), 3.5), {}, IMAGE),
    ("ConstantPad3d", (1, 2.0), {}, VOLUME),
    ("ReflectionPad1d", (2,), {}, LINE),
    ("ReflectionPad2d", ((1, 2, 3, 4),), {}, IMAGE),
    ("ReflectionPad3d", (1,), {}, VOLUME),
    ("ReplicationPad1d", (3,), {}, LINE),
    ("ReplicationPad2d", (2,), {}, IMAGE),
    ("ReplicationPad3d", (1,), {}, VOLUME),
    ("CircularPad1d", (2,), {}, LINE),
    ("CircularPad2d", ((1, 2, 3, 4),), {}, IMAGE),
    ("CircularPad3d", (1,), {}, VOLUME),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), LAYERS, ids=str)
def test_layer(
    name: str, args: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    ours, theirs = pair(name, args, options)
    for _ in range(2):
        run(ours, theirs, normal(*shape))
    run(ours.eval(), theirs.eval(), normal(*shape))


def test_transposed_convolution_to_a_size() -> None:
    ours, theirs = pair("ConvTranspose2d", (4, 3, 3), {"stride": 3})
    run(ours, theirs, normal(2, 4, 3, 4), output_size=[10, 14])
    with pytest.raises(ValueError, match="valid sizes range"):
        ours(tj.zeros(2, 4, 3, 4).double(), output_size=[12, 14])


def test_unpooling() -> None:
    pool, theirs = pair("MaxPool2d", (2,), {"return_indices": True})
    unpool, their_unpool = pair("MaxUnpool2d", (2,))
    x = normal(2, 3, 4, 6)
    close(unpool(*pool(tj.tensor(x))), their_unpool(*theirs(torch.tensor(x))))


DROPOUTS = [
    ("Dropout1d", LINE),
    ("Dropout2d", IMAGE),
    ("Dropout3d", VOLUME),
    ("AlphaDropout", IMAGE),
    ("FeatureAlphaDropout", IMAGE),
]


@pytest.mark.parametrize(("name", "shape"), DROPOUTS)
def test_dropout(name: str, shape: tuple[int, ...]) -> None:
    ours, theirs = pair(name, (0.4,))
    run(ours.eval(), theirs.eval(), normal(*shape))
    ours.train()
    x = tj.ones(400, 50, *(2,) * (len(shape) - 2), dtype=tj.float64)
    kinds = np.unique(array(ours(x)).round(6))
    assert len(kinds) == 2
    share = float((array(ours(x)).round(6) == kinds[0]).mean())
    assert abs(share - 0.4) < 0.02
    if name != "AlphaDropout":
        dropped = array(ours(x)).reshape(400, 50, -1)
        assert (dropped == dropped[:, :, :1]).all()


# --- the rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str) -> None:
    ours, theirs = pair("EmbeddingBag", (6, 3), {"mode": mode, "padding_idx": 2})
    run(ours, theirs, np.array([[1, 2, 5], [0, 3, 3]]))
    run(ours, theirs, np.array([1, 2, 5, 0]), np.array([0, 1]))
    table = tj.tensor(normal(4, 2))
    assert not tj.nn.EmbeddingBag.from_pretrained(table).weight.requires_grad


@pytest.mark.parametrize(
    "options",
    [{"max_norm": 1.0, "norm_type": 1.0}, {"scale_grad_by_freq": False}, {"padding_idx": 1}],
)
def test_options_of_embedding_bags(options: dict[str, Any]) -> None:
    ours, theirs = pair("EmbeddingBag", (6, 3), {"mode": "sum", **options})
    run(ours, theirs, np.array([[1, 2, 5], [0, 3, 3]]))
    run(ours, theirs, np.array([1, 2, 5, 1]), np.array([0, 1]))
    close(ours.weight, theirs.weight)
    made = ours.from_pretrained(ours.weight.detach(), False, **options)
    assert repr(made) == repr(theirs.from_pretrained(theirs.weight.detach(), False, **options))


def test_embedding_bag_for_sparse_gradients_has_dense_ones() -> None:
    layer = tj.nn.EmbeddingBag(6, 3, mode="sum", sparse=True)
    layer(tj.tensor([[1, 2, 2]])).sum().backward()
    assert layer.weight.grad.sum(1).tolist() == [0.0, 3.0, 6.0, 0.0, 0.0, 0.0]


SIGNS = np.where(normal(4) > 0, 1, -1)
LOSSES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("SoftMarginLoss", {}, (normal(4), SIGNS)),
    ("HingeEmbeddingLoss", {"margin": 0.5}, (normal(4), SIGNS.astype(float))),
    ("CosineEmbeddingLoss", {"margin": 0.2}, (normal(4, 5), normal(4, 5), SIGNS)),
    ("MarginRankingLoss", {"margin": 0.2}, (normal(4), normal(4), SIGNS.astype(float))),
    ("MultiMarginLoss", {"p": 2, "margin": 0.7}, (normal(4, 3), np.array([0, 2, 1, 1]))),
    ("MultiLabelMarginLoss", {}, (normal(2, 3), np.array([[1, -1, 0], [2, 0, -1]]))),
    ("MultiLabelSoftMarginLoss", {}, (normal(2, 3), np.array([[1.0, 0, 0], [0, 1, 1]]))),
    ("TripletMarginLoss", {"swap": True}, (normal(4, 5), normal(4, 5), normal(4, 5))),
    ("TripletMarginWithDistanceLoss", {}, (normal(4, 5), normal(4, 5), normal(4, 5))),
    ("PoissonNLLLoss", {"full": True}, (normal(4), np.array([1.0, 2.0, 3.0, 0.5]))),
    ("GaussianNLLLoss", {"full": True}, (normal(4), normal(4), np.abs(normal(4)) + 0.1)),
    ("CosineSimilarity", {"dim": 0}, (normal(4, 5), normal(4, 5))),
    ("PairwiseDistance", {"p": 3.0, "keepdim": True}, (normal(4, 5), normal(4, 5))),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("name", "options", "inputs"), LOSSES, ids=lambda v: str(v)[:30])
def test_loss(name: str, options: dict[str, Any], inputs: tuple[Any, ...], reduction: str) -> None:
    if name.endswith("Loss"):
        options = {**options, "reduction": reduction}
    run(*pair(name, (), options), *inputs)


def test_ctc() -> None:
    ours, theirs = pair("CTCLoss", (), {"zero_infinity": True})
    scores = normal(6, 2, 4)
    labels = np.array([[1, 2], [3, 3]])
    a = ours(tj.tensor(scores).log_softmax(2), tj.tensor(labels), (6, 5), (2, 2))
    b = theirs(torch.tensor(scores).log_softmax(2), torch.tensor(labels), (6, 5), (2, 2))
    close(a, b)


def test_random_slopes() -> None:
    ours, theirs = pair("RReLU", (0.2, 0.6))
    run(ours.eval(), theirs.eval(), normal(4, 5))
    slopes = array(ours.train()(tj.full((50, 50), -1.0, dtype=tj.float64)))
    assert -0.6 < slopes.min() < -0.55 < -0.25 < slopes.max() <= -0.2


def test_refusals_of_layers() -> None:
    same_error(lambda t, _: t.nn.Conv2d(3, 4, 3, groups=2))
    same_error(lambda t, _: t.nn.Conv2d(4, 3, 3, groups=2))
    same_error(lambda t, _: t.nn.Conv2d(4, 4, 3, groups=0))
    same_error(lambda t, _: t.nn.Conv2d(4, 4, 3, padding_mode="mirror"))
    same_error(lambda t, _: t.nn.Conv2d(4, 4, 3, padding="around"))
    same_error(lambda t, _: t.nn.Conv2d(4, 4, 3, padding="same", stride=2))
    same_error(lambda t, _: t.nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"))
    same_error(lambda t, _: t.nn.BatchNorm2d(3)(t.zeros(2, 3, 4)))
    same_error(lambda t, _: t.nn.BatchNorm1d(3)(t.zeros(2, 3, 4, 4)))
    same_error(lambda t, _: t.nn.BatchNorm2d(3)(t.zeros(2, 4, 4, 4)))
    same_error(lambda t, _: t.nn.BatchNorm2d(3).eval()(t.zeros(2, 4, 4, 4)))
    same_error(lambda t, _: t.nn.BatchNorm1d(3)(t.zeros(1, 3)))
    same_error(lambda t, _: t.nn.InstanceNorm2d(3)(t.zeros(1, 3, 1, 1)))
    same_error(lambda t, _: t.nn.InstanceNorm2d(3, affine=True)(t.zeros(1, 4, 2, 2)))
    same_error(lambda t, _: t.nn.TripletMarginLoss(margin=0))
    same_error(lambda t, _: t.nn.MultiMarginLoss(p=3))


@pytest.mark.filterwarnings("ignore:Complex modules", "ignore:Casting complex values")
def test_modules_become_complex_and_real_again() -> None:
    found = []
    for of in (torch, tj):
        layer = of.nn.Sequential(of.nn.Linear(2, 3), of.nn.BatchNorm1d(3))
        with pytest.warns(UserWarning, match="Complex modules are a new feature"):
            layer.to(of.complex64)
        kinds = [str(x.dtype) for x in layer.state_dict().values()]
        out = layer[0](of.ones(1, 2, dtype=of.complex64))
        kinds += [str(out.dtype), str(layer.double()[0].weight.dtype)]
        kinds += [
            str(layer.to(of.complex128)[0].bias.dtype),
            str(layer.to(of.float32)[0].bias.dtype),
        ]
        found.append([kind.rpartition(".")[2] for kind in kinds])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm", "instance_norm"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parameters_of_single_precision_beside_half(name: str, dtype: str) -> None:
    def run(of: Any) -> Any:
        x = of.arange(24.0).reshape(2, 3, 4).sin().to(getattr(of, dtype))
        weight, bias = of.arange(3.0) + 1, of.arange(3.0) - 1
        options = {
            "layer_norm": lambda f: f(x.mT, (3,), weight, bias),
            "group_norm": lambda f: f(x, 3, weight, bias),
            "batch_norm": lambda f: f(x, bias, weight, weight, bias),
            "instance_norm": lambda f: f(x, weight=weight, bias=bias),
        }
        return options[name](getattr(of.nn.functional, name)).float()

    np.testing.assert_allclose(run(tj).numpy(), run(torch).numpy(), rtol=0.02, atol=0.02)


def test_sequences_are_joined_and_repeated() -> None:
    def made(t: Any) -> list[Any]:
        nn = t.nn
        a, b = nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Sequential(nn.Sigmoid())
        joined, twice, thrice = a + b, a * 2, 3 * b
        a += b
        b *= 2
        last = a.pop(-1)
        names = [[type(m).__name__ for m in s] for s in (joined, twice, thrice, a, b, [last])]
        return [
            *names,
            *(list(s._modules) for s in (joined, twice, thrice, a, b)),
            a[0] is twice[2],
        ]

    assert made(tj) == made(torch)
    for operation in (
        lambda nn: nn.Sequential() + nn.ReLU(),
        lambda nn: nn.Sequential() * 1.5,
        lambda nn: nn.Sequential() * 0,
        lambda nn: -1 * nn.Sequential(),
        lambda nn: nn.Sequential().__iadd__([nn.ReLU()]),
        lambda nn: nn.Sequential().__imul__(0),
    ):
        with pytest.raises(Exception) as theirs:
            operation(torch.nn)
        with pytest.raises(theirs.type):
            operation(tj.nn)
