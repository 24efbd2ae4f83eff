"""What PyTorch's errors say is said here too, so that a program that looks for a word in a message finds it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from parity_tools import torch

import tracejit as tj

CALLS = {
    "vectors of other ranks": "t.dot(t.ones(1, 1), t.ones(3))",
    "vectors of other dtypes": "t.dot(t.ones(3), t.ones(3).double())",
    "no shifts": "t.roll(t.ones(5), ())",
    "a number turned": "t.roll(t.tensor(1.0), 0, 0)",
    "the transform of a number": "t.fft.fft(t.tensor(1.0))",
    "transforms of a number": "t.fft.rfft2(t.tensor(1.0), dim=(0,))",
    "nothing joined": "t.cat([])",
    "a norm of whole numbers": "t.linalg.vector_norm(t.arange(3), dtype=t.float64)",
    "a norm in whole numbers": "t.norm(t.ones(3), dtype=t.int64)",
    "a norm in complex numbers": "t.norm(t.ones(3), dtype=t.complex64)",
    "a norm in real numbers": "t.norm(t.ones(3).cfloat(), dtype=t.float32)",
    "a norm in narrow numbers": "t.linalg.norm(t.ones(3).double(), dtype=t.float32)",
    "a norm of narrow matrices": "t.linalg.matrix_norm(t.ones(2, 2).double(), 'nuc', dtype=t.float32)",
    "a type of a tensor": "t.ones(3).type(t.ones(3).long())",
    "a type of a number": "t.ones(3).type(3)",
    "a type of a list": "t.ones(3).type([1])",
    "a type of Python": "t.ones(3).type(float)",
    "a type of no name": "t.ones(3).type('x')",
    "a type of layers that is a tensor": "t.nn.Linear(2, 2).type(t.ones(3).long())",
    "layers of whole numbers": "t.nn.Linear(2, 2).type(t.int64)",
    "data of whole numbers": "setattr(t.ones(2, requires_grad=True), 'data', t.tensor([1, 2]))",
    "nothing stacked": "t.stack([])",
    "nothing on top of each other": "t.vstack([])",
    "nothing behind each other": "t.dstack([])",
    "no columns": "t.column_stack([])",
    "no grid": "t.meshgrid([], indexing='ij')",
    "draws without width": "t.zeros(3).cauchy_(0, 0)",
    "logarithms without width": "t.zeros(3).log_normal_(0, 0)",
    "classes in the shape of probabilities": "f.cross_entropy(t.ones(2, 3), t.ones(2, 3).long())",
    "probabilities in the shape of classes": "f.cross_entropy(t.ones(2, 3, 4), t.ones(2, 4))",
    "a state of another batch": "t.nn.GRUCell(2, 3)(t.ones(4, 2), t.ones(5, 3))",
    "a state of another width": "t.nn.RNNCell(2, 3)(t.ones(4, 2), t.ones(4, 5))",
    "a second state of another batch": "t.nn.LSTMCell(2, 3)(t.ones(4, 2), (t.ones(4, 3), t.ones(5, 3)))",
    "truth values negated": "t.neg(t.tensor([True]))",
    "pieces that repeat put": "t.ones(1).expand(3).put_(t.tensor([0]), t.ones(1))",
    "a part of a tensor put into it": "(lambda x: x.put_(t.tensor([0, 1]), x[2:]))(t.ones(4))",
    "ranks joined": "t.cat([t.ones(2), t.ones(2, 2)])",
    "ranks side by side": "t.hstack([t.ones(5), t.ones(5, 5, 5, 5)])",
    "an unknown size beside an empty one": "t.ones(1).reshape(0, -1)",
    "too few columns": "t.eye(0, -3)",
    "a dimension moved twice": "t.movedim(t.ones(2, 3, 4, 5), (0, 2, -4), (1, 0, 2))",
    "a target without positions": "t.scatter(t.ones(3, 5, 3), 0, t.zeros(2, 2).long(), t.ones(2, 5))",
    "sources of another rank": "t.scatter(t.ones(3, 5), 0, t.zeros(2, 2).long(), t.ones(2, 5, 2))",
    "slices of another shape": "t.index_add(t.ones(3, 2), 0, t.tensor([0, 1]), t.ones(2))",
    "slices of one column": "t.index_add(t.ones(3, 2), 0, t.tensor([0, 1]), t.ones(2, 1))",
    "one slice for two places": "t.index_add(t.ones(3, 2), 0, t.tensor([0, 1]), t.ones(1, 2))",
    "a vector as filling": "t.ones(3, 2).index_fill(0, t.tensor([0, 1]), t.ones(1))",
    "a plane pooled": "f.adaptive_avg_pool2d(t.ones(2, 2), (2, 2))",
    "maxima of a plane": "f.adaptive_max_pool3d(t.ones(2, 2, 2), (2, 2, 2))",
    "negative padding": "f.avg_pool2d(t.ones(1, 4, 4), 2, padding=-1)",
    "more groups than filters": "f.conv1d(t.ones(2, 2, 4), t.ones(2, 2, 2), groups=3)",
    "no normalized dimensions": "f.rms_norm(t.ones(1, 2, 3), ())",
    "rms weights of another shape": "f.rms_norm(t.ones(2, 3), (2, 3), t.ones(3))",
    "layer weights of another shape": "f.layer_norm(t.ones(2, 3), (3,), t.ones(1))",
    "a layer bias of another shape": "f.layer_norm(t.ones(2, 3), (2, 3), None, t.ones(3))",
    "group weights of another size": "f.group_norm(t.ones(2, 4), 2, t.ones(1))",
    "batch weights of another size": "f.batch_norm(t.ones(2, 3), t.zeros(3), t.ones(3), t.ones(1))",
    "running means of another size": "f.batch_norm(t.ones(2, 3), t.zeros(1), t.ones(3))",
    "one running statistic": "f.batch_norm(t.ones(2, 3), t.zeros(3), None, training=True)",
    "one element per instance": "f.instance_norm(t.ones(2, 3, 1))",
    "a bilinear bias of another size": "f.bilinear(t.ones(2, 3), t.ones(2, 4), t.ones(5, 3, 4), t.ones(1))",
    "too few weights of classes": "f.nll_loss(t.ones(2, 3), t.tensor([0, 1]), t.ones(1))",
    "too few weights of logits": "f.cross_entropy(t.ones(2, 3), t.tensor([0, 1]), t.ones(1))",
    "targets in rows": "f.cosine_embedding_loss(t.ones(2, 3), t.ones(2, 3), t.ones(2, 1))",
    "ranks of a ranking": "f.margin_ranking_loss(t.ones(5, 4), t.ones(5, 4), t.ones(4))",
    "an anchor of another rank": "f.triplet_margin_loss(t.ones(4), t.ones(3, 4), t.ones(3, 4))",
    "a far one of another rank": "f.triplet_margin_with_distance_loss(t.ones(3, 4), t.ones(3, 4), t.ones(4))",
    "targets of a margin": "f.multi_margin_loss(t.ones(5, 4), t.ones(5))",
    "weights of a margin in rows": "f.multi_margin_loss(t.ones(5, 4), t.ones(5).long(), weight=t.ones(5, 4))",
    "sizes written over complex numbers": "t.ones(3, dtype=t.complex64).abs_()",
    "powers written over single precision": "t.ones(3).float_power_(2)",
    "odd cells": "t.ones(2, 3).view(t.float64)",
    "cells of a number": "t.tensor(1.0).view(t.int16)",
    "cells apart": "t.ones(3, 4)[:, ::2].view(t.int16)",
    "rows at odd distances": "t.ones(3, 5)[:, :4].view(t.float64)",
    "cells from the middle": "t.ones(4, 4)[:, 1:3].view(t.float64)",
    "named and unnamed parameters": "t.optim.SGD([('w', t.ones(1)), t.ones(1)])",
    "a named group beside another": "t.optim.SGD([{'params': [t.ones(1)]}, {'params': [('w', t.ones(1))]}])",
    "another reduction": "f.multi_margin_loss(t.ones(5, 4), t.ones(5).long(), reduction='abc')",
    "another reduction of labels": "f.multilabel_margin_loss(t.ones(5, 4), t.ones(5, 4).long(), reduction='abc')",
}


def _refusal(library: Any, call: str) -> tuple[type[Exception], str]:
    with pytest.raises(Exception) as found:
        eval(call, {"t": library, "f": library.nn.functional})
    first = str(found.value).split("\n")[0].replace("tracejit", "torch")
    return found.type, re.sub(r"torch\.Size\((\[[^\]]*\])\)", r"\1", first)


@pytest.mark.parametrize("name", CALLS)
def test_message(name: str) -> None:
    theirs, message = _refusal(torch, CALLS[name])
    ours, own = _refusal(tj, CALLS[name])
    assert issubclass(ours, theirs)
    assert message.strip() in own
