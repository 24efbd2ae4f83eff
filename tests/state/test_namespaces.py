"""Modules of which code only reads names stay out of reads by computed names; what may be read so, is watched."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import tracejit as tj
from tracejit.trace.state.state import watch

LARGE = 6000


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A user's module with many names."""
    found = types.ModuleType("settings_of_a_user")
    found.scale = 2.0  # type: ignore[attr-defined]
    found.other = {"shift": 1.0}  # type: ignore[attr-defined]
    for number in range(LARGE):
        setattr(found, f"entry_{number}", [number])
    sys.modules[found.__name__] = found
    yield found
    del sys.modules[found.__name__]


class Options:
    """Read by names that are computed."""

    def __init__(self) -> None:
        self.rate = 3.0
        self.module: Any = None


def function_of(text: str, **names: Any) -> Any:
    """The function ``step`` of a program."""
    namespace: dict[str, Any] = {"tj": tj, "__name__": "program", **names}
    exec(compile(text, "program.py", "exec"), namespace)
    return namespace["step"]


NAMED = """
def step(x, options, key):
    return x * settings.scale * getattr(options, key)
"""


def test_a_namespace_is_not_walked(module: types.ModuleType):
    step = function_of(NAMED, settings=module)
    guard = watch(step, (Options(), "rate"))
    assert len(guard.checks) < 100
    assert not guard.limits


@pytest.mark.parametrize(
    "text",
    [
        "def step(x, options, key):\n    return x * settings.scale * getattr(settings, key)",
        "def step(x, options, key):\n    s = settings\n    return x * s.scale * getattr(s, key)",
        "def step(x, options, key):\n"
        "    import settings_of_a_user as s\n    return x * s.scale * getattr(s, key)",
        "def step(x, options, key):\n"
        "    return x * settings.scale * getattr(globals()['settings'], key)",
        "def step(x, options, key):\n"
        "    found = importlib.import_module('settings_of_a_user')\n"
        "    return x * settings.scale * getattr(found, key)",
    ],
)
def test_modules_that_are_values_are_walked(module: types.ModuleType, text: str):
    step = function_of(text, settings=module, importlib=importlib)
    guard = watch(step, (Options(), "scale"))
    assert len(guard.checks) > 1000 or guard.limits


def test_modules_in_attributes_are_walked(module: types.ModuleType):
    options = Options()
    options.module = module
    guard = watch(function_of(NAMED, settings=module), (options, "module"))
    assert len(guard.checks) > 1000 or guard.limits


IMPORTED = """
def step(x, options, key):
    from settings_of_a_user import scale
    return x * scale * getattr(options, key)
"""


@pytest.mark.parametrize("text", [NAMED, IMPORTED])
def test_what_is_read_by_name_is_watched(module: Any, text: str):
    step, options = function_of(text, settings=module), Options()
    compiled = tj.compile(step)
    x = tj.ones(3)
    for scale in (2.0, 5.0, 7.0):
        module.scale = scale
        for rate in (1.0, 3.0):
            options.rate = rate
            assert compiled(x, options, "rate").tolist() == [scale * rate] * 3
    assert compiled.stats.compiled_calls


def test_a_module_that_becomes_a_value_is_watched(module: Any):
    """Its attribute is read through an object that got it later."""
    step, options = function_of(NAMED, settings=module), Options()
    compiled = tj.compile(step)
    x = tj.ones(2)
    for _ in range(3):
        assert compiled(x, options, "rate").tolist() == [6.0, 6.0]
    text = """
def step(x, options, key):
    return x * settings.scale * getattr(getattr(options, key), "scale")
"""
    compiled, options.module = tj.compile(function_of(text, settings=module)), module
    for scale in (2.0, 4.0, 6.0):
        module.scale = scale
        for _ in range(2):
            assert compiled(x, options, "module").tolist() == [scale * scale] * 2


def test_modules_in_modules(module: Any):
    package = types.ModuleType("package_of_a_user")
    package.settings, package.rate = module, 1.0  # type: ignore[attr-defined]
    named = "def step(x, o, key):\n    return x * package.settings.scale * getattr(o, key)"
    taken = "def step(x, o, key):\n    return x * package.settings.scale * getattr(package, key)"
    few = watch(function_of(named, package=package), (Options(), "rate"))
    many = watch(function_of(taken, package=package), (Options(), "rate"))
    assert len(few.checks) < 100
    assert len(many.checks) > 1000 or many.limits
    compiled = tj.compile(function_of(named, package=package))
    for scale in (2.0, 3.0):
        module.scale = scale
        for _ in range(2):
            assert compiled(tj.ones(1), Options(), "rate").item() == 3.0 * scale


class Settings(types.ModuleType):
    """A module of a class of its own."""

    rate: float

    def named(self, key: str) -> Any:
        """What has a name that is computed."""
        return getattr(self, key)

    @property
    def first(self) -> Any:
        """The same, without a call in the text."""
        return getattr(self, min(vars(self)))


@pytest.mark.parametrize("read", ["named('ra' + end)", "first"])
def test_a_module_is_what_its_methods_are_called_on(read: str):
    settings = Settings("settings")
    vars(settings).clear()
    compiled = tj.compile(
        function_of(f"def step(x, end):\n    return x * settings.{read}", settings=settings)
    )
    for rate in (2.0, 3.0, 4.0):
        settings.rate = rate
        for _ in range(2):
            assert compiled(tj.ones(1), "te").item() == rate


INSIDE = """
def step(x):
    import package_of_a_user.part
    return x * package_of_a_user.scale + package_of_a_user.part.shift
"""


def test_the_package_of_what_is_imported_inside_is_watched(monkeypatch: pytest.MonkeyPatch):
    package, part = (
        types.ModuleType("package_of_a_user"),
        types.ModuleType("package_of_a_user.part"),
    )
    package.__path__, package.part = [], part  # type: ignore[attr-defined]
    for found in (package, part):
        monkeypatch.setitem(sys.modules, found.__name__, found)
    compiled = tj.compile(function_of(INSIDE))
    for scale, shift in ((2.0, 1.0), (3.0, 1.0), (5.0, 1.0), (5.0, 4.0)):
        package.scale, part.shift = scale, shift  # type: ignore[attr-defined]
        for _ in range(3):
            assert compiled(tj.ones(1)).item() == scale + shift
    assert compiled.stats.compiled_calls
