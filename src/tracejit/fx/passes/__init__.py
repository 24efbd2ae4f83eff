"""What is done with graphs: shapes are found, and graphs are divided."""

from . import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]
