"""The walk from a function to all Python state that running it can read, as a list of checks.

Functions lead to globals, cells, defaults and the functions among them; objects lead to the attributes whose names
occur in reached code; classes to the methods whose names occur. Since reaching a function adds names, the walk
repeats until nothing new is found. Library code is not entered, but functions that it wraps are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

from ...tensor import Tensor
from ..numbers.places import Place, PlaceKey, StillNumber
from . import reads
from .checks import Attribute, Check, Item, Kind, NewNames, Read
from .classes import ClassWalk
from .containers import ContainerWalk
from .functions import FunctionWalk
from .generators import is_generator
from .gradients import KnownHooks, leaf_hooks
from .lists import AppendedLists, Fixed
from .modules import Structure, hooks_of, hooks_of_all, is_module, plain_attributes, tensors_of
from .namespaces import Namespaces, Way, name_of
from .optimizers import is_tool, kept_by, step_hooks
from .package import Package, replaced
from .purity import OF_ENVIRONMENT, are_suspect, is_suspect, outside_builtin
from .ran_codes import RanCodes, WideError
from .special import (
    DecimalContext,
    Environment,
    Registered,
    is_opaque,
    settings_of_log,
    special,
)
from .tensors import TensorFacts, names_kept
from .values import MISSING
from .wrappers import WRAPPERS, attributes_of, calls_builtin, inside, is_leaf

#: Objects and containers nested deeper than this below a function, argument or module are not looked at.
MAX_DEPTH = 100
#: A guard has at most this many checks.
MAX_CHECKS = 4096
#: The same where only code counts that is known to run.
MAX_NARROW = 16384


class Walk:
    """Collects checks; ``limits`` says what the bounds kept from being checked."""

    def __init__(
        self,
        varying: Mapping[PlaceKey, Place] = MappingProxyType({}),
        held: Collection[PlaceKey] = (),
        ran: RanCodes | None = None,
    ) -> None:
        self.varying = varying
        self.held = held  # places that calls look at by themselves
        self.ran = ran if ran is not None and ran.known else None
        self.most = MAX_CHECKS if self.ran is None else MAX_NARROW
        self.may_narrow = ran is not None and ran.possible
        self.places: list[Place] = []  # those of ``varying`` that were met
        self.tools: set[int] = set()  # namespaces and groups of optimizers: numbers of their own
        self.names = reads.Names()
        self.namespaces = Namespaces(self.names)
        self.checks: list[Check] = []
        self.codes: list[CodeType] = []
        self.generators: list[tuple[str, Any]] = []
        self.limits: dict[str, None] = {}
        self.hidden: list[tuple[Any, str]] = []
        self.suspect = self.ran is not None  # whether other code runs, only watching tells
        self.modules: list[tuple[Any, str]] = []
        self.tensors: dict[int, tuple[str, Tensor]] = {}
        self.hooks: dict[int, tuple[int, ...]] = {}  # of leaves that have some
        self._classes = ClassWalk(self)
        self._objects: list[tuple[Any, dict[str, Any], str, int]] = []
        self._functions = FunctionWalk(self)
        self._containers = ContainerWalk(self)
        self._known: set[tuple[int, Any]] = set()
        self._seen: dict[int, Any] = {}
        self._classes_seen: dict[int, Any] = {}  # reached themselves; of others there are instances
        self._waiting: deque[tuple[Any, str, int]] = deque()
        self.appended = AppendedLists()

    @property
    def reached(self) -> dict[int, Any]:
        """Everything that has been looked at, by identity."""
        return self._seen

    # --- the interface ------------------------------------------------------------------------------------------------

    def reach(
        self, value: Any, name: str, depth: int = 0, key: Any = None, way: Way | None = None
    ) -> None:
        """Go on at ``value``, found under ``key``, later, unless it has been reached before or has no state."""
        try:
            if isinstance(value, Tensor):
                self._tensor(value, name)
            elif isinstance(value, ModuleType):
                self.namespaces.note(value, way)
        except ReferenceError:  # a weak proxy of something that is gone: there is nothing behind it
            return
        self.appended.note(value, key)
        seen = self._classes_seen if isinstance(value, type) else self._seen
        if is_leaf(value) or id(value) in seen:
            return
        if self.appended.defer(value, name, depth, key):
            return
        seen[id(value)] = self._seen[id(value)] = value
        self._waiting.append((value, name, depth))

    def add(self, check: Check, key: Any = None) -> bool:
        """Keep a check; False when the place (its holder and ``key``) is being checked already."""
        place = (id(check.holder), (type(check), key))
        if place in self._known:
            return False
        if self.held and isinstance(check, Read) and (id(check.holder), check.key) in self.held:
            self._seen.setdefault(id(check.holder), check.holder)
            return False
        if len(self.checks) >= self.most:
            if self.may_narrow:  # what else there is does not matter
                raise WideError
            self.limits[f"more than {self.most} places to check: the rest is not guarded"] = None
            return False
        self._known.add(place)
        check = self._of_number(check)
        self._seen[id(check.holder)] = self._seen.get(id(check.holder), check.holder)
        self.checks.append(check)
        return True

    def _of_number(self, check: Check) -> Check:
        """``check``, or one that is content with any number where that may vary."""
        if self.varying and isinstance(check, Read):
            place = self.varying.get((id(check.holder), check.key))
            if place is not None and type(check.expected) is place.kind:
                self.places.append(place)
                return StillNumber(place)
        return check

    def watch_names(
        self, holder: Any, namespace: dict[str, Any], name: str, depth: int = 0
    ) -> None:
        """Check the attributes of ``holder`` whose names the code can read."""
        self._objects.append((holder, namespace, name, depth))

    def enter_code(self, function: FunctionType) -> None:
        """The function that was asked about counts as the user's wherever it is defined."""
        self._seen[id(function)] = function
        self._functions.enter_root(function)

    def finish(self) -> list[Check]:
        """Walk until nothing new is found; all checks, the cheapest evidence first."""
        for name, function in replaced():
            self.reach(function, name)
        size = -1
        while self._waiting or self.names.size + self.namespaces.size != size:
            while self._waiting:
                self._enter(*self._waiting.popleft())
            size = self.names.size + self.namespaces.size
            self._rescan()
            self.appended.settle(self.names, self.reach)
        self.checks = self.appended.open(self.checks, self._seen, self.names)
        self._last_checks()
        self.suspect |= are_suspect(self.names)
        for way in sorted(self.names.around):
            self.limits[f"{way} leads to state that cannot be followed"] = None
        return self.checks

    def _last_checks(self) -> None:
        """Checks that depend on everything found."""
        for value, namespace, name, _ in self._objects:
            kept = self._kept(value, namespace)
            read = self.namespaces.names_of(value)
            self.add(NewNames(namespace, name, read, self.held, kept))
        self._functions.last_checks()
        self._classes.last_checks()
        if self._classes.abstract:
            self.add(Registered())
        if self.names.calls(*OF_ENVIRONMENT):
            self.add(Environment())
        if DecimalContext.matters(self._seen.values()):
            self.add(DecimalContext())
        self.checks.insert(0, Package())
        if self.tensors:
            self.checks.insert(0, TensorFacts.of(self.tensors.values()))
        if self.modules:
            self.checks.insert(0, Structure(self.modules, self.names, self.varying, self.held))
        for module, _ in self.modules if self.varying else ():
            for key, value in plain_attributes(module, self.names):
                place = self.varying.get((id(vars(module)), key))
                if place is not None and type(value) is place.kind:
                    place.owner = module
                    self.places.append(place)

    # --- one value ----------------------------------------------------------------------------------------------------

    def _enter(self, value: Any, name: str, depth: int) -> None:
        if isinstance(value, FunctionType):
            self._functions.enter(value)
        elif isinstance(value, type):
            self.suspect |= reads.is_library_class(value) and is_suspect(value)
            self._classes.enter(value, as_value=True)
        elif isinstance(value, ModuleType):
            self._namespace(value, name, depth)
        elif is_module(value):
            self._module(value, name)
        elif is_tool(value):
            label = f"{type(value).__qualname__} ({name})"
            self._objects.append((value, vars(value), label, depth))
            self.tools.add(id(vars(value)))
            for hook in step_hooks(value):
                self.reach(hook, f"a step hook of {label}", depth + 1)
        else:
            self._enter_object(value, name, depth)

    def _enter_object(self, value: Any, name: str, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self.limits[f"what {name} holds is not guarded: nested deeper than {MAX_DEPTH}"] = None
        elif isinstance(value, BuiltinFunctionType):  # a bound method, such as that of a list
            self.suspect |= is_suspect(value)
            self.reach(value.__self__, f"the owner of {name}", depth)
        elif isinstance(value, WRAPPERS):
            self._wrapper(value, name, depth)
        elif is_generator(value):
            self.suspect = True
            self.generators.append((name, value))
            self._own_attributes(value, name, depth)
        elif (settings := settings_of_log(value, name)) is not None:
            self.suspect = True
            for setting in settings:
                self.add(setting, setting.key)
        elif (found := special(value, name, self.names)) is not None:
            check, held = found
            self._own_attributes(value, name, depth)
            if check is not None:
                self.add(check)
            for inner in held:
                self.reach(inner, f"what {name} holds", depth + 1)
        elif is_opaque(value):
            kind = type(value)
            self.limits[f"{name} is a {kind.__qualname__}, whose state cannot be watched"] = None
        else:
            self._containers.enter(value, name, depth)
            self._object(value, name, depth)

    def _namespace(self, module: ModuleType, name: str, depth: int) -> None:
        """The names of a module: all of a user's, none of this package's, data and functions of others."""
        if not reads.is_library_module(module, name_of(module)):
            if "__getattr__" in vars(module):
                self.names.names.add("__getattr__")
            if not reads.is_library_class(type(module)):
                self.add(Kind(module, name, type(module)))
                self._classes.enter(type(module))
            self.watch_names(module, vars(module), name, depth)
        else:
            self._functions.enter_library(module, name)

    def _wrapper(self, value: Any, name: str, depth: int) -> None:
        self._own_attributes(value, name, depth)
        called = outside_builtin(value.func) if calls_builtin(value) else None
        if called is not None:
            self.hidden.append((value, called))
        for key, found in inside(value):
            shown = "the owner" if key == "__self__" else key
            self.reach(found, f"{shown} of {name}", depth + 1)
        if not reads.is_library_class(type(value)):  # a property of a kind of its own
            self._classes.enter(type(value))

    def _own_attributes(self, value: Any, name: str, depth: int) -> None:
        """What users put on an object that is known otherwise."""
        namespace = attributes_of(value)
        if isinstance(namespace, dict):
            self.watch_names(value, namespace, name, depth)

    def _tensor(self, tensor: Tensor, name: str) -> None:
        """What is no value of a tensor: its layout and flags, attributes that users put on it."""
        self.tensors.setdefault(id(tensor), (name, tensor))
        hooks = leaf_hooks(tensor)
        if hooks and self.add(KnownHooks(tensor, f"the gradient hooks of {name}", hooks)):
            self.hooks[id(tensor)] = hooks
            for hook in (
                *(tensor._hooks or {}).values(),
                *(tensor._post_accumulate_hooks or {}).values(),
            ):
                self.reach(hook, f"a gradient hook of {name}")
        own = vars(tensor)
        if id(own) not in self._seen and not own.keys() <= names_kept(tensor):
            self._seen[id(own)] = own
            self.watch_names(tensor, own, f"a Tensor ({name})")

    # --- objects ------------------------------------------------------------------------------------------------------

    def _object(self, value: Any, name: str, depth: int) -> None:
        cls = type(value)
        namespace = attributes_of(value)
        if isinstance(value, BaseException) and cls.args is BaseException.args:
            check = Attribute(value, f"what {name} was made with", "args", value.args)
            if self.add(check, "args"):
                self.reach(value.args, check.name, depth + 1)
        if isinstance(namespace, dict) and "__wrapped__" in namespace:
            self.reach(namespace["__wrapped__"], _wrapped(name), depth)
        if reads.is_closed(cls) or cls.__module__ == "builtins":
            self.suspect |= is_suspect(value)
            inner = getattr(value, "__wrapped__", None) if cls.__module__ != "builtins" else None
            self.reach(inner, _wrapped(name), depth)
            if not reads.is_closed(cls) or "_own_names" in (namespace or ()):  # a compiled function
                self._own_attributes(value, name, depth)
            return
        label = f"{cls.__qualname__} ({name})"
        if isinstance(namespace, dict):
            self.watch_names(value, namespace, label, depth)
            if vars(object)["__getattribute__"] is getattr(cls, "__getattribute__", None):
                place = f"the namespace of {label}"
                self.add(Attribute(value, place, "__dict__", namespace), "__dict__")
        elif any(
            isinstance(m, MemberDescriptorType) for k in cls.__mro__ for m in vars(k).values()
        ):
            self.watch_names(value, {}, label, depth)
        if reads.is_library_class(cls):
            self.suspect |= is_suspect(value)
        else:
            self.add(Kind(value, name, cls))
        self._classes.enter(cls)

    def _module(self, module: Any, name: str) -> None:
        label = f"{type(module).__qualname__} ({name})"
        if not self.modules:
            self._hooks_of_all_modules()
        self.modules.append((module, label))
        self._classes.enter(type(module))
        for key, child in tuple(module._modules.items()):
            self.reach(child, f"submodule {key!r} of {label}")
        for which, entry in hooks_of(module):
            self.reach(entry, f"{which} of {label}")
        for which, tensor in tensors_of(module, self.held):
            self._tensor(tensor, f"{which} of {label}")

    def _hooks_of_all_modules(self) -> None:
        check, everywhere = hooks_of_all()
        self.tools.add(id(check.holder))  # a count of changes, not a number that may vary
        self.add(check, 0)
        for which, entry in everywhere:
            self.reach(entry, which)

    def _rescan(self) -> None:
        """Look again at everything reached, for the names that became known since."""
        self._classes.scan()
        self.namespaces.look(self.codes)
        for value, namespace, label, depth in tuple(self._objects):
            kept, names = self._kept(value, namespace), self.namespaces.names_of(value)
            for key in [k for k in namespace if k in names and k not in kept]:
                check = Item(namespace, f"attribute {key!r} of {label}", key, namespace[key])
                self._attribute(check, depth, value)
            for key in self._slots(type(value)):
                expected = getattr(value, key, MISSING)
                slot = Attribute(value, f"attribute {key!r} of {label}", key, expected)
                self._attribute(slot, depth, value)
        self._functions.scan()
        self._containers.scan()
        for module, label in tuple(self.modules):
            for key, attribute in plain_attributes(module, self.names):
                if (id(vars(module)), key) not in self.held:
                    self.reach(attribute, f"attribute {key!r} of {label}", 1, Fixed(key))

    def _kept(self, value: Any, namespace: dict[str, Any]) -> Collection[str]:
        """The names among its attributes that are no state of the user's."""
        if isinstance(value, Tensor):
            return names_kept(value)
        own: Collection[str] = namespace.get("_own_names", ())
        return kept_by(value, self.names) if id(namespace) in self.tools else own

    def _attribute(self, check: Item | Attribute, depth: int, owner: Any) -> None:
        if self.add(check, check.key):
            way = (owner, check.key) if isinstance(owner, ModuleType) else None
            self.reach(check.expected, check.name, depth + 1, check.key, way)

    def _slots(self, cls: type) -> list[str]:
        return [
            key
            for owner in cls.__mro__
            if not reads.is_library_class(owner)
            for key, member in vars(owner).items()
            if isinstance(member, MemberDescriptorType) and key in self.names
        ]


def _wrapped(name: str) -> str:
    """What is called the function that ``name`` wraps; what is compiled is one with what it stands for."""
    return name if name == "the function" else f"the function that {name} wraps"
