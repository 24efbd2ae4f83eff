"""Functions whose arguments are containers: their leaves are the parameters of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..utils import trees as pytree
from .codegen import CodeGen

__all__ = ["PyTreeCodeGen", "PyTreeInfo"]


class PyTreeInfo(NamedTuple):
    """The parameters of a function, and the forms of what it takes and gives."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class PyTreeCodeGen(CodeGen):
    """Writes functions that take containers apart, and put what they give together.

    >>> import tracejit as tj
    >>> traced = tj.fx.symbolic_trace(lambda pair: pair[0] + pair[1], {"pair": [tj.fx.PH, tj.fx.PH]})
    >>> traced([1, 2])
    3
    """

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        """What the function gives, in the form that it has."""
        form = self.pytree_info.out_spec
        if form is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(leaves, form)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The head, and a line that takes the arguments apart."""
        own = self.pytree_info.orig_args
        if own[:1] == ["self"]:
            free_vars.insert(0, "self")
        head = super().gen_fn_def(own[:], maybe_return_annotation)
        if not free_vars:
            return head
        names = ", ".join(name.split(":")[0].split("#")[0] for name in free_vars)
        kinds = "".join(f"{name}; " for name in free_vars if ":" in name)
        kinds = f"\n    {kinds}\n" if kinds else ""
        taken = f"fx_pytree.tree_flatten_spec([{', '.join(own)}], self._in_spec)"
        return f"{head}{kinds}\n    {names}, = {taken}"

    def generate_output(
        self, output_args: Any, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The statement that returns, in the form of what the function gives."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({(repr_fn or repr)(output_args)}, self._out_spec)"
