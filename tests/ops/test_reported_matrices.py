"""Functions that say for each matrix of a batch whether it has an inverse or factors, beside PyTorch's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch")

ROWS = 4
#: From a library and matrices: results, the last of which are the reports.
REPORTS: dict[str, Callable[[Any, Any], Any]] = {
    "inv_ex": lambda t, x: t.linalg.inv_ex(x),
    "solve_ex": lambda t, x: t.linalg.solve_ex(x, x[..., :2]),
    "solve_ex of vectors": lambda t, x: t.linalg.solve_ex(x, x[..., 0]),
    "solve_ex from the right": lambda t, x: t.linalg.solve_ex(x, x[..., :2, :], left=False),
    "cholesky_ex": lambda t, x: t.linalg.cholesky_ex(x),
    "upper cholesky_ex": lambda t, x: t.linalg.cholesky_ex(x, upper=True),
    "lu_factor_ex": lambda t, x: t.linalg.lu_factor_ex(x),
    "ldl_factor_ex": lambda t, x: t.linalg.ldl_factor_ex(x + x.mT),
}
BATCHES = [(), (1,), (3,), (2, 3), (20,), (0,)]
COMPILED = [(3,), (20,)]


def matrices(batch: tuple[int, ...], places: list[int]) -> np.ndarray:
    """Symmetric matrices, the last of which have a row and a column of zeros: the one that a place says."""
    rng = np.random.default_rng(len(batch))
    x = rng.normal(size=(*batch, ROWS, ROWS))
    x = x @ np.swapaxes(x, -1, -2) + np.eye(ROWS)
    each = x.reshape(-1, ROWS, ROWS)
    for number, place in enumerate(places[: len(each)]):
        each[-1 - number, place], each[-1 - number, :, place] = 0, 0
    return x


@pytest.mark.sampled(6)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("places", [[], [ROWS - 1], [0, 2]], ids=str)
@pytest.mark.parametrize("name", REPORTS)
def test_each_matrix_has_its_report(name: str, places: list[int], batch: tuple[int, ...]):
    x, function = matrices(batch, places), REPORTS[name]
    found = [function(tj, tj.tensor(x))]
    if batch in COMPILED and len(places) != 1:
        compiled = tj.compile(lambda x: tuple(function(tj, x)))
        compiled(tj.tensor(matrices(batch, [])))
        found.append(compiled(tj.tensor(x)))
    assert_alike(found, function(torch, torch.tensor(x)))


def assert_alike(results: list[Any], expected: Any) -> None:
    """The reports are the same, and the results of matrices that have some."""
    *wanted, info = expected
    for found in results:
        np.testing.assert_array_equal(found[-1].numpy(), info.numpy())
        assert found[-1].dtype is tj.int32
        good = info.numpy() == 0
        for ours, theirs in zip(found[:-1], wanted, strict=True):
            np.testing.assert_allclose(ours.numpy()[good], theirs.numpy()[good], 1e-7, 1e-9)


@pytest.mark.parametrize("name", ["inv_ex", "solve_ex", "cholesky_ex"])
def test_reports_alone_depend_on_the_matrices(name: str):
    reported = tj.compile(lambda x: REPORTS[name](tj, x)[-1])
    for places in ([], [2], [], [0, 2]):
        x = matrices((3,), places)
        wanted = REPORTS[name](torch, torch.tensor(x))[-1]
        np.testing.assert_array_equal(reported(tj.tensor(x)).numpy(), wanted.numpy())


@pytest.mark.parametrize("name", ["inv_ex", "solve_ex", "cholesky_ex"])
def test_gradients_of_the_others_are_right(name: str):
    x = matrices((3,), [1])
    found, wanted = [], []
    for library, grads in ((tj, found), (torch, wanted)):
        a = library.tensor(x, requires_grad=True)
        if name == "solve_ex":
            result, _ = library.linalg.solve_ex(a, a[..., :2].detach())
        else:
            result, _ = getattr(library.linalg, name)(a)
        (result[:2] ** 2).sum().backward()
        grads.append(a.grad[:2].numpy())
    np.testing.assert_allclose(found[0], wanted[0], 1e-7, 1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", [(), (3,), (20,)], ids=str)
@pytest.mark.parametrize("name", ["inv_ex", "solve_ex", "cholesky_ex", "lu_factor_ex", "lu_factor"])
def test_what_is_checked_raises_as_in_pytorch(name: str, batch: tuple[int, ...]):
    x = matrices(batch, [2])

    def run(library: Any, x: Any) -> Any:
        options = {"check_errors": True} if name.endswith("_ex") else {}
        operands = (x, x) if name == "solve_ex" else (x,)
        return getattr(library.linalg, name)(*operands, **options)[0]

    compiled = tj.compile(lambda x: run(tj, x))
    for _ in range(2):
        compiled(tj.tensor(matrices(batch, [])))
    with pytest.raises(RuntimeError) as theirs:
        run(torch, torch.tensor(x))
    for function in (lambda x: run(tj, x), compiled, compiled):
        with pytest.raises(RuntimeError) as ours:
            function(tj.tensor(x))
        assert str(ours.value).splitlines()[0] == str(theirs.value)


def test_infinities_have_a_report():
    factor, info = tj.linalg.cholesky_ex(tj.tensor([[[np.nan]], [[4.0]]]))
    assert info.tolist() == [1, 0]
    assert factor[1].item() == 2.0
