"""Datasets, samplers and the loader: order, batches, structures, errors."""

from __future__ import annotations

import importlib
from collections import namedtuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.utils import data


class Squares(data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"x": tj.tensor([float(index)]), "y": index * index, "name": f"n{index}"}


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_batches_keep_the_structure_of_samples():
    batches = list(data.DataLoader(Squares(5), batch_size=2))
    assert [b["y"].tolist() for b in batches] == [[0, 1], [4, 9], [16]]
    assert batches[0]["x"].shape == (2, 1)
    assert batches[2]["name"] == ["n4"]


def test_dropping_the_last_batch_and_the_length():
    assert len(data.DataLoader(Squares(5), batch_size=2)) == 3
    loader = data.DataLoader(Squares(5), batch_size=2, drop_last=True)
    assert len(loader) == len(list(loader)) == 2


def test_shuffled_orders_differ_hold_every_sample_and_repeat_with_the_seed():
    loader = data.DataLoader(data.TensorDataset(tj.arange(50)), batch_size=50, shuffle=True)
    tj.manual_seed(3)
    first, second = (next(iter(loader))[0].tolist() for _ in range(2))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))
    tj.manual_seed(3)
    assert [x.tolist() for (x,) in loader] == [first]


def test_a_stream_is_cut_into_batches():
    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]


def test_collating_by_oneself_and_batches_given_by_indices():
    loader = data.DataLoader([1, 2, 3], batch_sampler=[[2, 0], [1]], collate_fn=sum)
    assert list(loader) == [4, 2]


def test_collating_numbers_arrays_and_named_tuples():
    Pair = namedtuple("Pair", "a b")
    batch = data.default_collate([Pair(0.5, np.float32(1)), Pair(1.5, np.float32(2))])
    assert (batch.a.dtype, batch.b.dtype) == (tj.float64, tj.float32)
    assert data.default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert data.default_collate([True, False]).dtype is tj.bool
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="must contain tensors"):
        data.default_collate([object()])


def test_splitting_at_random():
    parts = data.random_split(range(10), [7, 3], generator=tj.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(x for p in parts for x in p) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(range(10), [7, 2])


def test_datasets_in_a_row_and_side_by_side():
    both = data.ConcatDataset([range(3), range(10, 12)])
    assert [both[i] for i in (0, 3, -1)] == [0, 10, 11]
    with pytest.raises(ValueError, match="absolute value"):
        both[-6]
    assert list(data.Subset(both, [4, 0])) == [11, 0]
    assert list(Stream() + Stream()) == [0, 1, 2, 3, 4] * 2
    assert data.StackDataset([1, 2], [3, 4])[1] == (2, 4)


def test_samplers():
    assert list(data.SequentialSampler("abc")) == [0, 1, 2]
    assert sorted(data.SubsetRandomSampler([5, 9])) == [5, 9]
    assert len(list(data.RandomSampler(range(3), num_samples=7))) == 7
    assert set(data.RandomSampler(range(2), replacement=True, num_samples=50)) == {0, 1}
    with pytest.raises(ValueError, match="positive integer"):
        data.BatchSampler(range(3), 0, False)


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "sampler": [0]},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
    ],
)
def test_options_that_exclude_each_other(options):
    with pytest.raises(ValueError):
        data.DataLoader([1], **options)


@pytest.mark.parametrize("name", ["tracejit", "torch"])
def test_a_walk_that_begins_in_its_middle(name, monkeypatch):
    """Programs that save where they are in an epoch reach into the loader's iterators."""
    lib = pytest.importorskip(name)
    data = importlib.import_module(f"{name}.utils.data")
    base = importlib.import_module(f"{name}.utils.data.dataloader")._BaseDataLoaderIter
    before = base.__init__

    def ahead(self, loader):
        before(self, loader)
        for _ in range(loader.skipped):
            next(self._sampler_iter)
            self._num_yielded += 1

    monkeypatch.setattr(base, "__init__", ahead)
    loader = data.DataLoader(data.TensorDataset(lib.arange(7)), batch_size=2)
    loader.skipped = 2
    walk = iter(loader)
    assert isinstance(walk, base)
    assert walk._num_yielded == 2
    assert [batch.tolist() for (batch,) in walk] == [[4, 5], [6]]
    assert walk._num_yielded == len(walk) == 4
    assert list(walk) == []


def test_pinning_by_its_path():
    pin = importlib.import_module("tracejit.utils.data._utils.pin_memory").pin_memory
    assert pin({"text": "a", "counts": [1, 2.5]}, None) == {"text": "a", "counts": [1, 2.5]}


@pytest.mark.parametrize(
    "texts", [["a", "b"], [b"a", b"b"], [np.str_("a"), np.str_("b")], [np.bytes_(b"a")]]
)
def test_batches_of_text_stay_lists(texts: list[object]) -> None:
    assert data.default_collate(texts) == texts
    assert data.default_collate([{"name": t} for t in texts]) == {"name": texts}


def test_arrays_of_text_and_objects_become_no_tensors() -> None:
    from tracejit.utils.data._utils.collate import np_str_obj_array_pattern

    for array in (np.array(["a"]), np.array([b"a"]), np.array([object()])):
        assert np_str_obj_array_pattern.search(array.dtype.str)
        assert data.default_convert([array])[0] is array
        with pytest.raises(TypeError, match="must contain tensors"):
            data.default_collate([array])
    assert not np_str_obj_array_pattern.search(np.ones(1).dtype.str)
