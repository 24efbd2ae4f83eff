"""DataLoader: samples of a dataset, in some order, as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from ...cuda.driver import is_available
from ...random import Generator
from .collate import default_collate, default_convert, pinned_batch
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info"]

T = TypeVar("T", covariant=True)


def get_worker_info() -> None:
    """None: samples are read by the process that asks for them.

    >>> import tracejit as tj
    >>> tj.utils.data.get_worker_info() is None
    True
    """
    return


def seeds_of_worker(base_seed: int, worker_id: int) -> list[int]:
    """Four words from which a generator of NumPy begins in a worker: libraries with workers of their own ask for them.

    >>> seeds_of_worker(1, 0)
    [3964924996, 1358922860, 3894904162, 2051610843]
    """
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4).tolist()  # type: ignore[no-any-return]


class DataLoader(Generic[T]):
    """Goes over a dataset in batches, again from the start each time it is iterated.

    ``shuffle`` draws a new order each time, from ``generator`` or the default one; ``sampler`` or ``batch_sampler``
    give an order of one's own; ``batch_size=None`` gives single samples. ``collate_fn`` makes one batch of a list of
    samples. Samples are read in this process: ``num_workers`` and what belongs to workers (``timeout``,
    ``prefetch_factor``, ``persistent_workers``, ``worker_init_fn``, ``multiprocessing_context``) are accepted and
    change nothing. ``pin_memory`` puts batches where a GPU reads them by itself, if there is one. Raises ``ValueError``
    for options that exclude each other.

    >>> import tracejit as tj
    >>> data = tj.utils.data.TensorDataset(tj.arange(5), tj.arange(5) * 2)
    >>> for x, y in tj.utils.data.DataLoader(data, batch_size=3):
    ...     print(x, y)
    tensor([0, 1, 2]) tensor([0, 2, 4])
    tensor([3, 4]) tensor([6, 8])
    """

    def __init__(
        self,
        dataset: Dataset[T] | Sequence[T],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self._set_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if collate_fn is None:
            collate_fn = default_convert if self.batch_sampler is None else default_collate
        self.collate_fn = collate_fn

    def _set_order(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Any,
        batch_sampler: Any,
        drop_last: bool,
    ) -> None:
        one_by_one = isinstance(self.dataset, IterableDataset)
        if one_by_one and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler options"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle), one_by_one)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def _default_sampler(self, shuffle: bool, one_by_one: bool) -> Any:
        if one_by_one:
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        return self._get_iterator()

    def _get_iterator(self) -> Iterator[Any]:
        return _SingleProcessDataLoaderIter(self)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            count = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


class _Endless:
    """Stands for the order of a dataset that has its own."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class _BaseDataLoaderIter:
    """One walk over a loader. Its names are PyTorch's: programs reach into walks, to begin one in its middle."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset = loader.dataset
        self._collate_fn = loader.collate_fn
        self._drop_last = loader.drop_last
        self._num_workers = loader.num_workers
        self._auto_collation = loader.batch_sampler is not None
        self._index_sampler = loader.batch_sampler if self._auto_collation else loader.sampler
        self._pin_memory = loader.pin_memory and is_available()
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A walk in which other processes read the samples: no loader makes one, programs ask whether it did."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A walk in which the process that asks reads the samples."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        one_by_one = isinstance(self._dataset, IterableDataset)
        self._samples = iter(self._dataset) if one_by_one else None

    def _next_data(self) -> Any:
        index = self._next_index()
        read = self._at if self._samples is None else self._following
        data = self._collate_fn(read(index))
        return pinned_batch(data) if self._pin_memory else data

    def _at(self, index: Any) -> Any:
        """The sample at ``index``, or those of a batch."""
        if not self._auto_collation:
            return self._dataset[index]
        many = getattr(self._dataset, "__getitems__", None)
        return [self._dataset[i] for i in index] if many is None else many(index)

    def _following(self, index: Any) -> Any:
        """The next sample, or as many as a batch has."""
        assert self._samples is not None
        if not self._auto_collation:
            return next(self._samples)
        found = list(islice(self._samples, len(index)))
        if not found or (self._drop_last and len(found) < len(index)):
            raise StopIteration
        return found
