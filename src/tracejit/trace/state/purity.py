"""Which code outside the user's depends on its arguments alone, and which looks at or changes the world.

A recording may leave out calls of the first kind. Of the second are clocks, files, output, the environment, entropy:
what is not known to be of the first kind counts as the second.
"""

from __future__ import annotations

import builtins
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import finalize

from . import reads
from .package import asking_functions, asking_names


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


#: Modules of the standard library whose Python functions read nothing but arguments (C functions they call are judged
#: by themselves).
_PURE_PYTHON = words(
    """
    _collections_abc _py_abc _pydatetime _pydecimal _weakrefset abc array ast base64 bisect calendar cmath codecs
    collections colorsys contextlib copy copyreg dataclasses datetime decimal difflib encodings enum fractions
    functools genericpath graphlib hashlib heapq html inspect itertools json keyword math ntpath numbers operator
    pathlib pickle posixpath pprint random re reprlib secrets sre_compile sre_parse stat statistics string struct
    textwrap types typing unicodedata uuid warnings weakref zlib
    """
)
#: The same for modules, and classes of modules, written in C.
_PURE_C = words(
    """
    _abc _bisect _blake2 _codecs _collections _datetime _decimal _functools _hashlib _heapq _json _md5 _operator
    _pickle _sha1 _sha2 _sha256 _sha3 _sha512 _sre _statistics _string _struct _typing _weakref array binascii
    builtins cmath collections datetime decimal functools itertools math ml_dtypes numpy operator re types typing
    unicodedata weakref zlib
    """
)
#: Packages of SciPy whose compiled functions only compute (others read files, or call what they are given).
_PURE_PACKAGES = ("scipy.fft.", "scipy.linalg.", "scipy.signal.", "scipy.special.")
#: Names that are exceptions in pure modules.
_IMPURE = words(
    """
    __import__ _get_extobj_dict breakpoint compile eval exec exit globals input now open print quit today tofile dump
    fromfile utcnow utcfromtimestamp fromtimestamp localtime
    """
)
#: Names that are exceptions in all other modules.
_PURE = frozenset(
    {
        ("_contextvars", "get"),
        ("_thread", "__enter__"),
        ("_thread", "__exit__"),
        ("_thread", "acquire"),
        ("_thread", "release"),
        ("posix", "_path_normpath"),
        ("posix", "_path_splitroot_ex"),  # of every path, from Python 3.13 on
        ("posix", "fspath"),
        ("sys", "audit"),
        ("sys", "exc_info"),
        ("sys", "exception"),
        ("sys", "getsizeof"),
        ("sys", "intern"),
    }
)
#: Functions that read variables of the environment, which are compared where code says so.
_ENVIRONMENT = words(
    """
    getenv _Environ.__getitem__ _Environ.__iter__ _Environ.__len__ _createenviron.<locals>.encode
    _createenviron.<locals>.decode
    """
)
#: What code is called that reads the environment, and the names by which code says that it does.
ENVIRONMENT = "os.environ.get"
OF_ENVIRONMENT = ("environ", "getenv")
_REMEMBERED = 4096
_builtins: dict[Any, str | None] = {}


def outside_builtin(function: Any) -> str | None:
    """What a built-in function or method is called if it does more than compute, else None."""
    owner = getattr(function, "__self__", None)
    bound = owner is not None and type(owner).__name__ != "module"
    cls: Any = (owner if isinstance(owner, type) else type(owner)) if bound else None
    key = (cls, function.__module__, function.__name__)
    if key not in _builtins:
        if len(_builtins) > _REMEMBERED:
            _builtins.clear()
        _builtins[key] = _judge(function, cls)
    return _builtins[key]


def _judge(function: Any, cls: type | None) -> str | None:
    name = str(function.__name__)
    home = str(function.__module__ or "")
    if cls is not None:
        # A method of that name which is Python code called this one by way of `super()`.
        found = [(c, vars(c)[name]) for c in cls.__mro__ if name in vars(c)]
        owners = [c for c, member in found if not isinstance(member, FunctionType)]
        home = str(owners[0].__module__ if owners else cls.__module__)
    root = home.partition(".")[0]
    if home.startswith("numpy.random"):
        root = "random numbers"
    if home.startswith(_PURE_PACKAGES):
        root = "numpy"
    if (root, name) in _PURE or (root in _PURE_C and name not in _IMPURE):
        return None
    spelled = f"{cls.__qualname__}.{name}" if cls is not None else name
    return spelled if root == "builtins" else f"{home}.{spelled}"


#: What imports of loaded modules call: it looks for names in a package, and for the package of a relative import.
_OF_IMPORTS = frozenset({"_handle_fromlist", "ModuleSpec.parent"})


def outside_function(code: CodeType, namespace: dict[str, Any]) -> str | None:
    """The same for a Python function of the standard library."""
    home = str(namespace.get("__name__", ""))
    if home == finalize.__module__ and code is finalize.__init__.__code__:
        return (
            f"{home}.{finalize.__qualname__}"  # what it has called later is left out of a recording
        )
    if home.partition(".")[0] in _PURE_PYTHON or reads.is_numeric(home):
        return None
    if home == "os" and code.co_qualname in _ENVIRONMENT:
        return ENVIRONMENT
    if home == "importlib._bootstrap" and code.co_qualname in _OF_IMPORTS:
        return None
    if home.startswith("namedtuple_") and code.co_filename.startswith("<"):
        return None  # the constructor that a named tuple gets
    return f"{home}.{code.co_qualname}"


#: Modules of both kinds of functions.
_MIXED = words(
    """
    _datetime calendar datetime genericpath inspect ntpath pathlib posixpath pprint random secrets statistics uuid
    warnings
    """
)
_PURE_MODULES = (
    _PURE_PYTHON | _PURE_C | {"einops", "einx", "ml_dtypes", "numba", "scipy", "numpy", "tracejit"}
) - _MIXED
#: Words in code that can mean a function which does more than compute: of the language, of NumPy, of pure modules.
_SUSPECT_NAMES = (
    *(_IMPURE & vars(builtins).keys()),
    *words(
        """
        fromfile getbufsize geterr geterrcall load loadtxt memmap random save savetxt setbufsize seterr seterrcall
        show_config show_runtime tofile
        """
    ),
    *words("chdir reveal_type"),
)


def is_suspect(value: Any) -> bool:
    """Can a function, class, module or object of a library do more than compute?"""
    if isinstance(value, BuiltinFunctionType):
        return outside_builtin(value) is not None
    if value is finalize:
        return True
    if isinstance(value, ModuleType):
        name = value.__name__
    elif isinstance(value, FunctionType):
        name = str(value.__globals__.get("__name__", ""))
        if id(value.__code__) in asking_functions():
            return True
    else:
        cls = value if isinstance(value, type) else type(value)
        name = str(getattr(cls, "__module__", ""))
    root = name.partition(".")[0]
    if root == "scipy":  # parts of it draw random numbers
        return not f"{name}.".startswith(_PURE_PACKAGES)
    return root not in _PURE_MODULES or name.startswith("numpy.random")


def are_suspect(names: reads.Names) -> bool:
    """Can code that mentions these names do more than compute, for all that can be told from the names?"""
    return (
        names.everything
        or names.asking
        or names.calls(*_SUSPECT_NAMES)
        or names.calls(*asking_names())
    )
