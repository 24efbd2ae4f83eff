"""Weights by address, under the older path."""

from __future__ import annotations

from ..hub import load_state_dict_from_url
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]
