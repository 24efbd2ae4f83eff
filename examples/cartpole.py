"""Balance a pole: an actor and a critic learn from episodes, each as long as the pole stayed up.

The cart and the pole of Barto, Sutton and Anderson (1983) are written below, as tensor code: one compiled function
decides, draws the action and moves the cart. Training is REINFORCE (Williams, 1992) with a learned baseline.

    python examples/cartpole.py
"""

from __future__ import annotations

import math

import numpy as np

import tracejit as tj
from tracejit import nn

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
LONGEST, DISCOUNT = 200, 0.99


def moved(state: tj.Tensor, push: tj.Tensor) -> tj.Tensor:
    """The state (place, speed, angle, turning speed) one tick later; ``push`` is -1 or 1."""
    _, speed, angle, turning = state.unbind()
    sin, cos, mass = angle.sin(), angle.cos(), CART + POLE
    drive = (FORCE * push + POLE * HALF_LENGTH * turning**2 * sin) / mass
    bend = (GRAVITY * sin - cos * drive) / (HALF_LENGTH * (4 / 3 - POLE * cos**2 / mass))
    slide = drive - POLE * HALF_LENGTH * bend * cos / mass
    change = tj.stack([speed, slide, turning, bend])
    return state + TICK * change


def fallen(state: tj.Tensor) -> tj.Tensor:
    """Has the cart left the track, or the pole leaned over by 12 degrees?"""
    return (state[0].abs() > 2.4) | (state[2].abs() > math.radians(12))


class Player(nn.Module):
    """The actor gives the log odds of pushing right, the critic expects what is still to come."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.critic = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, state: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor, tj.Tensor]:
        """Play one tick: whether to push right, the next state, and whether that ends the episode."""
        right = tj.rand(()) < self.actor(state).sigmoid().squeeze()
        after = moved(state, tj.where(right, 1.0, -1.0))
        return right, after, fallen(after)


class Loss(nn.Module):
    """What makes good actions likely, and the critic right."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.player = player

    def forward(self, states: tj.Tensor, right: tj.Tensor, returns: tj.Tensor) -> tj.Tensor:
        """Of one episode: (ticks, 4), (ticks,), (ticks,)."""
        expected = self.player.critic(states).squeeze(1)
        odds = self.player.actor(states).squeeze(1)
        likelihood = nn.functional.logsigmoid(tj.where(right, odds, -odds))
        surprise = returns - expected
        return (0.5 * surprise**2 - likelihood * surprise.detach()).mean()


class Experiment:
    """One episode per step."""

    def __init__(self, compiled: bool) -> None:
        self.rng = np.random.default_rng(0)
        self.model = Loss(Player())
        wrap = tj.compile if compiled else lambda f: f
        self.play, self.loss = wrap(self.model.player), wrap(self.model)
        self.functions = (self.play, self.loss)
        self.state = dict(self.model.named_parameters())
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=0.01, fused=compiled)

    def episode(self) -> tuple[tj.Tensor, tj.Tensor]:
        """Play until the pole falls: the states before every action, and the actions."""
        state = tj.from_numpy(self.rng.uniform(-0.05, 0.05, 4).astype(np.float32))
        states, actions = [], []
        with tj.no_grad():
            for _ in range(LONGEST):
                right, after, over = self.play(state)
                states.append(state)
                actions.append(right)
                state = after
                if over:
                    break
        return tj.stack(states), tj.stack(actions)

    def step(self) -> list[float]:
        """One episode and one step of training: how long it was, and the loss."""
        states, actions = self.episode()
        returns, total = [], 0.0
        for _ in range(len(states)):
            total = 1.0 + DISCOUNT * total
            returns.append(total / 20)
        self.optimizer.zero_grad()
        loss = self.loss(states, actions, tj.tensor(returns[::-1]))
        loss.backward()
        self.optimizer.step()
        return [float(len(states)), loss.item()]


def main() -> None:
    """Train until the pole stays up."""
    tj.manual_seed(0)
    training, lengths = Experiment(compiled=True), []
    while len(lengths) < 500 and sum(lengths[-20:]) < 20 * 190:
        lengths.append(training.step()[0])
        if len(lengths) % 50 == 0:
            print(f"{len(lengths)} episodes: {np.mean(lengths[-20:]):.0f} ticks")
    print(f"balanced for {np.mean(lengths[-20:]):.0f} ticks after {len(lengths)} episodes")
    for function in training.functions:
        print(function.stats)
    assert np.mean(lengths[-20:]) > 150


if __name__ == "__main__":
    main()
