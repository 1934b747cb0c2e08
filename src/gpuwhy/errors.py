"""The one error that a user of gpuwhy meets: what is wrong, what to do next, and the exit code."""

from __future__ import annotations

EXPLAINED = 0
UNUSABLE_INPUT = 2
LEDGER_WITHHELD = 3


class GpuwhyError(Exception):
    """A failure with a message for people.

    `hint` says what to do next; `exit_code` is what the command line returns.
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = UNUSABLE_INPUT) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
