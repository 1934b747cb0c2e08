"""Which names are everybody's: those of PyTorch, CUDA, ROCm and well-known libraries. All others are taken to be the
user's own.

Lists are short on purpose: a public name that is missing here is replaced, which costs a reader little; a private one
that matched by accident would be shown.
"""

from __future__ import annotations

import re
import sys

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
STANDARD = frozenset(f"{name}.py" for name in sys.stdlib_module_names) | sys.stdlib_module_names

NAMESPACES = re.compile(
    r"(aten|c10|c10d|_c10d_functional|c10d_functional|prim|prims|torch|torchvision|torchaudio|torchao|quantized|inductor"
    r"|fbgemm|vllm|sgl_kernel|xformers|flash_attn|nccl|gloo|mpi|ucc|rccl|symm_mem|onednn|mkldnn|cudnn|miopen|record_param"
    r"_comms|autograd)(::|:)[A-Za-z_]\w*(\.\w+)?"
)
AUTOGRAD = re.compile(
    r"(autograd::engine::evaluate_function: )?(torch::autograd::\w+|[A-Z]\w*Backward\d+|AccumulateGrad|"
    r"(Cudnn|Miopen|Native|Mkldnn|Compiled|Checkpoint|Fused)\w*Backward)"
)
DRIVER = re.compile(r"(cuda|cu|hip|hsa|nccl|Runtime|INVALID)[A-Z]?\w*")
ANNOTATIONS = re.compile(
    r"ProfilerStep#?\s*\d+|Optimizer\.(step|zero_grad)#(SGD|Adam|AdamW|Adagrad|RMSprop|Adafactor|NAdam|RAdam|LBFGS|Muon)"
    r"\.(step|zero_grad)|enumerate\(DataLoader\)#_\w+DataLoaderIter\.__next__|Torch-Compiled Region: [\d/]+"
    r"|(TorchDynamo|AOTDispatcher|Inductor)\b[\w .]*|CompiledFunction(Backward)?|## Call CompiledFxGraph \w+ ##"
    r"|DistributedDataParallel\.forward|FullyShardedDataParallel\.\w+|FSDP::\w+|(nccl|gloo):\w+|record_param_comms"
    r"|PyTorch Profiler \(\d+\)|cudaGraph(Launch|_\w+)?"
)
OVERHEAD = re.compile(r"[A-Z][a-z]+( [A-Z][a-z]+)+")
KERNELS = re.compile(
    r"""
    (void\ )?(\(anonymous\ namespace\)::)?
    ( (at | at_cuda_detail | c10 | cub | thrust | cutlass | cutlass__5x_cudnn | cudnn | cask\w* | xmma\w* | flash
       | pytorch_flash | nccl\w* | rccl\w* | rocprim | hipcub | ck | vllm | flashinfer | fbgemm_gpu | fmha\w* | internal
       | cublasLt\w*)::.*
    | (nvjet | ampere | volta | turing | maxwell | sm\d+ | cutlass | cudnn | cublas | gemm | gemv | gemmk1 | splitK
       | dot_kernel | scal_kernel | reduce_1Block | multi_tensor_apply | ncclDevKernel | ncclKernel | Cijk | MIOpen
       | igemm | implicit | Memcpy | Memset | triton_(poi | red | per | tem | for | mm | unk) | vectorized_elementwise
       | unrolled_elementwise | elementwise_kernel | reduce_kernel | softmax_warp | cunn_ | indexSelect | CatArray
       | DeviceR | RadixSort | batched_transpose | SubTensorOp)[\w\ ‹›<>,:()*&\-.]*
    )
    """,
    re.VERBOSE | re.DOTALL,
)
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
    r"<built-in (function|method) \w+( of (type|dict|str|list|set|tuple|int|float|bytes|Tensor|_thread\.\w+|module"
    r"|FunctionMeta|_io\.\w+|generator|_VariableFunctionsClass|CudaEvent|Event|Stream)( object)?( at 0x[0-9a-f]+)?)?>"
)
FRAME = re.compile(r"(?P<path>[^()\n]*)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
MODULE = re.compile(r"nn\.Module: (?P<type>.+?)(?P<number>_\d+)?")

PATTERNS = {
    CallKind.OPERATOR: (NAMESPACES, AUTOGRAD, ANNOTATIONS, DRIVER),
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
    for place, part in enumerate(parts):
        installed = place and parts[place - 1] in ("site-packages", "dist-packages")
        if PACKAGES.fullmatch(part) and (place == 0 or installed) and place + 1 < len(parts):
            return "/".join(parts[place:])
    library = any(re.fullmatch(r"python3\.\d+", part) for part in parts[:-1])
    if parts[-1] in STANDARD and (len(parts) == 1 or library) and "site-packages" not in parts:
        return parts[-1]
    return None
