"""Code is compiled again and again."""

from __future__ import annotations

from gpuwhy.findings.base import Finding, Look, off_the_loop


def compilation(look: Look) -> Finding | None:
    """Compilation and autotuning within the judged steps."""
    return off_the_loop(
        look,
        look.setting.slices_of("compile"),
        "compile",
        "code is compiled again in every step",
        "TORCH_LOGS=recompiles that shows none",
        (
            "no_recompile",
            "keep fixed what changes from step to step (TORCH_LOGS=recompiles names it), or mark it dynamic",
            "torch.compile(model, dynamic=True)",
        ),
    )
