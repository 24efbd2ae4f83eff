"""Layers that multiply by a weight: Linear, Bilinear, Embedding; and those that only change shape."""

from __future__ import annotations

import math
from typing import Any

from .. import aligned
from ..cuda.arrays import placed
from ..device import index_of
from ..dtypes import DType, get_default_dtype
from ..ops.shapes import refuse_negative
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]


def empty_parameter(*shape: int, device: Any = None, dtype: DType | None = None) -> Parameter:
    """A parameter whose values are still to be set (they are zeros, not garbage)."""
    dtype = get_default_dtype() if dtype is None else dtype
    refuse_negative(shape)
    return Parameter(Tensor._wrap(placed(aligned.zeros(shape, dtype.np), index_of(device))))


class Identity(Module):
    """Returns its input; takes and ignores any arguments.

    >>> import tracejit as tj
    >>> tj.nn.Identity()(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input itself."""
        return input


class Flatten(Module):
    """Merges the dimensions from ``start_dim`` to ``end_dim``.

    >>> import tracejit as tj
    >>> tj.nn.Flatten()(tj.zeros(2, 3, 4)).shape
    tracejit.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """A view where the layout allows one."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Both dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dimension ``dim`` into ``unflattened_size``.

    >>> import tracejit as tj
    >>> tj.nn.Unflatten(1, (3, 4))(tj.zeros(2, 12)).shape
    tracejit.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """A view where the layout allows one."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its new extents."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Linear(Module):
    """y = x Wᵀ + b, with W of shape (out_features, in_features).

    Input (*, in_features), output (*, out_features). W and b start uniform on ±1/sqrt(in_features).

    >>> import tracejit as tj
    >>> tj.nn.Linear(4, 2)(tj.zeros(3, 4)).shape
    tracejit.Size([3, 2])
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter(out_features, in_features, device=device, dtype=dtype)
        shift = empty_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        if self.weight.spec.numel:
            # gain(leaky_relu, sqrt(5)) = sqrt(1/3), so the bound is 1/sqrt(fan_in)
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        """x Wᵀ + b."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """y_k = x1ᵀ A_k x2 + b_k, with A of shape (out_features, in1_features, in2_features).

    >>> import tracejit as tj
    >>> tj.nn.Bilinear(2, 3, 4)(tj.ones(5, 2), tj.ones(5, 3)).shape
    tracejit.Size([5, 4])
    """

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = empty_parameter(
            out_features, in1_features, in2_features, device=device, dtype=dtype
        )
        shift = empty_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """x1 A x2 + b."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table of ``num_embeddings`` rows of length ``embedding_dim``, looked up by integer tensors.

    Input (*) of int32 or int64, output (*, embedding_dim). Rows start standard normal; the row ``padding_idx`` starts
    as zeros and receives no gradient. With ``max_norm``, rows that are used are shortened in place first; with
    ``scale_grad_by_freq`` the gradient of a row is divided by how often it occurs; gradients are dense also when
    ``sparse``. Raises ``AssertionError`` when ``padding_idx`` is no row, ``IndexError`` for an index out of range.

    >>> import tracejit as tj
    >>> tj.nn.Embedding(10, 3)(tj.tensor([[1, 2], [0, 9]])).shape
    tracejit.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            self.weight = empty_parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight)
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer on the given (rows, columns) table, not trained unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(rows, columns, *options, _weight=embeddings, _freeze=freeze)

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self: Any) -> None:
        """Clear the row that stands for nothing, after the table got other values."""
        if self.padding_idx is not None:
            row: Any = self.weight.detach()
            row[self.padding_idx].zero_()

    def forward(self, input: Any) -> Any:
        """The rows at the given indices."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Sizes and what is not the default."""
        defaults = {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": 2,
            "scale_grad_by_freq": False,
            "sparse": False,
        }
        shown = [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *shown])


def _row(padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows
