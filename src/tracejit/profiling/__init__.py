"""Where the time of compiled code goes: kernels, bytes, operations, distance to what the machine can do."""

from __future__ import annotations

from .profiles import CallTime, KernelTime, Profile, profile

__all__ = ["CallTime", "KernelTime", "Profile", "profile"]
