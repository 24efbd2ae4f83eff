"""Module paths of PyTorch that programs import from, and what programs ask of their surroundings."""

from __future__ import annotations

import importlib
import os
import pickle
import tomllib
from pathlib import Path

import pytest

import tracejit as tj
from tracejit import nn

PATHS = """
_dynamo: optimize, disable, mark_dynamic | _dynamo.config: suppress_errors, cache_size_limit | _inductor: config
_inductor.config: coordinate_descent_tuning, triton | _jit_internal: boolean_dispatch, _overload
_dynamo.utils: is_compile_supported | cuda.random: manual_seed_all, get_rng_state
cuda.amp.autocast_mode: autocast | cuda.amp.grad_scaler: GradScaler | autograd.function: FunctionCtx
cuda: _initialized | fx: wrap, Proxy | jit: _overload_method, _script_if_tracing | utils.hooks: RemovableHandle
utils._pytree: register_pytree_node, SUPPORTED_NODES, _dict_flatten, _dict_unflatten | cuda: CUDAGraph, graph
_dynamo._trace_wrapped_higher_order_op: TransformGetItemToIndex
_higher_order_ops: cond, while_loop, associative_scan | _higher_order_ops.associative_scan: associative_scan
cuda: default_generators | nn.functional: native_channel_shuffle
nn.attention.flex_attention: _DEFAULT_SPARSE_BLOCK_SIZE
amp.autocast_mode: autocast | autograd.profiler: profile, record_function | autograd.variable: Variable
backends.cudnn: benchmark, deterministic, enabled | distributed: init_process_group, is_initialized, is_mpi_available
distributions.categorical: Categorical | distributions.kl: kl_divergence | distributions.normal: Normal
distributions.transformed_distribution: TransformedDistribution | functional: einsum, norm
hub: load_state_dict_from_url, download_url_to_file, get_dir | jit: ScriptModule, script_method, trace
jit.annotations: List, BroadcastingList2 | multiprocessing: Process, Queue, spawn, set_start_method
nn.attention: sdpa_kernel, SDPBackend
nn.common_types: _size_2_t | nn.modules.dropout: _DropoutNd | nn.modules.module: _addindent, Module
nn.modules.pooling: _MaxPoolNd | nn.modules.transformer: _get_clones | nn.parallel: DistributedDataParallel
nn.utils.stateless: functional_call | optim.adamw: AdamW | optim.optimizer: required, Optimizer
optim.swa_utils: SWALR | overrides: has_torch_function | profiler: profile, record_function, ProfilerActivity
distributions.utils: _sum_rightmost, _standard_normal | distributions.transforms: _InverseTransform, _sum_rightmost
_C: Generator, device, dtype, Size, _TensorBase, _is_tracing, _get_tracing_state, _log_api_usage_once, _LinAlgError
_C: _jit_set_profiling_executor, _jit_override_can_fuse_on_cpu | _C._nn: _parse_to, gelu
distributed: ProcessGroup, group, nn | distributed.nn: all_reduce | distributed.nn.functional: all_gather, all_to_all
distributed.distributed_c10d: ProcessGroup, ReduceOp
optim.optimizer: ParamsT, params_t, StateDict, DeviceDict, Args, Kwargs, GlobalOptimizerPreHook, _RequiredParameter
optim.optimizer: _use_grad_for_differentiable, _get_value, _dispatch_sqrt, _stack_if_compiling, _view_as_real
optim.optimizer: _default_to_fused_or_foreach, _disable_dynamo_if_unsupported, _capturable_doc, _params_doc
optim.optimizer: register_optimizer_step_pre_hook, _get_capturable_supported_devices, _device_dtype_check_for_fused
utils._foreach_utils: _group_tensors_by_device_and_dtype, _has_foreach_support, _device_has_foreach_support
utils._foreach_utils: _get_foreach_kernels_supported_devices, _get_fused_kernels_supported_devices, Indices
testing: assert_close | types: Device, Number | utils.data._utils.collate: default_collate, np_str_obj_array_pattern
nn.modules.lazy: LazyModuleMixin | nn.parameter: UninitializedParameter, UninitializedBuffer, Parameter
nn.parallel.distributed: DistributedDataParallel | nn.parallel.data_parallel: DataParallel
nn.modules.module: _IncompatibleKeys, _EXTRA_STATE_KEY_SUFFIX | jit: isinstance
serialization: MAP_LOCATION, add_safe_globals, get_safe_globals, safe_globals
distributions.multivariate_normal: _precision_to_scale_tril, MultivariateNormal
distributions.transforms: _clipped_sigmoid
utils.data.dataloader: DataLoader, default_collate | utils.data.distributed: DistributedSampler
__config__: show, parallel_info | storage: UntypedStorage | _tensor_str: PRINT_OPTS, printoptions, _str
serialization: DEFAULT_PROTOCOL | distributed.device_mesh: DeviceMesh, init_device_mesh | library: Library, custom_op
fx.experimental.symbolic_shapes: guard_size_oblivious, is_concrete_int, statically_known_true, hint_int, sym_eq
fx.experimental.proxy_tensor: make_fx, get_proxy_mode | utils.cpp_extension: CUDA_HOME, load, BuildExtension
_subclasses.fake_tensor: is_fake | onnx.symbolic_helper: parse_args | onnx: symbolic_opset11, TrainingMode
onnx: OperatorExportTypes, register_custom_op_symbolic | overrides: TorchFunctionMode
_C: DisableTorchFunctionSubclass, DisableTorchFunction | ao.quantization: QuantStub, DeQuantStub
quantization: QuantStub, quantize_dynamic | quantization.observer: HistogramObserver, MinMaxObserver
quantization.qconfig: QConfig | nn.quantized: FloatFunctional, BatchNorm2d
utils._pytree: _namedtuple_flatten, _namedtuple_unflatten
utils.dlpack: to_dlpack, from_dlpack | nn.utils: convert_conv2d_weight_memory_format
library: triton_op, wrap_triton | cuda: nvtx | cuda.nvtx: range_push, range_pop, range_start, range_end, mark, range
_C: _disabled_torch_function_impl, _are_functorch_transforms_active
ops: aten | _tensor_str: _tensor_str | autograd.profiler: EventList
utils.data.dataloader: _MultiProcessingDataLoaderIter | distributed: rpc | distributed.rpc: init_rpc, rpc_async
futures: Future, collect_all, wait_all | nested: nested_tensor, as_nested_tensor, to_padded_tensor
_C._functorch: is_batchedtensor, is_gradtrackingtensor, get_unwrapped, maybe_get_level
utils.checkpoint: CheckpointFunction, check_backward_validity, detach_variable, get_device_states, _infer_device_type
utils.checkpoint: _get_autocast_kwargs, _get_device_module | serialization: default_restore_location, location_tag
cuda: ipc_collect, memory_cached, max_memory_cached, reset_max_memory_allocated, reset_max_memory_cached
nn.utils: convert_conv3d_weight_memory_format | utils.model_zoo: load_url | version: cuda, hip
"""
NAMES = [
    (path.strip(), name.strip())
    for entry in PATHS.replace("\n", "|").split("|")
    if entry.strip()
    for path, _, names in [entry.partition(":")]
    for name in names.split(",")
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("path", "name"), NAMES)
def test_names_are_found_where_pytorch_has_them(path: str, name: str) -> None:
    assert hasattr(importlib.import_module(f"tracejit.{path}"), name)


def test_the_version_is_the_one_of_the_distribution():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert tj.version.tracejit == project["project"]["version"]
    assert (
        str(tj.__version__)
        == f"2.13.0+tracejit.{tj.version.tracejit}"
        == str(tj.version.__version__)
    )


def test_versions_are_compared_as_pytorch_compares_them() -> None:
    version = tj.__version__
    assert version >= "2.0"
    assert version > "1.10"
    assert version >= (2, 13)
    assert version < (2, 14)
    assert not version < "2.9.1"
    assert version > "2.13.0"
    assert version != "2.13.0"
    assert version == str(version)
    assert version != "nightly"
    assert version != None  # noqa: E711
    assert version.split("+")[0].split(".") == ["2", "13", "0"]
    assert {str(version): 1}[version] == 1
    assert pickle.loads(pickle.dumps(version)) == version
    assert isinstance(version, tj.torch_version.TorchVersion)


def test_devices_that_are_not_there():
    for kind in (tj.mps, tj.xpu):
        assert (kind.is_available(), kind.device_count()) == (False, 0)
        kind.manual_seed(0)
        with pytest.raises(RuntimeError, match="there is no"):
            kind.empty_cache()
    assert (tj.cpu.is_available(), tj.cpu.device_count()) == (True, 1)
    assert tj.accelerator.is_available() == tj.cuda.is_available()
    assert tj.get_default_device() == tj.device("cpu")
    tj.set_default_device("cpu")


def test_default_types_by_their_old_names():
    before = tj.get_default_dtype()
    try:
        tj.set_default_tensor_type(tj.DoubleTensor)
        assert tj.zeros(1).dtype is tj.float64
        tj.set_default_tensor_type("tracejit.FloatTensor")
        assert tj.zeros(1).dtype is tj.float32
        with pytest.raises(TypeError, match="invalid type"):
            tj.set_default_tensor_type("nothing")
    finally:
        tj.set_default_dtype(before)


def test_checks_raise_what_they_say():
    tj._assert(True, "fine")
    tj._check(1 > 0)
    with pytest.raises(AssertionError, match="wrong"):
        tj._assert(False, "wrong")
    with pytest.raises(RuntimeError, match="late"):
        tj._check(False, lambda: "late")


def test_autocast_is_known_inside():
    assert not tj.is_autocast_enabled()
    with tj.autocast("cpu", dtype=tj.float16):
        assert tj.is_autocast_enabled("cpu")
        assert tj.get_autocast_dtype("cpu") is tj.float16
    assert tj.get_autocast_gpu_dtype() is tj.float16


def test_compiler_marks_leave_compiled_functions_alone():
    @tj.compiler.disable
    def inner(x):
        return x * 2 if not tj.compiler.is_compiling() else x

    outer = tj.compile(lambda x: inner(x) + 1, strict=True)
    assert [outer(tj.ones(2)).tolist() for _ in range(3)] == [[3.0, 3.0]] * 3


def test_a_group_of_one_process(monkeypatch):
    from tracejit import distributed as dist

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(NotImplementedError, match="single process"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="not been initialized"):
        dist.get_rank()
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo")
    try:
        assert (dist.is_initialized(), dist.get_rank(), dist.get_world_size()) == (True, 0, 1)
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo")
        x = tj.ones(2)
        dist.all_reduce(x, op=dist.ReduceOp.SUM)
        assert x.tolist() == [1.0, 1.0]
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        model(x).sum().backward()
        assert model.module.bias.grad.item() == 1.0
        assert len(list(tj.utils.data.distributed.DistributedSampler(range(5)))) == 5
    finally:
        dist.destroy_process_group()


def test_gradients_of_a_group_of_one_process():
    from tracejit import distributed as dist

    x = tj.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ValueError, match="not been initialized"):
        dist.nn.all_reduce(x)
    with pytest.raises(NotImplementedError, match="leave ``group`` out"):
        dist.ProcessGroup(0, 1)
    dist.init_process_group("gloo", world_size=1, rank=0)
    try:
        functions = dist.nn.functional
        found = [functions.all_reduce(x), functions.reduce(x, 0), functions.broadcast(x, 0)]
        found += [*functions.all_gather(x, group=dist.group.WORLD), *functions.gather(x)]
        found += [functions.scatter([x]), functions.all_to_all_single(tj.zeros(2), x)]
        found += [functions.reduce_scatter(tj.zeros(2), [x])]
        found += functions.all_to_all([tj.zeros(2)], [x])
        assert [y.tolist() for y in found] == [[1.0, 2.0]] * 9
        assert all(y is not x for y in found)
        sum(found).sum().backward()
        assert x.grad.tolist() == [9.0, 9.0]
    finally:
        dist.destroy_process_group()


def test_shares_of_a_dataset_cover_it():
    Share = tj.utils.data.distributed.DistributedSampler
    shares = [Share(range(7), num_replicas=3, rank=r, seed=4) for r in range(3)]
    for share in shares:
        share.set_epoch(2)
    drawn = [list(share) for share in shares]
    assert [len(d) for d in drawn] == [3, 3, 3]
    assert {i for d in drawn for i in d} == set(range(7))
    assert list(Share(range(2), num_replicas=5, rank=3, shuffle=False)) == [1]
    assert [len(Share(range(n), num_replicas=4, rank=0, drop_last=True)) for n in (3, 6)] == [0, 1]
    with pytest.raises(ValueError, match="Invalid rank"):
        Share(range(2), num_replicas=2, rank=2)


def test_weights_by_address_are_checked_and_kept(tmp_path):
    tj.save({"w": tj.ones(2)}, tmp_path / "net-0000.safetensors")
    url = (tmp_path / "net-0000.safetensors").as_uri()
    with pytest.raises(RuntimeError, match="invalid hash"):
        tj.hub.load_state_dict_from_url(url, str(tmp_path / "hub"), check_hash=True)
    assert os.listdir(tmp_path / "hub") == []
    for _ in range(2):
        found = tj.hub.load_state_dict_from_url(url, str(tmp_path / "hub"), progress=False)
        assert found["w"].tolist() == [1.0, 1.0]
    with pytest.raises(FileNotFoundError, match=r"does not use the network\. Download it to"):
        tj.hub.load_state_dict_from_url("https://example.org/net.safetensors", str(tmp_path / "x"))


def test_named_stretches_are_counted():
    plan = tj.profiler.schedule(wait=1, warmup=0, active=1, repeat=1)
    ready = []
    with tj.profiler.profile(
        schedule=plan, on_trace_ready=lambda p: ready.append(p.key_averages())
    ) as p:
        for _ in range(4):
            with tj.profiler.record_function("step"):
                pass
            p.step()
    (rows,) = ready
    assert [(row.key, row.count) for row in rows] == [("step", 1)]
    assert "step" in rows.table(sort_by="cpu_time_total", row_limit=3)

    @tj.autograd.profiler.record_function("double")
    def double(x):
        return 2 * x

    with tj.profiler.profile() as p:
        assert double(2) == 4
    assert p.key_averages()[0].cpu_time >= 0


def test_assertions_about_closeness():
    close = tj.testing.assert_close
    close(tj.ones(2), tj.ones(2) + 1e-7)
    close({"a": [tj.ones(1), 2]}, {"a": [tj.ones(1), 2]})
    close(tj.tensor([float("nan")]), tj.tensor([float("nan")]), equal_nan=True)
    for one, other, words in (
        (tj.ones(2), tj.tensor([1.0, 2.0]), "1 / 2"),
        (tj.ones(2), tj.ones(3), "shape"),
        (tj.ones(2), tj.ones(2).double(), "dtype"),
        (tj.arange(2), tj.tensor([0, 2]), "not close"),
        ([1.0], [1.0, 2.0], "length"),
        ({"a": 1}, {"b": 1}, "keys"),
        (tj.tensor([float("nan")]), tj.tensor([float("nan")]), "not close"),
    ):
        with pytest.raises(AssertionError, match=words):
            close(one, other)
    with pytest.raises(ValueError, match="both"):
        close(tj.ones(1), tj.ones(1), rtol=1e-3)
    tj.testing.assert_allclose(tj.ones(2), [1.0, 1.0])


def test_forked_numbers_leave_the_stream_alone():
    tj.manual_seed(3)
    expected = tj.rand(2)
    tj.manual_seed(3)
    with tj.random.fork_rng():
        tj.rand(5)
    assert tj.equal(tj.rand(2), expected)


def test_hyperparameters_that_must_be_given():
    from tracejit.optim.optimizer import Optimizer, required

    class Plain(Optimizer):
        def __init__(self, params, lr=required):
            super().__init__(params, {"lr": lr})

    with pytest.raises(ValueError, match="optimization parameter lr"):
        Plain([tj.zeros(1, requires_grad=True)])
    Plain([{"params": [tj.zeros(1, requires_grad=True)], "lr": 1.0}])


def test_modules_of_old_survive_pickling():
    layer = pickle.loads(pickle.dumps(nn.Linear(1, 1).share_memory()))
    assert layer.in_features == 1


def test_new_tensors_in_a_context_of_a_device():
    def made(x):
        with tj.device("cpu"):
            return x + tj.ones(2)

    compiled = tj.compile(made)
    with tj.device("cpu") as chosen:
        assert chosen == tj.device("cpu")
        for _ in range(3):
            assert compiled(tj.ones(2)).tolist() == [2.0, 2.0]
    assert compiled.stats.compiled_calls == 2
    with pytest.raises(RuntimeError), tj.device("xla"):
        pass


def test_settings_are_kept():
    settings = tj._inductor.config
    before = settings.max_autotune
    with settings.patch(max_autotune=not before, new=3), settings.patch({"new": 4}):
        assert (settings.max_autotune, settings.new) == (not before, 4)
    assert settings.max_autotune == before
    assert not hasattr(settings, "new")
    assert tj._dynamo.optimize("eager")(tj.relu)(tj.tensor(-1.0)).item() == 0.0


def test_switches_for_a_while():
    cudnn = tj.backends.cudnn
    assert cudnn.enabled
    with cudnn.flags(benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark) == (False, True)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)


def test_one_function_of_two():
    either = tj._jit_internal.boolean_dispatch(
        arg_name="both",
        arg_index=1,
        default=False,
        if_true=lambda x, both=False: (x, x),
        if_false=lambda x, both=False: x,
        module_name="somewhere",
        func_name="either",
    )
    assert (either(1), either(1, True), either(1, both=True)) == (1, (1, 1), (1, 1))
    assert either.__name__ == "either"


def test_normalize_writes_where_it_is_told():
    out = tj.zeros(2)
    found = nn.functional.normalize(tj.tensor([3.0, 4.0]), dim=0, out=out)
    assert found is out
    tj.testing.assert_close(out, tj.tensor([0.6, 0.8]))


def test_a_tensor_that_lets_its_memory_go():
    x = tj.ones(3, 2)
    shown = x.view(-1)
    assert x.set_() is x
    assert (x.shape, x.dtype, shown.tolist()) == ((0,), tj.float32, [1.0] * 6)
    weight = tj.ones(3, requires_grad=True)
    weight.data.set_()
    assert weight.shape == (3,)


def test_types_that_tell_what_containers_hold() -> None:
    jit = tj.jit
    assert jit.isinstance({"a": [tj.ones(1)]}, dict[str, list[tj.Tensor]])
    assert not jit.isinstance({"a": [1]}, dict[str, list[tj.Tensor]])
    assert jit.isinstance((1, "a"), tuple[int, str])
    assert not jit.isinstance((1,), tuple[int, str])
    assert jit.isinstance((1, 2, 3), tuple[int, ...])
    assert jit.isinstance(None, int | None)
    assert jit.isinstance("magnitude", (bool, str))
    assert not jit.isinstance(True, str)


def test_names_of_the_package() -> None:
    assert tj.OutOfMemoryError is tj.cuda.OutOfMemoryError
    assert tj.zeros_like(tj.ones(2), memory_format=tj.legacy_contiguous_format).tolist() == [0, 0]
    with pytest.raises(AssertionError, match="why"):
        tj._assert_async(tj.tensor(False), "why")
