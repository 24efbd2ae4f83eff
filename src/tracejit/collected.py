"""Names of the package itself that modules of their own define, collected from there."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import control_flow, operator_tags, settings
from . import questions as facts
from .amp import questions
from .autograd import anomaly
from .named_dtypes import NAMED
from .nn import recurrent_functions

__all__: list[str] = []


def _from(module: ModuleType, *names: str) -> dict[str, Any]:
    """These names of a module, or all that it offers."""
    return {name: getattr(module, name) for name in names or module.__all__}


COLLECTED: dict[str, Any] = {
    **NAMED,
    **_from(control_flow),
    **_from(operator_tags),
    **_from(questions),
    **_from(recurrent_functions),
    **_from(anomaly, "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled"),
    **_from(facts, "_has_compatible_shallow_copy_type", "is_distributed"),
    **_from(settings, "get_device_module", "is_warn_always_enabled", "set_warn_always"),
}
