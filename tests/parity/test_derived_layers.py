"""Layers of programs that derive from ours, by the names that PyTorch's layers give to their parts."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from module_tools import normal, run
from parity_tools import close, same_error, torch

import tracejit as tj


def both(make: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """A derived layer of each library, with the same values in double precision."""
    ours, theirs = make(tj)(*args, **options).double(), make(torch)(*args, **options).double()
    ours.load_state_dict({k: tj.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def standardised(t: ModuleType) -> Any:
    class Standardised(t.nn.Conv2d):  # pads and convolves by hand
        def forward(self, x: Any) -> Any:
            w = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
            x = t.nn.functional.pad(x, self._reversed_padding_repeated_twice, mode="reflect")
            return t.nn.functional.conv2d(x, w, self.bias, self.stride, 0, self.dilation)

    return Standardised


@pytest.mark.parametrize("padding", [1, (2, 1), "same", "valid"])
def test_convolutions(padding: Any) -> None:
    ours, theirs = both(standardised, 3, 4, 3, padding=padding)
    run(ours, theirs, normal(2, 3, 6, 7))
    padded = ours._reversed_padding_repeated_twice, theirs._reversed_padding_repeated_twice
    assert list(padded[0]) == list(padded[1])


def scaled(t: ModuleType) -> Any:
    class Scaled(t.nn.ConvTranspose2d):
        def forward(self, x: Any, output_size: Any = None) -> Any:
            extra = self._output_padding(
                x, output_size, self.stride, self.padding, self.kernel_size, 2, self.dilation
            )
            convolve = t.nn.functional.conv_transpose2d
            return convolve(x, self.weight * 0.5, self.bias, self.stride, self.padding, extra)

    return Scaled


@pytest.mark.parametrize("size", [None, (8, 12), (2, 4, 9, 13)])
def test_transposed_convolutions(size: Any) -> None:
    ours, theirs = both(scaled, 3, 4, 4, stride=2, padding=1, output_padding=1)
    run(ours, theirs, normal(2, 3, 4, 6), output_size=size)


def by_hand(t: ModuleType) -> Any:
    class ByHand(t.nn.BatchNorm2d):
        def forward(self, x: Any) -> Any:
            self._check_input_dim(x)
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
            with t.no_grad():
                self.running_mean.mul_(0.9).add_(mean, alpha=0.1)
            x = (x - mean[:, None, None]) / (var[:, None, None] + self.eps).sqrt()
            return x * self.weight[:, None, None] + self.bias[:, None, None]

    return ByHand


def of_any_rank(t: ModuleType) -> Any:
    class OfAnyRank(t.nn.BatchNorm1d):
        def _check_input_dim(self, input: Any) -> None:
            if input.dim() < 2:
                raise ValueError("too few dimensions")

    return OfAnyRank


def test_batch_normalisations() -> None:
    run(*both(by_hand, 3), normal(2, 3, 4, 5))
    run(*both(of_any_rank, 3), normal(2, 3, 4, 5, 2))
    same_error(lambda t, _: by_hand(t)(3)(t.zeros(2, 3)))
    same_error(lambda t, _: of_any_rank(t)(3)(t.zeros(3)))
    same_error(lambda t, _: t.nn.InstanceNorm1d(3)._check_input_dim(t.zeros(3)))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_names_of_recurrent_weights(kind: str) -> None:
    for options in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False}):
        ours, theirs = both(lambda t: getattr(t.nn, kind), 3, 4, **options)
        assert ours._all_weights == theirs._all_weights
        assert ours._flat_weights_names == theirs._flat_weights_names
        assert len(ours.all_weights) == len(theirs.all_weights)
        close(ours._flat_weights[0], theirs._flat_weights[0])
        for names in ours._all_weights:  # gates that start open
            for name in filter(lambda n: "bias" in n, names):
                getattr(ours, name).data[4:8].fill_(1.0)
                getattr(theirs, name).data[4:8].fill_(1.0)
        run(ours, theirs, normal(5, 2, 3))


def test_names_of_projections() -> None:
    ours, theirs = both(lambda t: t.nn.LSTM, 3, 4, proj_size=2)
    assert ours._all_weights == theirs._all_weights
    assert ours.get_expected_cell_size(tj.zeros(5, 2, 3), None) == (1, 2, 4)
    assert ours.get_expected_hidden_size(tj.zeros(5, 2, 3), None) == (1, 2, 2)


def checking(t: ModuleType) -> Any:
    class Checking(t.nn.GRU):
        def forward(self, x: Any, hx: Any) -> Any:
            packed = isinstance(x, t.nn.utils.rnn.PackedSequence)
            data, sizes = (x.data, x.batch_sizes) if packed else (x, None)
            hx = self.permute_hidden(hx, x.sorted_indices if packed else None)
            self.check_forward_args(data, hx, sizes)
            return data.sum() + hx.sum(), self.get_expected_hidden_size(data, sizes)

    return Checking


def test_arguments_of_recurrent_layers() -> None:
    for batch_first in (False, True):
        ours, theirs = both(checking, 3, 4, 2, batch_first=batch_first)
        x, hx = normal(2, 2, 3), normal(2, 2, 4)
        results = ours(tj.tensor(x), tj.tensor(hx)), theirs(torch.tensor(x), torch.tensor(hx))
        close(results[0][0], results[1][0])
        assert results[0][1] == results[1][1]

    def packed(t: ModuleType, hidden: Any) -> Any:
        rows = [t.zeros(2, 3), t.ones(4, 3)]
        sequence = t.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
        return checking(t)(3, 4)(sequence, hidden)

    state = np.arange(8.0, dtype=np.float32).reshape(1, 2, 4)
    assert packed(tj, tj.tensor(state))[1] == packed(torch, torch.tensor(state))[1]
    for shape in ((1, 2, 5), (1, 3, 4)):
        same_error(lambda t, _, shape=shape: checking(t)(3, 4)(t.zeros(5, 2, 3), t.zeros(*shape)))
    same_error(lambda t, _: checking(t)(3, 4)(t.zeros(5, 2, 2), t.zeros(1, 2, 4)))
    same_error(lambda t, _: checking(t)(3, 4)(t.zeros(5, 3), t.zeros(1, 2, 4)))
    same_error(lambda t, _: t.nn.LSTM(3, 4).check_forward_args(*[t.zeros(5, 2, 3)] * 2, None))


def test_weights_in_place_of_parameters() -> None:
    def dropped(t: ModuleType) -> Any:
        class Dropped(t.nn.Module):  # other weights at every call
            def __init__(self) -> None:
                super().__init__()
                self.inner = t.nn.LSTM(3, 4)
                raw = self.inner.weight_hh_l0
                del self.inner._parameters["weight_hh_l0"]
                self.raw = t.nn.Parameter(raw.data)
                self.inner.flatten_parameters = lambda: None

            def forward(self, x: Any) -> Any:
                inner = self.inner
                inner.weight_hh_l0 = self.raw * 0.5
                inner._flat_weights = [getattr(inner, n) for n in inner._flat_weights_names]
                return inner(x)[0]

        return Dropped

    run(*both(dropped), normal(5, 2, 3))


def test_other_names() -> None:
    for t in (tj, torch):
        table = t.nn.Embedding(4, 3, padding_idx=1)
        with t.no_grad():
            table.weight.fill_(1.0)
        table._fill_padding_idx_with_zero()
        assert table.weight.sum().item() == 9.0
        attention = t.nn.MultiheadAttention(4, 2), t.nn.MultiheadAttention(4, 2, kdim=3)
        assert [a._qkv_same_embed_dim for a in attention] == [True, False]
        module = t.nn.Module()
        module.register_buffer("a", t.ones(1), persistent=False)
        assert module._non_persistent_buffers_set == {"a"}
        tanh = t.distributions.TanhTransform()
        cached = tanh.with_cache()
        x = t.tensor(0.5)
        assert cached.with_cache() is cached
        assert cached.inv(cached(x)) is x
        assert tanh.inv(tanh(x)) is not x


def test_schedules_that_do_more_when_they_reduce() -> None:
    def events(t: ModuleType) -> list[Any]:
        found: list[Any] = []

        class Telling(t.optim.lr_scheduler.ReduceLROnPlateau):
            def _reduce_lr(self, epoch: int) -> None:
                super()._reduce_lr(epoch)
                found.append((epoch, self.optimizer.param_groups[0]["lr"]))

            def _is_better(self, a: float, best: float) -> bool:
                found.append(a)
                return super()._is_better(a, best)

        class Late(t.optim.lr_scheduler.StepLR):
            def _initial_step(self) -> None:
                found.append("initial")
                super()._initial_step()

        optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=1.0)
        schedule = Telling(optimizer, patience=1, factor=0.5)
        for metric in (3.0, 2.0, 2.5, 2.5, 1.0, 1.5, 1.5):
            optimizer.step()
            schedule.step(metric)
        Late(optimizer, 2)
        return found

    assert events(tj) == events(torch)


def parameters(t: ModuleType) -> list[Any]:
    class Doubled(t.nn.Parameter):  # holds other data than it is given
        def __new__(cls, data: Any, requires_grad: bool = True, tag: str = "") -> Any:
            return super().__new__(cls, data * 2, requires_grad=requires_grad)

        def __init__(self, data: Any, requires_grad: bool = True, tag: str = "") -> None:
            super().__init__()
            self.tag = tag

    class Packed(t.nn.Parameter):
        def __new__(cls, data: Any, bits: int = 4) -> Any:
            made = t.Tensor._make_subclass(cls, data.to(t.uint8), False)
            made.bits = bits
            return made

    class Named(t.Tensor):
        def __new__(cls, data: Any, label: str) -> Any:
            return super().__new__(cls, data)

        def __init__(self, data: Any, label: str) -> None:
            self.label = label

    found = [Doubled(t.ones(2), tag="a"), Doubled(t.ones(2), False), Packed(t.ones(2), bits=3)]
    return [*found, Named([1.0, 2.0], "n"), t.nn.Parameter.__new__(t.nn.Parameter, t.ones(1))]


def test_parameters_and_tensors_of_own_classes() -> None:
    sides = [parameters(t) for t in (tj, torch)]
    for ours, theirs in zip(*sides, strict=True):
        assert type(ours).__name__ == type(theirs).__name__
        assert ours.tolist() == theirs.tolist()
        assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf)
        own = {k: v for k, v in vars(ours).items() if k in ("tag", "bits", "label")}
        assert own == vars(theirs)
    layer = tj.nn.Linear(2, 1, bias=False)
    layer.weight = type(sides[0][0])(tj.ones(1, 2))
    layer(tj.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0]]
    data = tj.zeros(2)
    shared = tj.Tensor._make_subclass(tj.nn.Parameter, data, True)
    data += 1
    assert shared.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="tag"):
        tj.nn.Parameter(data, tag="a")  # type: ignore[call-arg]


def test_copies_of_optimizers_that_keep_their_state_elsewhere() -> None:
    def copied(t: ModuleType) -> Any:
        class Own(t.optim.Optimizer):
            @property
            def state(self) -> Any:
                return {"limit": self.limit}

            @state.setter
            def state(self, state: Any) -> None:
                self.limit = state.get("limit", 0.5)

            def __setstate__(self, state: Any) -> None:
                self.state = state["state"]
                self.param_groups = state["param_groups"]

        made = Own([t.nn.Parameter(t.ones(2))], {"lr": 0.1})
        made.limit = 0.25
        found = copy.deepcopy(made)
        return found.limit, found.param_groups[0]["lr"], found.param_groups[0]["params"][0].tolist()

    assert copied(tj) == copied(torch)
