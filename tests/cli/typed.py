"""The command line as tests type it."""

from typer.testing import CliRunner

from colonnade.cli import app


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def succeed(*words):
    result = colonnade(*words)
    assert result.exit_code == 0, result.stderr or result.exception
    return result.stdout
