"""Weigh an orbit: Newton's method in a `while` loop solves Kepler's equation, and gradients go through the solver.

A planet's position at mean anomaly M needs the eccentric anomaly E with E - e sin E = M (Kepler, 1609). How many
iterations that takes depends on the data; one recording serves any number of them, forward and backward.

    python examples/newton.py
"""

from __future__ import annotations

import numpy as np

import tracejit as tj
from tracejit import nn


def eccentric_anomaly(mean: tj.Tensor, eccentricity: tj.Tensor) -> tj.Tensor:
    """The E with E - e sin E = mean, to 12 digits."""
    angle = mean + eccentricity * mean.sin()
    error = angle - eccentricity * angle.sin() - mean
    while error.abs().max() > 1e-12:
        angle = angle - error / (1 - eccentricity * angle.cos())
        error = angle - eccentricity * angle.sin() - mean
    return angle


class Orbit(nn.Module):
    """An ellipse around the origin: size, shape, orientation and period."""

    def __init__(self, axis: float, eccentricity: float, turn: float, period: float) -> None:
        super().__init__()
        values = {"axis": axis, "eccentricity": eccentricity, "turn": turn, "period": period}
        for name, value in values.items():
            setattr(self, name, nn.Parameter(tj.tensor(value, dtype=tj.float64)))

    def forward(self, days: tj.Tensor) -> tj.Tensor:
        """Positions at the given times: (n,) to (n, 2)."""
        angle = eccentric_anomaly(2 * np.pi * days / self.period, self.eccentricity)
        along = self.axis * (angle.cos() - self.eccentricity)
        across = self.axis * (1 - self.eccentricity**2).sqrt() * angle.sin()
        cos, sin = self.turn.cos(), self.turn.sin()
        return tj.stack([cos * along - sin * across, sin * along + cos * across], dim=-1)


class Misfit(nn.Module):
    """Mean squared distance between an orbit and what was observed."""

    def __init__(self, orbit: Orbit) -> None:
        super().__init__()
        self.orbit = orbit

    def forward(self, days: tj.Tensor, observed: tj.Tensor) -> tj.Tensor:
        """The mean over the observations."""
        return ((self.orbit(days) - observed) ** 2).sum(dim=-1).mean()


class Experiment:
    """Fit Mercury's orbit to noisy positions, a few observations at a time."""

    truth = Orbit(axis=0.387, eccentricity=0.2056, turn=0.5, period=87.97)

    def __init__(self, compiled: bool) -> None:
        self.rng = np.random.default_rng(0)
        self.model = Misfit(Orbit(axis=0.5, eccentricity=0.5, turn=0.0, period=88.2))
        self.misfit = tj.compile(self.model) if compiled else self.model
        self.functions = (self.misfit,)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=0.01, fused=compiled)

    def observe(self, count: int) -> tuple[tj.Tensor, tj.Tensor]:
        """Times within two years, and positions with an error of a thousandth."""
        days = tj.from_numpy(self.rng.uniform(0, 730, count))
        with tj.no_grad():
            noise = tj.from_numpy(self.rng.normal(0, 1e-3, (count, 2)))
            return days, self.truth(days) + noise

    def step(self) -> list[float]:
        """One step of the fit: the misfit."""
        days, observed = self.observe(64)
        self.optimizer.zero_grad()
        loss = self.misfit(days, observed)
        loss.backward()
        self.optimizer.step()
        return [loss.item()]


def slope_by_theory(mean: float, eccentricity: float) -> float:
    """dE/de = sin E / (1 - e cos E), by the implicit function theorem."""
    inputs = tj.tensor([mean, eccentricity], dtype=tj.float64)
    angle = eccentric_anomaly(inputs[0], inputs[1]).item()
    return float(np.sin(angle) / (1 - eccentricity * np.cos(angle)))


def main() -> None:
    """The gradient of the solver against theory, then the fit."""
    solve = tj.compile(eccentric_anomaly)
    for eccentricity in (0.1, 0.5, 0.9) * 3:
        e = tj.tensor(eccentricity, dtype=tj.float64, requires_grad=True)
        solve(tj.tensor(0.7, dtype=tj.float64), e).backward()
        assert abs(e.grad.item() - slope_by_theory(0.7, eccentricity)) < 1e-9
    print("dE/de through the loop agrees with the implicit function theorem")

    fit = Experiment(compiled=True)
    for number in range(400):
        (loss,) = fit.step()
        if number % 100 == 99:
            print(f"step {number + 1}: misfit {loss:.2e}")
    for name, found in fit.model.orbit.named_parameters():
        true = getattr(Experiment.truth, name).item()
        print(f"{name:<13}{found.item():8.4f}  (true {true:.4f})")
        assert abs(found.item() - true) < 0.01 * max(true, 1)
    print(fit.misfit.stats)
    assert fit.misfit.stats.compiled_calls >= 380


if __name__ == "__main__":
    main()
