"""Training steps of a small GPT."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import At, Case, Size, Space, classes, normal, training_at
from networks import adam

LAYERS, VOCABULARY = 4, 256


def gpt_arrays(width: int, context: int) -> list[np.ndarray]:
    """Embeddings, then per layer: two norms, attention in and out, two linear maps; a norm and the head."""
    shapes: list[tuple[int, ...]] = [(VOCABULARY, width), (context, width)]
    for _ in range(LAYERS):
        shapes += [(width,), (width,), (3 * width, width), (width, width)]
        shapes += [(width,), (width,), (4 * width, width), (width, 4 * width)]
    shapes += [(width,), (width,), (VOCABULARY, width)]
    arrays = [normal(0.02 if len(s) > 1 else 0.0, *s, seed=k) for k, s in enumerate(shapes)]
    for k, shape in enumerate(shapes):  # of a norm's two vectors the first is its weight
        if len(shape) == 1 and len(shapes[k - 1]) == 2:
            arrays[k] = arrays[k] + np.float32(1.0)
    return arrays


def gpt_logits(functional: Any, p: list[Any], tokens: Any, heads: int) -> Any:
    """A decoder with learned positions, norms first, no biases in its linear maps."""
    rest = iter(p[2:])
    count, context = tokens.shape
    width = p[0].shape[1]
    x = functional.embedding(tokens, p[0]) + p[1]
    for _ in range(LAYERS):
        y = functional.layer_norm(x, (width,), next(rest), next(rest))
        split = functional.linear(y, next(rest)).view(count, context, 3, heads, width // heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        y = y.transpose(1, 2).reshape(count, context, width)
        x = x + functional.linear(y, next(rest))
        y = functional.layer_norm(x, (width,), next(rest), next(rest))
        y = functional.gelu(functional.linear(y, next(rest)), approximate="tanh")
        x = x + functional.linear(y, next(rest))
    x = functional.layer_norm(x, (width,), next(rest), next(rest))
    return functional.linear(x, next(rest))


def gpt(space: Space, width: int) -> At:
    """A training step; size is (batch, context)."""
    longest = 256
    weights = [space.leaf(a) for a in gpt_arrays(width, longest)]
    functional = space.tj.nn.functional

    def loss(tokens: Any, targets: Any) -> Any:
        used = [weights[0], weights[1][: tokens.shape[1]], *weights[2:]]
        logits = gpt_logits(functional, used, tokens, max(width // 32, 1))
        return functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))

    def draw(size: Size) -> tuple[Any, Any]:
        text = classes(VOCABULARY, size[0], size[1] + 1)
        return space.tensor(text[:, :-1]), space.tensor(text[:, 1:])

    return training_at(space, loss, weights, adam(space, weights), draw)


def gpt_flops(size: Size, width: int) -> float:
    """Forward and backward: three times the products of forward."""
    tokens = size[0] * size[1]
    linear = 2.0 * tokens * (LAYERS * 12 * width * width + VOCABULARY * width)
    return 3.0 * (linear + LAYERS * 4.0 * tokens * size[1] * width)


def _gpt_traffic(width: int) -> float:
    """Parameters, their gradients and two moments, read and written once each."""
    return 28.0 * sum(a.size for a in gpt_arrays(width, 256))


CASES: tuple[Case, ...] = (
    Case(
        "gpt_128",
        lambda space: gpt(space, 128),
        (8, 64),
        (8, 56),
        (2, 8),
        lambda s: _gpt_traffic(128),
        lambda s: gpt_flops(s, 128),
        step=True,
        precision=2e-2,
        memory=lambda s: 2e9,
    ),
    Case(
        "gpt_384",
        lambda space: gpt(space, 384),
        (8, 256),
        (8, 224),
        (1, 8),
        lambda s: _gpt_traffic(384),
        lambda s: gpt_flops(s, 384),
        step=True,
        precision=2e-2,
        memory=lambda s: 3e9,
    ),
)
