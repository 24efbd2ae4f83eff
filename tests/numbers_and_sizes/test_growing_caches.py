"""What a call returns at a size that only it tells goes into the next call, before anybody looked at its elements."""

from __future__ import annotations

import tracejit as tj


def test_a_cache_that_grows() -> None:
    def attend(x: tj.Tensor, cache: tj.Tensor) -> tuple[tj.Tensor, tj.Tensor]:
        past = cache.shape[1]
        cache = tj.cat([cache, x], 1)
        cache = cache * 1.0 + past * 0.0
        return (cache * (cache.shape[1] - past)).sum(1), cache

    f = tj.compile(attend)
    mine = theirs = tj.ones(64, 3, 256)
    for n in range(1, 9):
        x = tj.full((64, n, 256), float(n))
        found, mine = f(x, mine)
        expected, theirs = attend(x, theirs)
        assert tj.equal(found, expected)
        assert mine.shape[1] == 3 + n * (n + 1) // 2
    assert tj.equal(mine, theirs)


def test_a_cache_that_is_filled_is_planned_for_no_single_position() -> None:
    kept = tj.zeros(4, 40, 2, 4)

    def attend(x: tj.Tensor, start: int) -> tj.Tensor:
        q, k = (part.view(3, 1, 2, 4) for part in x.split(8, -1))
        kept[:3, start : start + 1] = k
        keys = kept[:3, : start + 1].transpose(1, 2)
        return (q.transpose(1, 2) @ keys.transpose(2, 3)).softmax(-1) @ keys

    f = tj.compile(attend)
    for _ in range(2):
        for start in range(2, 20):
            x = tj.linspace(-1, 1, 48).reshape(3, 1, 16) + start
            found, left = f(x, start), kept.clone()
            assert tj.allclose(found, attend(x, start), rtol=1e-5, atol=1e-6)
            assert tj.equal(left, kept)
    assert f.stats.recordings <= 4, f.explain()
