"""Names to classes: what a host call means for idle time, and what an operator or kernel does on the device.

Each table is a list of (class, pattern), tried in order on the whole name; the first match wins. Patterns name what
the call *is*, never where it was met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwhy.timeline import CallKind

Rules = Sequence[tuple[str, re.Pattern[str]]]


def _rules(*pairs: tuple[str, str]) -> Rules:
    return [(name, re.compile(pattern)) for name, pattern in pairs]


RUNTIME = _rules(
    (
        "allocator",
        r"(?i)(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister|ExtMalloc|MemPool)"
        r"|cuMem(Alloc|Free|Host|Create|Release|Map|Unmap|SetAccess|Address|GetAllocation|Pool)"
        r"|hipMem(Create|Release|Map|Unmap|SetAccess|Address|Pool)|ur(USM|VirtualMem).*(Alloc|Free)",
    ),
    ("sync", r"\b(cuda|hip|cu|ur)\w*Synchronize|^ur(Event|Queue)(Wait|Finish)"),
    ("launch", r"\b(cuda|hip|cu)\w*Launch|(cuda|hip|cu)Memset|urEnqueue(Kernel|MemFill|USMFill)"),
    (
        "copy_call",
        r"(cuda|hip|cu)Memcpy|^cuMemcpy|hipMemcpy|(cuda|hip|cu)MemPrefetch|urEnqueue(USMMemcpy|Mem\w*Copy)|mtia\w*emcpy",
    ),
    (
        "module_load",
        r"(cu|hip)Module(Load|GetFunction|Unload)|(cu|cuda)Library(Load|Get|Unload)|cuLink|hiprtc|nvrtc",
    ),
)
"""Runtime and driver calls that explain idle time by themselves. Others (queries, attributes) explain nothing."""

OVERHEAD = _rules(("module_load", r"Lazy Function Loading|Module"), ("profiler", r"^(?!Command Buffer Full)"))
"""Rows of category `overhead` (CUPTI's own). A full command buffer is back pressure, not machinery."""

ANNOTATIONS = _rules(
    (
        "input",
        r"enumerate\(DataLoader\)|_dataloader_next|(?i:\bdata_?load(er|ing)?\b|\b(load|get|fetch|next)_?batch\b)",
    ),
    (
        "compile",
        r"\(dynamo_timed\)$|^(dynamo|entire_(frame|backward)_compile|compile_attempt_\d+|backend_compile|inductor_compile"
        r"|CachingAutotuner\.\w+)$|(?i:^(triton )?autotun)",
    ),
    (
        "serialization",
        r"(?i:\b(save|write|load)_?checkpoint|\bcheckpoint_?(save|saving|write|load)|torch\.save)",
    ),
    ("gc", r"(?i:^garbage.?collect|^gc([._ ]collect)?$)"),
)
"""Annotations by which libraries and users mark such work themselves (torch, Lightning, plain words).

PyTorch writes its compiler's own marks as operators, and before 1.12 all annotations: these rules hold for both.
"""

FRAMES = _rules(
    (
        "profiler",
        r"torch/profiler/profiler\.py\(\d+\): (step|start|stop|_transit_action|__enter__|__exit__|start_trace"
        r"|stop_trace|prepare_trace|export_chrome_trace)$"
        r"|torch/autograd/profiler\.py\(\d+\): _?(start|prepare|ensure)\w*$",
    ),
    (
        "compile",
        r"torch/_dynamo/convert_frame\.py\(\d+\): (_compile|compile_inner|transform|__call__)$"
        r"|torch/_inductor/(compile_fx|codecache|async_compile|graph)\.py\(\d+\): (compile\w*|codegen\w*|load\w*|wait|"
        r"_?fx_codegen\w*)$"
        r"|torch/_functorch/(_?aot_autograd)\w*.*: (create_aot_dispatcher_function|aot_dispatch\w*)$"
        r"|torch/_inductor/runtime/triton_heuristics\.py\(\d+\): (autotune_to_one_config|benchmark_all_configs|"
        r"bench|precompile|_precompile\w*|make_launchers?|_make_launchers?)$"
        r"|triton/(compiler/compiler|runtime/build)\.py\(\d+\): (compile|_build|make_backend)$"
        r"|triton/runtime/(jit\.py\(\d+\): _do_compile|autotuner\.py\(\d+\): (_bench|benchmark\w*))$"
        r"|triton/backends/\w+/\w+\.py\(\d+\): (make_\w+|ptx_get\w*|compile_module\w*)$",
    ),
    (
        "input",
        r"torch/utils/data/(dataloader|_utils/fetch|_utils/pin_memory|_utils/collate)\.py\(\d+\): "
        r"(__next__|_next_data|_get_data|_try_get_data|fetch|collate|default_collate)$"
        r"|torch/utils/data/(dataset|datapipes/.*)\.py\(\d+\): (__getitem__|__getitems__|__iter__|__next__)$"
        r"|(torchdata|nvidia/dali|webdataset|streaming/base|datasets/|tensorflow/python/data|ffcv)\S*\.py\(\d+\): "
        r"(__next__|__getitem__|__getitems__|__iter__|_next_data)$"
        r"|(?i:[^/]*(dataset|dataloader|data_loader)\w*\.py\(\d+\): (__getitem__|__getitems__|__next__|__iter__)$)",
    ),
    (
        "serialization",
        r"torch/serialization\.py\(\d+\): (save|_save|_legacy_save|load|_load|persistent_id)$"
        r"|torch/distributed/checkpoint/\S*\.py\(\d+\): (save|async_save|load|save_state_dict|write_data|read_data)$"
        r"|safetensors/\w+\.py\(\d+\): (save\w*|load\w*)$|pickle\.py\(\d+\): (dump|dumps|load|loads|save)$"
        r"|<built-in (method|function) (dump|dumps|write_record|serialize_file|serialize)\b",
    ),
    ("gc", r"<built-in (method|function) collect of module|<built-in function collect>|\bgc\.collect\b"),
)
"""Python frames (`file.py(line): function`) that explain idle time: entry points, not everything in those files,
because wrappers of compiled regions and data loaders stay open around work that is not theirs."""

BACKWARD = re.compile(r"autograd::engine::evaluate_function|.*Backward\d*$")

OPERATORS = _rules(
    (
        "communication",
        r"^(nccl|rccl|gloo|hccl|ucc|mpi):|record_param_comms|^c10d::|_?c10d_functional::(?!wait)|all_?reduce|all_?gather"
        r"|reduce_?scatter|all_?to_?all",
    ),
    (
        "optimizer",
        r"aten::_fused_(adam|adamw|sgd|adagrad)|(?i:optimizer|fused_?adam|lamb\b|8bit_.*(adam|lion))",
    ),
    (
        "attention",
        r"(?i:attention|attn|flash|sdpa|fmha|paged_)",
    ),
    ("convolution", r"(?i:conv(?!ert)|miopen_conv|cudnn_conv|slow_conv|thnn_conv)"),
    (
        "matmul",
        r"(?i:aten::(mm|bmm|addmm|addbmm|baddbmm|addmv|mv|dot|vdot|matmul|linear|einsum|ger|addr|inner|outer|"
        r"_scaled_(grouped_)?mm|_grouped_mm|_int_mm|_addmm_activation|chain_matmul|bilinear)(_out|_v2)?$"
        r"|\b(MmBackward|AddmmBackward|BmmBackward|LinearBackward|BaddbmmBackward|MvBackward)\d*|(?<!fb)gemm|_mm\b|grouped_mm"
        r"|matmul)",
    ),
    ("softmax", r"(?i:softmax)"),
    (
        "normalization",
        r"(?i:(batch|layer|group|instance|rms|local_response)_?norm|miopen_batch_norm|cudnn_batch_norm)",
    ),
    (
        "indexing",
        r"(?i:aten::_?(index|embedding|gather|scatter|take|masked_(select|scatter)|nonzero|where_index|cat|stack|"
        r"_?unsafe_index|roll|flip|repeat|repeat_interleave|tril|triu|sort|argsort|topk|unique|bucketize|searchsorted|"
        r"slice_backward|select_backward|slice_scatter|select_scatter|as_strided_scatter|pad|constant_pad|unfold|"
        r"one_hot|histc|bincount|narrow_copy|split_with_sizes_copy|_chunk_cat|_foreach_copy)|embedding|permute_\dD|"
        r"index_|gather|scatter)",
    ),
    (
        "reduction",
        r"(?i:aten::_?(sum|mean|prod|norm|linalg_(vector_)?norm|max|min|amax|amin|argmax|argmin|all|any|std|var|"
        r"var_mean|std_mean|logsumexp|cumsum|cumprod|cummax|cummin|nll_loss\w*|mse_loss|l1_loss|count_nonzero|"
        r"_foreach_norm|aminmax|median|kthvalue|dist|cdist|cross_entropy\w*|binary_cross_entropy\w*|"
        r"\w*_pool\d?d\w*)$|_pool\d?d)",
    ),
    (
        "elementwise",
        r"aten::(_foreach_|_fused_dropout|native_dropout|dropout|copy_|fill_|zero_|clone|contiguous|to|_to_copy|"
        r"add|sub|mul|div|pow|sqrt|rsqrt|exp|log|log1p|expm1|neg|abs|sign|sigmoid|tanh|relu|gelu|silu|elu|leaky_relu|"
        r"hardtanh|hardswish|mish|softplus|threshold|clamp|clamp_min|clamp_max|where|masked_fill|addcmul|addcdiv|lerp|"
        r"erf|erfc|sin|cos|tan|asin|acos|atan|atan2|floor|ceil|round|trunc|frac|fmod|remainder|reciprocal|square|"
        r"maximum|minimum|eq|ne|lt|gt|le|ge|logical_\w+|bitwise_\w+|isnan|isinf|isfinite|nan_to_num|lerp|normal|uniform|"
        r"bernoulli|randn?|randint|random|arange|linspace|full|ones|zeros|eye|glu|prelu|huber_loss|smooth_l1_loss|"
        r"polar|complex|real|imag|heaviside|sinc|hypot|logit|exponential|threshold_backward|\w+_backward)_?$"
        r"|_amp_foreach|_amp_update|cast_|fake_quant|quantize",
    ),
)
"""Operators that say what their kernels do. An operator that is only a frame for others (`aten::linear` calls
`aten::addmm`) may match too: the innermost one decides."""

KERNELS = _rules(
    (
        "communication",
        r"(?i:nccl|rccl|oneccl|msccl|nvshmem|multimem_all|one_shot_all_reduce|two_shot_all_reduce|cross_device_reduce)",
    ),
    (
        "attention",
        r"(?i:flash|fmha|attention|attn|sdpa|paged_|mha_(fwd|bwd)|fused_attn|aiter.*(fmha|pa_)|"
        r"BlockFmha|unified_attention)",
    ),
    (
        "optimizer",
        r"(?i:multi_tensor_apply.*(adam|sgd|lamb|adagrad|lion|rmsprop)|fused.?(adam|sgd|lamb)|optimizer|adagrad)",
    ),
    (
        "convolution",
        r"(?i:(?<!de)conv(?!ert|_bf|_to)|cudnn.*(fprop|dgrad|wgrad)|implicit_gemm|winograd|miopen(?!.*norm)|im2col|igemm_(fwd|bwd|wrw))",
    ),
    (
        "matmul",
        r"(?i:(?<!fb)gemm|gemv|\bcutlass|cijk_|nvjet|\bxmma|matmul|_mm_|(?<!sub)tensorop|wmma|hmma|splitK|ampere_\w*_s\d+|dot_kernel|"
        r"cublas|marlin|deep_gemm)",
    ),
    ("fused", r"^triton_|^(fused_|tvmgen_)"),
    ("softmax", r"(?i:softmax)"),
    (
        "normalization",
        r"(?i:(batch|layer|group|instance|rms).?norm|bn_(fw|bw)|GammaBeta|RowwiseMoments|norm_fwd|norm_bwd)",
    ),
    (
        "indexing",
        r"(?i:index|gather|scatter|embedding|CatArray|radixSort|bitonicSort|sort|topk|DeviceSelect|DeviceScan|"
        r"nonzero|permute|transpose|tril|triu|unique|roll|flip|copy_device_to_device)",
    ),
    (
        "reduction",
        r"(?i:reduce|nll_loss|cumsum|argm(ax|in)|DeviceReduce|pool(ing)?_?(2d|fwd|bwd)|max_pool|avg_pool)",
    ),
    (
        "elementwise",
        r"(?i:elementwise|multi_tensor_apply|fill|copy_kernel|dropout|distribution|vectorized|pointwise|activation|gelu|silu|relu|add|mul|cast|convert|rotary|quant)",
    ),
)
"""Device operations by their own name, where no operator says more."""

COPIES = _rules(
    ("copy/h2d_pageable", r"HtoD.*Pageable"),
    ("copy/h2d_pinned", r"HtoD.*Pinned"),
    ("copy/h2d", r"HtoD|HostToDevice"),
    ("copy/d2h", r"DtoH|DeviceToHost"),
    ("copy/p2p", r"PtoP|PeerToPeer|Peer"),
    ("copy/d2d", r"DtoD|DeviceToDevice"),
    ("copy/other", r""),
)


def classify(
    codes: NDArray[np.int32], names: Sequence[str], rules: Rules, number: Callable[[str], int]
) -> NDArray[np.int16]:
    """`number(class)` for each name code, -1 where no rule matches; each name is looked at once."""
    table = np.full(len(names), -1, np.int16)
    used = np.zeros(len(names), bool)
    used[codes] = True
    for code in np.flatnonzero(used).tolist():
        name = names[code]
        for label, pattern in rules:
            if pattern.search(name):
                table[code] = number(label)
                break
    return table[codes]


SPECIAL_BY_KIND: dict[CallKind, Rules] = {
    CallKind.RUNTIME: RUNTIME,
    CallKind.OVERHEAD: OVERHEAD,
    CallKind.ANNOTATION: ANNOTATIONS,
    CallKind.OPERATOR: ANNOTATIONS,
    CallKind.PYTHON: FRAMES,
}


def special_calls(calls: Any, names: Sequence[str], number: Callable[[str], int]) -> NDArray[np.int16]:
    """For each host call the idle account that it decides by itself, -1 for none."""
    found = np.full(len(calls), -1, np.int16)
    for kind, rules in SPECIAL_BY_KIND.items():
        rows = np.flatnonzero(calls.kind == kind)
        found[rows] = classify(calls.name[rows], names, rules, number)
    return found
