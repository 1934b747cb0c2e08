"""Which names are everybody's: those of PyTorch, CUDA, ROCm and well-known libraries. All others are taken to be the
user's own.

Lists are short on purpose: a public name that is missing here is replaced, which costs a reader little; a private one
that matched by accident would be shown.
"""

from __future__ import annotations

import builtins
import gc
import itertools
import math
import operator
import re
import sys
import time

from gpuwhy.timeline import CallKind

PACKAGES = re.compile(
    r"""
    PIL | accelerate | apex | bitsandbytes | cupy | datasets | deepspeed | diffusers | einops | flash_attn
    | flashinfer | fsspec | huggingface_hub | ignite | jax | lightning | lightning_fabric | matplotlib
    | megatron | numpy | nvidia | onnxruntime | pandas | peft | pytorch_lightning | safetensors | scipy
    | sentencepiece | sglang | sklearn | timm | tokenizers | torch | torchao | torchaudio | torchmetrics
    | torchrec | torchtitan | torchtune | torchvision | tqdm | transformer_engine | transformers | triton | trl
    | vllm | xformers
    """,
    re.VERBOSE,
)
"""Top-level packages whose files and functions are public."""
STANDARD = frozenset(f"{name}.py" for name in sys.stdlib_module_names)
USUAL = re.compile(
    r"(abc|asyncio|contextlib|copy|dataclasses|enum|functools|importlib|inspect|json|logging|multiprocessing|pathlib"
    r"|pickle|random|re|runpy|selectors|socket|subprocess|tempfile|threading|traceback|typing|warnings|weakref)\.py"
)
"""Of the standard library what shows in profiles: other names of its files may be those of a user's own script."""
OUTSIDE = re.compile(r"apex|datasets|ignite|megatron|timm|tokenizers|triton|trl|jax|peft")
"""Packages that are public where they are installed; as a folder beside a program they are anybody's."""
BUILT_INS = sorted({*dir(builtins), *dir(time), *dir(gc), *dir(math), *dir(operator), *dir(itertools)})

NAMESPACES = re.compile(
    r"(aten|c10|c10d|_c10d_functional|c10d_functional|prim|prims|torch|torchvision|torchaudio|torchao|quantized|inductor"
    r"|fbgemm|vllm|sgl_kernel|xformers|flash_attn|nccl|gloo|mpi|ucc|rccl|symm_mem|onednn|mkldnn|cudnn|miopen|record_param"
    r"_comms|autograd)(::|:)[A-Za-z_]\w*(\.\w+)?"
)
AUTOGRAD = re.compile(
    r"(autograd::engine::evaluate_function: )?(torch::autograd::\w+|[A-Z]\w*Backward\d+|AccumulateGrad"
    r"|CompiledFunctionBackward|CheckpointFunctionBackward)"
)
"""PyTorch's generator numbers its nodes; those of the user's own functions have no number."""
DRIVER = re.compile(r"(cuda|cu|hip|hsa)_?[A-Z]\w*|INVALID|Runtime Triggered Module Loading|Lazy Function Loading")
COLLECTIVES = (
    r"(all_reduce|allreduce|all_gather|allgather|reduce_scatter|broadcast|send|recv|all_to_all|alltoall|barrier|reduce"
    r"|gather|scatter|coalesced)(_into_tensor|_tensor|_base|_coalesced|_single)*"
)
ANNOTATIONS = re.compile(
    r"ProfilerStep#?\s*\d+|Optimizer\.(step|zero_grad)#(SGD|Adam|AdamW|Adagrad|RMSprop|Adafactor|NAdam|RAdam|LBFGS|Muon)"
    r"\.(step|zero_grad)|enumerate\(DataLoader\)#_(Single|Multi)ProcessDataLoaderIter\.__next__"
    r"|Torch-Compiled Region: [\d/]+|TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue"
    r"|CompiledFunction(Backward)?|## Call CompiledFxGraph \w+ ##|DistributedDataParallel\.forward"
    rf"|FullyShardedDataParallel\.\w+|FSDP::\w+|(nccl|gloo|mpi|ucc|rccl):_?{COLLECTIVES}|record_param_comms"
    r"|PyTorch Profiler \(\d+\)|cudaGraph(Launch|_\w+)?"
)
OVERHEAD = re.compile(r"Activity Buffer Request|Instrumentation|Resource|Buffer Flush|Lazy Function Loading|Unknown")
KERNELS = re.compile(
    r"""
    (void\ )?(\(anonymous\ namespace\)::)?
    ( (at::native | at::cuda | c10 | cub | thrust | cutlass | cutlass__5x_cudnn | cudnn | cask_\w* | xmma_\w* | flash
       | pytorch_flash | pytorch_fmha | rocprim | hipcub | ck | vllm | flashinfer | fbgemm_gpu | cublasLt)::.*
    | internal::gemvx::kernel.*
    | (nvjet | ampere | volta | turing | maxwell)_\w+ | sm\d+_xmma_\w+ | cutlass_\d+_\w+ | cudnn_generated_\w+
    | Cijk_\w+ | MIOpen\w+ | (ncclDevKernel | ncclKernel)_\w+.*
    | (gemv2T | gemv2N | gemvNSP)_kernel\w*.* | gemmk1_kernel.* | splitKreduce_kernel.*
    | dot_kernel.* | reduce_1Block_kernel.* | scal_kernel.* | implicit_convolve_sgemm.*
    | batched_transpose_\w+ | CatArrayBatchedCopy\w*.* | indexSelect(Small | Large)Index.* | cunn_SoftMax\w*.*
    | softmax_warp_(forward | backward).* | (vectorized | unrolled)_elementwise_kernel.* | elementwise_kernel.*
    | reduce_kernel.* | multi_tensor_apply_kernel.*
    | Memcpy\ (HtoD | DtoH | DtoD | PtoP | HtoH | HtoA | AtoH)(\ \([\w\ \->]+\))?
    | Memset\ \((Device | Unknown | Managed)\)
    | (Copy | Memcpy | Fill | Memset)\w{0,16}To\w{0,16}
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Whole names, or all that stands in a library's namespace; what fused kernels are generated from names operators."""
MODULES = re.compile(
    r"""
    AdaptiveAvgPool1d | AdaptiveAvgPool2d | AdaptiveAvgPool3d | AvgPool1d | AvgPool2d | BCELoss
    | BCEWithLogitsLoss | BatchNorm1d | BatchNorm2d | BatchNorm3d | Bilinear | Conv1d | Conv2d | Conv3d
    | ConvTranspose1d | ConvTranspose2d | ConvTranspose3d | CrossEntropyLoss | DataParallel
    | DistributedDataParallel | Dropout | Dropout1d | Dropout2d | Dropout3d | ELU | Embedding | EmbeddingBag
    | Flatten | FullyShardedDataParallel | GELU | GLU | GRU | GRUCell | GroupNorm | Hardswish | Identity
    | InstanceNorm1d | InstanceNorm2d | L1Loss | LSTM | LSTMCell | LayerNorm | LeakyReLU | Linear | LogSoftmax
    | MSELoss | MaxPool1d | MaxPool2d | MaxPool3d | Mish | ModuleDict | ModuleList | MultiheadAttention
    | NLLLoss | OptimizedModule | PReLU | ParameterDict | ParameterList | PixelShuffle | RMSNorm | RNN | RNNCell
    | ReLU | ReLU6 | Sequential | SiLU | Sigmoid | SmoothL1Loss | Softmax | Softplus | SyncBatchNorm | Tanh
    | Transformer | TransformerDecoder | TransformerDecoderLayer | TransformerEncoder | TransformerEncoderLayer
    | Unflatten | Upsample | ZeroPad2d
    """,
    re.VERBOSE,
)
"""Classes of torch.nn."""
BUILT_IN = re.compile(
    rf"<built-in function ({'|'.join(map(re.escape, BUILT_INS))})>"
    r"|<built-in method \w+ of (type|dict|str|list|set|tuple|int|float|bytes|Tensor) object( at 0x[0-9a-f]+)?>"
)
FRAME = re.compile(r"(?P<path>[^()\n]*)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
MODULE = re.compile(r"nn\.Module: (?P<type>.+?)(?P<number>_\d+)?")

PATTERNS = {
    CallKind.OPERATOR: (NAMESPACES, AUTOGRAD, ANNOTATIONS),
    CallKind.RUNTIME: (DRIVER,),
    CallKind.OVERHEAD: (OVERHEAD,),
    CallKind.ANNOTATION: (ANNOTATIONS, NAMESPACES),
    CallKind.PYTHON: (BUILT_IN,),
}


def is_public(name: str, kind: CallKind) -> bool:
    """Whether a host call's name is everybody's; frames and modules are taken apart elsewhere."""
    return any(pattern.fullmatch(name) for pattern in PATTERNS[kind])


def is_public_kernel(name: str) -> bool:
    """Whether a device operation's name is everybody's."""
    return KERNELS.fullmatch(name) is not None


def is_public_module(name: str) -> bool:
    """Whether a module's class is one of torch.nn."""
    return MODULES.fullmatch(name) is not None


def public_part(path: str) -> str | None:
    """A file's path from its public package on (`torch/nn/modules/linear.py`), None if it is in none."""
    parts = path.replace("\\", "/").split("/")
    for place, part in enumerate(parts[:-1]):
        installed = place > 0 and parts[place - 1] in ("site-packages", "dist-packages")
        here = place == 0 and not OUTSIDE.fullmatch(part)
        if PACKAGES.fullmatch(part) and (here or installed):
            return "/".join(parts[place:])
    library = any(re.fullmatch(r"python3\.\d+", part) for part in parts[:-1]) and "site-packages" not in parts
    if (len(parts) == 1 and USUAL.fullmatch(path)) or (library and parts[-1] in STANDARD):
        return parts[-1]
    return None
