"""`python -m gpuwhy.run.beside FOLDER PID`: samples counters beside a program that records itself."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuwhy.run.folder import compress
from gpuwhy.run.supervise import Supervisor

AGAIN_S = 600.0


def main(folder: str, pid: str) -> None:
    """Sample until standard input ends: with the program, however that ends."""
    with Supervisor(Path(folder), int(pid), AGAIN_S):
        sys.stdin.read()
    compress(Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
