"""The command `richter`: every verb is a thin wrapper of a Python call of the same name."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from richter import __version__
from richter.cli.advise import advise
from richter.cli.check import check
from richter.cli.cite import cite
from richter.cli.compare import compare
from richter.cli.data import data
from richter.cli.doctor import doctor
from richter.cli.emergence import emergence
from richter.cli.figure import figure
from richter.cli.interpolant import interpolant
from richter.cli.learnability import learnability
from richter.cli.list import list_
from richter.cli.measure import measure
from richter.cli.move import move
from richter.cli.new import new
from richter.cli.phase import phase
from richter.cli.report import report
from richter.cli.run import run
from richter.cli.scaling import scaling
from richter.cli.show import show
from richter.cli.solve import solve
from richter.cli.sweep import sweep
from richter.cli.tour import tour
from richter.errors import RichterError

app = typer.Typer(
    name="richter",
    help="A scale for how richly a neural network learns: exact theories of lazy and rich learning.",
    epilog="Start with:  richter tour   ·   richter list   ·   richter show single-neuron",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"richter {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every verb."""


app.command("list")(list_)
app.command("show")(show)
app.command("solve", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(solve)
app.command("move")(move)
app.command("advise")(advise)
app.command("phase")(phase)
app.command("interpolant")(interpolant)
app.command("scaling")(scaling)
app.command("emergence")(emergence)
app.command("figure")(figure)
app.command("run")(run)
app.command("check")(check)
app.command("sweep")(sweep)
app.command("report")(report)
app.command("new")(new)
app.command("learnability")(learnability)
app.command("measure")(measure)
app.command("compare", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(compare)
app.command("data")(data)
app.command("cite")(cite)
app.command("doctor")(doctor)
app.command("tour")(tour)


STOPPED = 130  # by the user


def main(args: list[str] | None = None) -> int:
    """Run the command; errors are one line on standard error and an exit code."""
    given = sys.argv[1:] if args is None else args
    try:
        code = app(args=given, standalone_mode=False)
    except RichterError as problem:
        if "--debug" in given:
            raise
        print(f"richter: {problem}", file=sys.stderr)
        return problem.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    except Exception as problem:
        # Wrong usage; the parser's own classes have moved between releases of typer.
        words = getattr(problem, "format_message", None)
        if words is None or "--debug" in given:
            raise
        verb = next((word for word in given if not word.startswith("-")), "")
        known = {command.name for command in app.registered_commands}
        hint = f"richter {verb} --help" if verb in known else "richter --help"
        text = " ".join(words().split())
        print(f"richter: {text or 'nothing to do.'} See: {hint}" if text else "", file=sys.stderr)
        return 2
    if code == STOPPED:  # which releases of typer return instead of raising
        kept = any(word.startswith("--store") for word in given)
        print(f"richter: stopped{'; the same command goes on from what is kept' if kept else ''}", file=sys.stderr)
    return code if isinstance(code, int) else 0
