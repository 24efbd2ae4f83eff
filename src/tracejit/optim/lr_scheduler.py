"""Learning-rate schedules: ``scheduler.step()`` after ``optimizer.step()``."""

from __future__ import annotations

from .cyclic import CosineAnnealingWarmRestarts, CyclicLR
from .one_cycle import OneCycleLR
from .plateau import ReduceLROnPlateau
from .scheduler_base import LRScheduler
from .schedules import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from .sequential import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_LRScheduler = LRScheduler
