"""Types of sizes in annotations of layers: one number for all dimensions, or one each."""

from __future__ import annotations

from typing import TypeAlias

_size_any_t: TypeAlias = int | tuple[int, ...]
_size_1_t: TypeAlias = int | tuple[int]
_size_2_t: TypeAlias = int | tuple[int, int]
_size_3_t: TypeAlias = int | tuple[int, int, int]
_size_4_t: TypeAlias = int | tuple[int, int, int, int]
_size_5_t: TypeAlias = int | tuple[int, int, int, int, int]
_size_6_t: TypeAlias = int | tuple[int, int, int, int, int, int]
_size_any_opt_t: TypeAlias = int | tuple[int | None, ...] | None
_size_2_opt_t: TypeAlias = int | tuple[int | None, int | None] | None
_size_3_opt_t: TypeAlias = int | tuple[int | None, int | None, int | None] | None
_ratio_2_t: TypeAlias = float | tuple[float, float]
_ratio_3_t: TypeAlias = float | tuple[float, float, float]
_ratio_any_t: TypeAlias = float | tuple[float, ...]
_maybe_indices_t: TypeAlias = tuple[object, object] | object
