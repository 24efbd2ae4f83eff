"""Names that programs written for PyTorch use around models: script marks, limits of numbers, module paths."""

from __future__ import annotations

import pickle

import pytest
from tracejit.nn.modules.batchnorm import _BatchNorm
from tracejit.nn.modules.conv import _ConvNd
from tracejit.nn.modules.loss import _Loss

import tracejit as tj
from tracejit import nn
from tracejit.nn.modules.utils import _ntuple, _pair


def test_script_marks_change_nothing():
    @tj.jit.script
    def double(x):
        return x * 2

    class Model(nn.Module):
        size: tj.jit.Final[int] = 3

        @tj.jit.ignore
        def forward(self, x):
            return double(x) if not tj.jit.is_scripting() else x

        @tj.jit.unused
        def other(self):
            return 1

        @tj.jit.export
        def third(self):
            return tj.jit.annotate(int, 3)

    model = tj.compile(Model(), strict=True)
    assert [model(tj.ones(1)).item() for _ in range(3)] == [2.0] * 3
    assert (Model().other(), Model().third()) == (1, 3)


def test_limits_of_numbers():
    assert tj.finfo(tj.bfloat16).max == 3.3895313892515355e38
    assert tj.finfo().bits == 32
    assert tj.finfo(tj.float64).tiny == 2.2250738585072014e-308
    assert (tj.iinfo(tj.uint8).min, tj.iinfo(tj.int64).max) == (0, 2**63 - 1)
    assert "float16" in repr(tj.finfo(tj.float16))
    with pytest.raises(TypeError, match="iinfo"):
        tj.finfo(tj.int32)
    for dtype in (tj.float32, tj.bool):
        with pytest.raises(TypeError, match="integer"):
            tj.iinfo(dtype)


def test_a_mask_filled_with_the_least_number_compiles():
    @tj.compile(strict=True)
    def masked(x):
        return x.masked_fill(x < 0, -tj.finfo(x.dtype).max).softmax(0)

    x = tj.tensor([-1.0, 1.0, 2.0])
    for _ in range(3):
        assert masked(x)[0].item() == 0.0


def test_memory_formats_are_accepted_and_keep_values():
    x = tj.randn(1, 2, 3, 3)
    assert tj.equal(x.to(memory_format=tj.channels_last), x)
    assert x.contiguous(memory_format=tj.channels_last).is_contiguous()
    assert pickle.loads(pickle.dumps(tj.channels_last)) is tj.channels_last
    assert repr(tj.preserve_format) == "tracejit.preserve_format"


def test_questions_about_values():
    assert tj.is_tensor(nn.Parameter(tj.ones(1)))
    assert (tj.numel(tj.ones(2, 3)), tj.is_floating_point(tj.arange(3))) == (6, False)
    assert not tj.is_complex(tj.ones(1))
    assert not tj.is_nonzero(tj.zeros(1))
    assert tj.is_same_size(tj.ones(2), tj.zeros(2))
    assert not tj.is_same_size(tj.ones(2), tj.ones(1))
    for question in (tj.numel, tj.is_floating_point, tj.is_complex, tj.is_nonzero):
        with pytest.raises(TypeError, match="must be Tensor"):
            question([1.0])


def test_layers_under_their_module_paths():
    assert isinstance(nn.BatchNorm2d(1), _BatchNorm)
    assert isinstance(nn.ConvTranspose1d(1, 1, 1), _ConvNd)
    assert isinstance(nn.CrossEntropyLoss(), _Loss)
    assert isinstance(nn.CTCLoss(), _Loss)
    assert nn.modules.conv.Conv2d is nn.modules.Conv2d is nn.Conv2d
    assert nn.modules.transformer.TransformerEncoderLayer is nn.TransformerEncoderLayer
    assert (_pair(3), _ntuple(4)(2), _pair((1, 2))) == ((3, 3), (2, 2, 2, 2), (1, 2))


def test_einsum_takes_capital_letters_and_lists():
    a, b = tj.randn(2, 3, 4), tj.randn(2, 4, 5)
    expected = a @ b
    assert tj.allclose(tj.einsum("BiJ,BJk->Bik", a, b), expected)
    assert tj.allclose(tj.einsum("...IJ,...JK->...IK", a, b), expected)
    assert tj.allclose(tj.einsum(a, [0, 1, 2], b, [0, 2, 30], [0, 1, 30]), expected)
    assert tj.allclose(tj.einsum(a, [..., 1, 2], b, [..., 2, 3]), expected)
    assert tj.einsum("bA", tj.ones(2, 3)).shape == (3, 2)
    with pytest.raises(RuntimeError, match="within"):
        tj.einsum(a, [0, 1, 99])
    with pytest.raises(RuntimeError, match="invalid subscript"):
        tj.einsum("i1j->i", a)


def test_threads():
    before = tj.get_num_threads()
    tj.set_num_threads(1)
    assert tj.get_num_threads() == 1
    tj.set_num_threads(before)
    with pytest.raises(ValueError):
        tj.set_num_threads(0)


@pytest.mark.filterwarnings("ignore:size_average and reduce args")
def test_losses_take_the_old_flags_where_pytorch_has_them():
    x, t = tj.tensor([1.0, 2.0]), tj.zeros(2)
    assert nn.MSELoss(size_average=False)(x, t).item() == 5.0
    assert nn.L1Loss(reduce=False)(x, t).tolist() == [1.0, 2.0]
    assert nn.CrossEntropyLoss(None, None, 1)(tj.zeros(1, 3), tj.tensor([1])).isnan()
    assert nn.BCELoss(None, False)(tj.ones(2), tj.ones(2)).item() == 0.0


def test_arguments_that_programs_pass_along():
    x = tj.tensor([3.0, 4.0], requires_grad=True)
    (g,) = tj.autograd.grad((x * x).sum(), x, None, None, True, True, True)
    assert g.tolist() == [6.0, 8.0]
    x.grad = tj.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_([x], 1.0, foreach=False).item() == 5.0
    nn.utils.clip_grad_value_([x], 0.5, foreach=True)
    assert x.grad.max().item() == 0.5
    assert nn.GroupNorm(1, 2, bias=False).bias is None


def test_transforms_made_of_others_are_in_the_module_of_transforms():
    from tracejit.distributions import transforms

    assert transforms.CatTransform is tj.distributions.CatTransform
    assert not hasattr(transforms, "NoSuchTransform")
