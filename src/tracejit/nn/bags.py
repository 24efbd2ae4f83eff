"""EmbeddingBag: sums, means and maxima of embedding rows."""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import Embedding, empty_parameter
from .module import Module
from .parameter import Parameter

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Module):
    """The "sum", "mean" or "max" of the rows of a table in each bag: (N, bag) or (*,) with offsets to (N, columns).

    Rows start standard normal; the row ``padding_idx`` counts for nothing; the options are those of ``embedding_bag``.
    Raises ``ValueError`` for bags that do not fit.

    >>> import tracejit as tj
    >>> tj.nn.EmbeddingBag(10, 3)(tj.tensor([[1, 2], [0, 9]])).shape
    tracejit.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = empty_parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer on the given (rows, columns) table, not trained unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse)
        made = cls(rows, columns, *options, embeddings, include_last_offset, padding_idx)
        made.weight.requires_grad_(not freeze)
        return made

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    _fill_padding_idx_with_zero = Embedding._fill_padding_idx_with_zero

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """What the rows of each bag come to."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Sizes, mode, and what is not the default."""
        defaults = {
            "max_norm": None,
            "norm_type": 2,
            "scale_grad_by_freq": False,
            "padding_idx": None,
        }
        shown = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        place = len(shown) - (self.padding_idx is not None)
        shown.insert(place, f"mode={self.mode!r}")
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *shown])
