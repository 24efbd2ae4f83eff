"""Tensors as text: PyTorch's layout, character by character."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _default_options():
    yield
    tj.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (2.0, "tensor(2.)"),
        (7, "tensor(7)"),
        ([], "tensor([])"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.5, -2.0], "tensor([ 1.5000, -2.0000])"),
        ([1, 200, -3], "tensor([  1, 200,  -3])"),
        ([True, False], "tensor([ True, False])"),
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
        ([1e-5, 1.5], "tensor([1.0000e-05, 1.5000e+00])"),
        ([1.0, NAN, INF, -INF], "tensor([1., nan, inf, -inf])"),
        ([1.5, NAN, -INF], "tensor([1.5000,    nan,   -inf])"),
        ([NAN], "tensor([nan])"),
        ([1001.0, 1.0], "tensor([1.0010e+03, 1.0000e+00])"),
        ([[1.0, 2.0], [3.0, 4.5]], "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])"),
        (
            [[[1], [2]], [[3], [4]]],
            "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])",
        ),
    ],
)
def test_values(data, text):
    assert repr(tj.tensor(data)) == text
    assert str(tj.tensor(data)) == text


def test_suffixes():
    assert repr(tj.tensor([1.0], dtype=tj.float64)) == "tensor([1.], dtype=tracejit.float64)"
    assert repr(tj.tensor([1], dtype=tj.int8)) == "tensor([1], dtype=tracejit.int8)"
    assert repr(tj.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(tj.tensor([1.0], requires_grad=True) * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(tj.tensor([1.5], dtype=tj.bfloat16)) == "tensor([1.5000], dtype=tracejit.bfloat16)"
    assert repr(tj.from_numpy(np.zeros((2, 0), np.float32))) == "tensor([], size=(2, 0))"
    assert repr(tj.tensor([], dtype=tj.int64)) == "tensor([], dtype=tracejit.int64)"


def test_summary():
    assert (
        repr(tj.from_numpy(np.arange(1001))) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    )
    text = repr(tj.from_numpy(np.arange(40 * 50).reshape(40, 50)))
    assert text.startswith("tensor([[   0,    1,    2,  ...,   47,   48,   49],\n")
    assert "\n        ...,\n" in text
    assert len(text.splitlines()) == 7


def test_long_lines_are_wrapped():
    lines = repr(tj.from_numpy(np.arange(30))).splitlines()
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    text = repr(tj.from_numpy(np.linspace(0, 1, 8)))
    assert text.endswith("\n       dtype=tracejit.float64)")


def test_options():
    x = tj.tensor([0.123456, 100.0])
    tj.set_printoptions(precision=2)
    assert repr(x) == "tensor([  0.12, 100.00])"
    tj.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e-01, 1.00e+02])"
    tj.set_printoptions(profile="default", sci_mode=False)
    assert repr(tj.tensor([1e-7, 1.5])) == "tensor([0.0000, 1.5000])"
    tj.set_printoptions(profile="full")
    assert "..." not in repr(tj.from_numpy(np.arange(2000)))
    tj.set_printoptions(profile="default", threshold=5, edgeitems=1)
    assert repr(tj.from_numpy(np.arange(10))) == "tensor([0,  ..., 9])"
    with pytest.raises(ValueError, match="unknown print profile"):
        tj.set_printoptions(profile="loud")


def test_format():
    assert f"{tj.tensor(1.23456):.2f}" == "1.23"
    assert f"{tj.tensor([1.0])}" == "tensor([1.])"
    with pytest.raises(TypeError):
        f"{tj.tensor([1.0]):.2f}"


def test_complex_numbers_fill_lines() -> None:
    tj.set_printoptions(linewidth=40)
    try:
        lines = repr(tj.complex(tj.arange(100, 106).float(), tj.arange(100, 106).float())).split(
            "\n"
        )
        assert lines[0] == "tensor([100.+100.j, 101.+101.j, 102.+102.j,"
        signed = repr(tj.complex(tj.arange(100, 106).float(), -tj.arange(100, 106).float())).split(
            "\n"
        )
        assert signed[0] == "tensor([100.-100.j, 101.-101.j,"
    finally:
        tj.set_printoptions(profile="default")
