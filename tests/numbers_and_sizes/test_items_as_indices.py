"""Ints that are read from tensors and index others: one recording serves all of them."""

from __future__ import annotations

import pytest

import tracejit as tj

VALUES = (0, 1, 2, 3, 4, 2, 3, 1, 0, 4, 3, 2)


def at(x, index):
    return x[0, index.item()] * 2


def part(x, index):
    return x[:, : index.item()].sum(1)


def pieces(x, index):
    n = index.item()
    return x[:, n : n + 2].sum(1), x[1, n], x[0, n] * n


def written(x, index):
    x = x * 1
    x[0, index.item()] = 7.0
    return x


def returned(x, index):
    n = index.item()
    return x[0, n], n


def decided(x, index):
    n = index.item()
    return x[0, n] if n > 2 else x[1, n] * 3


def wrapped(x, index):
    return x[index.item() % 2]


def looked_up(x, index):
    return x * (1.0, 2.0, 3.0, 4.0, 5.0)[index.item()], x[0, index.item()]


def counted(x, index):
    total = x.sum()
    for _ in range(index.item()):
        total = total * 2
    return total


def named(x, index):
    n = index.item()
    return x[0, n], f"{n}"


def by_int(x, index):
    return x[0, int(index)]


def with_gradients(function, x, *rest):
    x = x.clone().requires_grad_()
    found = function(x, *rest)
    found = found if isinstance(found, tuple) else (found,)
    sum(t.sum() for t in found if isinstance(t, tj.Tensor)).backward()
    plain = [t.tolist() if isinstance(t, tj.Tensor) else t for t in found]
    return [plain, [type(t) for t in plain], x.grad.tolist()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function", [at, part, pieces, written, returned, decided, wrapped, by_int]
)
def test_one_recording_for_all_indices(function) -> None:
    compiled = tj.compile(function)
    x = tj.arange(10.0).view(2, 5)
    for n in VALUES:
        index = tj.tensor(n)
        assert with_gradients(compiled, x, index) == with_gradients(function, x, index)
    assert compiled.stats.recordings <= 4
    assert compiled.stats.compiled_calls >= len(VALUES) - 5


@pytest.mark.parametrize("function", [looked_up, counted, named])
def test_ints_that_are_more_than_indices(function) -> None:
    compiled = tj.compile(function)
    x = tj.arange(10.0).view(2, 5)
    for _ in range(3):
        for n in VALUES:
            index = tj.tensor(n)
            assert with_gradients(compiled, x, index) == with_gradients(function, x, index)
    assert compiled.stats.compiled_calls >= len(VALUES)


@pytest.mark.parametrize("dtype", [tj.int64, tj.int32, tj.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_kinds_of_index_tensors(dtype, shape) -> None:
    compiled = tj.compile(at)
    x = tj.arange(10.0).view(2, 5)
    for n in VALUES:
        assert float(compiled(x, tj.full(shape, n, dtype=dtype))) == 2 * n
    assert compiled.stats.compiled_calls >= len(VALUES) - 3


def test_negative_indices_and_indices_out_of_range() -> None:
    compiled = tj.compile(at)
    x = tj.arange(10.0).view(2, 5)
    for n in (0, 1, 2, -1, 3, 7, 4, -5, -6, 1, 2, 99, 3):
        index = tj.tensor(n)
        if -5 <= n < 5:
            assert float(compiled(x, index)) == float(at(x, index))
        else:
            with pytest.raises(IndexError):
                compiled(x, index)


def test_beside_numbers_that_vary() -> None:
    def scaled(x, index, rate):
        return x[0, index.item()] * rate

    compiled = tj.compile(scaled)
    x = tj.arange(10.0).view(2, 5)
    for k, n in enumerate(VALUES * 3):
        index = tj.tensor(n)
        assert float(compiled(x, index, 0.1 * k)) == float(scaled(x, index, 0.1 * k))


def test_positions_of_maxima_along_a_sequence() -> None:
    def place_of_largest(row):
        return row.max(1)[1].item()

    def log_sum_exp(row):
        largest = row[0, place_of_largest(row)]
        return largest + tj.log(tj.sum(tj.exp(row - largest)))

    def forward(scores, moves):
        row = scores[0].view(1, -1)
        for score in scores[1:]:
            row = tj.stack([log_sum_exp(row + moves[k] + score[k]) for k in range(3)]).view(1, -1)
        return log_sum_exp(row)

    compiled = tj.compile(forward)
    for seed in range(12):
        tj.manual_seed(seed)
        scores, moves = tj.randn(4, 3), tj.randn(3, 3)
        wanted = with_gradients(forward, scores, moves)
        found = with_gradients(compiled, scores, moves)
        tj.testing.assert_close(tj.tensor(found[2]), tj.tensor(wanted[2]))
        tj.testing.assert_close(tj.tensor(found[0]), tj.tensor(wanted[0]))
    assert compiled.stats.recordings <= 4
    assert compiled.stats.compiled_calls >= 7


@pytest.mark.sampled(4)
@pytest.mark.parametrize("columns", [1, 2, 3, 6, 20])
def test_several_indices_and_the_gradient_through_all(columns: int) -> None:
    def product(x, *indices):
        total = x.sum()
        for index in indices:
            total = total + x[0, index.item()].exp() * total
        return total

    compiled = tj.compile(product)
    for seed in range(14):
        tj.manual_seed(seed)
        x = tj.randn(1, columns)
        indices = [tj.randint(0, columns, ()) for _ in range(3)]
        wanted = with_gradients(product, x, *indices)
        found = with_gradients(compiled, x, *indices)
        tj.testing.assert_close(tj.tensor(found[2]), tj.tensor(wanted[2]))
        assert found[0] == pytest.approx(wanted[0])
    assert compiled.stats.recordings <= 3
    assert compiled.stats.compiled_calls >= 10


def scores_and_moves(rows):
    score, back = rows[0], []
    for row in rows[1:]:
        best, move = (score.unsqueeze(1) + rows[:5]).max(0)
        score = best + row
        back.append(move)
    return score, back


def ints(rows):
    score, back = scores_and_moves(rows)
    best = int(score.argmax())
    path = [best]
    for move in reversed(back):
        best = int(move[best])
        path.append(best)
    return path[::-1]


def tensor_of_items(rows):
    largest, last = (found := scores_and_moves(rows))[0].max(0)
    path = [last.item()]
    for move in reversed(found[1]):
        path.insert(0, move[path[0]].item())
    return (
        tj.tensor(path),
        tj.tensor(path[0]),
        tj.tensor([[path[-1], 1]], dtype=tj.float64),
        largest,
    )


def with_scores(rows):
    score, back = scores_and_moves(rows)
    path = [score.argmax().item()]
    for move in reversed(back):
        path.append(move[path[-1]].item())
    return path, score.max().item(), score[path[0]].item() * 2


def table(rows):
    score, back = scores_and_moves(rows)
    path = [0] * len(rows)
    path[-1] = int(score.argmax())
    for t in range(len(back) - 1, -1, -1):
        path[t] = int(back[t][path[t + 1]])
    return path, float(score.sum())


@pytest.mark.parametrize("function", [ints, tensor_of_items, with_scores, table])
def test_paths_that_are_followed_back(function) -> None:
    """Each element that is read is the index of the next one, on one line of the code or on several."""
    compiled = tj.compile(function)
    for seed in range(16):
        tj.manual_seed(seed)
        rows = tj.randn(6, 5)
        found, wanted = compiled(rows), function(rows)
        assert str(found) == str(wanted)
    assert compiled.stats.recordings <= 3
    assert compiled.stats.compiled_calls >= 13


def test_paths_beside_arguments_and_counters_that_vary() -> None:
    state = {"calls": 0}

    def follow(rows, scale):
        state["calls"] += 1
        score, back = scores_and_moves(rows * scale)
        best = int(score.argmax())
        path = [best]
        for move in reversed(back):
            best = int(move[best])
            path.append(best)
        return path, score[best] * scale, float(score.max()) / state["calls"]

    compiled = tj.compile(follow)
    found = []
    for run in (follow, compiled):
        state["calls"] = 0
        for seed in range(20):
            tj.manual_seed(seed)
            found.append(str(run(tj.randn(6, 5), 0.5 + seed / 8)))
    assert found[:20] == found[20:]
    assert compiled.stats.recordings <= 5
