"""What compiled calls need is loaded behind the import, before anyone asks for it.

Whoever imports the package is about to compile something, but first imports more, reads data, makes a model. Meanwhile
a thread imports the compiler and loads the native runtime (or makes it, once per machine, where the store lacks it),
so that the first calls find them there. Nothing is computed, and nothing waits for it: whoever asks sooner imports by
himself what is not there yet.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from importlib import import_module

from . import config
from .runtime.behind import worker

__all__ = ["load_early"]

log = logging.getLogger("tracejit")

#: Seconds after which it begins: a process that ends by then has paid nothing.
DELAY = 0.02
#: What `tracejit.jit` imports, in pieces between which a fork or the end of the program need not wait long.
_PIECES = (
    "passes.partition",
    "passes.pipeline",
    "codegen.kernel",
    "runtime.kernels",
    "codegen.cpu",
    "runtime.plan",
    "trace.inputs",
    "trace.gradients_inside",
    "trace.backward_node",
    "trace.recorder",
    "trace.rolled_tree",
    "jit",
)


def load_early() -> None:
    """Have it all done behind the program, where that is wanted; helpers that a program starts compile nothing.

    >>> load_early()
    """
    if not config.loads_early or config.disabled or _is_helper():
        return
    for piece in _PIECES:
        worker().submit(partial(_read, piece), DELAY)
    worker().submit(_warm_up, DELAY)


def _read(name: str) -> None:
    try:
        import_module(f"tracejit.{name}")
    except Exception:  # whoever needs it will say so
        log.debug("%s could not be loaded early", name, exc_info=True)


def _warm_up() -> None:
    from .trace.behind import warm_up

    warm_up()


def _is_helper() -> bool:
    """Was this process started by another one's ``multiprocessing``?"""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None
