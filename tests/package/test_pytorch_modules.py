"""Modules of PyTorch that programs import, and what they do here."""

from __future__ import annotations

import pytest

import tracejit as tj


def test_meshes_of_one_device() -> None:
    mesh = tj.distributed.device_mesh.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.get_coordinate()) == ((1, 1), 2, 1, [0, 0])
    assert mesh["a"].mesh_dim_names == ("a",)
    assert mesh.get_group("b") is None
    with pytest.raises(KeyError, match="Invalid mesh_dim_name"):
        mesh["c"]
    with pytest.raises(RuntimeError, match="there is one"):
        tj.distributed.device_mesh.init_device_mesh("cpu", (2,))


def test_storages_have_bytes() -> None:
    storage = tj.tensor([1.0, 2.0])[1:].untyped_storage()
    assert isinstance(storage, tj.UntypedStorage)
    assert (len(storage), storage.size(), storage.nbytes(), storage.element_size()) == (8, 8, 8, 1)
    assert storage.tolist() == [0, 0, 128, 63, 0, 0, 0, 64] == list(storage)
    assert (storage[3], storage[2:4].tolist(), str(storage.device)) == (63, [128, 63], "cpu")
    assert storage.clone() != storage
    assert len(tj.UntypedStorage(5)) == 5


def test_extensions_are_refused_when_they_are_built() -> None:
    from tracejit.utils import cpp_extension

    assert cpp_extension.CUDA_HOME is None
    command = cpp_extension.BuildExtension.with_options(use_ninja=False)
    for build in (
        command,
        lambda: cpp_extension.CppExtension("a", []),
        lambda: cpp_extension.load("a", []),
    ):
        with pytest.raises(NotImplementedError, match="headers"):
            build()


def test_printing_for_a_while() -> None:
    with tj._tensor_str.printoptions(precision=1):
        assert tj._tensor_str.PRINT_OPTS.precision == 1
        assert repr(tj.tensor([0.26])) == "tensor([0.3])"
    assert tj._tensor_str._str(tj.tensor([0.26])) == "tensor([0.2600])"


def test_what_it_was_built_with() -> None:
    assert tj.version.tracejit in tj.__config__.show()
    assert f"get_num_threads() : {tj.get_num_threads()}" in tj.__config__.parallel_info()
