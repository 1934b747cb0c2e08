"""Whether a signal was sent to gpuwhy alone or to its whole process group, which the program is in, too.

Nothing about a signal says to how many it was sent. So a process of gpuwhy's own stands in the group and tells which
signals it gets: what reaches it at the same time has reached the program, and must not be passed on a second time.
`timeout`, service managers and batch systems send to all.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress

PATIENCE_S = 0.05
"""How long is waited for the witness to tell of a signal that gpuwhy has got."""
RECENT_S = 0.5
"""What it told longer ago was another signal."""
LOOK_S = 1.0


class Witness:
    """`with Witness(signals) as witness: …`, with these signals blocked, and before any thread is started."""

    def __init__(self, signals: Collection[int]) -> None:
        self.signals = frozenset(signals)
        self.told: dict[int, float] = {}
        self.pid = 0
        self.pipe = -1

    def __enter__(self) -> Witness:
        with suppress(OSError):  # without one, signals to a group arrive twice
            gpuwhy = os.getpid()
            self.pipe, its_end = os.pipe()
            self.pid = os.fork()
            if not self.pid:
                _stand(self.signals, its_end, gpuwhy)
            os.close(its_end)
        return self

    def __exit__(self, *_: object) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def has_seen(self, number: int) -> bool:
        """Whether a signal that gpuwhy has got just now went to the whole group."""
        until = time.monotonic() + PATIENCE_S
        while True:
            if self.told.pop(number, 0.0) > time.monotonic() - RECENT_S:
                return True
            left = until - time.monotonic()
            if self.pipe < 0 or left <= 0 or not select.select([self.pipe], [], [], left)[0]:
                return False
            read = os.read(self.pipe, 64)
            if not read:
                return False
            self.told.update(dict.fromkeys(read, time.monotonic()))


def _stand(signals: Collection[int], its_end: int, gpuwhy: int) -> None:
    """What the witness does, until gpuwhy is gone."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # a pipe that the program writes to must end with the program
            os.dup2(nothing, number)
        while os.getppid() == gpuwhy:
            got = signal.sigtimedwait(signals, LOOK_S)
            if got is not None:
                os.write(its_end, bytes([got.si_signo]))
    finally:
        os._exit(0)
