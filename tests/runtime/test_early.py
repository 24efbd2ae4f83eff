"""What is loaded behind the import, where it is not, and that nobody meets it half loaded."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracejit
from process_tools import printed, python
from tracejit import early
from tracejit.generated import parse

PACKAGE = Path(tracejit.__file__).parent
LOADED = """
import sys
import tracejit as tj
from tracejit.runtime.behind import worker
from tracejit.runtime.native import native

assert worker().wait(60.0)
print([f"tracejit.{name}" in sys.modules for name in ("jit", "passes.pipeline", "codegen.cpu.cpu")], native.loaded())
"""
AT_ONCE = """
import atexit, sys, time
import tracejit as tj
from tracejit.early import DELAY
start = time.monotonic()
atexit.register(lambda: print("tracejit.jit" in sys.modules and time.monotonic() - start < DELAY / 2))
"""
HELPER = """
import multiprocessing, sys

def look(queue):
    import tracejit
    from tracejit.runtime.behind import worker
    worker().wait(60.0)
    queue.put("tracejit.jit" in sys.modules)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=look, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()
"""
FORKED = """
import os, time
import tracejit as tj

time.sleep({pause})
pid = os.fork()
f = tj.compile(lambda x: (x * 3).sin().sum())
x = tj.ones(5)
found = {{f(x).item() for _ in range(3)}}
good = len(found) == 1 and f.stats.compiled_calls == 2
if pid == 0:
    os._exit(0 if good else 3)
print(good, os.waitpid(pid, 0)[1])
"""
AT_THE_SAME_TIME = """
import random, sys, time
from importlib import import_module
import tracejit as tj

order = random.Random({seed})
time.sleep(order.uniform(0.0, 0.12))
names = {names!r}
order.shuffle(names)
for name in names:
    import_module(f"tracejit.{{name}}")
f = tj.compile(lambda x: x + 1)
print([f(tj.ones(2)).tolist() for _ in range(2)])
"""
NAMES = [
    *(
        "jit",
        "runtime.program",
        "codegen.cpu.cpu",
        "passes.pipeline",
        "passes.fusion.groups",
        "profiling",
    ),
    *(
        "scalar_math.bounds",
        "codegen.llvm",
        "trace.recording.recorder",
        "runtime.plan.plan",
        "scalar_math.library",
    ),
]


@pytest.mark.parametrize("name", [*early._PIECES, *early._LOWERING])
def test_what_is_loaded_early_exists(name: str) -> None:
    assert importlib.util.find_spec(f"tracejit.{name}") is not None


def test_the_compiler_is_there_after_a_while(tmp_path: Path) -> None:
    store = {"TRACEJIT_CACHE_DIR": str(tmp_path)}
    assert printed(LOADED, **store) == "[True, True, True] True\n"
    assert printed(LOADED, **store, TRACEJIT_LOAD_EARLY="0") == "[False, False, False] False\n"
    assert printed(LOADED, **store, TRACEJIT_DISABLE="1") == "[False, False, False] False\n"


def test_a_process_that_ends_at_once_has_loaded_nothing() -> None:
    assert printed(AT_ONCE) == "False\n"


def test_helpers_of_a_program_load_nothing(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(HELPER)
    done = python(str(script))
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.mark.sampled(8)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("pause", [0.0, 0.03, 0.06, 0.1])
def test_a_fork_in_between(tmp_path: Path, pause: float) -> None:
    store = {"TRACEJIT_CACHE_DIR": str(tmp_path)}
    for _ in range(
        2
    ):  # an empty store, and a filled one; from Python 3.12 on a fork beside threads warns
        assert printed(FORKED.format(pause=pause), PYTHONWARNINGS="error", **store) == "True 0\n"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(6))
def test_modules_imported_at_the_same_time(seed: int) -> None:
    script = AT_THE_SAME_TIME.format(seed=seed, names=NAMES)
    assert printed(script) == "[[2.0, 2.0], [2.0, 2.0]]\n"


def late_modules() -> dict[str, Path]:
    """The modules that are not there after an import of the package, by name."""
    there = printed("import sys, tracejit; print(*sys.modules)", TRACEJIT_LOAD_EARLY="0").split()
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = [*path.relative_to(PACKAGE.parent).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in there and parts[1] in (
            "codegen",
            "passes",
            "runtime",
            "scalar_math",
            "trace",
        ):
            found[name] = path
    return found


def imports(name: str, path: Path) -> Iterator[str]:
    """What a module imports when it is loaded, with the packages that is in."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in parse(path.read_text()).body:
        if not isinstance(node, ast.ImportFrom) or (node.module is None and not node.level):
            continue
        above = package[: len(package) - node.level + 1] if node.level else []
        whole = ".".join([*above, *([node.module] if node.module else [])])
        yield whole
        yield from (f"{whole}.{alias.name}" for alias in node.names)


def test_late_modules_import_one_another_in_one_direction() -> None:
    """Where two threads import, each of two modules that need each other may wait for the other one for ever."""
    late = late_modules()
    assert len(late) > 100
    needs = {name: {x for x in imports(name, path) if x in late} for name, path in late.items()}
    inside = [name for name, path in late.items() if path.name == "__init__.py" and needs[name]]
    assert inside == []  # a package waits for its modules, and modules wait for their package
    done: set[str] = set()
    while ready := [name for name in needs if name not in done and needs[name] <= done]:
        done.update(ready)
    assert sorted(needs.keys() - done) == []


def test_loading_early_twice_is_no_matter() -> None:
    from tracejit.early import load_early
    from tracejit.runtime.behind import worker

    load_early()
    assert worker().wait(60.0)
    assert "tracejit.jit" in sys.modules
