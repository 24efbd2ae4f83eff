"""What is done when another package is imported: by whom, how often, and that nothing else notices."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from process_tools import printed
from tracejit import import_hook
from tracejit.import_hook import around_import

SOURCE = """
loads = globals().get("loads", 0) + 1
loader_inside = __loader__

def function():
    return 1
"""
FAKE = """
class AbstractBackend:
    pass
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A module nobody has imported, and what is to be done around its import forgotten afterwards."""
    (tmp_path / "awaited_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(import_hook._FINDER, "runs", dict(import_hook._FINDER.runs))
    yield "awaited_module"
    sys.modules.pop("awaited_module", None)


def noting(done: list[str]):
    """What notes the names that are there before and after a module is loaded."""

    def run(module: ModuleType, load) -> None:
        before = hasattr(module, "loads")
        load()
        done.append(f"{module.__name__} {before} {module.loads}")

    return run


def test_it_is_done_around_an_import_and_not_before(fake) -> None:
    done: list[str] = []
    around_import(fake, noting(done))
    assert fake not in sys.modules
    assert done == []
    importlib.import_module(fake)
    importlib.import_module(fake)
    assert done == ["awaited_module False 1"]


def test_a_module_that_is_there_is_not_loaded_again(fake) -> None:
    done: list[str] = []
    importlib.import_module(fake)
    around_import(fake, noting(done))
    assert done == ["awaited_module True 1"]


def test_modules_are_as_they_would_be(fake) -> None:
    plain = importlib.import_module(fake)
    seen = type(plain.__loader__), type(plain.__spec__.loader), plain.__file__, plain.__cached__
    del sys.modules[fake]
    around_import(fake, noting([]))
    module = importlib.import_module(fake)
    found = (
        type(module.__loader__),
        type(module.__spec__.loader),
        module.__file__,
        module.__cached__,
    )
    assert found == seen
    assert module.loader_inside is module.__loader__ is module.__spec__.loader
    assert module.__loader__.get_source(fake) == SOURCE
    assert pickle.loads(pickle.dumps(module.function)) is module.function


def test_modules_that_are_loaded_again(fake) -> None:
    done: list[str] = []
    around_import(fake, noting(done))
    module = importlib.import_module(fake)
    assert importlib.reload(module) is module
    del sys.modules[fake]
    assert importlib.import_module(fake) is not module
    assert done == ["awaited_module False 1", "awaited_module True 2", "awaited_module False 1"]


def test_other_imports_go_by_untouched(fake) -> None:
    around_import(fake, noting([]))
    before = list(sys.meta_path)
    around_import("module_that_is_nowhere", noting([]))
    assert sys.meta_path == before  # one entry, however many modules are awaited
    assert import_hook._FINDER.find_spec("another_module") is None
    with pytest.raises(ModuleNotFoundError, match="module_that_is_nowhere"):
        importlib.import_module("module_that_is_nowhere")


def test_hooks_of_others_are_asked(fake, monkeypatch) -> None:
    class Before:
        asked = 0

        def find_spec(self, name, path, target=None):
            if name == fake:
                Before.asked += 1

    class Old:  # from a time when finders had another method
        def find_module(self, name, path=None):
            raise AssertionError

    done: list[str] = []
    around_import(fake, noting(done))
    monkeypatch.setattr(sys, "meta_path", [Before(), import_hook._FINDER, Old(), *sys.meta_path])
    assert import_hook._FINDER.find_spec(fake) is not None
    assert Before.asked == 0
    monkeypatch.setattr(sys, "meta_path", [x for x in sys.meta_path if not isinstance(x, Old)])
    importlib.import_module(fake)
    assert (Before.asked, done) == (1, ["awaited_module False 1"])


def test_errors_are_those_of_the_module(fake, tmp_path) -> None:
    (tmp_path / "awaited_module.py").write_text("raise ValueError('broken')")
    importlib.invalidate_caches()
    around_import(fake, noting([]))
    with pytest.raises(ValueError, match="broken"):
        importlib.import_module(fake)
    assert fake not in sys.modules


@pytest.mark.parametrize("attempt", range(5))
def test_threads_that_import_at_once(attempt: int, fake, tmp_path) -> None:
    (tmp_path / "awaited_module.py").write_text("import time\ntime.sleep(0.05)\n" + SOURCE)
    importlib.invalidate_caches()
    done: list[str] = []
    ready, loaded = threading.Barrier(6), []

    def ask(position: int) -> None:
        ready.wait()
        if position == attempt:  # while the others import
            around_import(fake, noting(done))
        loaded.append(importlib.import_module(fake).loads)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [1] * 6
    assert set(done) <= {"awaited_module False 1", "awaited_module True 1"}
    assert done  # twice where both ways to it were open


def with_fake_einops(folder: Path, script: str) -> list[str]:
    """What a script prints where a package called einops is nothing but a class."""
    (folder / "einops").mkdir()
    (folder / "einops" / "__init__.py").write_text("from . import _backends\n")
    (folder / "einops" / "_backends.py").write_text(FAKE)
    return printed(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{script}").split()


ASK = "print([c.framework_name for c in einops._backends.AbstractBackend.__subclasses__()])"


@pytest.mark.parametrize(
    "first",
    ["import einops, tracejit", "import tracejit, einops", "import tracejit, einops, tracejit.nn"],
)
def test_einops_is_told_in_either_order(first: str, tmp_path: Path) -> None:
    assert with_fake_einops(tmp_path, f"{first}\n{ASK}") == ["['tracejit']"]


def test_einops_is_not_imported_for_it(tmp_path: Path) -> None:
    script = "import tracejit, tracejit.einops_layers\nprint('einops' in sys.modules)"
    assert with_fake_einops(tmp_path, script) == ["False"]


def test_einops_is_told_once_and_again_when_it_is_loaded_again(tmp_path: Path) -> None:
    script = f"""
import importlib, tracejit, einops
from tracejit.libraries import meet_libraries
meet_libraries()
{ASK}
importlib.reload(einops._backends)
{ASK}
for name in ("einops", "einops._backends"):
    del sys.modules[name]
import einops
{ASK}
"""
    assert with_fake_einops(tmp_path, script) == ["['tracejit']"] * 3


def test_an_einops_that_has_other_classes(tmp_path: Path) -> None:
    """A later release may have none of that name; it is imported all the same."""
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("from . import _backends\n")
    (tmp_path / "einops" / "_backends.py").write_text("")
    script = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport tracejit, einops\nprint(1)"
    assert printed(script).split() == ["1"]
