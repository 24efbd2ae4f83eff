"""Settings from the environment, read once: the complete list of environment variables.

=========================  ==================================================================================
``TRACEJIT_CACHE_DIR``     directory of the stores of kernels and plans; ``off`` keeps them in memory only
``TRACEJIT_CACHE_SIZE``    upper bound of the store of kernels in MiB (512); plans take an eighth of it
``TRACEJIT_NUM_THREADS``   threads that run kernels (number of usable CPUs)
``TRACEJIT_DUMP``          directory that receives every stage of every compilation as text
``TRACEJIT_DISABLE``       ``1`` turns every ``compile`` into the plain function
``TRACEJIT_LOAD_EARLY``    ``0`` loads the compiler when a function is compiled, not behind the import
=========================  ==================================================================================
"""

from __future__ import annotations

import logging
import os

dump_directory: str | None = os.environ.get("TRACEJIT_DUMP") or None
disabled: bool = os.environ.get("TRACEJIT_DISABLE", "0") == "1"
loads_early: bool = os.environ.get("TRACEJIT_LOAD_EARLY", "1") != "0"

#: May recorded runs put large operations off, until it is clear what is needed of their results?
defers: bool = True
#: Is quick code led to careful code behind the program, where that comes first?
improves: bool = True
#: Are plans kept for later processes, beside the kernels, and those that are there used?
keeps_plans: bool = True
#: Threads for libraries that divide their own work, as many as run kernels; 0 until those are counted.
threads: int = 0
#: Elements a kernel must touch per thread before a second thread joins.
grain_elements: int = 16384
#: Recorded paths per signature before a function runs eagerly from an unseen branch on.
max_paths: int = 64
#: Python states remembered per signature.
max_variants: int = 8
#: Signatures per function before the oldest is dropped.
max_signatures: int = 256


def default_threads() -> int:
    """How many threads run kernels unless told otherwise: as the environment says, else one on every usable CPU.

    >>> default_threads() >= 1
    True
    """
    text = os.environ.get("TRACEJIT_NUM_THREADS", "").strip()
    if text:
        if text.isdecimal() and int(text) > 0:
            return int(text)
        logging.getLogger("tracejit.threads").warning(
            "TRACEJIT_NUM_THREADS=%s is not a positive integer: ignored", text
        )
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
