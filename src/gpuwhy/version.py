"""The version of gpuwhy: the only place (asking the installed metadata takes longer than a small profile)."""

__version__ = "0.1.0"
