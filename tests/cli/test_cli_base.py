"""The command line as a whole: quick help, one clear line for a mistake, never a traceback."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from colonnade import __version__
from colonnade.cli import COMMANDS, Commands, app
from colonnade.errors import AuthenticationError, ConfigError, DataError, RunError
from colonnade.federation.problems import Problem, ProblemsError


def colonnade(*arguments, **environment):
    command = [sys.executable, "-m", "colonnade.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def app_that_raises(error):
    broken = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @broken.callback()
    def options():
        pass

    @broken.command()
    def fail():
        raise error

    return broken


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("bad key", where="a.yaml", remedy="fix it"), 3),
        (DataError("no column"), 4),
        (AuthenticationError("expired"), 7),
        (RunError("damaged"), 8),
    ],
)
def test_a_users_mistake_is_one_line_with_its_own_exit_code(error, code):
    result = CliRunner().invoke(app_that_raises(error), ["fail"])
    assert result.exit_code == code
    assert result.stderr == f"error: {error}\n"
    assert result.stdout == ""


def test_many_problems_are_one_line_each():
    problems = [Problem("one", "f.yaml", "a"), Problem("two", "f.yaml", "b", "fix it")]
    result = CliRunner().invoke(app_that_raises(ProblemsError(problems)), ["fail"])
    assert result.stderr.splitlines() == ["error: f.yaml: a: one", "error: f.yaml: b: two (fix it)"]
    assert result.exit_code == 3


def test_whoever_asks_for_it_sees_the_traceback(monkeypatch):
    monkeypatch.setenv("COLONNADE_DEBUG", "1")
    result = CliRunner().invoke(app_that_raises(RunError("damaged")), ["fail"])
    assert isinstance(result.exception, RunError)


def test_an_interrupt_ends_with_130():
    result = CliRunner().invoke(app_that_raises(KeyboardInterrupt()), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")


def test_whoever_keeps_work_says_so_when_it_is_interrupted():
    interruption = KeyboardInterrupt()
    interruption.add_note("5 of 12 cells are kept")
    result = CliRunner().invoke(app_that_raises(interruption), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "error: interrupted; 5 of 12 cells are kept\n")


def test_a_bug_is_not_dressed_up_as_a_users_mistake():
    result = CliRunner().invoke(app_that_raises(ZeroDivisionError()), ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"colonnade {__version__}\n"


def test_every_command_has_help_with_an_example():
    names = [entry.name for entry in (*app.registered_commands, *app.registered_groups)]
    assert set(COMMANDS) <= set(names)
    for name in names:
        result = CliRunner().invoke(app, [name, "--help"])
        assert result.exit_code == 0
        assert f"colonnade {name}" in result.stdout.split("Example", 1)[-1], name


def test_help_does_not_load_the_heavy_libraries():
    """Otherwise every command, and every tab in a shell, would wait for seconds."""
    code = "import sys, colonnade.cli; print(sorted({'torch', 'sklearn', 'grpc'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_real_script_reports_a_mistake_in_one_line(tmp_path):
    result = colonnade("runs", str(tmp_path / "nowhere"))
    assert result.returncode == 8
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert colonnade("--help").returncode == 0
    assert "Traceback" in colonnade("runs", str(tmp_path / "nowhere"), COLONNADE_DEBUG="1").stderr


def test_an_unknown_command_is_a_usage_error():
    assert colonnade("trian").returncode == 2
