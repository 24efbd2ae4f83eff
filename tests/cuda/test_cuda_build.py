"""Kernels built without a GPU are those that a program on one asks the store for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tracejit as tj
from tracejit.cli import main
from tracejit.cuda.driver import ImageError, driver
from tracejit.runtime.cuda import images, kernels
from tracejit.runtime.machine_code.store import kernel_store
from tracejit.trace.ahead import build_for_device

F = tj.nn.functional


def loss(x: Any, w: Any, b: Any, y: Any) -> Any:
    h = F.layer_norm(F.gelu(x @ w + b), (6,))
    if h.sum() > 1e9:
        return h.sum()
    return F.cross_entropy(h, y)


def arguments(rows: int) -> tuple[Any, ...]:
    tj.manual_seed(1)
    w, b = tj.randn(5, 6).requires_grad_(), tj.randn(6).requires_grad_()
    return tj.randn(rows, 5), w, b, tj.randint(0, 6, (rows,))


def test_a_store_filled_ahead_has_every_kernel(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "image", images.image)
    compiled = tj.compile(loss)
    compiled(*arguments(8))
    (entry,) = [e for entries in compiled.entries.values() for e in entries]
    made = build_for_device(entry, "sm_90")
    assert len(made.images) >= 4
    assert all(size > 100 for size in made.images.values())
    assert entry.signature.device == -1  # as it was
    asked: list[str] = []

    def image(source: str, name: str, architecture: str) -> bytes:
        asked.append(images.image_key(source, architecture))
        return source.encode()

    monkeypatch.setattr(kernels, "image", image)
    there = tj.compile(loss)
    for rows in (11, 11):  # other sizes need no other kernels
        given = [x.detach().cuda().requires_grad_(x.requires_grad) for x in arguments(rows)]
        there(*given).backward()
    assert there.stats.compiled_calls == 1
    assert asked
    assert set(asked) <= set(made.images)
    assert all(kernel_store().get(key) for key in asked)


def test_the_command_fills_the_store(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "model.py"
    file.write_text("def f(x):\n    return x.softmax(-1).sum()\n")
    options = ["build", "--cuda", "sm_80", "--cuda", "sm_90", f"{file}:f", "--args", "f32[4,40]"]
    assert main([*options, "--grad"]) == 0
    shown = capsys.readouterr().out
    assert "sm_80" in shown
    assert "kernels" in shown
    assert main(["build", "--cuda", "sm_10", f"{file}:f", "--args", "f32[4,40]"]) == 2
    said = capsys.readouterr().err
    assert "compiled for sm_10; the architectures are sm_75" in said
    assert "build.py" not in said


def test_a_driver_that_refuses_an_image_gets_its_text(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = kernels_of(lambda x: x.exp())
    loaded: list[bytes] = []

    def load(image: bytes, name: str) -> int:
        loaded.append(image)
        if len(loaded) == 1:
            raise ImageError("not for this driver")
        return 5

    monkeypatch.setattr(driver(0), "load", load)
    assert kernels.build(code, 0).handles[0][0] == 5
    assert loaded[0].startswith(b"def ")
    assert b".visible .entry" in loaded[1]


def kernels_of(function: Any) -> Any:
    compiled = tj.compile(function)
    for _ in range(2):
        compiled(tj.ones(64).cuda())
    kernels._handles.clear()
    return compiled.kernels[0].code
