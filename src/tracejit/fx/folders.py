"""A module with a graph as a package of Python files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import nn
from ..errors import warn
from ..serialization import save
from .namespace import CUSTOM_BUILTINS

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = ["write"]

#: Layers whose ``repr`` makes one like them.
_SHOWN = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
)


def _empty(tensor: Any) -> str:
    return f"tracejit.empty({list(tensor.shape)}, dtype={tensor.dtype})"


def _parts(module: GraphModule, folder: Path) -> tuple[list[str], list[str]]:
    """Lines that make what is in a module, and the names of those parts that are files."""
    lines, files = [], []
    for name, child in module.named_children():
        if type(child) in _SHOWN:
            lines.append(f"setattr(self, {name!r}, {child!r})")
            continue
        path = folder / f"{name}.pt"
        path.write_bytes(pickle.dumps(child))
        files.append(name)
        shown = repr(child).replace("\n", " ").replace("\r", " ")
        lines.append(
            f"setattr(self, {name!r}, pickle.loads(Path({str(path)!r}).read_bytes()))  # {shown}"
        )
    for name, buffer in module._buffers.items():
        if buffer is not None:
            lines.append(f"self.register_buffer({name!r}, {_empty(buffer)})")
    for name, parameter in module._parameters.items():
        if parameter is not None:
            lines.append(f"setattr(self, {name!r}, tracejit.nn.Parameter({_empty(parameter)}))")
    return lines, files


def write(module: GraphModule, folder: Path, name: str) -> None:
    """Write ``folder``: a package with the class ``name``.

    >>> import tempfile, tracejit as tj
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(tj.fx.symbolic_trace(tj.nn.Sequential(tj.nn.Linear(1, 2))), Path(folder), "Model")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['__init__.py', 'module.py', 'state_dict.pt']
    """
    folder.mkdir(exist_ok=True)
    save(module.state_dict(), folder / "state_dict.pt")
    lines, files = _parts(module, folder)
    state = str(folder / "state_dict.pt")
    lines.append(f"self.load_state_dict(tracejit.load({state!r}))")
    imports = "\n".join(known.import_str for known in CUSTOM_BUILTINS.values())
    body = "\n".join(f"        {line}" for line in lines)
    code = "\n".join(f"    {line}" if line else "" for line in module.code.split("\n"))
    text = (
        f"import pickle\nfrom pathlib import Path\n\n{imports}\n\nfrom tracejit.nn import *\n\n\n"
        f"class {name}(tracejit.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{body}\n{code}\n"
    )
    (folder / "module.py").write_text(text)
    (folder / "__init__.py").write_text("from .module import *")
    if files:
        warn(
            "Was not able to save the following children modules as reprs -"
            f"saved as pickled files instead: {files}"
        )
