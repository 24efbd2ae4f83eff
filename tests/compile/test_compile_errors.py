"""compile(): errors are those of eager execution, and what cannot be compiled is said and survived."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

import tracejit as tj
from tracejit.runtime.machine_code import kernels

nn = tj.nn


def first_lines(function, *args):
    """Class, message and hint of the error of a call."""
    with pytest.raises((RuntimeError, TypeError, ValueError, LookupError, NameError)) as found:
        function(*args)
    lines = [line for line in str(found.value).splitlines() if not line.startswith("    ")]
    return type(found.value), lines, str(found.value)


CASES = [
    ("shape", lambda x: x + tj.ones(3), tj.ones(2)),
    ("product", lambda x: x @ tj.ones(7, 2), tj.ones(3, 5)),
    ("dtype", lambda x: x.add_(tj.ones(2)), tj.ones(2, dtype=tj.int64)),
    ("bool", lambda x: -x, tj.ones(2, dtype=tj.bool)),
    ("index", lambda x: x[5], tj.ones(2)),
    ("dimension", lambda x: x.sum(3), tj.ones(2)),
    ("negative", lambda x: x + tj.zeros(-1), tj.ones(2)),
    ("device", lambda x: x.to("tpu"), tj.ones(2)),
    ("object", lambda x: x + tj.tensor([object()]), tj.ones(2)),
    ("leaf", lambda x: x.add_(1), tj.ones(2, requires_grad=True)),
    ("truth", lambda x: 1 if x else 2, tj.ones(2)),
    ("item", lambda x: x.item(), tj.ones(2)),
    ("name", lambda x: undefined_name + x, tj.ones(2)),  # noqa: F821
]


@pytest.mark.parametrize(("what", "function", "x"), CASES, ids=[case[0] for case in CASES])
def test_errors_are_the_same(what: str, function, x) -> None:
    expected = first_lines(function, x)
    compiled = tj.compile(function)
    for _ in range(2):
        found = first_lines(compiled, x)
        assert found[:2] == expected[:2]
        if "test_compile_errors.py" in expected[2]:
            assert f"test_compile_errors.py:{function.__code__.co_firstlineno}" in found[2]
    strict = first_lines(tj.compile(function, strict=True), x)
    assert strict[0] is expected[0]
    assert tj.ones(2).add(1).tolist() == [2, 2]  # nothing listens any more


def test_an_error_is_not_shown_as_caused_by_recording() -> None:
    f = tj.compile(lambda x: x + 1 if x.sum() > 0 else x @ tj.ones(7, 2))
    for _ in range(3):
        f(tj.ones(2))
    with pytest.raises(RuntimeError) as found:
        f(-tj.ones(2))
    assert found.value.__context__ is None


def test_errors_handled_inside_are_no_errors() -> None:
    def f(x):
        try:
            return x @ tj.ones(7, 2)
        except RuntimeError:
            return x * 2

    g = tj.compile(f)
    for _ in range(3):
        assert g(tj.ones(2)).tolist() == [2, 2]


class BrokenError(Exception):
    pass


def broken(*args: object, **kwargs: object) -> None:
    raise BrokenError("no machine code today")


def test_a_kernel_that_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracejit.runtime.plan.plan.kernels.build", broken)
    f = tj.compile(lambda x: x * 41 + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [f(tj.ones(1)).item() for _ in range(4)] == [42] * 4
    assert len(caught) == 1
    assert caught[0].category is tj.errors.CompileWarning
    assert "no machine code today" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert any("no machine code today" in reason for reason in f.reasons)
    strict = tj.compile(lambda x: x * 41 + 1, strict=True)
    strict(tj.ones(1))
    with pytest.raises(tj.errors.CaptureError, match="no machine code today"):
        strict(tj.ones(1))


def test_a_backward_kernel_that_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda x: (x * x * 3).sum())
    for _ in range(2):
        x = tj.ones(2, requires_grad=True)
        y = f(x)
    with warnings.catch_warnings(record=True) as caught, monkeypatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr("tracejit.runtime.plan.plan.kernels.build", broken)
        y.backward()
    assert x.grad.tolist() == [6, 6]
    assert [c.category for c in caught] == [tj.errors.CompileWarning]


def test_an_interrupt_during_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda x: (x * 3).sum() if x.sum() > 0 else x.exp().sum())

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    def call(sign: int) -> None:
        x = tj.ones(2, requires_grad=True)
        y = f(x * sign)
        y.backward()
        assert x.grad is not None

    call(1)
    for sign in (1, -1):
        with monkeypatch.context() as patch:
            patch.setattr("tracejit.runtime.plan.plan.kernels.build", interrupt)
            if sign == -1:
                call(-1)
            with pytest.raises(KeyboardInterrupt):
                call(1)
        call(1)
        call(sign)
    call(-1)
    assert f.stats.compiled_calls >= 4
    assert not f.reasons


def test_an_interrupt_during_recording() -> None:
    stop = [True]

    def f(x):
        y = x * 2
        if stop[0]:
            raise KeyboardInterrupt
        return y + 1

    g = tj.compile(f)
    with pytest.raises(KeyboardInterrupt):
        g(tj.ones(1))
    stop[0] = False
    assert [g(tj.ones(1)).item() for _ in range(3)] == [3] * 3
    assert g.stats.compiled_calls == 2


def test_reasons_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    f = tj.compile(lambda x: x.tolist())
    with caplog.at_level(logging.INFO, "tracejit"):
        for _ in range(3):
            f(tj.ones(40))
    assert caplog.text.count("runs eagerly") == 1
    assert "tolist()" in caplog.text
    assert f"{Path(__file__).name}:" in caplog.text


def test_verification_finds_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tj.zeros(2)

    def f(x):
        state.add_(x.detach())
        return (x * 2 + tj.rand(2)).sum(), x.detach() > 1

    g = tj.compile(f, verify=True)
    tj.manual_seed(0)
    for _ in range(3):
        x = tj.ones(2, requires_grad=True)
        y, _ = g(x)
        y.backward()
        assert x.grad.tolist() == [2, 2]
    assert state.tolist() == [3, 3]
    assert g.stats.compiled_calls == 2
    tj.manual_seed(7)
    expected = tj.rand(2).sum().item() + 4
    tj.manual_seed(7)
    assert abs(g(tj.ones(2, requires_grad=True))[0].item() - expected) < 1e-5
    (entry,) = next(iter(g.entries.values()))
    replay = entry.replay

    def wrong(tensors, numbers):
        y, mask = replay(tensors, numbers)
        return y + 1, mask

    monkeypatch.setattr(entry, "replay", wrong)
    with pytest.raises(tj.errors.VerificationError, match="output 0, computed at") as found:
        g(tj.ones(2, requires_grad=True))
    first = str(found.value).splitlines()[0]
    assert (
        "return (x * 2 + tj.rand(2)).sum(), x.detach() > 1, differs first at []: compiled " in first
    )


def test_verification_names_the_line_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tj.zeros(2)

    def f(x):
        state.add_(x)
        return x * 2

    g = tj.compile(f, verify=True)
    g(tj.ones(2)), g(tj.ones(2))
    (entry,) = next(iter(g.entries.values()))
    replay = entry.replay

    def wrong(tensors, numbers):
        result = replay(tensors, numbers)
        state.array[1] += 1
        return result

    monkeypatch.setattr(entry, "replay", wrong)
    with pytest.raises(tj.errors.VerificationError) as found:
        g(tj.ones(2))
    first = str(found.value).splitlines()[0]
    assert "a tensor changed in place (c0), computed at test_compile_errors.py:" in first
    assert "state.add_(x), differs first at [1]: compiled 4.0, eager 3.0" in first


def test_verification_compares_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    g = tj.compile(lambda x: x.sqrt() * 2, verify=True)
    g(tj.ones(2)), g(tj.ones(2))

    def broken_function(x):
        raise ValueError("not today")

    monkeypatch.setattr(g, "function", broken_function)
    with pytest.raises(tj.errors.VerificationError, match="eager raises ValueError: not today"):
        g(tj.ones(2))


def test_verification_compares_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda x: (x * x).sum(), verify=True)
    for _ in range(2):
        f(tj.ones(2, requires_grad=True))
    (entry,) = next(iter(f.entries.values()))
    node = type(
        f.entries[next(iter(f.entries))][0].replay([tj.ones(2, requires_grad=True)]).grad_fn
    )
    apply = node.apply
    monkeypatch.setattr(node, "apply", lambda self, *given: [g * 2 for g in apply(self, *given)])
    with pytest.raises(tj.errors.VerificationError, match="gradient"):
        f(tj.ones(2, requires_grad=True))
    assert entry.replays >= 2


def test_kernels_are_shared_between_sizes() -> None:
    f = tj.compile(lambda x: (x * 1.25 + 0.75).tanh().sum())
    f(tj.ones(3))
    f(tj.ones(3))
    before = kernels.COUNTS.compiled + kernels.COUNTS.loaded
    for n in (2, 5, 64, 1000):
        for _ in range(2):
            f(tj.ones(n))
    assert kernels.COUNTS.compiled + kernels.COUNTS.loaded == before
