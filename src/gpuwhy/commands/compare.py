"""`gpuwhy compare A B`: what is different after from before, and a gate for CI."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuwhy.commands.options import AsJson, Color, Html, Output, Redact, with_epilog

EPILOG = """Examples:

  gpuwhy compare before.json.gz after.json.gz     two profiles

  gpuwhy compare .gpuwhy/RUN1 .gpuwhy/RUN2        two runs, by all their steps

  gpuwhy compare main.json branch.json --fail-if 'step_time > +5%'
                                                  saved reports, as a gate

  gpuwhy compare A B --samples 64,128             per sample: batches differ

Conditions: step_time (median), mean_step_time, throughput, or an account such
as idle/input, < or > a change in % or in ns, us, ms, s. Below 20 steps a side
the answer is always that nobody can tell.

Exit status: 0 no condition holds, 1 one does, 2 unusable input,
3 cannot tell."""

REGRESSED, UNDECIDED = 1, 3


def compare(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A profile, the folder of a run, or a report saved as JSON: before.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The same: after.")],
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", metavar="CONDITION", help="Leave with status 1 if this holds; may be given again."),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option("--samples", metavar="N[,M]", help="Samples of a step, before and after: compares time a sample."),
    ] = None,
    as_json: AsJson = False,
    output: Output = None,
    html: Html = None,
    redact: Redact = False,
    color: Color = None,
) -> None:
    """Say what is different between two profiles, runs or reports, and whether it is more than noise."""
    from gpuwhy.commands.output import Wanted, emit_comparison, progress, spare
    from gpuwhy.compare.gate import CANNOT_TELL, HOLDS, parse
    from gpuwhy.compare.whole import compared

    spare([before, after], output, html)
    conditions = [parse(text) for text in fail_if or ()]
    with progress() as on_progress:
        found = compared(before, after, conditions, _samples(samples), redact, on_progress)
    emit_comparison(found, Wanted(as_json, output, html, color=color))
    outcomes = {gate.outcome for gate in found.gates}
    if HOLDS in outcomes:
        raise typer.Exit(REGRESSED)
    if CANNOT_TELL in outcomes:
        raise typer.Exit(UNDECIDED)


def _samples(text: str | None) -> tuple[float | None, float | None]:
    """Samples of a step on each side."""
    from gpuwhy.errors import GpuwhyError

    if text is None:
        return None, None
    words = text.split(",")
    if len(words) > 2 or not all(word.strip().isdecimal() and 0 < int(word) < 10**15 for word in words):
        raise GpuwhyError(f"--samples {text}: not one or two whole numbers", hint="for example --samples 64,128")
    return float(words[0]), float(words[-1])


compare.__doc__ = with_epilog(compare.__doc__, EPILOG)
