"""Timing statements, and tables of times, under PyTorch's names."""

from __future__ import annotations

from .compare import Compare
from .measurement import Measurement, TaskSpec, select_unit
from .timer import Language, Timer, timer

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
