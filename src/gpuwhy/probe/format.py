"""The layout of a record, as the probe writes it and `gpuwhy.run` reads it.

A record is 40 bytes, little-endian: kind, flags, detail, thread, start, end, two values. Times are nanoseconds of
CLOCK_MONOTONIC, which all processes of a host share. When steps begin stands in a file of its own, as times only; which
of the anchors below told them, in the notes.
"""

from __future__ import annotations

from struct import Struct

RECORD = Struct("<BBHIqqqq")
COLUMNS = (
    ("kind", "u1"),
    ("flags", "u1"),
    ("detail", "<u2"),
    ("thread", "<u4"),
    *((name, "<i8") for name in ("start", "end", "value", "more")),
)
"""The same, as columns of NumPy."""

DEVICE = 2
"""`start` steps from number `value` on took `more` ns on the device, from the beginning of the first to that of the one
after the last. `detail`: which device."""
LOADER = 3
"""The loop waited for a batch. `value`: samples; `more`: tokens; both -1: not known. `detail`: how they were found."""
FORWARD = 4
"""A model was called from outside of any other. `value`: samples; `more`: tokens, or -1; `flags`: GRAD."""
GENERATE = 5
"""`generate` of a language model. `value`: sequences; `more`: new tokens."""
COLLECTION = 6
"""Python collected garbage."""
CHECKPOINT = 7
"""Something was saved."""
COMPILE = 8
"""torch compiled."""
EVALUATION = 9
"""`value` 1: a model was put into evaluation mode at `start`; 0: back into training mode."""
PROFILE = 10
"""gpuwhy's own profiler was on, or being started or stopped. Steps of this time are not the program's."""
LOCK = 11
"""The thread of the loop gave Python's lock away at `start`, and had it back at `end`."""
LAST_KIND = LOCK

GRAD = 1
"""The model was in training mode and gradients were on: an optimizer is to be expected."""

USER, OPTIMIZER, TOKEN, BATCH, CALL, REPLAY = 6, 5, 4, 3, 2, 1
"""What steps are told by, the best first: `gpuwhy.step()`, an optimizer's step, a model's call within `generate`, the
loader's next batch, a model's call, a CUDA graph's replay."""
ANCHORS = {
    USER: "gpuwhy.step",
    OPTIMIZER: "optimizer",
    TOKEN: "generate",
    BATCH: "loader",
    CALL: "forward",
    REPLAY: "graph replay",
}

FIRST_TENSOR, INPUT_IDS = 1, 2
"""How the samples of a batch were found: the first dimension of its first tensor, or of `input_ids`."""
