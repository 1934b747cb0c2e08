"""Names that real profiles hold, and what they must mean. The answers come from what the calls and kernels do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from events import Profile

import gpuwhy
from gpuwhy.ledger.classes import ANNOTATIONS, BACKWARD, COPIES, FRAMES, KERNELS, OPERATORS, OVERHEAD, RUNTIME, Rules
from gpuwhy.ledger.classes import classify as classify_codes

NOTHING = None


def classify(name: str, rules: Rules) -> str | None:
    labels: list[str] = []

    def number(label: str) -> int:
        labels.append(label)
        return 0

    classify_codes(np.array([0], np.int32), [name], rules, number)
    return labels[0] if labels else NOTHING


CALLS = {
    "cudaMalloc": "allocator",
    "cudaFree": "allocator",
    "cudaFreeAsync": "allocator",
    "cudaHostAlloc": "allocator",
    "cuMemMap": "allocator",
    "cuMemCreate": "allocator",
    "hipMalloc": "allocator",
    "hipHostMalloc": "allocator",
    "cudaDeviceSynchronize": "sync",
    "cudaStreamSynchronize": "sync",
    "cudaEventSynchronize": "sync",
    "hipDeviceSynchronize": "sync",
    "cuCtxSynchronize": "sync",
    "cudaMemcpyAsync": "copy_call",
    "cudaMemcpy": "copy_call",
    "hipMemcpyWithStream": "copy_call",
    "cuMemcpyHtoDAsync_v2": "copy_call",
    "cudaLaunchKernel": "launch",
    "cudaLaunchKernelExC": "launch",
    "cuLaunchKernel": "launch",
    "cuLaunchKernelEx": "launch",
    "cudaGraphLaunch": "launch",
    "hipGraphLaunch": "launch",
    "hipExtModuleLaunchKernel": "launch",
    "hipModuleLaunchKernel": "launch",
    "cudaMemsetAsync": "launch",
    "hipMemsetAsync": "launch",
    "cuModuleLoadData": "module_load",
    "hipModuleLoadData": "module_load",
    "cuLibraryLoadData": "module_load",
    "cudaEventRecord": NOTHING,
    "cudaEventQuery": NOTHING,
    "cudaStreamWaitEvent": NOTHING,  # the device waits, not the host
    "cudaStreamIsCapturing": NOTHING,
    "cudaMemGetInfo": NOTHING,
    "cudaGetDeviceProperties": NOTHING,
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": NOTHING,
    "hipPointerGetAttribute": NOTHING,
    "INVALID": NOTHING,
}


@pytest.mark.parametrize(("name", "wanted"), CALLS.items())
def test_runtime_calls(name: str, wanted: str | None) -> None:
    assert classify(name, RUNTIME) == wanted


FRAME_NAMES = {
    "torch/utils/data/dataloader.py(733): __next__": "input",
    "torch/utils/data/_utils/fetch.py(54): fetch": "input",
    "my_dataset.py(40): __getitem__": "input",
    "torch/serialization.py(967): save": "serialization",
    "<built-in method dump of _pickle.Pickler object>": "serialization",
    "<built-in function collect>": "gc",
    "torch/_dynamo/convert_frame.py(1170): compile_inner": "compile",
    "torch/_inductor/compile_fx.py(1500): compile_fx": "compile",
    "triton/compiler/compiler.py(230): compile": "compile",
    "torch/profiler/profiler.py(876): step": "profiler",
    # Open around work that is not theirs: they explain nothing by themselves.
    "torch/_dynamo/eval_frame.py(745): _fn": NOTHING,
    "torch/_inductor/output_code.py(615): __call__": NOTHING,
    "triton/runtime/jit.py(390): run": NOTHING,
    "torch/nn/modules/module.py(1776): _call_impl": NOTHING,
    "train.py(12): main": NOTHING,
    "train.py(30): load_state": NOTHING,
    "<built-in function linear>": NOTHING,
    "<built-in method sleep>": NOTHING,
    "torch/optim/optimizer.py(517): wrapper": NOTHING,
}


@pytest.mark.parametrize(("name", "wanted"), FRAME_NAMES.items())
def test_python_frames(name: str, wanted: str | None) -> None:
    assert classify(name, FRAMES) == wanted


ANNOTATION_NAMES = {
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "input",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": "input",
    "[pl][profile][_TrainingEpochLoop].train_dataloader_next": "input",
    "## load_batch ##": "input",
    "dataloader": "input",
    "_compile.compile_inner (dynamo_timed)": "compile",
    "Scheduler.codegen (dynamo_timed)": "compile",
    "entire_backward_compile": "compile",
    "CachingAutotuner.benchmark_all_configs": "compile",
    "Torch-Compiled Region: 0/0": NOTHING,
    "TorchDynamo Cache Lookup": NOTHING,
    "CompiledFunctionBackward": NOTHING,
    "CheckpointFunctionBackward": NOTHING,  # activation checkpointing saves nothing to disk
    "aten::_compute_linear_combination": NOTHING,
    "save_checkpoint": "serialization",
    "ProfilerStep#4": NOTHING,
    "Optimizer.step#AdamW.step": NOTHING,
    "## forward ##": NOTHING,
    "activation_checkpoint": NOTHING,
    "DistributedDataParallel.forward": NOTHING,
    "## Call CompiledFxGraph fxyz ##": NOTHING,
    "nccl:all_reduce": NOTHING,
    "logging": NOTHING,
}


@pytest.mark.parametrize(("name", "wanted"), ANNOTATION_NAMES.items())
def test_annotations(name: str, wanted: str | None) -> None:
    assert classify(name, ANNOTATIONS) == wanted


def test_overhead_rows() -> None:
    assert classify("Lazy Function Loading", OVERHEAD) == "module_load"
    assert classify("Buffer Flush", OVERHEAD) == "profiler"
    assert classify("Command Buffer Full", OVERHEAD) is NOTHING


OPERATOR_NAMES = {
    "aten::mm": "matmul",
    "aten::addmm": "matmul",
    "aten::_scaled_mm": "matmul",
    "aten::convolution_backward": "convolution",
    "aten::cudnn_convolution": "convolution",
    "aten::_scaled_dot_product_flash_attention": "attention",
    "aten::_cudnn_attention_backward": "attention",
    "vllm::unified_attention_with_output": "attention",
    "aten::_softmax": "softmax",
    "aten::_log_softmax_backward_data": "softmax",
    "aten::native_layer_norm_backward": "normalization",
    "aten::native_batch_norm": "normalization",
    "aten::_fused_adamw_": "optimizer",
    "aten::copy_": "elementwise",
    "aten::masked_fill_": "elementwise",
    "aten::gelu_backward": "elementwise",
    "aten::add_": "elementwise",
    "aten::embedding_dense_backward": "indexing",
    "aten::index_select": "indexing",
    "aten::cat": "indexing",
    "aten::sum": "reduction",
    "aten::linalg_vector_norm": "reduction",
    "aten::nll_loss_forward": "reduction",
    "aten::max_pool2d_with_indices": "reduction",
    "c10d::allreduce_": "communication",
    "record_param_comms": "communication",
    "aten::view": NOTHING,
    "aten::t": NOTHING,
    "aten::empty": NOTHING,
    "Torch-Compiled Region: 0/0": NOTHING,
}


@pytest.mark.parametrize(("name", "wanted"), OPERATOR_NAMES.items())
def test_operators(name: str, wanted: str | None) -> None:
    assert classify(name, OPERATORS) == wanted


KERNEL_NAMES = {
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT": "matmul",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": "matmul",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(T1::Params)": "matmul",
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x64x64": "matmul",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "communication",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(flash::Flash_fwd_params)": "attention",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80": "attention",
    "void implicit_convolve_sgemm<float, float, 128, 5, 5>(int)": "convolution",
    "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_tf32f32_f32_nhwckrsc_nchw": "convolution",
    "triton_poi_fused__to_copy_11": "fused",
    "triton_red_fused__log_softmax_17": "fused",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)": "softmax",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)": "normalization",
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(x)": "normalization",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)": "reduction",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)": "elementwise",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Fused, FusedAdamMathFunctor<float> >(x)":
        "optimizer",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorList<1>, UnaryOpFunctor<float> >(x)":
        "elementwise",
    "void at::native::index_elementwise_kernel<128, 4>(int)": "indexing",
    "void fbgemm_gpu::split_embedding_codegen_forward_unweighted_small_kernel<float, float>(int)": "indexing",
    "void fbgemm_gpu::permute_pooled_embs_kernel<float>(float const*)": "indexing",
    "my_secret_kernel": NOTHING,
}  # fmt: skip


@pytest.mark.parametrize(("name", "wanted"), KERNEL_NAMES.items())
def test_kernels(name: str, wanted: str | None) -> None:
    assert classify(name, KERNELS) == wanted


COPY_NAMES = {
    "Memcpy HtoD (Pageable -> Device)": "copy/h2d_pageable",
    "Memcpy HtoD (Pinned -> Device)": "copy/h2d_pinned",
    "Memcpy HtoD (Host -> Device)": "copy/h2d",
    "Memcpy HtoD": "copy/h2d",
    "Memcpy DtoH (Device -> Pageable)": "copy/d2h",
    "Memcpy DtoH (Device -> Host)": "copy/d2h",
    "Memcpy DtoD (Device -> Device)": "copy/d2d",
    "Memcpy PtoP (Device -> Device)": "copy/p2p",
    "Memcpy": "copy/other",
}


@pytest.mark.parametrize(("name", "wanted"), COPY_NAMES.items())
def test_copies(name: str, wanted: str | None) -> None:
    assert classify(name, COPIES) == wanted


def test_the_compilers_marks_count_though_they_are_written_as_operators(tmp_path: Path) -> None:
    p = Profile()
    p.launch(0, 10, 50, 100)
    p.operator("dynamo", 100, 300)
    p.operator("GraphLowering.run (dynamo_timed)", 110, 290)
    p.operator("aten::mm", 150, 200)
    p.launch(400, 410, 410, 500)
    (device,) = gpuwhy.explain(str(p.write(tmp_path / "p.json")), window="all").devices
    assert next(e.ns for e in device.ledger if e.account == "idle/compile") == 200


def test_backward_operators() -> None:
    for name in ("autograd::engine::evaluate_function: MmBackward0", "AddmmBackward0", "CudnnConvolutionBackward"):
        assert BACKWARD.match(name)
    assert not BACKWARD.match("aten::native_layer_norm_backward")
