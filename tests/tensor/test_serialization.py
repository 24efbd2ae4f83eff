"""Saving and loading: round trips, other readers, damage, atomic writes."""

from __future__ import annotations

import argparse
import errno
import io
import math
import os
import pickle
import stat
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tracejit as tj
from tracejit import dtypes, nn, optim
from tracejit.serialization import load, save


def tensor(values, dtype=dtypes.float32):
    return tj.from_numpy(np.asarray(values, dtype.np))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "x.safetensors"


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (2, 3)])
def test_every_dtype_and_shape(file, dtype, shape):
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype.np)
    save({"x": tj.from_numpy(values)}, file)
    loaded = load(file)["x"]
    assert loaded.dtype is dtype
    assert loaded.shape == shape
    assert loaded.numpy().tobytes() == values.tobytes()
    if loaded.numpy().size:
        loaded.numpy()[...] = 0  # memory of its own, writable


def test_special_values_are_bit_exact(file):
    values = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45], np.float32)
    save(tj.from_numpy(values), file)
    assert load(file).numpy().tobytes() == values.tobytes()


def test_layout_does_not_matter(file):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    save({"t": tj.from_numpy(array.T), "s": tj.from_numpy(array[::2, 1:])}, file)
    loaded = load(file)
    assert loaded["t"].tolist() == array.T.tolist()
    assert loaded["s"].tolist() == array[::2, 1:].tolist()


def test_trees(file):
    x = tensor([1.0, 2.0])
    tree = {
        "w": x,
        "nested": [{"b": (x, None, True, 3, "text", 2.5)}, [], {}, ()],
        7: {(1, 2): -math.inf},
        "$": "not a node",
        "dtype": tj.float16,
        "big": 2**70,
        "scalar": np.float32(0.5),
        "a.b": tensor([3.0]),
        "a": {"b": tensor([4.0])},
        "__metadata__": tensor([5.0]),
        "": tensor([6.0]),
        "ünïcode 😀": tensor([7.0]),
    }
    save(tree, file)
    loaded = load(file)
    assert list(loaded) == list(tree)
    inner = loaded["nested"][0]["b"]
    assert isinstance(inner, tuple)
    assert inner[1:] == (None, True, 3, "text", 2.5)
    assert inner[0] is loaded["w"]
    assert loaded["nested"][1:] == [[], {}, ()]
    assert loaded[7] == {(1, 2): -math.inf}
    assert loaded["$"] == "not a node"
    assert loaded["dtype"] is tj.float16
    assert loaded["big"] == 2**70
    assert loaded["scalar"] == 0.5
    assert loaded["a.b"].tolist() == [3.0]
    assert loaded["a"]["b"].tolist() == [4.0]
    assert loaded["__metadata__"].tolist() == [5.0]
    assert loaded[""].tolist() == [6.0]
    assert loaded["ünïcode 😀"].tolist() == [7.0]
    save(math.nan, file)
    assert math.isnan(load(file))


def test_sharing(file):
    base = tensor([1.0, 2.0, 3.0])
    save({"a": base, "b": base, "view": base.detach()}, file)
    loaded = load(file)
    assert loaded["a"] is loaded["b"]
    loaded["a"].numpy()[0] = 9.0
    assert loaded["view"].tolist() == [1.0, 2.0, 3.0]


def test_requires_grad_survives(file):
    save([nn.Parameter(tensor([1.0])), tensor([1.0])], file)
    assert [t.requires_grad for t in load(file)] == [True, False]


def test_model_and_optimizer(file):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(tensor([1.0, 2.0]))
            self.register_buffer("count", tensor(3, dtypes.int64))

    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    net.w.grad = tensor([1.0, -1.0])
    optimizer.step()
    save({"net": net.state_dict(), "opt": optimizer.state_dict(), "epoch": 3}, file)
    saved, other = load(file), Net()
    other.load_state_dict(saved["net"])
    optimizer2 = optim.Adam(other.parameters())
    optimizer2.load_state_dict(saved["opt"])
    for n, o in ((net, optimizer), (other, optimizer2)):
        n.w.grad = tensor([0.5, 0.5])
        o.step()
    assert other.w.tolist() == net.w.tolist()
    assert optimizer2.param_groups[0]["betas"] == (0.9, 0.999)


def test_other_readers_and_writers(file):
    from safetensors.numpy import load_file, save_file

    save({"a": tensor([1.0]), "b": tensor([2, 3], dtypes.int64)}, file)
    assert {k: v.tolist() for k, v in load_file(file).items()} == {"a": [1.0], "b": [2, 3]}
    save_file({"x": np.ones((2, 2), np.float16)}, file)
    loaded = load(str(file), map_location="cpu")
    assert list(loaded) == ["x"]
    assert loaded["x"].dtype is tj.float16


def test_damage_is_an_error(file):
    save({"a": tensor([1.0, 2.0]), "n": 1}, file)
    good = file.read_bytes()
    bad_tree = good.replace(b"tensor", b"tensxr")
    for data in (b"", good[:5], good[:40], good[:-1], good + b"x", b"PK" + good, bad_tree):
        file.write_bytes(data)
        with pytest.raises(ValueError, match=r"x.safetensors cannot be loaded"):
            load(file)
    with pytest.raises(FileNotFoundError, match="there is no file") as missing:
        load(file.parent / "nothing")
    assert missing.value.errno == errno.ENOENT
    assert missing.value.filename == str(file.parent / "nothing")


def test_files_of_pytorch_are_told_from_damaged_ones(file):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as parts:
        parts.writestr("model/data.pkl", pickle.dumps({"a": 1}))
    for data in (archive.getvalue(), pickle.dumps({"a": 1})):
        file.write_bytes(data)
        with pytest.raises(ValueError, match=r"x.safetensors cannot be loaded: it is a pickle, as"):
            load(file)


def test_unknown_element_types_and_devices(file):
    header = b'{"x":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(ValueError, match="element type F8_E8M0, which tensors cannot hold"):
        load(file)
    with pytest.raises(RuntimeError):
        load(file, map_location="nowhere")


def test_a_failed_save_leaves_the_old_file(file):
    save({"a": tensor([1.0])}, file)
    before = file.read_bytes()
    with pytest.raises(TypeError, match=r"cannot save builtins.object \(at b.0\)"):
        save({"a": tensor([2.0]), "b": [object()]}, file)
    with pytest.raises(TypeError, match=r"state_dict\(\)"):
        save(nn.Identity(), file)
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        save(loop, file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]
    with pytest.raises(OSError, match="No such file"):
        save({}, file.parent / "no" / "where")


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_permissions_are_those_of_ordinary_files(file):
    ordinary = file.parent / "ordinary"
    ordinary.write_bytes(b"")
    save({}, file)
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    file.chmod(0o640)
    save({}, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "place", ["cpu", tj.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage]
)
def test_places_as_programs_spell_them(file, place):
    tj.save({"w": tj.ones(2)}, file, _use_new_zipfile_serialization=False)
    assert tj.load(file, map_location=place, pickle_module=None)["w"].tolist() == [1.0, 1.0]


PLAIN = [
    OrderedDict(b=1, a=2),
    defaultdict(list, a=[1]),
    Counter("aab"),
    deque([1, 2], maxlen=3),
    {1, 2},
    frozenset({"a"}),
    1 + 2j,
    float("inf"),
    b"\x00\xff",
    slice(1, None),
    range(3),
    Path("runs") / "last.pt",
    tj.Size([2, 3]),
    tj.device("cpu"),
    argparse.Namespace(lr=0.1, layers=[1, 2]),
    SimpleNamespace(a=(1, 2)),
    {(1, 2): 3},
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_what_surrounds_tensors_comes_back_as_what_it_was(file, value):
    save({"value": value}, file)
    found = load(file)["value"]
    assert type(found) is type(value)
    assert found == value
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)
    assert getattr(found, "default_factory", None) is getattr(value, "default_factory", None)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.array(3, np.uint16),
        np.zeros((0, 2), np.complex64),
        np.array(["ab", "c"]),
        np.array([(1, 2.0)], [("a", "<i4"), ("b", "<f8")]),
    ],
    ids=["transposed", "0-d", "empty", "strings", "fields"],
)
def test_arrays_come_back(file, array):
    save([array, tensor([1.0])], file)
    found, beside = load(file)
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    assert found.flags.writeable
    assert beside.tolist() == [1.0]


def test_objects_are_refused_wherever_they_are(file):
    for value in (np.array([object()]), defaultdict(object), argparse.Namespace(a=object())):
        with pytest.raises(TypeError, match="cannot save"):
            save({"value": value, "other": object()}, file)
