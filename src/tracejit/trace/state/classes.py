"""Classes in the walk: the methods and class attributes that reached code can use, and that they are not replaced."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from ...autograd.function import Function
from ...tensor import Tensor
from . import reads
from .checks import Attribute, Item, NewNames
from .special import Derived
from .values import MISSING

if TYPE_CHECKING:
    from .reach import Walk

#: Special methods that a recorded run does not use, or only where the code mentions one of these words.
_RARE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("__annotate__", "__annotate_func__"), ()),
    "__sizeof__": ("getsizeof",),
    **dict.fromkeys(("__init_subclass__", "__set_name__"), reads.MAKING_CLASSES),
    **dict.fromkeys(("__repr__", "__str__", "__format__"), ("str", "repr", "format", "print")),
    **dict.fromkeys(("__copy__", "__deepcopy__"), ("copy", "deepcopy", "replace")),
    **dict.fromkeys(
        ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__"),
        ("copy", "deepcopy", "dumps", "loads", "dump"),
    ),
    "__getnewargs_ex__": ("copy", "deepcopy", "dumps", "loads", "dump"),
    "__dir__": ("dir",),
}
_TEXTS = frozenset({"__repr__", "__str__", "__format__"})
#: Those that run only where the code has the class itself: it makes instances and lets them go, or asks for an item.
_CONSTRUCTION = frozenset({"__init__", "__new__", "__post_init__", "__del__", "__class_getitem__"})
#: Bookkeeping every class has; not state.
_META = frozenset(
    {
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__slots__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
        "__parameters__",
        "__orig_bases__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations_cache__",
        "__hash__",  # one that is written in Python counts: dicts, sets and caches call it
    }
)
#: Names that library base classes call on instances of user classes.
_CALLED = frozenset({"forward", "__call__"})

#: Attributes of a class that lead to those it is derived from.
_BASES = ("__base__", "__bases__", "__mro__", "mro")


class ClassWalk:
    """Looks up names in the reached classes; which names, the walk finds out as it goes."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.classes: dict[type, bool] = {}  # class -> can the code make instances of it?
        self.abstract = False  # is one of them abstract?
        self._namespaces: dict[type, Any] = {}

    def enter(self, cls: type, as_value: bool = False) -> None:
        """Watch ``cls``; ``as_value``: reached itself, not only through an instance."""
        self.abstract |= isinstance(cls, ABCMeta)
        if reads.is_closed(cls):
            return
        if cls not in self.classes:
            if issubclass(cls, Function):
                self.walk.names.names |= {"backward", "setup_context", "vjp"}
            # A parameter has no attributes that a user's class could have, too.
            own = issubclass(cls, Tensor) and reads.is_library_class(cls)
            for base in () if own else cls.__mro__:
                if reads.is_library_class(base) and base.__name__ not in ("Module", "ModuleTree"):
                    self.walk.names.names |= reads.class_reads(base)
                    self.walk.names.loaded |= reads.class_reads(base)
                    self.walk.names.otherwise |= reads.class_reads(base)
            if not reads.is_library_class(type(cls)):
                self.walk.reach(type(cls), f"the class of {cls.__qualname__}")
        self.classes[cls] = self.classes.get(cls, False) or as_value

    def scan(self) -> None:
        """Check every name of every class that the code can use by now."""
        for cls, made in tuple(self.classes.items()):
            if "__subclasses__" in self.walk.names.used and not reads.is_library_class(cls):
                derived: list[type] = type.__subclasses__(cls)
                for found in derived:
                    self.walk.reach(found, f"class {found.__qualname__}")
            for position, owner in enumerate(cls.__mro__):
                nearer = cls.__mro__[:position]
                for name, member in self._used(owner, made):
                    if isinstance(member, MemberDescriptorType):
                        continue  # a slot: all there is to it is that bases are not asked
                    if not any(name in vars(base) for base in nearer):
                        self._member(cls, owner, name, member)
                    elif self._reads_bases():
                        self._own_member(
                            owner, f"{name!r} of class {owner.__qualname__}", name, member
                        )

    def _reads_bases(self) -> bool:
        """Does the code look at what lies behind a name that a nearer class has, too?"""
        names = self.walk.names
        return "super" in names.globals or any(word in names for word in _BASES)

    def last_checks(self) -> None:
        """Names that classes may get, which would stand before the attributes of instances or be found at last."""
        owners = {owner: None for cls in self.classes for owner in cls.__mro__}
        for owner in owners:
            if not reads.is_library_class(owner):
                name = f"class {owner.__qualname__}"
                self.walk.add(NewNames(self._namespace(owner), name, self.walk.names))
                if "__subclasses__" in self.walk.names.used:
                    self.walk.add(Derived(owner))

    def _used(self, owner: type, made: bool) -> Iterator[tuple[str, Any]]:
        library = reads.is_library_class(owner)
        for name, member in tuple(vars(owner).items()):
            if name in _META and not (name == "__hash__" and isinstance(member, FunctionType)):
                continue
            if library:
                # Layers of the package are patched now and then; anything else counts once a user replaced it.
                layer = name in _CALLED and _is_layer(owner)
                if layer or _by_user(member):
                    yield name, member
            elif self._counts(name, made):
                yield name, member

    def _counts(self, name: str, made: bool) -> bool:
        names = self.walk.names
        if name in _CONSTRUCTION:
            return made or names.calls("type", "__class__")
        if name in names or name in _CALLED:
            return True
        if not (name.startswith("__") and name.endswith("__")):
            return False
        words = _RARE.get(name)
        return words is None or names.calls(*words) or (names.texts and name in _TEXTS)

    def _member(self, cls: type, owner: type, name: str, member: Any) -> None:
        label = f"{name!r} of class {cls.__qualname__}"
        if not _plain(cls, name, member):
            self._own_member(owner, label, name, member)
            for nearer in cls.__mro__[: cls.__mro__.index(owner)]:
                self.walk.add(Item(self._namespace(nearer), label, name, MISSING), name)
        elif self.walk.add(Attribute(cls, label, name, member), name):
            self.walk.reach(member, label)

    def _own_member(self, owner: type, label: str, name: str, member: Any) -> None:
        """What ``owner`` itself holds under ``name``, whatever is in front of it."""
        if self.walk.add(Item(self._namespace(owner), label, name, member), name):
            self.walk.reach(member, label)

    def _namespace(self, cls: type) -> Any:
        """One view of the names of ``cls`` for all checks on it."""
        return self._namespaces.setdefault(cls, vars(cls))


def _is_layer(owner: type) -> bool:
    """Is a class of the package a layer, wherever it is defined?"""
    return any(base.__module__.startswith("tracejit.nn.") for base in owner.__mro__)


def _by_user(member: Any) -> bool:
    return isinstance(member, FunctionType) and not reads.is_library_function(member)


def _plain(cls: type, name: str, member: Any) -> bool:
    """Does ``cls.name`` give the member itself, without running a descriptor?"""
    give = getattr(type(member), "__get__", None)
    if give not in (None, FunctionType.__get__, property.__get__):
        return False
    return not any(name in vars(meta) for meta in type.mro(type(cls))) and name.isidentifier()
