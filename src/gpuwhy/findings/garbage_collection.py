"""Python's garbage collection holds up the loop."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look, off_the_loop


def garbage_collection(look: Look) -> Finding | None:
    """Collections within the judged steps."""
    return off_the_loop(
        look,
        look.setting.slices_of("gc"),
        "garbage_collection",
        "Python's garbage collection holds up the loop",
        "a loop as slow after gc.disable()",
        (
            "gc_off_loop",
            "collect between epochs, not in the loop",
            "gc.disable(); gc.freeze()   # and gc.collect() rarely",
        ),
    )
