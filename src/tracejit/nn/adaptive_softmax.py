"""Log-softmax over many classes: frequent ones at once, rare ones in clusters behind it (Grave et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..autograd.grad_mode import is_grad_enabled
from ..dtypes import DType
from . import functional as F
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveResult(NamedTuple):
    """The log-probability of each target, and minus their mean."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes below ``cutoffs[0]`` have a score each in the head; the others belong to clusters between cutoffs.

    Cluster i is projected to ``in_features / div_value**(i + 1)`` features first. Inputs are (N, in_features) or
    (in_features); targets are classes. Raises ``ValueError`` for cutoffs that are not increasing whole numbers below
    ``n_classes``, or a last one that leaves a cluster without features.

    >>> import tracejit as tj
    >>> layer = tj.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12])
    >>> output, loss = layer(tj.zeros(3, 8), tj.tensor([0, 7, 19]))
    >>> output.shape, layer.log_prob(tj.zeros(3, 8)).shape
    (tracejit.Size([3]), tracejit.Size([3, 20]))
    """

    tail: Any

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        found = list(cutoffs)
        if not found:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in found)
        if found != sorted(set(found)) or found[0] <= 0 or found[-1] > n_classes - 1 or not whole:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*found, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            size = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            into = Linear(in_features, size, bias=False, **place)
            self.tail.append(Sequential(into, Linear(size, classes, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Draw new values."""
        for layer in (self.head, *(part for pair in self.tail for part in pair)):
            layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> AdaptiveResult:
        """The log-probabilities of the targets, and their loss.

        Raises ``RuntimeError`` for shapes that do not fit and for targets that are no classes.
        """
        if target_.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.ndim != target_.ndim + 1:
            raise RuntimeError(
                f"{target_.ndim}D target tensor expects {target_.ndim + 1}D input tensors, but found inputs "
                f"with sizes {list(input_.shape)}."
            )
        rows = input_ if target_.ndim else input_.unsqueeze(0)
        labels = target_ if target_.ndim else target_.unsqueeze(0)
        if rows.shape[0] != labels.shape[0]:
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, "
                f"got {rows.shape} and {labels.shape}"
            )
        if not bool(((labels >= 0) & (labels < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{labels.min().item()}, {labels.max().item()}] were found."
            )
        found = self._of_labels(rows, labels)
        return AdaptiveResult(found if target_.ndim else found.squeeze(0), -found.mean())

    def _of_labels(self, rows: Any, labels: Any) -> Any:
        """The log-probability of each label: of its class in the head, or of its cluster and of it there."""
        clusters = list(enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)))
        inside = [(labels >= low) & (labels < high) for _, (low, high) in clusters]
        if is_grad_enabled():  # a cluster that no label is in gets no gradients at all
            clusters = [(i, ends) for i, ends in clusters if bool(inside[i].any())]
        head = F.log_softmax(self.head(rows), 1)
        place = labels
        for i, low in enumerate(self.cutoffs[:-1]):
            place = place.where(labels < low, self.shortlist_size + i)
        found = head.gather(1, place.unsqueeze(1)).squeeze(1)
        for i, (low, high) in clusters:
            own = F.log_softmax(self.tail[i](rows), 1)
            within = (labels - low).clamp(0, high - low - 1).unsqueeze(1)
            found = found + own.gather(1, within).squeeze(1).masked_fill(~inside[i], 0.0)
        return found

    def log_prob(self, input: Any) -> Any:
        """Log-probabilities of all classes, (N, n_classes)."""
        from ..ops.functions.joining import cat

        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(self.tail[i](input), 1) + cluster)
        return cat(parts, 1)

    def predict(self, input: Any) -> Any:
        """The likeliest class of each row."""
        return self.log_prob(input).argmax(1)
