"""Fixtures for the tests of benches."""

import pytest
import typer
from typer.testing import CliRunner

from colonnade.cli import Commands, bench


@pytest.fixture
def command():
    """Run `colonnade bench` with some arguments."""
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    bench.register(app)
    return lambda *arguments: CliRunner().invoke(app, ["bench", *map(str, arguments)])
