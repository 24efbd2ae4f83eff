"""Invalid input of every op: compiled code raises what eager execution raises, and points at the user's line."""

from __future__ import annotations

import operator
import sys
import traceback
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from compiled_tools import bundle, operands
from tracejit.ops.table import all_ops
from tracejit.testing import samples
from tracejit.testing.samples import Case

F = tj.nn.functional
INVALID = [case for op in all_ops() for case in samples.invalid(op)]
ERRORS = (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, NotImplementedError)


class Refused(Exception):
    """An error with a number."""


def raised(function: Any, *args: Any) -> Exception:
    """The error of a call, which must be one."""
    with pytest.raises((*ERRORS, Refused)) as found:
        function(*args)
    return found.value


def agree(eager: Exception, compiled: Exception) -> None:
    """The same class and message, the user's line last, and not more than a screen can take in."""
    assert type(compiled) is type(eager)
    assert str(compiled) == str(eager)
    assert compiled.__context__ is None or compiled.__suppress_context__
    assert compiled.__cause__ is None
    frames = traceback.extract_tb(compiled.__traceback__)
    inside = [f for f in frames if "/tracejit/" in f.filename]
    assert not inside, "frames of the package"
    assert frames[-1].name in ("bundle", "function", "<lambda>"), "the user's line is not the last"
    text = "".join(traceback.format_exception(compiled.with_traceback(compiled.__traceback__)))
    own = len(str(compiled).splitlines()) - 1
    assert len(text.splitlines()) - own <= 12, text


@pytest.mark.parametrize("case", INVALID, ids=str)
def test_invalid_input(case: Case) -> None:
    function = bundle([case])
    eager = raised(function, *operands([case]))
    compiled = tj.compile(function)
    for _ in range(3):
        agree(eager, raised(compiled, *operands([case])))
    agree(eager, raised(tj.compile(function, strict=True), *operands([case])))


def valid_like(case: Case) -> Case | None:
    """A valid case of the same op whose operands have the same types: what was recorded before the invalid call."""
    wanted = [np.asarray(x).dtype.kind + str(np.shape(x)) for x in case.operands]
    for other in samples.cases(case.op):
        found = [np.asarray(x).dtype.kind + str(np.shape(x)) for x in other.operands]
        if found == wanted and other.attributes == case.attributes:
            return other
    return None


def test_invalid_values_after_valid_ones() -> None:
    """Where only values are wrong, compiled code meets them: kernels check, and eager execution raises."""
    pairs = [(case, good) for case in INVALID if (good := valid_like(case)) is not None]
    for case, good in pairs:
        function = bundle([case])
        compiled = tj.compile(function)
        for _ in range(3):
            compiled(*operands([good]))
        eager = raised(function, *operands([case]))
        for _ in range(2):
            agree(eager, raised(compiled, *operands([case])))
        compiled(*operands([good]))
        assert compiled.stats.compiled_calls >= 3, str(case)


VALUES = {
    "index": (lambda v, i: v[i] * 2, 4),
    "negative index": (lambda v, i: v[i - 4] * 2, -1),
    "gather": (lambda v, i: v.gather(0, i), 4),
    "scatter": (lambda v, i: v.scatter_add(0, i, v[:3]), 4),
    "index_add": (lambda v, i: v.index_add(0, i, v[:3]), 4),
    "index_select": (lambda v, i: v.index_select(0, i), 4),
    "embedding": (lambda v, i: F.embedding(i, v.view(4, 1)), 4),
    "cross entropy": (
        lambda v, i: F.cross_entropy(v.view(1, 4).expand(3, 4) * 1.0, i),
        4,
    ),
    "one_hot": (lambda v, i: F.one_hot(i, 4) * v, 4),
    "integer division": (lambda v, i: (i - i) // (i - 4) + v[:3], 4),
    "remainder": (lambda v, i: i % (i - 4) + v[:3], 4),
    "index_put": (lambda v, i: v.clone().index_put((i,), v[:3]), 9),
    "index_put_": (lambda v, i: v.clone().index_put_((i,), v[:3], accumulate=True), -9),
    "assignment": (lambda v, i: (c := v.clone(), operator.setitem(c, i, 5.0))[0], 4),
    "index_copy": (lambda v, i: v.index_copy(0, i, v[:3]), 4),
    "index_fill": (lambda v, i: v.index_fill(0, i, 2.0), 4),
    "scatter_reduce": (lambda v, i: v.scatter_reduce(0, i, v[:3], "amax"), -1),
    "take": (lambda v, i: tj.take(v, i), -9),
    "nll_loss": (lambda v, i: F.nll_loss(v.view(1, 4).expand(3, 4).log_softmax(1), i), 4),
    "weighted cross entropy": (
        lambda v, i: F.cross_entropy(v.view(1, 4).expand(3, 4) * 1.0, i, weight=v),
        -1,
    ),
    "embedding_bag": (lambda v, i: F.embedding_bag(i.view(1, 3), v.view(4, 1)), 4),
    "multi_margin_loss": (lambda v, i: F.multi_margin_loss(v.view(1, 4).expand(3, 4) * 1.0, i), 4),
    "max_unpool1d": (lambda v, i: F.max_unpool1d(v[:3].view(1, 1, 3), i.view(1, 1, 3), 2), 90),
    "take_along_dim": (lambda v, i: tj.take_along_dim(v, i, 0), 4),
}


@pytest.mark.parametrize("name", VALUES)
def test_wrong_values_in_the_middle(name: str) -> None:
    """Nothing is written, nothing counted twice, and the next valid call runs compiled."""
    body, wrong = VALUES[name]
    log = [tj.zeros(2), tj.zeros(2)]

    def make(log: Any) -> Any:
        def function(v, i):
            log.add_(1)
            y = body(v * 1.5, i)
            log.mul_(2)
            return y

        return function

    plain, compiled = make(log[0]), tj.compile(make(log[1]))
    v = tj.arange(4.0)
    for bad in (0, 0, 1, 0, 1, 1, 0):
        i = tj.tensor([0, 1, wrong if bad else 2])
        if bad:
            agree(raised(plain, v, i), raised(compiled, v, i))
        else:
            assert np.allclose(compiled(v, i).tolist(), plain(v, i).tolist())
        assert log[0].tolist() == log[1].tolist()
    assert compiled.stats.compiled_calls == 3
    assert not compiled.reasons


def test_an_error_of_the_user() -> None:
    class Own(Exception):
        pass

    def inner(v):
        if v.sum() > 0:
            raise Own("positive")
        return v

    def function(v):
        return inner(v * 2) + 1

    compiled = tj.compile(function)
    for value in (-1.0, -1.0, 1.0, -1.0, 1.0):
        if value < 0:
            compiled(tj.full((2,), value))
            continue
        with pytest.raises(Own, match="positive") as found:
            compiled(tj.full((2,), value))
        names = [f.name for f in traceback.extract_tb(found.value.__traceback__)]
        assert names == ["test_an_error_of_the_user", "function", "inner"]
        assert found.value.__context__ is None


def test_a_bug_of_the_package_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tj.compile(lambda v: v + 1)
    f(tj.ones(1))
    monkeypatch.setattr(sys.modules["tracejit.trace.retrace"], "NEIGHBOURS", None)
    with pytest.raises(TypeError) as found:
        f(tj.ones(2))
    assert "why_new" in [f.name for f in traceback.extract_tb(found.value.__traceback__)]


def test_errors_do_not_look_caused_by_how_a_run_was_recorded() -> None:
    """Code that must have true numbers is recorded once more; its error is raised by that run alone."""

    def function(x: Any, scale: float) -> Any:
        if type(scale) is not float:
            return x
        return x.view(7, 11) * scale

    compiled = tj.compile(function)
    for scale in (0.5, 1.5, 2.5, 3.5):
        agree(raised(function, tj.ones(3), scale), raised(compiled, tj.ones(3), scale))


def test_numbers_in_errors_are_plain() -> None:
    kept: list[Exception] = []

    def function(x: Any, scale: float, caught: bool) -> Any:
        try:
            if x.sum() > 0:
                raise Refused(scale * 2, x.amax().item(), ("at", x[x > 0].shape[0]))
        except Refused as error:
            error.scale = scale
            if not caught:
                raise
            kept.append(error)
        return x * scale

    compiled = tj.compile(function)
    for i in range(1, 6):
        for caught in (False, True):
            x = tj.tensor([1.0, -1.0, float(i)])
            if caught:
                compiled(x, 0.5 * i, True)
                error: Any = kept.pop()
            else:
                error = raised(compiled, x, 0.5 * i, False)
            assert error.args == (float(i), float(i), ("at", 2))
            assert error.scale == 0.5 * i
            found = (*error.args[:2], error.args[2][1], error.scale)
            assert [*map(type, found)] == [float, float, int, float]
