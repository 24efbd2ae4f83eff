"""Functions that are called otherwise at the top of the package than among those of layers, as in PyTorch.

``torch.embedding(weight, indices)`` takes what ``nn.functional.embedding(input, weight)`` takes the other way round,
``torch.batch_norm`` has all nine of its arguments, in another order, and losses take reductions as numbers. Calls in
the form of ``nn.functional`` are understood where they cannot be mistaken.
"""

from __future__ import annotations

from typing import Any

from ..keywords import as_called
from ..table import FUNCTIONS
from .loss_reductions import reduced
from .normalization import normalized_by_batch

__all__ = ["NATIVE_FORMS"]

_REDUCTIONS = ("none", "mean", "sum")
_PLAIN = {
    name: as_called(FUNCTIONS[name])
    for name in (
        *(
            "alpha_dropout",
            "batch_norm",
            "binary_cross_entropy_with_logits",
            "cosine_embedding_loss",
        ),
        *("ctc_loss", "dropout", "embedding", "feature_alpha_dropout", "group_norm"),
        *("hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm", "margin_ranking_loss"),
        *("poisson_nll_loss", "triplet_margin_loss"),
    )
}


def _reduction(reduction: int | str) -> str:
    """The name of a reduction that may be told as a number.

    >>> _reduction(2), _reduction("mean")
    ('sum', 'mean')
    """
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def batch_norm(*args: Any, **options: Any) -> Any:
    """``batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)``.

    >>> import tracejit as tj
    >>> tj.batch_norm(tj.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, False).flatten()
    tensor([-1.0000,  1.0000])
    """
    return _normalized("batch_norm", "training", args, options)


def instance_norm(*args: Any, **options: Any) -> Any:
    """``instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled)``.

    >>> import tracejit as tj
    >>> tj.instance_norm(tj.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    return _normalized("instance_norm", "use_input_stats", args, options)


def _normalized(name: str, batch: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    options = dict(options)
    if options.pop("cudnn_enabled", None) is not None or len(args) == 9:
        order = ("input", "weight", "bias", "running_mean", "running_var", batch, "momentum", "eps")
        options |= dict(zip(order, args, strict=False))
        if name == "batch_norm" and len(options) == len(order):
            return normalized_by_batch(**options)  # with any `eps`
        args = ()
    return _PLAIN[name](*args, **options)


def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """``nn.functional.layer_norm``; ``cudnn_enable`` changes nothing.

    >>> import tracejit as tj
    >>> tj.layer_norm(tj.tensor([1.0, 3.0]), (2,), None, None, 1e-5, False)
    tensor([-1.0000,  1.0000])
    """
    del cudnn_enable
    return _PLAIN["layer_norm"](input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """``nn.functional.group_norm``; ``cudnn_enabled`` changes nothing.

    >>> import tracejit as tj
    >>> tj.group_norm(tj.tensor([[[1.0, 3.0]]]), 1, None, None, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    del cudnn_enabled
    return _PLAIN["group_norm"](input, num_groups, weight, bias, eps)


def embedding(weight: Any, indices: Any = None, *args: Any, **options: Any) -> Any:
    """Rows of ``weight``: ``embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)``.

    >>> import tracejit as tj
    >>> tj.embedding(tj.tensor([[1.0, 2.0], [3.0, 4.0]]), tj.tensor([1]))
    tensor([[3., 4.]])
    """
    if "input" in options or not weight.dtype.is_differentiable:
        given = (weight,) if indices is None else (weight, indices)
        return _PLAIN["embedding"](*given, *args, **options)
    options |= dict(zip(("padding_idx", "scale_grad_by_freq", "sparse"), args, strict=False))
    if options.get("padding_idx") == -1:
        del options["padding_idx"]
    return _PLAIN["embedding"](indices, weight, **options)


def dropout(input: Any, p: float = 0.5, train: bool | None = None, **options: Any) -> Any:
    """``nn.functional.dropout``, told by ``train`` whether anything is dropped.

    >>> import tracejit as tj
    >>> tj.dropout(tj.ones(2), 0.5, train=False)
    tensor([1., 1.])
    """
    return _dropped("dropout", input, p, train, options)


def alpha_dropout(input: Any, p: float = 0.5, train: bool | None = None, **options: Any) -> Any:
    """``nn.functional.alpha_dropout``, told by ``train`` whether anything is dropped.

    >>> import tracejit as tj
    >>> tj.alpha_dropout(tj.ones(2), 0.5, train=False)
    tensor([1., 1.])
    """
    return _dropped("alpha_dropout", input, p, train, options)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, train: bool | None = None, **options: Any
) -> Any:
    """``nn.functional.feature_alpha_dropout``, told by ``train`` whether anything is dropped.

    >>> import tracejit as tj
    >>> tj.feature_alpha_dropout(tj.ones(1, 2), 0.5, train=False)
    tensor([[1., 1.]])
    """
    return _dropped("feature_alpha_dropout", input, p, train, options)


def _dropped(name: str, input: Any, p: float, train: bool | None, options: dict[str, Any]) -> Any:
    return _PLAIN[name](input, p, **(options if train is None else {"training": train, **options}))


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: int | str = "mean",
    **options: Any,
) -> Any:
    """``nn.functional.binary_cross_entropy_with_logits``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.binary_cross_entropy_with_logits(tj.zeros(2), tj.ones(2), None, None, 2)
    tensor(1.3863)
    """
    options |= {"pos_weight": pos_weight, "reduction": _reduction(reduction)}
    return _PLAIN["binary_cross_entropy_with_logits"](input, target, weight, **options)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    reduction: int | str = "mean",
    **options: Any,
) -> Any:
    """``nn.functional.cosine_embedding_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> x = tj.tensor([[1.0, 0.0]])
    >>> tj.cosine_embedding_loss(x, x.flip(1), tj.ones(1), 0.0, 0)
    tensor([1.])
    """
    options |= {"margin": margin, "reduction": _reduction(reduction)}
    return _PLAIN["cosine_embedding_loss"](input1, input2, target, **options)


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int | str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """``nn.functional.ctc_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> steps = tj.zeros(2, 1, 2).log_softmax(-1)
    >>> tj.ctc_loss(steps, tj.tensor([[1]]), tj.tensor([2]), tj.tensor([1]), 0, 2)
    tensor(0.2877)
    """
    lengths = (input_lengths, target_lengths)
    how = (blank, _reduction(reduction), zero_infinity)
    return _PLAIN["ctc_loss"](log_probs, targets, *lengths, *how)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: int | str = "mean", **options: Any
) -> Any:
    """``nn.functional.hinge_embedding_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.hinge_embedding_loss(tj.ones(2), tj.ones(2), 1.0, 2)
    tensor(2.)
    """
    options |= {"margin": margin, "reduction": _reduction(reduction)}
    return _PLAIN["hinge_embedding_loss"](input, target, **options)


def kl_div(
    input: Any,
    target: Any,
    reduction: int | str = "mean",
    *,
    log_target: bool = False,
    **options: Any,
) -> Any:
    """``nn.functional.kl_div``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.kl_div(tj.zeros(2), tj.ones(2), 2)
    tensor(0.)
    """
    named = _reduction(reduction)
    options |= {"reduction": "none" if named == "mean" else named, "log_target": log_target}
    loss = _PLAIN["kl_div"](input, target, **options)
    return reduced(loss, "mean") if named == "mean" else loss  # of which nobody is warned here


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    reduction: int | str = "mean",
    **options: Any,
) -> Any:
    """``nn.functional.margin_ranking_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.margin_ranking_loss(tj.zeros(2), tj.ones(2), tj.ones(2), 0.0, 2)
    tensor(2.)
    """
    options |= {"margin": margin, "reduction": _reduction(reduction)}
    return _PLAIN["margin_ranking_loss"](input1, input2, target, **options)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: int | str = "mean",
    **options: Any,
) -> Any:
    """``nn.functional.poisson_nll_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.poisson_nll_loss(tj.zeros(2), tj.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    options |= {"eps": eps, "reduction": _reduction(reduction)}
    return _PLAIN["poisson_nll_loss"](input, target, log_input=log_input, full=full, **options)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int | str = "mean",
    **options: Any,
) -> Any:
    """``nn.functional.triplet_margin_loss``, with the reduction as a number.

    >>> import tracejit as tj
    >>> tj.triplet_margin_loss(tj.zeros(2, 1), tj.zeros(2, 1), tj.zeros(2, 1), 1.0, 2.0, 1e-6, False, 2)
    tensor(2.)
    """
    options |= {"margin": margin, "p": p, "eps": eps, "swap": swap}
    options["reduction"] = _reduction(reduction)
    return _PLAIN["triplet_margin_loss"](anchor, positive, negative, **options)


#: What the package publishes under its own name in the place of functions of layers.
NATIVE_FORMS = {name: globals()[name] for name in _PLAIN}
