"""What a compiled function says about itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tracejit as tj
from tracejit import config


def branchy(x, scale=2.0):
    y = x * scale  # the product
    if y.sum() > 0:
        return y.exp()  # the exponential
    return y - 1


def line_of(text: str) -> int:
    """The line of this file that ends with a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


@pytest.fixture
def compiled():
    f = tj.compile(branchy)
    for _ in range(3):
        f(tj.ones(3, requires_grad=True)).sum().backward()
        f(-tj.ones(3, requires_grad=True)).sum().backward()
    return f


def test_the_report(compiled) -> None:
    text = str(compiled.explain())
    assert text.splitlines()[0] == "branchy: 6 calls, 4 compiled, 2 eager, 2 recorded"
    for words in (
        "signature (x: f32[3])",
        "recorded: the first call",
        "recorded: an unseen branch at test_explain.py:",
        "if y.sum() > 0:",
        "2 path(s)",
        "when True:",
        "when False:",
        "guard (4 replays)",
        "return (2 replays)",
    ):
        assert words in text, (words, text)
    assert repr(compiled.explain()) == text


def test_reasons_name_their_place() -> None:
    f = tj.compile(lambda x: x.numpy().max())
    f(tj.ones(1))
    f(tj.ones(1))
    report = f.explain()
    assert report.reasons[0].startswith(
        "numpy() of a tensor inside a compiled function (test_explain.py:"
    )
    assert "runs eagerly: numpy()" in str(report)
    assert "ran eagerly: numpy()" in str(report)


def test_graphs_kernels_and_source(compiled) -> None:
    names = [g.name for g in compiled.graphs]
    assert names == ["branchy", "branchy_backward"] * 2
    assert "guard" in str(compiled.graphs[0])
    assert "test_explain.py" in str(compiled.graphs[0])
    kernels = compiled.kernels
    assert kernels
    assert len({k.source for k in kernels}) == len(kernels)
    source = compiled.source()
    ast.parse(source)
    assert all(k.source.strip() in source for k in kernels)
    assert "def run(" in source
    plain = tj.compile(lambda x: x + 1)
    plain(tj.ones(1))
    plain(tj.ones(1))
    assert "def replay(" in plain.source()


def test_programs_and_kernels_are_printed_as_text(compiled) -> None:
    assert repr(compiled.graphs[0]) == str(compiled.graphs[0])
    assert str(compiled.graphs).startswith("[graph branchy(x: f32[3]) {\n")
    assert compiled.kernels[0].source.strip() in str(compiled.kernels)


BIAS = tj.ones(3)


def test_captured_tensors_have_the_names_of_the_program() -> None:
    scales = {"first": tj.ones(3), "rest": [tj.ones(3)]}
    layer = tj.nn.Linear(3, 3)
    f = tj.compile(lambda x: layer(x) * scales["first"] + BIAS)
    for compiled in (f, tj.compile(tj.nn.Sequential(tj.nn.Linear(3, 2)))):
        for _ in range(2):
            compiled(tj.ones(1, 3))
    names = "layer.weight", "layer.bias", "scales.first", "BIAS"
    captured = ", ".join(f.explain().signatures[0]["captured"])
    assert all(f" ({name}): f32[3" in captured for name in names), captured
    assert " (0.weight): f32[2, 3]" in str(compiled.explain())


def test_outcomes_that_are_numbers_are_printed_as_such() -> None:
    f = tj.compile(lambda x: x * x.sum().item())
    for _ in range(2):
        f(tj.full((2,), 0.25))
    assert "when 0.5:" in str(f.explain())


def test_what_is_found_out_at_the_end_names_the_function(compiled) -> None:
    @tj.compile
    def generates(x):
        yield x

    [*generates(tj.ones(1))]
    line = generates.__wrapped__.__code__.co_firstlineno
    assert f"made inside (test_explain.py:{line})" in str(generates.explain())


def test_an_error_that_the_program_catches() -> None:
    @tj.compile
    def inverse(x):
        try:
            return tj.linalg.inv(x)
        except RuntimeError:
            return x * 0

    for x in (tj.eye(2), tj.eye(2), tj.zeros(2, 2)):
        found = inverse(x)
    assert found.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert "eager code had no error, or caught it" in str(inverse.explain())


def test_code_for_a_line(compiled) -> None:
    product, exponential = (
        compiled.code_for(line_of("the product")),
        compiled.code_for(line_of("the exponential")),
    )
    assert any("mul" in line for line in product)
    assert any("exp" in line for line in exponential)
    assert not set(product) & set(exponential)
    assert compiled.code_for(line_of("the product") * 10) == []
    assert compiled.code_for(line_of("the product"), "another.py") == []
    assert compiled.code_for(line_of("the product"), __file__) == product


def test_module_inspection() -> None:
    model = tj.compile(tj.nn.Linear(2, 2))
    for _ in range(2):
        model(tj.ones(1, 2))
    assert "captured: " in str(model.explain())
    assert model.kernels is not None
    assert model.stats.compiled_calls == 1
    assert repr(model).startswith("Compiled(Linear(")


def test_every_stage_is_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "dump_directory", str(tmp_path))

    def dumped(x):
        return (x.exp() * 2).sum()

    f = tj.compile(dumped)
    for _ in range(2):
        f(tj.ones(3, requires_grad=True)).backward()
    files = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*.txt")}
    names = {name.split("/", 1)[1].split("_", 1)[1] for name in files}
    assert {"recorded.txt", "gradient.txt", "partition.txt", "program.txt", "planned.txt"} <= names
    assert {"input.txt", "cse.txt", "simplify.txt", "dead_code.txt"} <= names
    assert any(name.startswith("k_") for name in names)
    assert "exp" in files["dumped_path/00_recorded.txt"]
    assert any("def run(" in text for text in files.values())
