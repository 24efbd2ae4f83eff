"""The threads of the libraries behind NumPy and SciPy: off while small matrices are taken apart, and on again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg.lapack  # noqa: F401  (brings SciPy's library)

import tracejit as tj
from tracejit.ops import library_threads
from tracejit.ops.library_threads import SMALL, TINY, one_thread, small_on_one_thread


def counts() -> list[int]:
    """Of the threads of every library."""
    return [x.get_num_threads() for x in one_thread().libraries]


@pytest.fixture(autouse=True)
def several() -> Any:
    """Every library has two threads."""
    libraries = one_thread().libraries
    before = counts()
    for library in libraries:
        library.set_num_threads(2)
    if counts() != [2] * len(libraries):
        pytest.skip("the BLAS here has one thread")
    yield
    for library, threads in zip(libraries, before, strict=True):
        library.set_num_threads(threads)


def test_both_libraries_are_found() -> None:
    assert one_thread().libraries


@pytest.mark.parametrize(
    ("rows", "threads"), [(TINY, 2), (TINY + 1, 1), (SMALL, 1), (SMALL + 1, 2)]
)
def test_small_matrices_are_taken_apart_on_one_thread(rows: int, threads: int) -> None:
    seen: list[int] = []
    body = small_on_one_thread(lambda x: seen.extend(counts()))
    body(np.zeros((rows, 3)))
    body(np.zeros((2, 3, rows)))
    assert set(seen) == {threads}
    assert set(counts()) == {2}


def test_threads_return_after_an_error() -> None:
    with pytest.raises(tj.linalg.LinAlgError):
        tj.linalg.cholesky(-tj.eye(100))
    assert set(counts()) == {2}


FACTORISATIONS: dict[str, Callable[[tj.Tensor], Any]] = {
    "cholesky": tj.linalg.cholesky,
    "inv": tj.linalg.inv,
    "solve": lambda x: tj.linalg.solve(x, x),
    "qr": tj.linalg.qr,
    "svd": tj.linalg.svd,
    "eigh": tj.linalg.eigh,
    "eig": tj.linalg.eig,
    "lu": tj.linalg.lu,
    "slogdet": tj.linalg.slogdet,
    "pinv": tj.linalg.pinv,
    "matrix_exp": tj.linalg.matrix_exp,
    "ldl": tj.linalg.ldl_factor,
}


@pytest.mark.parametrize("name", FACTORISATIONS)
def test_every_factorisation_asks_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    original = library_threads.one_thread

    def noted() -> Any:
        asked.append(1)
        return original()

    monkeypatch.setattr(library_threads, "one_thread", noted)
    x = tj.eye(TINY + 1) * 2
    FACTORISATIONS[name](x)
    eager, asked[:] = len(asked), []
    f = tj.compile(FACTORISATIONS[name])
    for _ in range(3):
        f(x)
    assert eager
    assert len(asked) >= 3 * eager


def test_the_last_to_leave_puts_threads_back() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    with one_thread():
        assert set(counts()) == {1}
    assert set(counts()) == {1}
    leave.set()
    thread.join()
    assert set(counts()) == {2}
