"""The examples in `--help`, typed as they stand: if one fails, the first thing that a reader tries does not work."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
import yaml
from typed import colonnade

import colonnade as co
import test_docs
from colonnade.cli import app

OTHERS = {"align": ["lab"], "join": ["lab"], "predict": ["lab"], "discover": ["lab", "hub"]}
"""Who else types the same line with its own file, where the example is one party's over the network."""
NEW = {"train": ["runs", "model"], "join": ["runs"], "keys": ["keys"], "audit export": ["challenge", "truth"]}
"""What a command makes, and what must not be there before."""
SLOW = {"bench run"}
"""The bench measures for half a minute; nothing of it can be left out."""
COLUMNS = {"clinic": ["age", "pressure", "weight", "outcome"], "lab": ["glucose", "insulin", "lipids", "sex"]}


def leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, by the words that one types."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, *words, name)


COMMANDS = dict(leaves(typer.main.get_command(app)))


def examples(command: Any) -> list[str]:
    """Return the lines that a command's help shows in bold."""
    return re.findall(r"\[bold\](colonnade .*?)\[/bold\]", command.epilog or "")


LINES = [(name, line) for name, command in COMMANDS.items() for line in examples(command)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_shows_an_example_of_it(name):
    found = examples(COMMANDS[name])
    assert found
    printed = colonnade(*name.split(), "--help").stdout
    for line in found:
        assert line.startswith(f"colonnade {name}")
        assert line in printed


def people(count: int, seed: int) -> pd.DataFrame:
    """Somebody's patients: what the lab measures follows from what the clinic sees."""
    random = np.random.default_rng(seed)
    age, weight, noise = random.normal(50, 12, count), random.normal(75, 15, count), random.normal(size=(5, count))
    return pd.DataFrame(
        {
            "age": age,
            "weight": weight,
            "pressure": 90 + 0.6 * age + 5 * noise[0],
            "glucose": 60 + 0.5 * weight + 6 * noise[1],
            "insulin": 5 + 0.1 * weight + 2 * noise[2],
            "lipids": 100 + age + 9 * noise[3],
            "sex": np.where(weight + 8 * noise[4] > 75, "m", "f"),
            "outcome": np.where(age + weight > 125, "ill", "well"),
        },
        index=pd.Index([f"p{seed}{number:04d}" for number in range(count)], name="patient"),
    )


def change(file: Path, **changes: object) -> None:
    """Change keys of a YAML file; `task__epochs` is the key `epochs` below `task`."""
    content = yaml.safe_load(file.read_text())
    for keys, value in changes.items():
        *blocks, last = keys.split("__")
        block = content
        for name in blocks:
            block = block[name]
        block[last] = value
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def write_files(folder: Path) -> None:
    """Write what the parties have before anything is run, small enough for a test."""
    with chdir(folder):
        succeed("colonnade init clinic lab --active clinic --label outcome --coordinator hub")
        succeed("colonnade keys clinic lab --coordinator hub")
    ports = iter(test_docs.free_ports(3))
    entries = {party: {"address": f"127.0.0.1:{next(ports)}"} for party in COLUMNS}
    change(
        folder / "federation.yaml",
        parties=entries,
        coordinator={"name": "hub", "address": f"127.0.0.1:{next(ports)}"},
        task__epochs=2,
        task__split={"train": 0.6, "validation": 0.1, "test": 0.3},
        discovery__epochs=3,
        discovery__refit_epochs=2,
    )
    for party, columns in COLUMNS.items():
        people(400, 1)[columns].to_csv(folder / f"{party}.csv")
        change(folder / f"{party}.yaml", data__id_column="patient", sensitive=["sex"] if party == "lab" else [])
    people(60, 2).drop(columns=["outcome", "sex"]).to_csv(folder / "new.csv")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with everything that the examples name: files, runs, a model, a challenge, guesses, other studies."""
    folder = tmp_path_factory.mktemp("study")
    write_files(folder)
    with chdir(folder):
        succeed("colonnade join federation.yaml --party clinic.yaml")
        succeed("colonnade train federation.yaml --party clinic.yaml --party lab.yaml --out model")
        succeed(
            "colonnade audit export model --attack decoder --data new.csv --id patient --out challenge --truth truth"
        )
        np.savez("guesses.npz", guesses=np.zeros((30, 3)))
    for other in ("a", "b", "runs"):
        shutil.copytree(folder / "runs" / "train", folder / "study" / other)
    return folder


def succeed(line: str) -> None:
    """Type a line; where it is one party's over the network, let the others type theirs at the same time."""
    words = shlex.split(line)[1:]
    others = OTHERS.get(words[0], []) if words.count("--party") == 1 else []
    with ThreadPoolExecutor(max_workers=3) as pool:
        theirs = [
            pool.submit(app, [word.replace("clinic", name) for word in words], standalone_mode=False) for name in others
        ]
        result = colonnade(*words)
    assert result.exit_code == 0, result.stderr or result.exception
    assert [other.result() or 0 for other in theirs] == [0] * len(others)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo learn and attack for a moment only; how good it gets is tested elsewhere."""
    briefly = {
        "discover": {"epochs": 2, "refit_epochs": 1},
        "train": {"epochs": 2},
        "audit": {"seeds": 1},
        "audit_attributes": {"seeds": 1, "attackers": ["linear"]},
    }
    for name, settings in briefly.items():
        monkeypatch.setattr(co, name, partial(called_with, getattr(co, name), settings))


def called_with(function: Callable[..., Any], settings: dict[str, Any], *given: Any, **named: Any) -> Any:
    return function(*given, **{**named, **settings})


@pytest.mark.parametrize(
    ("name", "line"),
    [pytest.param(*pair, id=pair[1], marks=[pytest.mark.slow] if pair[0] in SLOW else []) for pair in LINES],
)
def test_an_example_runs_as_it_stands(name, line, study, tmp_path, monkeypatch):
    here = shutil.copytree(study, tmp_path / "here")
    monkeypatch.chdir(here)
    for made in NEW.get(name, []):
        shutil.rmtree(here / made)
    if name == "demo":
        shorten(monkeypatch)
    succeed(line)
    for written in re.findall(r"--(?:out|truth) (\S+)", line):
        assert (here / written).exists(), f"{written} was not written"
