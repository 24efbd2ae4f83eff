"""What a warm kernel store saves: the first compiled training step in two processes that share a store.

``python benchmarks/store.py`` prints, for a cold and a warm store, how long the first compiled call took, how many
modules went through LLVM and how many kernels were loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

STEP = """
import json, time
import numpy as np
import tracejit as tj
from tracejit import nn
from tracejit.codegen.llvm import COMPILATIONS
from tracejit.runtime.machine_code import kernels

tj.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10))
criterion = nn.CrossEntropyLoss()
step = tj.compile(lambda x, y: criterion(model(x), y))
rng = np.random.default_rng(0)
x = tj.tensor(rng.standard_normal((64, 64)).astype(np.float32))
y = tj.tensor(rng.integers(0, 10, 64))
step(x, y).backward()
start = time.perf_counter()
step(x, y).backward()
first = time.perf_counter() - start
start = time.perf_counter()
step(x, y).backward()
again = time.perf_counter() - start
print(json.dumps({"first_ms": first * 1e3, "again_ms": again * 1e3, "llvm": COMPILATIONS.count,
                  "compiled": kernels.COUNTS.compiled, "loaded": kernels.COUNTS.loaded}))
"""


def measure(directory: str) -> dict[str, float]:
    """One fresh process on the store in ``directory``."""
    environment = {**os.environ, "TRACEJIT_CACHE_DIR": directory}
    done = subprocess.run(
        [sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure a cold and then several warm processes."""
    with tempfile.TemporaryDirectory() as directory:
        cold = measure(directory)
        warm = min((measure(directory) for _ in range(5)), key=lambda r: r["first_ms"])
    print("cold", cold)
    print("warm", warm)
    print(
        f"the first compiled call of a warm process costs {warm['first_ms'] / cold['first_ms']:.3f} of the cold one"
    )


if __name__ == "__main__":
    main()
