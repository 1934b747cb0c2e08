"""A checkpoint is written in the loop."""

from __future__ import annotations

import re

import numpy as np

from gpuwhy.arrays import unique
from gpuwhy.findings.base import SHORT_NS, Finding, Look, mend_of, warmed
from gpuwhy.findings.stops import stops
from gpuwhy.roofline.arguments import arguments
from gpuwhy.timeline import Signature
from gpuwhy.whatif.changes import composed, without_host_time, without_ops
from gpuwhy.whatif.setting import Ops, Setting, Slices

COPY = re.compile(r"aten::copy_$")
BYTE = "unsigned char"


def checkpoint(look: Look) -> Finding | None:
    """Serialization as frames or annotations tell it, or storages copied to the host as bytes, as torch.save does."""
    setting = look.setting
    raw, around = raw_copies(setting)
    slices = setting.slices_of("serialization") | around
    own = setting.host_ns(slices)
    if not look.is_worth(own):
        return None
    evidence = [look.of_step(own)]
    changes = [without_host_time(slices), without_ops(raw)]
    if raw.any():
        count = int((raw & setting.judged_ops).sum()) / setting.steps
        evidence.append(f"{count:,.0f} storages a step are copied to the host as plain bytes, as torch.save does")
        if (copying := stops(setting).get("out")) is not None:
            changes.append(copying.no_waits(setting))
    return Finding(
        "checkpoint",
        "a checkpoint is written in the loop",
        evidence,
        "a step as long without the checkpoint",
        [
            mend_of(
                "checkpoint_rarely",
                "write checkpoints rarely, or in the background",
                "torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
                [composed([*changes, warm]) for warm in warmed(look, slices)],
            )
        ],
    )


def raw_copies(setting: Setting) -> tuple[Ops, Slices]:
    """Copies of raw storages to the host (one dimension of bytes), and the host's time for them.

    That is all of it from the first of a run to the last, and what goes on for long between the run and the launches
    before and after it: the file is opened, written and closed then.
    """
    timeline, host = setting.timeline, setting.graph.host
    calls, ops = timeline.calls, timeline.ops
    copying = timeline.names_like(COPY)[calls.name] & (calls.signature >= 0)
    raw = np.zeros(len(timeline.signatures) + 1, bool)
    for number in unique(calls.signature[copying]).tolist():
        raw[number] = _is_raw(timeline.signatures[number])
    pieces = (copying & raw[calls.signature])[timeline.nesting.call]
    copies = setting.ops_in(pieces) & setting.busy("copy/d2h")
    around = np.zeros(len(host), bool)
    launch = np.unique(ops.launch[ops.launch >= 0])
    of_copies = np.isin(launch, ops.launch[copies])
    for one in np.unique(calls.thread[launch[of_copies]]).tolist():
        mine = calls.thread[launch] == one
        around |= (host.thread == one) & _spanned(setting, launch[mine], of_copies[mine])
    return copies, around & ~setting.slices_of("sync", "input", "gc", "compile", "allocator")


def _spanned(setting: Setting, launch: Ops, is_raw: Ops) -> Slices:
    """Slices in or around runs of launches; `launch` are those of one thread in order."""
    calls, host = setting.timeline.calls, setting.graph.host
    edge = np.diff(np.concatenate(([0], is_raw.astype(np.int8), [0])))
    first, last = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1) - 1
    limit = np.iinfo(np.int64)
    before = np.where(first > 0, calls.end[launch[np.maximum(first - 1, 0)]], limit.min)
    after = np.where(last + 1 < len(launch), calls.start[launch[np.minimum(last + 1, len(launch) - 1)]], limit.max)
    begin, finish = calls.start[launch[first]], calls.end[launch[last]]
    place = np.maximum(np.searchsorted(before, host.start, side="right") - 1, 0)
    within = (host.start >= before[place]) & (host.end <= after[place])
    inner = (host.start >= begin[place]) & (host.end <= finish[place])
    # Before the first copy the state is collected, with operators that launch nothing.
    collecting = (host.end <= begin[place]) & setting.slices_of("host_compute")
    spanned: Slices = within & (inner | collecting | setting.long(SHORT_NS))
    return spanned


def _is_raw(signature: Signature) -> bool:
    taken = arguments(signature)
    tensors = [taken.tensor(place) for place in (0, 1)] if taken is not None else []
    return bool(tensors) and all(one is not None and one.type == BYTE and len(one.dims) == 1 for one in tensors)
