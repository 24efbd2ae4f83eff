"""Arguments without a derivative: refused by name when a gradient comes, or at once; values told by PyTorch."""

import pytest

import tracejit as tj

MISSING = {
    "the derivative for 'igamma: input' is not implemented.": lambda x: tj.igamma(x, x.detach()),
    "the derivative for 'igammac: input' is not implemented.": lambda x: tj.igammac(x, x.detach()),
    "the derivative for 'zeta' is not implemented.": lambda x: tj.special.zeta(x, x.detach()),
    "the derivative for 'unique_dim' is not implemented.": lambda x: tj.unique(x, dim=0),
    "the derivative for 'unique_consecutive' is not implemented.": tj.unique_consecutive,
    "the derivative for 'unique_dim_consecutive' is not implemented.": (
        lambda x: tj.unique_consecutive(x, dim=0)
    ),
    "the derivative for 'geqrf' is not implemented.": lambda x: tj.geqrf(x.reshape(2, 1)).a,
    "derivative for aten::heaviside is not implemented": lambda x: tj.heaviside(x, x.detach()),
    "derivative for aten::scatter is not implemented": (
        lambda x: x.scatter(0, tj.tensor([1]), x.detach(), reduce="multiply")
    ),
}


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("message", MISSING)
def test_a_gradient_that_comes_to_no_derivative_is_refused(message):
    function = MISSING[message]
    for f in (function, tj.compile(function)):
        for _ in range(2):
            x = tj.tensor([2.0, 3.0], requires_grad=True)
            found = f(x)
            assert found.requires_grad
            with pytest.raises(RuntimeError) as error:
                found.sum().backward()
            assert str(error.value).split("\n")[0] == message
            assert isinstance(error.value, NotImplementedError) == ("aten" not in message)


def test_other_gradients_are_not():
    x = tj.tensor([2.0, 3.0], requires_grad=True)
    (tj.heaviside(x, x).detach() * x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with tj.no_grad():
        assert tj.heaviside(x, x).tolist() == [1.0, 1.0]
    y = tj.tensor([1.0, 2.0], requires_grad=True)
    tj.igamma(x.detach(), y).sum().backward()
    assert y.grad.tolist() == pytest.approx([0.36787945, 0.27067056])


def rows():
    return tj.tensor([[0.2, 0.3], [0.4, 0.5]], requires_grad=True)


F = tj.nn.functional
CLASSES = tj.tensor([0, 1])
ONES = tj.ones(2, 2)
REFUSED = {
    ("nll_loss_forward", "weight"): lambda w: F.nll_loss(rows(), CLASSES, w),
    ("nll_loss_forward", "weight ", ""): lambda w: F.cross_entropy(rows(), CLASSES, w),
    ("nll_loss2d_forward", "weight"): (
        lambda w: F.nll_loss(rows().reshape(2, 2, 1), CLASSES.reshape(2, 1), w)
    ),
    ("binary_cross_entropy", "weight"): lambda w: F.binary_cross_entropy(rows(), ONES, w),
    ("binary_cross_entropy_with_logits", "pos_weight"): (
        lambda w: F.binary_cross_entropy_with_logits(rows(), ONES, pos_weight=w)
    ),
    ("multi_margin_loss", "weight"): lambda w: F.multi_margin_loss(rows(), CLASSES, weight=w),
    ("soft_margin_loss", "target"): lambda w: F.soft_margin_loss(rows()[0], w),
    ("native_batch_norm", "running_mean"): lambda w: F.batch_norm(rows(), w, tj.ones(2)),
    ("native_batch_norm", "running_var"): lambda w: F.batch_norm(rows(), tj.ones(2), w),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_may_not_ask_for_a_gradient(name):
    function, argument = name[0], name[1].strip()
    compiled = tj.compile(REFUSED[name])
    for call in (REFUSED[name], compiled, compiled):
        assert call(tj.ones(2)).requires_grad
        with tj.no_grad():
            assert not call(tj.ones(2, requires_grad=True)).requires_grad
        with pytest.raises(RuntimeError, match=f"'{function}' is not .* argument '{argument}'"):
            call(tj.ones(2, requires_grad=True))
