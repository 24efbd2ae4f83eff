"""Datasets: samples by number, or one after the other."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ...ops.functions.sampling import randperm
from ...random import Generator
from ...tensor import Tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples by number: subclasses define ``__getitem__`` and mostly ``__len__``."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other: subclasses define ``__iter__``."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors side by side: sample ``i`` is the tuple of their rows ``i``.

    Raises ``AssertionError`` when their first sizes differ.

    >>> import tracejit as tj
    >>> data = tj.utils.data.TensorDataset(tj.arange(3), tj.ones(3))
    >>> len(data), data[1]
    (3, (tensor(1), tensor(1.)))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        tensors: tuple[Any, ...] = self.tensors
        return tuple(t[index] for t in tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Datasets side by side: samples are tuples, or dicts when datasets are given by name.

    >>> import tracejit as tj
    >>> tj.utils.data.StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset takes datasets either by position or by name"
                if args
                else "At least one dataset should be passed"
            )
        self.datasets: Any = args or kwargs
        parts = list(args or kwargs.values())
        if any(len(part) != len(parts[0]) for part in parts):
            raise ValueError("Size mismatch between datasets")
        self._length = len(parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other.

    >>> import tracejit as tj
    >>> list(tj.utils.data.ConcatDataset([[1, 2], [3]]))
    [1, 2, 3]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(part) for part in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        length = len(self)
        if index < 0:
            if -index > length:
                raise ValueError("absolute value of index should not exceed dataset length")
            index += length
        elif index >= length:
            raise IndexError(f"index {index} is out of range for {length} samples")
        part = bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][index - start]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class Subset(Dataset[T]):
    """The samples of a dataset at some indices.

    >>> import tracejit as tj
    >>> list(tj.utils.data.Subset([10, 20, 30], [2, 0]))
    [30, 10]
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch, together where the dataset gives several at once."""
        places = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[i] for i in places] if many is None else many(places)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Disjoint random subsets of given lengths, or of given fractions that sum to one.

    Raises ``ValueError`` when the lengths do not add up to the length of the dataset.

    >>> import tracejit as tj
    >>> [len(part) for part in tj.utils.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    total = len(dataset)
    sizes = _sizes(lengths, total)
    if sum(sizes) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order: list[int] = randperm(total, generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _sizes(lengths: Sequence[int | float], total: int) -> list[int]:
    """Lengths as numbers of samples; what fractions leave over goes round from the first."""
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(length) for length in lengths]
    for place, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {place} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for place in range(total - sum(sizes)):
        sizes[place % len(sizes)] += 1
    return sizes
