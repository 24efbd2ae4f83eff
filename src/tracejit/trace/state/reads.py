"""What a function's code can read, from its bytecode: globals, attributes, imports; and whose code it is.

Nothing is executed. The answer errs on the side of more: an attribute name counts wherever it occurs, because
the object it is read from may have come through any alias.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ... import bytecode

_GLOBAL = bytecode.GLOBALS - {"LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
)
_NAMING = bytecode.GLOBALS | _ATTRIBUTE
_SETTING = frozenset({"STORE_ATTR", "STORE_GLOBAL"})
#: Names of what makes classes; the first is that of the function behind a ``class`` statement.
MAKING_CLASSES = ("__build_class__", "type", "new_class", "make_dataclass")
_BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_WHOLE = frozenset(
    {
        *("__dict__", "__getattribute__", "asdict", "astuple", "attrgetter", "dir"),
        *("methodcaller", "vars"),
    }
)
#: Attributes that lead around names: to the globals, variables and frames of functions; and the count of writes.
_AROUND = frozenset(
    {
        "__builtins__",
        "__closure__",
        "__globals__",
        "_base",
        "_version",
        "ag_frame",
        "cell_contents",
        "cr_frame",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "gi_frame",
        "tb_frame",
    }
)
#: With these, code can go on when an attribute is missing.
_ASKING = frozenset({"getattr", "hasattr"})
#: Methods that do no more than to append.
_APPENDING = frozenset({"append", "extend"})
#: Operations that turn an object into text.
_TEXT = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"})

#: An instruction, and the name or constant it refers to.
Step = tuple[str, Any]
_NAMES = dis.opname
_CACHE = dis.opmap["CACHE"]
_CONSTANT = frozenset(dis.hasconst)
_SHARED = frozenset(dis.hasfree)
#: Operations that have the number of a name, and how many bits that say something else stand before it.
_NAMED = dict.fromkeys(dis.hasname, 0)
_NAMED[dis.opmap["LOAD_GLOBAL"]] = 1
if sys.version_info >= (3, 12):
    _NAMED[dis.opmap["LOAD_ATTR"]] = 1
    _NAMED[dis.opmap["LOAD_SUPER_ATTR"]] = 2

_PACKAGE = str(Path(__file__).resolve().parent.parent.parent) + "/"
#: Parts of the package that use it as a user would.
_USERS = (_PACKAGE + "cli/", _PACKAGE + "testing/")
_STDLIB = tuple({str(Path(sysconfig.get_path(kind))) + "/" for kind in ("stdlib", "platstdlib")})
#: Packages whose functions see a tensor only after its values have left the recording; and einops and einx, whose
#: functions do to it what their arguments say, and nothing else: their caches hold what would be computed again.
_NUMERIC = frozenset(
    {"cupy", "cupy_backends", "cupyx", "einops", "einx", "llvmlite"}
    | {"ml_dtypes", "numba", "numpy", "scipy"}
)
#: The parts of this package whose objects hold Python state that users change.
_STATEFUL = (
    *("tracejit.nn.", "tracejit.optim.", "tracejit.amp.scaling", "tracejit.einops_layers"),
    *("tracejit.distributions.", "tracejit.utils.data"),
)


@dataclass(frozen=True)
class Reads:
    """Names one code object, and the code nested in it, can read or write.

    ``attributes`` also holds the identifiers among its string constants (``getattr(x, "name")``, keys of dicts);
    ``everything`` is True where attributes are read by names that are not in the code, ``asking`` where the code goes
    on when an attribute is missing, ``texts`` where it formats values; ``around`` are reads that lead to state without
    naming it, ``loaded`` globals and attributes that are not only set, ``appended`` names whose method ``append`` is
    read, ``otherwise`` those of which more is, ``stored`` those that are set.
    """

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]
    everything: bool
    asking: bool = False
    texts: bool = False
    around: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    appended: frozenset[str] = frozenset()
    otherwise: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> Reads:
    """What ``code`` can read.

    >>> reads = reads_of((lambda x: scale * x.weight).__code__)
    >>> sorted(reads.globals), sorted(reads.attributes)
    (['scale'], ['weight'])
    """
    instructions = steps(code)
    constants = set(_identifiers(code.co_consts))
    appended, otherwise = bytecode.used_for(instructions, _APPENDING)
    stored = {x for operation, x in instructions if operation.startswith("STORE_") and x}
    named: dict[str, set[str]] = {"globals": set(), "attributes": set(), "imports": set()}
    named |= {"appended": appended, "otherwise": otherwise | constants, "stored": stored}
    named["loaded"] = {*constants}
    for operation, name in instructions:
        if operation in _NAMING and operation not in _SETTING:
            named["loaded"].add(name)
        if operation in bytecode.GLOBALS:
            named["globals"].add(name)
        elif operation in _ATTRIBUTE:
            named["attributes"].add(name)
        elif operation == "IMPORT_NAME":
            named["imports"].add(name)
    everything = bool(_WHOLE & (named["globals"] | named["attributes"])) or _computed(code)
    operations = {operation for operation, _ in instructions}
    if "LOAD_BUILD_CLASS" in operations:
        named["globals"].add(MAKING_CLASSES[0])
    asking = not _ASKING.isdisjoint(named["globals"]) or "PUSH_EXC_INFO" in operations
    texts = not _TEXT.isdisjoint(operations)
    around = _AROUND & named["attributes"]
    named["attributes"] |= constants
    if everything or not _BY_NAME.isdisjoint(named["globals"]):  # else such a text is no attribute
        around = _AROUND & named["attributes"]
    named["around"] = {*around, *_loaded_modules(code)}
    for inner in (reads_of(c) for c in code.co_consts if isinstance(c, CodeType)):
        for what, found in named.items():
            found.update(getattr(inner, what))
        everything |= inner.everything
        asking |= inner.asking
        texts |= inner.texts
    return Reads(
        everything=everything,
        asking=asking,
        texts=texts,
        **{what: frozenset(found) for what, found in named.items()},
    )


def steps(code: CodeType) -> list[Step]:
    """The instructions of ``code``, each with the name or constant it refers to.

    ``dis`` takes six times as long to tell all about them.

    >>> [name for _, name in steps((lambda: scale.real).__code__) if name is not None]
    ['scale', 'real']
    """
    found: list[Step] = []
    names, constants, binary, more = code.co_names, code.co_consts, code.co_code, 0
    for at in range(0, len(binary), 2):
        operation = binary[at]
        if operation == _CACHE:
            continue
        argument = binary[at + 1] | more
        more = argument << 8 if operation == dis.EXTENDED_ARG else 0
        shift = _NAMED.get(operation)
        if shift is not None:
            found.append((_NAMES[operation], names[argument >> shift]))
        elif operation in _CONSTANT:
            found.append((_NAMES[operation], constants[argument]))
        elif operation in _SHARED:
            found.append((_NAMES[operation], bytecode.shared_name(code, argument)))
        else:
            found.append((_NAMES[operation], None))
    return found


def only_called(codes: Iterable[CodeType], name: str) -> bool:
    """Is the global ``name`` used in no other way than to be called?"""
    return not any(
        name in bytecode.not_only_called(code) for code in codes if name in code.co_names
    )


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """``code`` and the code nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _loaded_modules(code: CodeType) -> set[str]:
    """Is ``sys.modules`` read, other than to ask whether a module is among them?"""
    if "modules" not in code.co_names:
        return set()
    try:
        found = bytecode.steps_of(code)
    except bytecode.Unfollowed:
        return {"sys.modules"}
    taken = (
        after.name != "CONTAINS_OP"
        for owner, name, after in zip(found, found[1:], found[2:], strict=False)
        if owner.value == "sys" and name.value == "modules"
    )
    return {"sys.modules"} if any(taken) else set()


def _computed(code: CodeType) -> bool:
    """Is an attribute read by a name that is not a constant?"""
    if _BY_NAME.isdisjoint(code.co_names):
        return False
    try:
        followed = bytecode.steps_of(code)
    except bytecode.Unfollowed:
        return True
    return not all(
        _takes_a_text(followed[start + 1 :])
        for start, step in enumerate(followed)
        if step.name in _GLOBAL and step.value in _BY_NAME
    )


def _takes_a_text(following: tuple[bytecode.Step, ...]) -> bool:
    """Is the second argument of the function that is on the stack a constant text?

    The step after which the stack was last two values higher than the function made that argument.
    """
    height, second = 0, False
    announced = bytecode.ANNOUNCED > 0 and following[:1] and following[0].name == "PUSH_NULL"
    for step in following[1 if announced else 0 :]:
        if step.onward is None or step.jump is not None:
            return False
        height += step.onward
        if height < 0:  # the call
            return second
        if height == 2:
            second = step.name == "LOAD_CONST" and isinstance(step.value, str)
    return False


def _identifiers(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _identifiers(constant)


class Names:
    """The names that the reached code can read from objects, and its globals; grows while code is being reached."""

    def __init__(self) -> None:
        self.names: set[str] = {"forward"}  # what calling a module reads
        self.used: set[str] = set()  # those in the user's code
        self.loaded: set[str] = set()  # those that are not only set
        self.appended: set[str] = set()  # those that are read to append,
        self.otherwise: set[str] = set()  # and for more
        self.stored: set[str] = set()
        self.globals: set[str] = set()
        self.everything = False
        self.asking = False
        self.texts = False
        self.around: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return self.everything or name in self.names

    @property
    def whole(self) -> bool:
        """Does the code ask for all attributes of an object?"""
        return not (_WHOLE.isdisjoint(self.names) and _WHOLE.isdisjoint(self.globals))

    def only_sets(self, name: str) -> bool:
        """Does the code nothing with attributes or globals of this name but to set them?"""
        return not self.everything and name not in self.loaded

    def only_appends(self, *names: str) -> bool:
        """Does the code no more with what has these names than to append to it, and to set it?"""
        more = self.everything or "__self__" in self.used or not self.otherwise.isdisjoint(names)
        return not (more or self.appended.isdisjoint(names))

    def calls(self, *names: str) -> bool:
        """Does the code mention one of these, as a global or as an attribute?"""
        return not (self.globals.isdisjoint(names) and self.used.isdisjoint(names))

    def add(self, reads: Reads) -> None:
        """Add what one more function can read: modules' ``eval`` calls ``train``, which users' classes have, too."""
        self.names |= reads.attributes | ({"train"} if "eval" in reads.attributes else set())
        self.used |= reads.attributes
        self.loaded |= reads.loaded
        self.appended |= reads.appended
        self.otherwise |= reads.otherwise
        self.stored |= reads.stored
        self.globals |= reads.globals
        self.everything |= reads.everything
        self.asking |= reads.asking
        self.texts |= reads.texts
        self.around |= reads.around

    @property
    def size(self) -> int:
        """A number that grows whenever a name was added."""
        flags = (self.everything, self.asking, self.texts)
        return len(self.names) + len(self.used) + len(self.globals) + sum(flags)


# --- whose code it is ---------------------------------------------------------------------------------------------


def is_library_function(function: FunctionType) -> bool:
    """Does ``function`` belong to this package, the standard library or a library like NumPy?

    Decided by file, because decorators copy ``__module__`` from the function they wrap.
    """
    file = function.__code__.co_filename
    if file.startswith((_PACKAGE, "<frozen ")) or _in_stdlib(file):
        return True
    return str(function.__globals__.get("__name__", "")).partition(".")[0] in _NUMERIC


def is_library_module(module: ModuleType | None, name: str) -> bool:
    """The same question for a module called ``name``."""
    root = name.partition(".")[0]
    if root == "tracejit" or root in _NUMERIC or root == "builtins":
        return True
    if root not in sys.stdlib_module_names:
        return False
    file = getattr(module, "__file__", None)
    return file is None or _in_stdlib(file)


def is_library_class(cls: type) -> bool:
    """The same question for a class."""
    name = str(getattr(cls, "__module__", ""))
    return is_library_module(sys.modules.get(name), name)


def is_numeric(name: str) -> bool:
    """Does a module called ``name`` belong to a library like NumPy?"""
    return name.partition(".")[0] in _NUMERIC


def owner_of(code: CodeType, namespace: dict[str, Any]) -> str:
    """Whose code this is: "package", "stdlib", "numeric" or "user"; generated code is its module's."""
    file, name = code.co_filename, str(namespace.get("__name__", ""))
    if file.startswith(_PACKAGE):
        return "user" if file.startswith(_USERS) else "package"
    if file.startswith("<tracejit "):
        return "package"
    if file.startswith("<frozen ") or _in_stdlib(file) or name.startswith("namedtuple_"):
        return "stdlib"
    if is_numeric(name):
        return "numeric"
    if not file.startswith("<") or name == "__main__":
        return "user"
    module = sys.modules.get(name)
    if module is None or not is_library_module(module, name):
        return "user"
    return "package" if name.startswith("tracejit.") else "stdlib"


def is_closed(cls: type) -> bool:
    """Are instances of ``cls`` taken as a whole: objects of this package and of numeric libraries without settings?"""
    name = str(getattr(cls, "__module__", ""))
    root = name.partition(".")[0]
    return root in _NUMERIC or (root == "tracejit" and not name.startswith(_STATEFUL))


@lru_cache(maxsize=1024)
def class_reads(cls: type) -> frozenset[str]:
    """Attribute names in the methods of one library class: what it may read from an instance of a user's subclass."""
    functions = (getattr(member, "__func__", member) for member in vars(cls).values())
    return frozenset(
        name
        for function in functions
        if isinstance(function, FunctionType)
        for name in reads_of(function.__code__).attributes
    )


def _in_stdlib(file: str) -> bool:
    return (
        file.startswith(_STDLIB) and "/site-packages/" not in file and "/dist-packages/" not in file
    )
