"""Modules of PyTorch that programs import, and what they do here."""

from __future__ import annotations

import threading

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


def test_futures_are_set_once_and_call_back() -> None:
    one: tj.futures.Future[int] = tj.futures.Future()
    seen: list[int] = []
    one.add_done_callback(lambda done: seen.append(done.value()))
    one.add_done_callback(lambda done: seen.append(done.value() // 0))  # logged
    later = one.then(lambda done: done.value() + 1).then(lambda done: done.value() * 10)
    with pytest.raises(RuntimeError, match="not completed yet"):
        one.value()
    assert not later.done()
    one.set_result(1)
    assert (one.done(), one.wait(), seen, later.value()) == (True, 1, [1], 20)
    assert one.then(lambda done: done.value()).wait() == 1  # at once
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        one.set_result(2)


def test_futures_hand_errors_on() -> None:
    one: tj.futures.Future[int] = tj.futures.Future()
    other: tj.futures.Future[int] = tj.futures.Future()
    both, follower = tj.futures.collect_all([one, other]), one.then(lambda done: done.value())
    one.set_exception(ValueError("foo"))
    assert not both.done()
    other.set_result(3)
    assert both.wait() == [one, other]
    with pytest.raises(ValueError, match="foo"):
        tj.futures.wait_all([other, one])
    with pytest.raises(RuntimeError, match="running the callback: ValueError: foo"):
        follower.wait()
    with pytest.raises(AssertionError, match="not an Exception"):
        tj.futures.Future().set_exception(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        other.then(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="devices"):
        tj.futures.Future(devices=["cuda:0"])
    assert tj.futures.wait_all([]) == []


def test_futures_are_waited_for_by_other_threads() -> None:
    one: tj.futures.Future[int] = tj.futures.Future()
    threading.Timer(0.05, one.set_result, (7,)).start()
    assert one.wait() == 7


def test_marks_for_tools_leave_functions_compiled() -> None:
    @tj.cuda.nvtx.range("step {}", 1)
    def inner(x: tj.Tensor) -> tj.Tensor:
        tj.cuda.nvtx.range_push("inside")
        tj.cuda.nvtx.mark("here")
        found = x * 2
        tj.cuda.nvtx.range_pop()
        return found

    function = tj.compile(inner, strict=True)
    assert [function(tj.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3


def test_operators_of_triton_are_operators() -> None:
    @tj.library.triton_op("modules::doubled", mutates_args=())
    def doubled(x: tj.Tensor) -> tj.Tensor:
        return x + x

    doubled.register_autograd(lambda ctx, grad: grad * 2)
    x = tj.ones(2, requires_grad=True)
    doubled(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    kernel = type("JITFunction", (), {"__module__": "triton.runtime.jit"})()
    assert tj.library.wrap_triton(kernel) is kernel
    with pytest.raises(RuntimeError, match=r"triton\.jit"):
        tj.library.wrap_triton(doubled)


def test_nested_tensors_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="pad the rows"):
        tj.nested.nested_tensor([tj.ones(1), tj.ones(2)], layout=tj.strided)


def test_tensors_inside_of_transforms_are_tensors() -> None:
    from tracejit._C import _functorch

    def told(x: tj.Tensor) -> tj.Tensor:
        assert not _functorch.is_batchedtensor(x)
        assert not tj._C._are_functorch_transforms_active()
        assert _functorch.get_unwrapped(x) is x
        return x * _functorch.maybe_get_level(x)

    assert tj.vmap(told)(tj.ones(2)).tolist() == [-1.0, -1.0]
