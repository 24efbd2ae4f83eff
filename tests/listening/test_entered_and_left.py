"""What listeners and classes of tensors leave behind: after entering one twice, in other threads, after errors."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
from typing import Any

import pytest

import tracejit as tj
from tracejit.autograd.graph import saved_tensors_hooks
from tracejit.fx import interception
from tracejit.listening.stack import LISTENERS
from tracejit.modes import MODES
from tracejit.overrides import TorchFunctionMode
from tracejit.utils._python_dispatch import TorchDispatchMode
from tracejit.utils.flop_counter import FlopCounterMode


class Notes(TorchDispatchMode):
    """Notes names; ``sigmoid`` is told again, as what it is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._opname)
        if func._opname == "sigmoid":
            with self:
                return 1 / (1 + (-args[0]).exp())
        return func(*args, **(kwargs or {}))


class Own(tj.Tensor):
    """A class of a program."""


class Unequal(tj.Tensor):
    """One whose tensors cannot be in sets."""

    __hash__ = None  # type: ignore[assignment]


class Wrapper(tj.Tensor):
    """Answers for operators with those of what it wraps."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = tj.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
        )
        made.inner = inner
        return made

    def __init__(self, inner: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [x.inner if isinstance(x, Wrapper) else x for x in args]
        found = func(*plain, **(kwargs or {}))
        if func._schema.is_mutable:
            return args[0]
        return Wrapper(found) if isinstance(found, tj.Tensor) else found


def test_a_mode_entered_while_it_is_told_is_still_told_of_compiled_functions_afterwards() -> None:
    f = tj.compile(lambda x: x * 2 + 1)
    x = tj.ones(3)
    for _ in range(3):
        f(x)
    with Notes() as notes:
        tj.sigmoid(x)
        assert MODES.listening
        del notes.names[:]
        f(x)
    assert notes.names == ["mul", "add"]
    assert not MODES.listening
    assert MODES.unusual is None


def test_a_mode_for_functions_entered_while_it_is_told_listens_on() -> None:
    class Names(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is tj.sigmoid:
                with self:
                    tj.neg(args[0])
                assert MODES.listening
            return func(*args, **(kwargs or {}))

    with Names():
        tj.sigmoid(tj.ones(1))
        assert MODES.listening
    assert not MODES.listening


def test_other_threads_are_told_of_nothing_and_compute_the_same() -> None:
    found: list[Any] = []
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            x = tj.tensor([1.0, 2.0], requires_grad=True)
            (tj.nn.functional.softmax(x, 0) * x).sum().backward()
            found.append((len(LISTENERS.dispatch), MODES.listening, x.grad.tolist()))

    compute_once = threading.Thread(target=lambda: (stop.set(), compute()))
    compute_once.start()
    compute_once.join()
    stop.clear()
    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(30):
            with Notes() as notes:
                tj.relu(tj.ones(1))
            assert notes.names == ["ones", "relu"]
    finally:
        stop.set()
        thread.join()
    assert found
    for listening, heard, gradient in found:
        assert (listening, heard) == (0, False)
        assert gradient == pytest.approx(found[0][2])
    assert not interception.intercepting()


def test_errors_in_backward_leave_nobody_listening() -> None:
    class Fails(Notes):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func._opname == "cos":
                raise KeyError("cos")
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = tj.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="cos"), Fails():
        x.sin().sum().backward()
    assert (LISTENERS.quiet, LISTENERS.below, LISTENERS.natively) == (False, False, None)
    assert MODES.grad
    assert not interception.intercepting()
    x.sin().sum().backward()
    assert x.grad.tolist() == pytest.approx([0.5403023] * 2)


def test_named_results_stay_named_where_they_are_computed_again() -> None:
    x = (tj.arange(9.0).reshape(3, 3).sin()).requires_grad_()
    expected = tj.autograd.grad(tj.linalg.qr(x).R.sum(), x)[0]
    with saved_tensors_hooks(lambda t: t, lambda t: t), Notes():
        found = tj.linalg.qr(x)
        gradient = tj.autograd.grad(found.R.sum(), x)[0]
    assert type(found) is type(tj.linalg.qr(x.detach()))
    assert tj.allclose(gradient, expected, atol=1e-5)


def test_tensors_in_rows_keep_their_class_when_they_are_results() -> None:
    plain, own = tj.ones(2), tj.ones(2).as_subclass(Own)
    found = tj.atleast_1d([plain, own])
    assert [type(x) for x in found] == [Own, Own]
    assert type(plain) is tj.Tensor


@pytest.mark.parametrize(
    "made", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_take_functions_over_when_the_first_tensor_is_gone(made: Any) -> None:
    first = tj.ones(2).as_subclass(Own)
    second = made(first)
    del first
    gc.collect()
    tj.ones(1).neg()
    assert type(second + 1) is Own
    del second
    gc.collect()
    tj.ones(1).neg()
    assert not interception.intercepting()


def test_classes_need_no_hash() -> None:
    assert type(tj.ones(2).as_subclass(Unequal) + 1) is Unequal


@pytest.mark.parametrize("made", [copy.deepcopy, copy.copy])
def test_tensors_that_answer_lie_where_they_are_told_and_their_copies_answer(made: Any) -> None:
    x = Wrapper(tj.arange(6.0)[2:])
    assert (x.storage_offset(), x.stride(), tuple(x.shape)) == (2, (1,), (4,))
    copied = made(x)
    assert (copied.inner is x.inner) == (made is copy.copy)
    del x
    gc.collect()
    found: Any = copied + 1
    assert found.inner.tolist() == [3.0, 4.0, 5.0, 6.0]
    for refused in ({"dispatch_device": True}, {"pin_memory": True}, {"layout": tj.sparse_csr}):
        with pytest.raises(NotImplementedError, match=next(iter(refused))):
            tj.Tensor._make_wrapper_subclass(Wrapper, (2,), **refused)
    with pytest.raises(TypeError, match="unknown"):
        tj.Tensor._make_wrapper_subclass(Wrapper, (2,), unknown=1)


def test_modules_compile_as_before_after_operations_were_counted_in_them() -> None:
    layer = tj.nn.Linear(3, 2)
    with FlopCounterMode(display=False) as counter:
        layer(tj.ones(2, 3))
    assert counter.get_total_flops() == 24

    class Scaled(tj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, batch: Any, *, scale: float = 1.0) -> Any:
            return self.layer(batch["x"]) * scale

    f = tj.compile(Scaled())
    for step in range(1, 9):
        x = tj.ones(2, 3) * step
        assert tj.allclose(f({"x": x}, scale=step / 2), layer(x) * (step / 2))
    assert f.stats.recordings <= 4
    assert f.stats.compiled_calls > 0


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("RMSprop", {"centered": True}),
    ("Rprop", {}),
    ("Adagrad", {}),
]


@pytest.mark.parametrize(("name", "options"), STEPS)
def test_steps_of_optimizers_are_told_and_the_same(name: str, options: dict[str, Any]) -> None:
    results = []
    notes = Notes()
    for mode in (contextlib.nullcontext(), notes):
        p = tj.nn.Parameter(tj.arange(6.0).reshape(2, 3) - 2)
        optimizer = getattr(tj.optim, name)([p], **options)
        with mode:
            for scale in (1.0, -0.5, 2.0):
                p.grad = (p * scale).detach().clone()
                del notes.names[:]
                optimizer.step()
        results.append(p.tolist())
    assert results[1] == results[0]
    assert "copy_" in notes.names


def test_added_gradients_and_clipped_ones_are_told() -> None:
    p = tj.nn.Parameter(tj.tensor([3.0, 4.0]))
    with Notes() as notes:
        p.sum().backward()
        del notes.names[:]
        p.sum().backward()
        assert notes.names[-1] == "add_"
        del notes.names[:]
        total = tj.nn.utils.clip_grad_norm_([p], 1.0)
        assert "mul_" in notes.names
    assert total.item() == pytest.approx(8**0.5)
    assert p.grad.tolist() == pytest.approx([0.5**0.5] * 2, rel=1e-5)


def test_parameters_that_answer_are_updated() -> None:
    x = Wrapper(tj.tensor([1.0, 2.0])).requires_grad_()
    (x * 3).sum().backward()
    tj.optim.SGD([x], lr=0.5).step()
    found: Any = x
    assert found.inner.tolist() == [-0.5, 0.5]
