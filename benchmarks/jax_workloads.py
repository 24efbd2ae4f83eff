"""All cases of JAX by name."""

from __future__ import annotations

from collections.abc import Callable

import jax_networks
import jax_pointwise
from cases import At

MAKERS: dict[str, Callable[[], At]] = {**jax_pointwise.MAKERS, **jax_networks.MAKERS}
