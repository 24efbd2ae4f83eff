"""What type checkers see of the package: the stubs say what the table publishes, and a user's program is checked."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import tracejit as tj
from stub_text import SOURCE, stubs
from tracejit.generated import parse

PROGRAM = """\
import tracejit as tj
import tracejit.nn.functional as F
from tracejit import Tensor, nn
from tracejit.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 3)

    @tj.compile(dynamic=False)
    def scaled(self, x: Tensor, by: int) -> Tensor:
        return F.relu(self.a(x)) * by + 1 - 2 * x.mean(dim=0, keepdim=True)[0]


@tj.compile
def total(x: Tensor, y: Tensor, scale: float = 1.0) -> tuple[Tensor, int]:
    return (x @ y * scale).sum(), x.shape[0]


@tj.compile(strict=True)
@tj.no_grad()
def best(x: Tensor) -> Tensor:
    values, _ = x.max(dim=0)
    return tj.where(values > 0, values, tj.zeros(3, dtype=x.dtype))


@tj.no_grad
def off(x: Tensor) -> Tensor:
    return x.exp()


net = Net()
model = tj.compile(net)
optimizer = tj.optim.Adam(model.a.parameters(), lr=1e-3)
for x, y in DataLoader(TensorDataset(tj.randn(8, 8), tj.randint(0, 3, (8,))), batch_size=4):
    loss = F.cross_entropy(model.scaled(x, 2), y)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
sum_, count = total(tj.ones(2, 3), tj.ones(3, 2))
print(off(best(sum_)).numpy() + count, total.stats.recordings + 1, total.graphs[0].name)
report: str = total.kernels[0].source + str(total.explain())
"""
#: What a checker has to object to, and the kind of error.
WRONG = {
    "total(1, sum_)": "arg-type",
    "total(sum_)": "call-arg",
    "net.scaled(sum_, 'two')": "arg-type",
    "F.relu('x')": "arg-type",
    "report + 1": "operator",
    "off(sum_, 3)": "call-arg",
    "count.size": "attr-defined",
}


@pytest.mark.parametrize("path", stubs())
def test_stubs_say_what_is_published(path: str):
    """``python tests/stub_text.py`` writes them anew."""
    assert ast.dump(parse((SOURCE / path).read_text())) == ast.dump(parse(stubs()[path]()))


def test_the_stub_of_compile_has_its_parameters():
    tree = parse((SOURCE / "typed_compile.pyi").read_text())
    overloads = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "compile"]
    own = list(inspect.signature(tj.compile).parameters)
    assert len(overloads) == 3
    for overload in overloads:
        assert [a.arg for a in [*overload.args.args, *overload.args.kwonlyargs]] == own


@pytest.mark.slow
def test_a_program_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(SOURCE.parent))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(PROGRAM)
    (tmp_path / "bad.py").write_text("\n".join([PROGRAM, *WRONG, ""]))
    said, trouble, _ = api.run(
        ["--strict", "--cache-dir", str(tmp_path / "cache"), "good.py", "bad.py"]
    )
    assert not trouble
    found = [line for line in said.splitlines() if ": error: " in line]
    first = PROGRAM.count("\n") + 2
    assert all(line.startswith("bad.py:") for line in found), said
    lines = [int(line.split(":")[1]) - first for line in found]
    assert sorted(set(lines)) == list(range(len(WRONG))), said
    for line, kind in zip(found, [list(WRONG.values())[n] for n in lines], strict=True):
        assert f"[{kind}]" in line
