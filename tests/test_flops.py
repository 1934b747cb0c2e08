"""FLOPs of a profile's operators equal what `torch.utils.flop_counter` counts while the model runs, for many models.

The counter sees operators as they are dispatched; we see the shapes in the exported profile. Both must give the same
integer, forward and backward. Where the counter is known to be wrong the difference is worked out by hand here:

- `_scaled_dot_product_flash_attention_for_cpu` and its backward: the counter has no formula for them.
- a causal mask: its formulas of attention count the full square of queries and keys.
- the gradient of the weights of a convolution in groups: it counts every pair of channels, `groups` times too many.
- `mkldnn_rnn_layer`, `mv`, `dot`, `addmv`, `addbmm`, `_int_mm`, in-place `addmm_`, and what runs inside operators
  without a decomposition (`bilinear`, the fast paths of inference of `TransformerEncoderLayer`): it does not see them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: there is no counter to compare with")

from models_for_flops import GROUPED, MODELS  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import gpuwhy  # noqa: E402
from gpuwhy.roofline.work import flops_of_calls  # noqa: E402


def made(name: str) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    return {**MODELS, **GROUPED}[name]()


def train(net: Any, inputs: tuple[Any, ...]) -> None:
    net(*inputs).float().sum().backward()


def infer(net: Any, inputs: tuple[Any, ...]) -> None:
    with torch.no_grad():
        net.eval()(*inputs)


def counted(run: Callable[[], Any], formulas: dict[Any, Any] | None = None) -> int:
    """What torch's counter says."""
    with FlopCounterMode(display=False, custom_mapping=formulas) as counter:
        run()
    return counter.get_total_flops()


def ours(run: Callable[[], Any], folder: Path) -> int:
    """What the recorded profile says."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        run()
    recorded.export_chrome_trace(str(folder / "profile.json"))
    flops = flops_of_calls(gpuwhy.load(folder / "profile.json"))
    assert flops == int(flops)
    return int(flops)


def pairs(queries: int, keys: int | None = None) -> int:
    """Pairs that a causal mask leaves: query i meets the keys 0 … i."""
    return sum(min(query + 1, keys or queries) for query in range(queries))


ATTENTION = {  # heads of all sequences × pairs of a query and a key × width of a head, of one pass
    "gpt": 2 * (2 * 3) * pairs(17) * 8,  # two blocks, two sequences, three heads
    "llama": 3 * 6 * pairs(11) * 8,  # the work follows the six heads of the queries, not the two of the keys
    "bert": 2 * (3 * 4) * 13 * 13 * 5,  # padding is added to the scores: nothing is left out
    "vit": 2 * 3 * 13 * 13 * 6,
    "seq2seq": 2 * 2 * 15 * 15 * 8 + 2 * 2 * pairs(9) * 8 + 2 * 4 * 9 * 15 * 4,  # encoder, decoder, across
    "diffusion": 2 * 1 * 30 * 30 * 12,
}
"""Multiply–adds of one matrix product of the fused attention. Forward has two: scores from queries and keys, output
from scores and values. Backward has five: the scores again, and the gradients of scores, queries, keys and values."""

FORWARD, BACKWARD = 2 * 2, 2 * 5


def test_causal_pairs_by_hand() -> None:
    assert pairs(4) == 1 + 2 + 3 + 4
    assert pairs(4, keys=2) == 1 + 2 + 2 + 2


@pytest.mark.parametrize("name", MODELS)
def test_training_equals_the_counter(name: str, tmp_path: Path) -> None:
    net, inputs = made(name)
    by_hand = (FORWARD + BACKWARD) * ATTENTION.get(name, 0)
    wanted = counted(lambda: train(net, inputs)) + by_hand
    assert wanted > 0
    assert ours(lambda: train(net, inputs), tmp_path) == wanted


@pytest.mark.parametrize("name", MODELS)
def test_inference_equals_the_counter(name: str, tmp_path: Path) -> None:
    net, inputs = made(name)
    wanted = counted(lambda: infer(net, inputs)) + FORWARD * ATTENTION.get(name, 0)
    assert ours(lambda: infer(net, inputs), tmp_path) == wanted


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_of_plain_products_equals_the_counter(name: str, tmp_path: Path) -> None:
    """The same models with attention that consists of `bmm` and softmax: there the counter needs no help, and a causal
    mask saves nothing.
    """
    net, inputs = made(name)
    with sdpa_kernel(SDPBackend.MATH):
        wanted = counted(lambda: train(net, inputs))
        assert ours(lambda: train(net, inputs), tmp_path) == wanted


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("recurrent", "dlrm")])
def test_autocast_changes_no_flops(name: str, tmp_path: Path) -> None:
    net, inputs = made(name)
    wanted = counted(lambda: train(net, inputs)) + (FORWARD + BACKWARD) * ATTENTION.get(name, 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert ours(lambda: train(net, inputs), tmp_path) == wanted


# --- Convolutions in groups ---------------------------------------------------------------------------------


def backward_of_groups(
    grad: Any, x: Any, weight: Any, _1: Any, _2: Any, _3: Any, _4: Any, transposed: bool, *rest: Any, **_: Any
) -> int:
    """Each weight meets each place of each picture once: of the output, of a transposed convolution of the input."""
    places = math.prod((x if transposed else grad)[2:])
    return 2 * math.prod(weight) * x[0] * places * sum(rest[-1][:2])


CORRECTED = {torch.ops.aten.convolution_backward: backward_of_groups}


@pytest.mark.parametrize("name", [*GROUPED, "resnet", "unet", "volumes"])
def test_groups_equal_the_corrected_counter(name: str, tmp_path: Path) -> None:
    net, inputs = made(name)
    wanted = counted(lambda: train(net, inputs), CORRECTED)
    assert ours(lambda: train(net, inputs), tmp_path) == wanted
    uncorrected = counted(lambda: train(net, inputs))
    assert uncorrected > wanted if name in GROUPED else uncorrected == wanted


@pytest.mark.parametrize("name", GROUPED)
def test_inference_in_groups_equals_the_counter(name: str, tmp_path: Path) -> None:
    net, inputs = made(name)
    assert ours(lambda: infer(net, inputs), tmp_path) == counted(lambda: infer(net, inputs))


CONVOLUTIONS: dict[str, Any] = {
    # A layer, its input, multiply–adds of one pass, passes. A pass: outputs × inputs of each (of a transposed one:
    # inputs × outputs of each). Gradients of the input and of the weights are a pass each.
    "plain": (lambda: nn.Conv2d(8, 12, 3, padding=1), (2, 8, 7, 5), 2 * 12 * 35 * (8 * 9), 3),
    "four groups": (lambda: nn.Conv2d(8, 12, 3, padding=1, groups=4), (2, 8, 7, 5), 2 * 12 * 35 * (2 * 9), 3),
    # (7 + 2 - 3) // 2 + 1 = 4 and (5 + 2 - 3) // 2 + 1 = 3 places
    "depthwise": (lambda: nn.Conv2d(8, 16, 3, 2, 1, groups=8), (2, 8, 7, 5), 2 * 16 * (4 * 3) * (1 * 9), 3),
    "transposed": (lambda: nn.ConvTranspose2d(8, 12, 3, 2, 1, 1), (2, 8, 7, 5), 2 * 8 * 35 * (12 * 9), 3),
    "transposed groups": (lambda: nn.ConvTranspose2d(8, 12, 3, 2, groups=4), (2, 8, 7, 5), 2 * 8 * 35 * (3 * 9), 3),
    # The kernel reaches over 1 + 2 · 2 = 5: (9 - 5) // 1 + 1 = 5 places
    "dilated": (lambda: nn.Conv1d(4, 6, 3, dilation=2), (3, 4, 9), 3 * 6 * 5 * (4 * 3), 3),
    # (5 - 2) // 1 + 1 = 4, (6 - 3) // 2 + 1 = 2, (4 + 2 - 1) // 1 + 1 = 6
    "volume": (lambda: nn.Conv3d(2, 5, (2, 3, 1), (1, 2, 1), (0, 0, 1)), (1, 2, 5, 6, 4), 5 * (4 * 2 * 6) * (2 * 6), 3),
    "in doubles": (lambda: nn.Conv2d(3, 4, 3).double(), (2, 3, 5, 6), 2 * 4 * (3 * 4) * (3 * 9), 3),
    "frozen weights": (lambda: nn.Conv2d(3, 4, 3).requires_grad_(False), (2, 3, 5, 6), 2 * 4 * (3 * 4) * (3 * 9), 2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_by_hand(name: str, tmp_path: Path) -> None:
    make, shape, pass_, passes = CONVOLUTIONS[name]
    net = make()
    x = torch.randn(shape, dtype=next(net.parameters()).dtype, requires_grad=True)
    assert ours(lambda: train(net, (x,)), tmp_path) == 2 * pass_ * passes
    assert ours(lambda: infer(net, (x,)), tmp_path) == 2 * pass_
    if passes == 3:  # a first layer: nobody wants the gradient of its input
        assert ours(lambda: train(net, (x.detach(),)), tmp_path) == 2 * pass_ * 2


def test_counter_counts_weights_of_groups_too_often() -> None:
    """The evidence: of 8 → 12 channels in 4 groups, 30240 FLOPs a pass, it counts 4 passes' worth for the weights."""
    net, x = nn.Conv2d(8, 12, 3, padding=1, groups=4), torch.randn(2, 8, 7, 5)
    one = 2 * 2 * 12 * 35 * (2 * 9)
    assert counted(lambda: infer(net, (x,))) == one
    assert counted(lambda: train(net, (x,))) == one + 4 * one


# --- What the counter does not see --------------------------------------------------------------------------


def test_fused_lstm_by_hand(tmp_path: Path) -> None:
    """Two layers, both directions: four gates of 12 from 9, later 24, inputs and 12 states; 6 sequences of 4."""
    net, x = nn.LSTM(9, 12, num_layers=2, bidirectional=True), torch.randn(4, 6, 9)
    forward = 2 * (4 * 6) * 2 * (48 * (9 + 12) + 48 * (24 + 12))
    assert counted(lambda: infer(net, (x,))) == 0
    assert ours(lambda: infer(net, (x,)), tmp_path) == forward
    assert ours(lambda: net(x)[0].sum().backward(), tmp_path) == 3 * forward


def test_lstm_by_steps_equals_the_counter(tmp_path: Path) -> None:
    """The same without the fused layer. The first states, zero, and the input want no gradients."""
    net, x = nn.LSTM(9, 12, num_layers=2, bidirectional=True), torch.randn(4, 6, 9)
    with torch.backends.mkldnn.flags(enabled=False):
        wanted = counted(lambda: net(x)[0].sum().backward())
        assert ours(lambda: net(x)[0].sum().backward(), tmp_path) == wanted
        assert ours(lambda: infer(net, (x,)), tmp_path) == 2 * (4 * 6) * 2 * (48 * (9 + 12) + 48 * (24 + 12))


def test_fast_path_of_the_encoder_by_hand(tmp_path: Path) -> None:
    """Its projections and products are inside `_transformer_encoder_layer_fwd`: ten rows of 16, two heads of 8."""
    net = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    projections = 10 * 16 * (3 * 16 + 16 + 32 + 32)  # of q, k and v, of the output, up and down
    by_hand = 2 * (projections + 2 * 2 * (2 * 5 * 5 * 8))
    assert counted(lambda: infer(net, (x,))) == 0
    assert ours(lambda: infer(net, (x,)), tmp_path) == by_hand
    assert counted(lambda: net.train()(x)) == by_hand  # the slow path
    assert ours(lambda: net.train()(x), tmp_path) == by_hand


def tensor(*shape: int) -> Any:
    return torch.randn(shape)


UNSEEN = {
    "mv": (lambda: tensor(6, 7) @ tensor(7), 2 * 6 * 7),
    "dot": (lambda: tensor(7) @ tensor(7), 2 * 7),
    "vector by matrices": (lambda: tensor(7).requires_grad_() @ tensor(2, 7, 5), 2 * 2 * 7 * 5),
    "addmv": (lambda: torch.addmv(tensor(6), tensor(6, 7), tensor(7)), 2 * 6 * 7),
    "addmv_": (lambda: tensor(6).addmv_(tensor(6, 7), tensor(7)), 2 * 6 * 7),
    "addbmm": (lambda: torch.addbmm(tensor(6, 5), tensor(3, 6, 7), tensor(3, 7, 5)), 2 * 3 * 6 * 7 * 5),
    "addmm_": (lambda: tensor(3, 5).addmm_(tensor(3, 4), tensor(4, 5)), 2 * 3 * 4 * 5),
    "baddbmm_": (lambda: tensor(2, 3, 5).baddbmm_(tensor(2, 3, 4), tensor(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "addbmm_": (lambda: tensor(3, 5).addbmm_(tensor(2, 3, 4), tensor(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "_int_mm": (lambda: torch._int_mm(*[torch.ones(32, 32, dtype=torch.int8)] * 2), 2 * 32 * 32 * 32),
    # Of 5 rows each: for each of 3 outputs (5, 6) by (6, 7), then 5 sums of 7 products
    "bilinear": (lambda: nn.Bilinear(6, 7, 3)(tensor(5, 6), tensor(5, 7)), 3 * (2 * 5 * 6 * 7 + 2 * 5 * 7)),
    # Squares of distances are one product, of rows that have two elements more
    "cdist": (lambda: torch.cdist(tensor(50, 7), tensor(40, 7)), 2 * 50 * 40 * (7 + 2)),
    # A product of (7 · 2, 3) by (3, 4) for each of 3 places of the kernel, of 7 - 2 of 7 steps without padding
    "conv_tbc": (lambda: torch.conv_tbc(tensor(7, 2, 3), tensor(3, 3, 4), tensor(4)), 3 * 2 * (5 * 2) * 3 * 4),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_the_counter_does_not_see_by_hand(name: str, tmp_path: Path) -> None:
    run, by_hand = UNSEEN[name]
    assert counted(run) == 0
    assert ours(run, tmp_path) == by_hand


def test_sparse_products_are_unknown(tmp_path: Path) -> None:
    """How many elements there are is not recorded; that of dense ones would be 150."""
    assert ours(lambda: torch.sparse.mm(torch.eye(5).to_sparse(), tensor(5, 3)), tmp_path) == 0


def test_out_variants_equal_the_counter(tmp_path: Path) -> None:
    def run() -> None:
        torch.mm(tensor(3, 4), tensor(4, 5), out=torch.empty(3, 5))
        torch.bmm(tensor(2, 3, 4), tensor(2, 4, 5), out=torch.empty(2, 3, 5))
        torch.addmm(tensor(5), tensor(3, 4), tensor(4, 5), out=torch.empty(3, 5))
        torch.matmul(tensor(6, 2, 3, 4), tensor(4, 5), out=torch.empty(6, 2, 3, 5))

    by_hand = 2 * 60 + 2 * 120 + 2 * 60 + 2 * 720
    assert counted(run) == ours(run, tmp_path) == by_hand


# --- Fused attention ----------------------------------------------------------------------------------------

SHAPES = {  # batch, heads of queries, of keys, queries, keys, width; causal; pairs of one head
    "square": ((2, 4, 4, 9, 9, 16), False, 9 * 9),
    "causal": ((2, 4, 4, 9, 9, 16), True, 45),
    "causal, more keys": ((2, 4, 4, 5, 9, 16), True, 1 + 2 + 3 + 4 + 5),
    "causal, fewer keys": ((2, 4, 4, 9, 3, 16), True, 1 + 2 + 7 * 3),
    "grouped": ((2, 6, 2, 9, 9, 16), True, 45),
    "one query": ((3, 4, 4, 1, 33, 16), False, 33),
    "across": ((1, 4, 4, 7, 20, 16), False, 7 * 20),
}


@pytest.mark.parametrize("name", SHAPES)
def test_fused_attention_by_hand(name: str, tmp_path: Path) -> None:
    (batch, heads, groups, queries, keys, width), causal, of_a_head = SHAPES[name]
    q = torch.randn(batch, heads, queries, width, requires_grad=True)
    k, v = (torch.randn(batch, groups, keys, width, requires_grad=True) for _ in range(2))

    def attend() -> Any:
        attention = torch.nn.functional.scaled_dot_product_attention
        return attention(q, k, v, is_causal=causal, enable_gqa=groups != heads)

    product = batch * heads * of_a_head * width
    assert ours(attend, tmp_path) == 2 * 2 * product
    assert ours(lambda: attend().sum().backward(), tmp_path) == 2 * (2 + 5) * product


# --- Ways of running ----------------------------------------------------------------------------------------


def test_checkpoints_count_what_is_computed_again(tmp_path: Path) -> None:
    net, inputs = nn.Sequential(nn.Linear(13, 29), nn.GELU(), nn.Linear(29, 31), nn.Tanh()), tensor(5, 13)
    head = nn.Linear(31, 7)

    def run(again: bool) -> None:
        x = inputs.requires_grad_()
        y = checkpoint(net, x, use_reentrant=False) if again else net(x)
        head(y).sum().backward()

    forward, last = 2 * 5 * (13 * 29 + 29 * 31), 2 * 5 * 31 * 7
    plain = 3 * (forward + last)
    assert ours(lambda: run(False), tmp_path) == counted(lambda: run(False)) == plain
    # Recomputing ends with the last tensor that is wanted: here all of it, as the tanh saves its result.
    assert ours(lambda: run(True), tmp_path) == counted(lambda: run(True)) == plain + forward


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_blocks_equal_the_counter(reentrant: bool, tmp_path: Path) -> None:
    net, (image,) = made("resnet")

    def run() -> None:
        x = net[:4](image)
        for block in net[4:7]:
            x = checkpoint(block, x, use_reentrant=reentrant)
        net[7:](x).sum().backward()

    wanted = counted(run)
    assert wanted > counted(lambda: train(net, (image,)))
    assert ours(run, tmp_path) == wanted


@pytest.mark.parametrize("name", ["gpt", "mlp", "unet"])
def test_captured_graphs_count_as_the_model_does(name: str, tmp_path: Path) -> None:
    """Forward and backward captured and partitioned by torch.compile; the backend that generates code takes minutes."""
    net, inputs = made(name)
    compiled = torch.compile(net, backend="aot_eager")
    train(compiled, inputs)
    wanted = counted(lambda: train(net, inputs)) + (FORWARD + BACKWARD) * ATTENTION.get(name, 0)
    assert ours(lambda: train(compiled, inputs), tmp_path) == wanted


def test_several_steps_add_up(tmp_path: Path) -> None:
    net, inputs = made("mlp")
    optimizer = torch.optim.AdamW(net.parameters())

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            train(net, inputs)
            optimizer.step()

    assert ours(run, tmp_path) == 3 * counted(lambda: train(net, inputs))


def test_products_in_hooks_count(tmp_path: Path) -> None:
    net, inputs = made("mlp")
    hooked = net[2].weight.register_hook(lambda grad: grad @ torch.ones(29, 29))
    wanted = counted(lambda: train(net, inputs))
    assert ours(lambda: train(net, inputs), tmp_path) == wanted
    hooked.remove()
    assert wanted - counted(lambda: train(net, inputs)) == 2 * 31 * 29 * 29


def test_profile_without_shapes_tells_no_flops(tmp_path: Path) -> None:
    net, inputs = made("mlp")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=False) as recorded:
        train(net, inputs)
    recorded.export_chrome_trace(str(tmp_path / "profile.json"))
    assert flops_of_calls(gpuwhy.load(tmp_path / "profile.json")) == 0
