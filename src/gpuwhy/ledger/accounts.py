"""The names of accounts, and which of them count together."""

from __future__ import annotations

from dataclasses import dataclass, field

HOST_BOUND = ("idle/launch", "idle/dispatch", "idle/outside_operators", "idle/device")
WAITING = ("idle/input", "idle/sync", "idle/copy_call")
UNKNOWN = (
    "idle/untraced",
    "idle/outside_operators/main",
    "idle/outside_operators/backward",
    "idle/outside_operators/other",
)
"""What a profile cannot explain."""


@dataclass
class Accounts:
    """Numbers for account names, given out in the order of asking."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of an account, a new one for a new name."""
        found = self.numbers.get(name)
        if found is None:
            found = self.numbers[name] = len(self.names)
            self.names.append(name)
        return found


def within(account: str, group: str) -> bool:
    """Whether an account is `group` or lies below it in the tree."""
    return account == group or account.startswith(group + "/")
