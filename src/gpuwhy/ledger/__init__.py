"""The ledger: which account each nanosecond of a device's window belongs to (docs/ledger.md)."""

from gpuwhy.ledger.partition import Ledger, balance

__all__ = ["Ledger", "balance"]
