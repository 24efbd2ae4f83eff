"""The share of a dataset that one of several processes draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ... import distributed
from ...ops.functions.sampling import randperm
from ...random import Generator
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th sample from ``rank`` on, of all samples in the order of this epoch.

    All replicas draw equally often: samples repeat, or with ``drop_last`` are left out, until they do. The order is
    shuffled from ``seed`` and the epoch; without ``set_epoch`` every epoch has the same order. Raises ``ValueError``
    for a rank that is not below the number of replicas, and when one is missing and there is no process group.

    >>> import tracejit as tj
    >>> share = tj.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(share), len(share)
    ([1, 3, 0], 3)
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank = distributed.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]"
            )
        self.dataset = dataset
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = (
            count if drop_last else count + self.num_replicas - 1
        ) // self.num_replicas
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(len(indices), generator=generator).tolist()
        if indices:
            indices *= math.ceil(self.total_size / len(indices)) or 1
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle for this epoch from now on."""
        self.epoch = epoch
