"""The documentation tells the truth: if these fail, readers paste what does not work, or miss what they need."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import pytest
import typer
import yaml
from pydantic import BaseModel

import colonnade as co
import colonnade.errors
from colonnade.cli import app
from colonnade.federation.files import FederationFile, PartyFile

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.rglob("*.md"))
COMMANDS = {
    f"{name} {inner}".strip(): command
    for name, group in typer.main.get_command(app).commands.items()
    for inner, command in getattr(group, "commands", {"": group}).items()
}
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?:(?<!\w)-)?\d[\d,]*(\.\d*)?(e-?\d+)?")


class Block(NamedTuple):
    """A fenced block of a page: its language, the word behind it, its text, and the line it starts at."""

    language: str
    word: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if its first line says so."""
        found = re.match(r"# (\w+\.py)\n", self.text)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        language, _, word = fence["info"].partition(" ")
        found.append(Block(language, word, fence["text"], text.count("\n", 0, fence.start()) + 2))
    return found


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_language(language: str) -> list[Path]:
    return [page for page in PAGES if any(block.language == language for block in blocks(page))]


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{page_id(page)} has no section '{heading}'"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows that begin with a name in backticks."""
    lines = [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line] for line in lines]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))


# -- Python on the pages ----------------------------------------------------------------------------------------------


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's empty folder; what is registered or imported from it is forgotten afterwards."""
    from colonnade.attack import ATTACKS
    from colonnade.defend import DEFENSES

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (ATTACKS, DEFENSES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_loaded", False)
    yield tmp_path
    for name in {path.stem for path in tmp_path.glob("*.py")}:
        sys.modules.pop(name, None)


def install(folder: Path, project: dict[str, Any]) -> None:
    """Do what `pip install` does about entry points, without pip."""
    name, version = project["name"], project["version"]
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {target}\n" for key, target in points.items())
        for group, points in project.get("entry-points", {}).items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    importlib.invalidate_caches()


def shape_of(output: str) -> list[str]:
    """The words of an output: numbers differ a little between machines, those near zero in sign too; words do not."""
    return _NUMBER.sub("#", output).split()


@pytest.mark.parametrize("page", with_language("python"), ids=page_id)
def test_the_python_of_a_page_runs_and_prints_what_the_page_says(page, reader):
    found = blocks(page)
    for block in found:
        if block.file:
            (reader / block.file).write_text(block.text)
        elif block.language == "toml":
            install(reader, tomllib.loads(block.text)["project"])
    namespace: dict[str, Any] = {"__name__": "page"}
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.language != "python":
            continue
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        if block.file:
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
        printed = output.getvalue()
        if printed and after is not None and after.language == "text":
            assert shape_of(printed) == shape_of(after.text), printed


@pytest.mark.parametrize("page", ["add-a-defense.md", "add-an-attack.md"])
def test_an_extension_with_its_entry_point_fits_on_a_screen(page):
    kept = [block.text for block in blocks(DOCS / "howto" / page) if block.file or block.language == "toml"]
    entry_point = [line for text in kept for line in text.splitlines() if "entry-points" in line]
    assert len(kept[0].splitlines()) + len(entry_point) + 1 < 40


# -- commands on the pages --------------------------------------------------------------------------------------------


def typed_lines(page: Path) -> list[str]:
    """The lines in the blocks of a page that a reader types."""
    lines = [line for block in blocks(page) if block.language in ("text", "bash") for line in block.text.splitlines()]
    return [line.split("  #")[0].rstrip("& ") for line in lines if re.match(r"(colonnade|make) [a-z]", line)]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_line_on_a_page_can_be_typed(page):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in typed_lines(page):
        program, command, *rest = shlex.split(line.split(" > ")[0])
        if program == "make":
            assert command in targets, line
            continue
        if command not in COMMANDS and rest:
            command = f"{command} {rest.pop(0)}"
        assert command in COMMANDS, line
        known = {option for parameter in COMMANDS[command].params for option in parameter.opts}
        assert {word for word in rest if word.startswith("-")} <= known, line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_explained_with_its_options_and_its_example(name):
    command = COMMANDS[name]
    text = section(REFERENCE / "commands.md", name)
    explained = {cell[0].strip("`").removesuffix("...").lower() for cell in rows(text)}
    options = [parameter for parameter in command.params if parameter.name not in ("help", "version")]
    expected = {
        next(word for word in parameter.opts if word.startswith("--"))
        if parameter.param_type_name == "option"
        else (parameter.metavar or parameter.name).lower()
        for parameter in options
    }
    assert explained == expected
    for example in re.findall(r"\[bold\](colonnade .*?)\[/bold\]", command.epilog or ""):
        assert example in text.splitlines(), example


@pytest.mark.slow
def test_the_demo_prints_what_the_readme_says(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--quick"])
    assert list(tmp_path.glob("runs/demo-*/report.html"))
    said = next(block.text for block in blocks(ROOT / "README.md") if block.text.startswith("aligned "))
    assert shape_of(result.stdout) == shape_of(said)


# -- links ------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", _FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{link}: no such file"
        assert target.is_relative_to(ROOT), f"{link}: outside of the repository"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_every_page_is_reached_from_the_index():
    index = (DOCS / "index.md").read_text()
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in re.findall(r"\]\(([^)]+)\)", index)}
    listed = {page for page in DOCS.rglob("*.md") if "results" not in page.parts}
    assert listed - {DOCS / "index.md"} <= linked


# -- the reference against the code -----------------------------------------------------------------------------------


def keys(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Return every key of a file with its default as the page writes it."""
    found = {}
    for name, field in model.model_fields.items():
        inner = [part for part in (field.annotation, *get_args(field.annotation)) if _is_model(part)]
        if inner:
            party = "<party>." if get_origin(field.annotation) is dict else ""
            found |= keys(inner[0], f"{prefix}{name}.{party}")
        else:
            found[prefix + name] = "required" if field.is_required() else f"`{_written(field.default)}`"
    return found


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _written(value: Any) -> str:
    plain = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    return yaml.safe_dump(plain, default_flow_style=True).removesuffix("\n").removesuffix("\n...")


@pytest.mark.parametrize(("heading", "model"), [("federation.yaml", FederationFile), ("party.yaml", PartyFile)])
def test_every_key_of_a_file_is_explained_with_its_default(heading, model):
    explained = {cells[0].strip("`"): cells[1] for cells in rows(section(REFERENCE / "files.md", heading))}
    assert explained == keys(model)


def test_every_error_is_explained_with_its_exit_code():
    classes = [kind for _, kind in inspect.getmembers(colonnade.errors, inspect.isclass)]
    expected = {kind.__name__: str(kind.exit_code) for kind in classes if issubclass(kind, co.errors.ColonnadeError)}
    assert {cells[0].strip("`"): cells[1] for cells in rows((REFERENCE / "errors.md").read_text())} == expected


def test_every_data_set_is_listed_with_its_options():
    listed = {cells[0].strip("`"): named(cells[-1]) for cells in rows((REFERENCE / "datasets.md").read_text())}
    assert listed == {name: set(co.datasets()[name].options) for name in co.datasets()}


def test_every_public_name_is_explained():
    from colonnade.sklearn import __all__ as estimators

    text = (REFERENCE / "python.md").read_text()
    explained = set(re.findall(r"co\.(\w+)", text)) | named(text)
    assert {*co.__all__, *estimators} <= explained
    arguments = {cells[0].strip("`") for cells in rows(section(REFERENCE / "python.md", "train"))}
    assert arguments == set(inspect.signature(co.train).parameters)


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    required += [name for extra in project["project"]["optional-dependencies"].values() for name in extra]
    names = {re.match(r"[\w.-]+", name)[0] for name in required} - {"colonnade"}
    explained = named((DOCS / "dependencies.md").read_text())
    assert names <= explained
    listed = {cells[0].strip("`") for cells in rows((DOCS / "dependencies.md").read_text())}
    assert listed <= names, "a dependency that is gone still has its reason"


def test_every_kind_of_message_is_in_the_threat_model():
    """A new message that nobody wrote down is a leak that nobody judged."""
    from colonnade.discover.agreement import COORDINATOR_KINDS, PARTY_KINDS
    from colonnade.learn.agreement import ACTIVE_KINDS, PASSIVE_KINDS

    kinds = ACTIVE_KINDS | PASSIVE_KINDS | COORDINATOR_KINDS | PARTY_KINDS
    assert named((DOCS / "security" / "threat-model.md").read_text()) >= kinds


def test_everything_that_an_attack_may_know_is_explained():
    from colonnade.attack import Knowledge

    table = {cells[0].strip("`") for cells in rows((DOCS / "concepts" / "protection.md").read_text())}
    assert table == {thing.value for thing in Knowledge}


# -- three terminals --------------------------------------------------------------------------------------------------


class Terminals:
    """Types the blocks of a page: those with a party's name in that party's terminal, all terminals at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._typed: dict[str, str] = {}

    def type(self, block: Block) -> None:
        """Run a block of the first terminal, or put one of a party aside until all terminals have theirs."""
        if block.word and block.word not in self._typed:
            self._typed[block.word] = block.text
            return
        self.wait()
        if block.word:
            self._typed[block.word] = block.text
        else:
            code, output = self._end(self._start(block.text))
            assert code == 0, f"{block.text}\n{output}"

    def wait(self) -> None:
        """Run what was put aside; where a party is killed, the others must end with code 6 and name it."""
        shells = {party: self._start(text) for party, text in self._typed.items()}
        killed = [party for party, text in self._typed.items() if "kill -9" in text]
        self._typed = {}
        for party, shell in shells.items():
            code, output = self._end(shell)
            assert code == (6 if killed and party not in killed else 0), f"{party}:\n{output}"
            assert party in killed or all(victim in output for victim in killed), f"{party}:\n{output}"

    def _start(self, text: str) -> subprocess.Popen[str]:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        return subprocess.Popen(
            ["bash", "-e", "-c", text], cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _end(self, shell: subprocess.Popen[str]) -> tuple[int, str]:
        try:
            output, _ = shell.communicate(timeout=240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        return shell.returncode, output


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def paste(page: Path, folder: Path) -> None:
    """Type everything on a page that begins with `colonnade init`, at ports that are free here."""
    terminals = Terminals(folder)
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "bash" and block.word != "setup":
            terminals.type(block)
        if "colonnade init" in block.text:
            file = folder / "federation.yaml"
            text = file.read_text()
            for number, port in enumerate(free_ports(4)):
                text = text.replace(f"127.0.0.1:{7101 + number}", f"127.0.0.1:{port}")
            file.write_text(text)
    terminals.wait()


@pytest.mark.slow
def test_four_terminals_find_a_graph_when_pasted(tmp_path):
    paste(DOCS / "howto" / "discover-a-graph.md", tmp_path)
    first, resumed = (
        co.CausalGraph.load(tmp_path / "runs" / "hub" / run / "graph.json") for run in ("study-discover", "second")
    )
    strongest = [graph.edges[["cause", "effect"]].head(2).values.tolist() for graph in (first, resumed)]
    assert strongest == [[["age", "pressure"], ["pressure", "glucose"]]] * 2, "each run has first weights of its own"


@pytest.mark.slow
def test_three_terminals_work_when_pasted(tmp_path):
    paste(DOCS / "howto" / "three-terminals.md", tmp_path)
    answers = (tmp_path / "predictions.csv").read_text().splitlines()
    assert len(answers) == 201
