"""One rank comes late to collectives, and the others wait for it."""

from __future__ import annotations

import numpy as np

from gpuwhy.findings.base import LONG_NS, Finding, Look, Mend
from gpuwhy.ledger.accounts import within
from gpuwhy.reports.words import meaning, ms
from gpuwhy.whatif.changes import without_host_time
from gpuwhy.whatif.collectives import collectives
from gpuwhy.whatif.setting import Setting, Slices

OFTEN = 0.75
"""A straggler is the last in at least this part of the waiting time: of two ranks one always is in half of it."""


def straggler(look: Look) -> Finding | None:
    """Told of the late rank: how long the others wait for it, and what it does meanwhile that they do not."""
    setting = look.setting
    late_ns, share = _lateness(setting)
    if not look.is_worth(late_ns) or share < OFTEN:
        return None
    account, excess = _more_than_others(setting)
    if account is None:
        return None
    rank = setting.timeline.devices[setting.view.ledger.device].rank
    slices = setting.slices_of(account)
    if within(account, "outside_operators"):
        slices &= setting.long(LONG_NS)
    what = meaning(f"idle/{account.split('/')[0]}") or account
    return Finding(
        "straggler",
        f"rank {rank} comes late to collectives, and the other ranks wait for it",
        [
            f"the other ranks wait {look.of_step(late_ns)} for it",
            f"its host is busy with {account} ({what}) {ms(excess)} ms a step longer than the others'",
        ],
        "ranks that are as late in turns",
        [
            Mend(
                "keep_up",
                f"mend what holds rank {rank} up: {what}",
                None,
                without_host_time(slices, _left(setting, slices)),
            )
        ],
    )


def _lateness(setting: Setting) -> tuple[float, float]:
    """How long the other ranks wait for this one a step, and the part of all such waiting."""
    found = collectives(setting.timeline)
    if found is None:
        return 0.0, 0.0
    rank = setting.timeline.devices[setting.view.ledger.device].rank
    mine = found.ranks.index(rank)
    inside = setting.judged_ops[found.op[:, mine]]
    start = np.sort(setting.timeline.ops.start[found.op[inside]], axis=1)
    if not len(start):
        return 0.0, 0.0
    waited = (start[:, -1] - start[:, -2]).astype(np.float64)
    is_last = setting.timeline.ops.start[found.op[inside, mine]] == start[:, -1]
    total = float(waited.sum())
    return float(waited[is_last].sum()) / setting.steps, float(waited[is_last].sum()) / max(total, 1.0)


def _more_than_others(setting: Setting) -> tuple[str | None, float]:
    """The account that this rank's host spends most more on than the others do on average, and by how much a step."""
    groups = np.array([name.removeprefix("idle/").split("/")[0] for name in setting.of.accounts.names])
    best: tuple[str | None, float] = (None, 0.0)
    for group in sorted(set(groups[setting.account].tolist())):
        mine, others = _spent(setting, (groups == group)[setting.account])
        if mine - others > best[1]:
            best = (group, mine - others)
    return best


def _spent(setting: Setting, slices: Slices) -> tuple[float, float]:
    """What this rank's host spends on some slices a step, and what the others' do on average."""
    host = setting.graph.host
    time = np.where(slices, (host.end - host.start) * host.factor, 0.0)
    ranks = len({device.rank for device in setting.timeline.devices})
    own = float(time[setting.own].sum())
    return own / setting.steps, (float(time.sum()) - own) / setting.steps / max(ranks - 1, 1)


def _left(setting: Setting, slices: Slices) -> float:
    """The part of a late rank's host time that is left when it is no longer than the others'.

    Of the others, stretches as long count.
    """
    host = setting.graph.host
    alike = np.isin(setting.account, np.unique(setting.account[slices]))
    long = (host.end - host.start) >= (host.end - host.start)[slices].min(initial=0)
    mine, others = _spent(setting, alike & long)
    return min(others / max(mine, 1.0), 1.0)
