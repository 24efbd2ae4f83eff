"""compile(): lists that are appended to and read, that become other lists, and code that runs more than once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from test_compile_appends import Holder, seen, values

import tracejit as tj
from tracejit import nn
from tracejit.utils.checkpoint import checkpoint


def test_two_places_that_become_one_list() -> None:
    """The order is that of the calls."""
    for compiled in (False, True):
        holder = Holder()

        def function(x: Any, holder: Holder = holder) -> Any:
            holder.losses.append(1)
            holder.steps.append(x.sum().item())
            holder.losses.append(3)
            return x

        run = tj.compile(function) if compiled else function
        for k in range(4):
            run(tj.ones(2) * k)
        assert (len(holder.losses), len(holder.steps)) == (8, 4)
        holder.steps = holder.losses
        for k in range(3):
            run(tj.ones(2) * k)
        assert holder.losses[8:] == [1, 0.0, 3, 1, 2.0, 3, 1, 4.0, 3]


def test_a_list_that_becomes_one_that_is_read() -> None:
    class Rows(Holder):
        def __init__(self) -> None:
            super().__init__()
            self.sizes = [1, 2]

    for compiled in (False, True):
        rows = Rows()

        def function(x: Any, rows: Rows = rows) -> Any:
            rows.losses.append(5)
            return x * len(rows.sizes)

        run = tj.compile(function) if compiled else function
        assert [run(tj.ones(1)).item() for _ in range(3)] == [2, 2, 2]
        rows.losses = rows.sizes
        assert [run(tj.ones(1)).item() for _ in range(3)] == [3, 4, 5]


READ = {
    "its length": "n = len(seen); seen.append(n); return x * n",
    "an item": "seen.append(x.sum().item()); return x * seen[0]",
    "another name": "mine = seen; mine.append(2); return x * len(mine)",
    "by its method": "add = seen.append; add(3); return x * len(add.__self__)",
    "in a default": "note(2); return x * len(note.__defaults__[0])",
    "through a container": "seen.append(1); return x * len(table['seen'])",
    "replaced": "table['owner'].kept.append(1); table['owner'].kept = [*table['owner'].kept, 2]; return x",
    "set, then appended to": "owner.kept = []; owner.kept.append(x.sum()); return x * 2",
}


@pytest.mark.parametrize("what", READ)
def test_lists_that_are_read_too_are_state(what: str) -> None:
    ways = []
    for compiled in (False, True):

        class Owner:
            kept: list[Any]

        owner, mine = Owner(), list[Any]()
        owner.kept = []
        space: dict[str, Any] = {
            "seen": mine,
            "owner": owner,
            "table": {"seen": mine, "owner": owner},
        }
        text = f"def note(x, kept=[]): kept.append(x)\ndef function(x):\n    {READ[what]}"
        exec(text, space)
        function: Any = tj.compile(space["function"]) if compiled else space["function"]
        results = [function(tj.ones(2) * k).tolist() for k in range(6)]
        ways.append((results, values(mine), values(owner.kept)))
    assert ways[1] == ways[0]


def test_a_list_among_the_arguments_may_be_the_same() -> None:
    def make() -> Any:
        def function(x: Any, kept: Any) -> Any:
            seen.append(4)
            return x * len(kept)

        return function

    ways = []
    for compiled in (False, True):
        seen.clear()
        function = tj.compile(make()) if compiled else make()
        results = [function(tj.ones(1), [4] * n).item() for n in (0, 1, 2, 3, 4)]
        results += [function(tj.ones(1), seen).item() for _ in range(3)]
        ways.append((results, list(seen)))
    assert ways[1] == ways[0]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("what", ["list", "count"])
def test_checkpointed_parts_do_it_again(what: str, inside: bool, reentrant: bool) -> None:
    ways = []
    for compiled in (False, True):
        seen.clear()
        tj.manual_seed(0)
        layer, holder = nn.Linear(4, 4), Holder()

        def part(x: Any, layer: Any = layer, holder: Any = holder) -> Any:
            y = layer(x).tanh()
            if what == "list":
                seen.append(y.detach().sum())
            else:
                holder.count += 1
            return y

        def function(x: Any, part: Any = part) -> Any:
            y = checkpoint(part, x, use_reentrant=reentrant).sum()
            if inside:
                y.backward()
            return y

        run: Any = tj.compile(function) if compiled else function
        for _ in range(5):
            x = tj.randn(2, 4).requires_grad_()
            y = run(x)
            if not inside:
                y.backward()
        ways.append((values(seen), holder.count, values(x.grad)))
    assert ways[1] == ways[0]
    assert len(ways[0][0][1]) + ways[0][1] == 10


def test_what_backward_of_a_custom_function_appends() -> None:
    class Double(tj.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append("backward")
            return g * 2

    seen.clear()
    function = tj.compile(lambda x: Double.apply(x).sum())
    for _ in range(4):
        function(tj.ones(3, requires_grad=True)).backward()
    assert seen == ["forward", "backward"] * 4


def test_errors_leave_what_was_appended_before() -> None:
    def function(x: Any) -> Any:
        seen.append("begin")
        if x.sum() < 0:
            raise ValueError("below")
        seen.append("end")
        return x * 2

    ways = []
    for run in (function, tj.compile(function)):
        seen.clear()
        for sign in (1, 1, -1, 1, -1, -1, 1):
            try:
                run(tj.ones(2) * sign)
            except ValueError:
                seen.append("error")
        ways.append(list(seen))
    assert ways[1] == ways[0]


def test_numbers_in_lists_are_plain() -> None:
    counter = itertools.count()

    @tj.compile
    def function(x: Any, lr: float) -> Any:
        seen.append((lr * 2, {"lr": lr}))
        return x * lr

    seen.clear()
    for _ in range(6):
        function(tj.ones(2), 0.5 + next(counter))
    assert all(type(lr) is float and type(table["lr"]) is float for lr, table in seen)
    assert [lr for lr, _ in seen] == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert function.stats.compiled_calls >= 3


@dataclass
class Run:
    """A record whose comparison reads all of it, and with a method that the step does not call."""

    loss: float = 0.0
    losses: list[float] = field(default_factory=list)

    def sum(self) -> float:
        """A name that tensors have, too."""
        return sum(self.losses)


def test_lists_are_read_by_code_that_does_not_run() -> None:
    """What the class of a record would do with its list does not matter where the step only appends."""
    ways = []
    for compiled in (False, True):
        run = Run()

        def step(x: Any, run: Run = run) -> Any:
            run.loss = 0.9 * run.loss + 0.1 * x.sum().item()
            run.losses.append(run.loss)
            return x * 2

        function = tj.compile(step) if compiled else step
        for k in range(12):
            function(tj.ones(2) * k)
            if k == 8:
                run.losses = run.losses[-1:]
        ways.append([*run.losses, run.loss])
    assert ways[1] == pytest.approx(ways[0])
    assert function.stats.compiled_calls >= 4


def test_lists_are_read_after_code_that_ran_has_come_to_more() -> None:
    """A call that compares, in the end, appends to what it has read."""
    seen: list[Any] = []
    run, other = Run(), Run()

    def step(x: Any, compare: bool) -> Any:
        run.losses.append(float(len(seen)))
        return x * 2 if compare and run == other else x + 1

    function = tj.compile(step)
    for k in range(24):
        other.losses = [*run.losses, float(len(seen))] if k % 2 else []
        seen.append(function(tj.ones(1) * k, k > 8).item())
    assert seen == [k + 1 if k < 9 or not k % 2 else k * 2 for k in range(24)]


class Trainer:
    """Names of its attributes are names in the code of tensors, too."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.optimizer = tj.optim.SGD(self.model.parameters(), 0.1)
        self.history: dict[str, list[Any]] = {"loss": [], "lr": []}

    def step(self, x: Any) -> None:
        """A step of training."""
        loss = self.model(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history["loss"].append(loss.item())
        self.history["lr"].append(self.optimizer.param_groups[0]["lr"])


def test_what_parameters_are_made_of_reads_no_lists_of_the_program() -> None:
    trainer = Trainer()
    step = tj.compile(trainer.step)
    for k in range(8):
        trainer.optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
        step(tj.ones(3, 2))
    assert trainer.history["lr"] == [0.1 / (k + 1) for k in range(8)]
    assert len(trainer.history["loss"]) == 8
    assert step.stats.recordings <= 3
