"""If these fail, a bench's result can't be read back, compared or repeated."""

import json
import mmap
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from colonnade.bench import BENCHES, run_bench
from colonnade.bench.device import forget_peak_memory, peak_memory
from colonnade.bench.result import table, versions
from colonnade.bench.revision import source_revision
from colonnade.errors import ConfigError
from colonnade.progress import Progress


@pytest.fixture
def counting():
    """A bench that ends at once."""

    def run(preset, progress):
        """Counts to two."""
        progress.start(2, "counting")
        progress.message(f"counted with {preset}")
        progress.advance(2)
        return [{"backend": "a|b", "n": 1, "per_second": 1234.56}, {"backend": "c", "n": None, "extra": 0.5}]

    BENCHES.register("counting")(run)
    yield "counting"
    del BENCHES._entries["counting"]


def test_a_result_has_the_one_shape_and_reads_back(counting, tmp_path):
    result = run_bench(counting, "smoke", tmp_path / "out", Progress())
    assert json.loads((tmp_path / "out/result.json").read_text()) == result
    assert {"bench", "preset", "command", "versions", "device", "rows"} <= set(result)
    assert result["notes"] == ["counted with smoke"]
    assert result["rows"][0]["per_second"] == 1234.56
    assert result["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert result["device"]["cores"] >= 1 and result["device"]["memory"] > 1 << 20


def test_a_result_names_no_path_of_this_machine(counting, tmp_path):
    text = json.dumps(run_bench(counting, "smoke", tmp_path / "out", Progress()))
    assert str(tmp_path) not in text
    assert json.loads(text)["command"] == "colonnade bench run counting --preset smoke --out out"


def git(folder, *arguments):
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *name, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path):
    """A package in a checkout of its own."""
    package = tmp_path / "src" / "some"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("a = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "Begin")
    return package


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_result_names_the_commit_that_it_was_made_with(checkout, monkeypatch):
    commit = git(checkout, "rev-parse", "HEAD").strip()
    assert source_revision(checkout) == commit
    monkeypatch.setenv("GIT_DIR", str(checkout))  # as in a hook of another checkout
    assert source_revision(checkout) == commit
    (checkout.parent / "notes.txt").write_text("not of the package")
    assert source_revision(checkout) == commit
    (checkout / "__init__.py").write_text("a = 2\n")
    assert source_revision(checkout) == f"{commit}+changes"
    monkeypatch.setattr("colonnade.bench.result.source_revision", lambda: commit)
    assert versions()["revision"] == commit


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_is_only_installed_inside_a_checkout_has_no_commit_of_its_own(checkout):
    installed = checkout / "environment" / "colonnade"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert source_revision(installed) is None


def test_without_a_checkout_or_git_a_result_has_no_commit(tmp_path, monkeypatch, counting):
    (tmp_path / "__init__.py").touch()
    assert source_revision(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_revision() is None
    assert "revision" not in run_bench(counting, "smoke", tmp_path / "out", Progress())["versions"]


def test_the_page_explains_its_rows(counting, tmp_path):
    run_bench(counting, "paper", tmp_path, Progress())
    page = (tmp_path / "table.md").read_text()
    assert page.startswith("# counting, preset paper\n\nCounts to two.\n")
    assert "| a\\|b | 1 | 1,235 | – |" in page
    assert "- counted with paper\n" in page


def test_a_table_keeps_every_column_of_every_row():
    lines = table([{"a": 1}, {"b": True, "a": "x"}]).splitlines()
    assert lines == ["| a | b |", "|---|---:|", "| 1 | – |", "| x | True |"]


def test_mistakes_are_named_before_anything_runs(counting, tmp_path):
    with pytest.raises(ConfigError, match="unknown bench 'countin'"):
        run_bench("countin", "smoke", tmp_path, Progress())
    with pytest.raises(ConfigError, match="unknown preset 'smok'") as mistake:
        run_bench(counting, "smok", tmp_path, Progress())
    assert "did you mean 'smoke'" in str(mistake.value)
    with pytest.raises(ConfigError, match=r"'counting' has no preset 'small' \(known: default, paper, smoke\)"):
        run_bench(counting, "small", tmp_path, Progress())
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made"):
        run_bench(counting, "smoke", tmp_path / "file", Progress())


def test_the_command_lists_and_runs(counting, command, tmp_path):
    assert "counting" in command("list").stdout and "Counts to two." in command("list").stdout
    assert {"name": "counting", "summary": "Counts to two."} in json.loads(command("list", "--json").stdout)
    ran = command("run", counting, "--preset", "smoke", "--out", tmp_path / "out")
    assert ran.exit_code == 0 and ran.stdout == (tmp_path / "out/table.md").read_text()
    as_json = command("run", counting, "--preset", "smoke", "--out", tmp_path / "out", "--json")
    assert json.loads(as_json.stdout.splitlines()[-1])["rows"][1]["backend"] == "c"
    wrong = command("run", counting, "--preset", "smok", "--out", tmp_path / "out")
    assert wrong.exit_code == 3 and wrong.stderr.count("\n") == 1


def test_both_secure_benches_are_there_without_torch():
    """`colonnade bench list` would take seconds with it."""
    look = "import sys, colonnade.bench as b; print(*b.BENCHES); assert not {'torch', 'phe', 'seal'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert {"secure-iteration", "secure-matmul"} <= set(done.stdout.split())


def hold(size):
    """Take memory from the system: a large object may fit into what earlier tests have left free in this process."""
    held = mmap.mmap(-1, size)
    held[:: mmap.PAGESIZE] = b"1" * (size // mmap.PAGESIZE)
    return held


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system keeps one peak for a whole life")
def test_peak_memory_is_of_the_last_measurement_and_counts_children():
    held = hold(200 << 20)
    del held
    forget_peak_memory()
    before = peak_memory()
    held = hold(100 << 20)
    assert 90 << 20 < peak_memory() - before < 150 << 20
    del held
    child = subprocess.Popen(
        [sys.executable, "-c", "held = bytearray(b'1') * (50 << 20); input(len(held))"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout.read(1)
        with_child = peak_memory()
        child.communicate(b"\n")
        assert with_child - peak_memory() > 40 << 20
    finally:
        child.kill()
        child.wait()
