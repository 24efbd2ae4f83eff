"""An agent that uses tools: what it calls next is drawn from a tensor, and the tools decide what it works on.

A shop assistant gets a question about an order and may look a price up, multiply by the quantity, add the delivery
fee, in any order, until it decides to answer. It learns which tools a question needs from right answers alone
(REINFORCE: Williams, 1992). Every sequence of calls is a path of its own: at most 40 of them.

    python examples/agent_loop.py
"""

from __future__ import annotations

import itertools

import numpy as np

import tracejit as tj
from tracejit import nn

TOOLS = ("look up", "multiply", "add delivery", "answer")
ANSWER = len(TOOLS) - 1
MOST_CALLS = 3
#: What each question needs; the agent is never told.
QUESTIONS = {
    "price of one": ("look up",),
    "delivery fee": ("add delivery",),
    "price of all": ("look up", "multiply"),
    "one, delivered": ("look up", "add delivery"),
    "all, delivered at once": ("look up", "multiply", "add delivery"),
    "all, delivered one by one": ("look up", "add delivery", "multiply"),
}


class Shop(nn.Module):
    """The tools: each takes the number worked on and an order (item, quantity)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("prices", tj.tensor([2.0, 3.5, 5.0, 7.25, 11.0]))
        self.register_buffer("fee", tj.tensor(1.5))

    def use(self, tool: int, number: tj.Tensor, order: tj.Tensor) -> tj.Tensor:
        """The number after a call."""
        if TOOLS[tool] == "look up":
            return self.prices[order[0]]
        if TOOLS[tool] == "multiply":
            return number * order[1]
        return number + self.fee


class Agent(nn.Module):
    """Remembers the question and its calls, and draws the next one."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.question = nn.Embedding(len(QUESTIONS), size)
        self.called = nn.Embedding(len(TOOLS), size)
        self.think = nn.Linear(2 * size, size)
        self.choose = nn.Linear(size, len(TOOLS))

    def forward(
        self, shop: Shop, question: tj.Tensor, order: tj.Tensor
    ) -> tuple[tj.Tensor, tj.Tensor, tj.Tensor, list[int]]:
        """The answer, the log probability of what was called, its entropy, and the calls."""
        memory = self.question(question).tanh()
        number, likelihood, entropy = tj.zeros(()), tj.zeros(()), tj.zeros(())
        calls: list[int] = []
        while len(calls) < MOST_CALLS:
            choice = self.choose(memory).log_softmax(dim=0)
            chances = choice.exp()
            tool = tj.multinomial(chances, 1) if self.training else chances.argmax(keepdim=True)
            likelihood = likelihood + choice[tool].squeeze()
            entropy = entropy - (chances * choice).sum()
            if int(tool) == ANSWER:
                break
            calls.append(int(tool))
            number = shop.use(calls[-1], number, order)
            memory = self.think(tj.cat([memory, self.called(tool).squeeze(0)])).tanh()
        return number, likelihood, entropy, calls


class Loss(nn.Module):
    """Makes calls likely that led to a right answer, the fewer the better."""

    def __init__(self, agent: Agent, shop: Shop) -> None:
        super().__init__()
        self.agent, self.shop = agent, shop
        self.register_buffer("usual", tj.zeros(len(QUESTIONS)))  # reward so far, per question

    def forward(
        self, question: tj.Tensor, order: tj.Tensor, correct: tj.Tensor
    ) -> tuple[tj.Tensor, tj.Tensor]:
        """The loss, and whether the answer was right."""
        number, likelihood, entropy, calls = self.agent(self.shop, question, order)
        right = (number - correct).abs() < 1e-3
        surprise = right.float() - 0.03 * len(calls) - self.usual[question]
        self.usual[question] += 0.05 * surprise
        return -surprise * likelihood - 0.1 * entropy, right


class Experiment:
    """Questions about random orders."""

    def __init__(self, compiled: bool, batch: int = 24) -> None:
        self.rng, self.batch = np.random.default_rng(0), batch
        self.model = Loss(Agent(), Shop())
        self.loss = tj.compile(self.model) if compiled else self.model
        self.functions = (self.loss,)
        self.state = {**dict(self.model.named_parameters()), "usual": self.model.usual}
        self.optimizer = tj.optim.Adam(self.model.parameters(), lr=5e-3, fused=compiled)

    def ask(self) -> tuple[tj.Tensor, tj.Tensor, tj.Tensor]:
        """A question, an order and the right answer."""
        shop, question = self.model.shop, int(self.rng.integers(len(QUESTIONS)))
        order = tj.from_numpy(self.rng.integers([0, 2], [5, 9]))
        number = tj.zeros(())
        for tool in list(QUESTIONS.values())[question]:
            number = shop.use(TOOLS.index(tool), number, order)
        return tj.tensor(question), order, number

    def step(self) -> list[float]:
        """One step of training: the share of right answers, and the loss."""
        self.optimizer.zero_grad()
        total, share = 0.0, 0.0
        for _ in range(self.batch):
            loss, right = self.loss(*self.ask())
            (loss / self.batch).backward()
            total, share = total + loss.item() / self.batch, share + right.item() / self.batch
        self.optimizer.step()
        return [share, total]


def main() -> None:
    """Train, then show what the agent calls for each question."""
    tj.manual_seed(0)
    training = Experiment(compiled=True)
    for number in range(240):
        share, _ = training.step()
        if number % 60 == 59:
            print(f"step {number + 1}: {share:.0%} right")
    agent, shop = training.model.agent.eval(), training.model.shop
    right = 0
    with tj.no_grad():
        for number, name in enumerate(QUESTIONS):
            calls = agent(shop, tj.tensor(number), tj.tensor([3, 4]))[-1]
            print(f"{name:<26}{', '.join(TOOLS[call] for call in calls)}")
        for _ in range(60):
            question, order, correct = training.ask()
            right += tj.allclose(agent(shop, question, order)[0], correct)
    print(f"{right} of 60 answers right")
    lengths = itertools.accumulate(len(TOOLS[:ANSWER]) ** n for n in range(MOST_CALLS + 1))
    paths = sum(s["paths"] for s in training.loss.explain().signatures)
    print(f"{paths} of {list(lengths)[-1]} sequences of calls seen; {training.loss.stats}")
    assert right >= 50
    assert training.loss.stats.compiled_calls > 5000


if __name__ == "__main__":
    main()
