"""The command line: one file a command, each with `register(app)`.

A command module imports what is heavy (torch, pandas) inside its functions, so that `colonnade --help` stays quick.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colonnade import __version__
from colonnade.errors import ColonnadeError

COMMANDS = (
    "demo", "init", "keys", "check", "doctor", "align", "discover", "train", "predict", "join", "audit", "runs",
    "watch", "report", "bench",
)  # fmt: skip
"""The command modules, in the order of `--help`."""


class Commands(TyperGroup):
    """All commands; an error that Colonnade raises on purpose ends one with a line, not with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except ColonnadeError as error:
            if os.environ.get("COLONNADE_DEBUG") == "1":
                raise
            for line in str(error).splitlines():
                typer.echo(f"error: {line}", err=True)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            # Whoever keeps finished work notes how much of it is there.
            typer.echo(f"error: {'; '.join(['interrupted', *getattr(error, '__notes__', [])])}", err=True)
            raise typer.Exit(130) from error


app = typer.Typer(
    name="colonnade",
    cls=Commands,
    help="Vertical federated learning: organisations train one model or find one causal graph together, and no column "
    "leaves its owner.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"colonnade {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


for _name in COMMANDS:
    import_module(f"colonnade.cli.{_name}").register(app)


def main() -> None:
    """Run the command line: what the `colonnade` script calls."""
    app(prog_name="colonnade")
