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
