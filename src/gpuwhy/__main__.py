"""The command line, `gpuwhy VERB …`: joins the verbs of `commands`, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys

import typer

from gpuwhy.commands import ceilings, compare, demo, explain, profile, run
from gpuwhy.errors import GpuwhyError

INTERNAL_ERROR = 70
"""As sysexits.h has it: 1 is an answer, that of a gate."""
INTERRUPTED = 130

app = typer.Typer(
    name="gpuwhy",
    help="Why is my GPU not doing more?",
    epilog="Start with: gpuwhy demo",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("explain", short_help="Say where each GPU's time went, from PyTorch profiles.")(explain.explain)
app.command(
    "run",
    cls=run.RunCommand,
    short_help="Run a program, unchanged, and say why its GPU is not doing more.",
    context_settings={"allow_interspersed_args": False},
)(run.run)
app.command("compare", short_help="Say what is different between two profiles, runs or reports.")(compare.compare)
app.command("profile", short_help="Have a program under gpuwhy run record another profile.")(profile.profile)
app.command("demo")(demo.demo)
app.command("ceilings", short_help="Measure what this GPU can really reach, and keep it.")(ceilings.ceilings)


def _version(wanted: bool) -> None:
    if wanted:
        from gpuwhy.version import __version__

        typer.echo(f"gpuwhy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Why is my GPU not doing more?"""


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code, never a traceback."""
    try:
        app(prog_name="gpuwhy")
    except GpuwhyError as error:
        _complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as leaving:
        # typer turns an interrupt into this, and says nothing; a program's own status is no interrupt of gpuwhy.
        if leaving.code == INTERRUPTED and type(leaving) is SystemExit:
            _complain("interrupted")
        raise
    except Exception as error:
        if os.environ.get("GPUWHY_DEBUG"):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}",
            "this is a bug in gpuwhy; run again with GPUWHY_DEBUG=1 and report what it prints",
        )
        sys.exit(INTERNAL_ERROR)


def _complain(message: str, hint: str | None = None) -> None:
    from gpuwhy.reports.words import clean

    typer.echo(f"gpuwhy: {clean(message)}", err=True)
    if hint:
        typer.echo(f"  → {clean(hint)}", err=True)


if __name__ == "__main__":
    main()
