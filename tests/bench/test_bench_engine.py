"""If these fail, a bench on a cluster has other rows than at home, loses them, or dies with a page nobody reads."""

import json
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pandas as pd
import pytest
from bench_parts import Notes

from colonnade.audit import engine, matrix
from colonnade.bench import BENCHES, Workers, run_bench, workers
from colonnade.bench.equilibrium import rows as equilibrium
from colonnade.bench.equilibrium.methods import NONE
from colonnade.bench.equilibrium.play import Play
from colonnade.bench.equilibrium.sets import Case
from colonnade.bench.images import learning
from colonnade.bench.images import matrix as images
from colonnade.bench.images.setting import UNDEFENDED
from colonnade.bench.kept import finished
from colonnade.errors import ConfigError, RunError
from colonnade.progress import Progress


@dataclass(frozen=True)
class Square:
    """A row that ends at once."""

    number: int
    ran: list = field(default_factory=list, compare=False)

    @property
    def title(self):
        return f"square of {self.number}"

    @property
    def file_name(self):
        return f"square-{self.number}.json"

    def run(self):
        self.ran.append(self.number)
        if self.number == 13:
            raise RunError("is unlucky", where="square")
        if self.number == 17:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if self.number == 19:
            raise RuntimeError("something else")
        if self.number < 0:
            raise ConfigError("is no length", where="number", remedy="take a positive one")
        return {"square": self.number**2}


@pytest.fixture(scope="module")
def ray():
    """A cluster of one processor, whose processes are handed the jobs of this file: they can't import them."""
    cluster = pytest.importorskip("ray", reason="Ray is an extra: pip install 'colonnade[ray]'")
    cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    cluster.shutdown()
    cluster.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def squares():
    """A bench of three rows, one of which fails."""

    def run(preset, progress, *, folder=None, workers=workers.ALONE):
        """Squares."""
        return [row for _, row in sorted(finished([Square(n) for n in (2, 13, 3)], progress, folder, workers)) if row]

    BENCHES.register("squares")(run)
    yield "squares"
    del BENCHES._entries["squares"]


@pytest.fixture
def asked(monkeypatch):
    """What engines were asked for, in place of the engines: they work here."""
    found = []

    def make_engine(name, **options):
        found.append((name, options))
        return engine.local_crew

    monkeypatch.setattr(workers, "make_engine", make_engine)
    return found


# -- rows ------------------------------------------------------------------------------------------------------------


def everything(chosen, folder):
    progress = Notes()
    found = dict(finished([Square(2), Square(13), Square(3)], progress, folder, chosen))
    kept = {path.name: json.loads(path.read_bytes()) for path in folder.iterdir()}
    return found, progress.notes, kept


EXPECTED = (
    {0: {"square": 4}, 1: None, 2: {"square": 9}},
    ["left out: square of 13: square: is unlucky"],
    {"square-2.json": {"square": 4}, "square-3.json": {"square": 9}},
)


def test_here_every_row_is_found_and_kept_and_what_fails_is_said(tmp_path):
    assert everything(Workers(), tmp_path) == EXPECTED


@pytest.mark.slow
def test_in_processes_it_is_the_same(tmp_path):
    assert everything(Workers(jobs=2), tmp_path) == EXPECTED


@pytest.mark.slow
@pytest.mark.alone
def test_on_ray_it_is_the_same(tmp_path, ray):
    assert everything(Workers("ray"), tmp_path) == EXPECTED


@pytest.mark.slow
@pytest.mark.alone
def test_a_mistake_that_a_row_of_ray_finds_comes_back_as_one_line(ray):
    with pytest.raises(ConfigError) as mistake:
        list(finished([Square(-1)], Progress(), None, Workers("ray")))
    assert type(mistake.value) is ConfigError
    assert str(mistake.value) == "number: is no length (take a positive one)"


def test_a_row_is_kept_before_the_next_is_run(tmp_path):
    """A bench that is stopped loses the row it is at, and no other."""
    ran = []
    rows = finished([Square(1, ran), Square(2, ran)], Progress(), tmp_path)
    next(rows)
    assert ran == [1] and (tmp_path / "square-1.json").is_file()
    rows.close()
    assert dict(finished([Square(1, ran), Square(2, ran)], Progress(), tmp_path)) == {
        0: {"square": 1},
        1: {"square": 4},
    }
    assert ran == [1, 2]


def test_no_cluster_is_joined_where_every_row_is_kept(tmp_path, asked):
    list(finished([Square(2)], Progress(), tmp_path))
    chosen = Workers("ray", address="auto")
    asked.clear()
    assert list(finished([Square(2)], Progress(), tmp_path, chosen)) == [(0, {"square": 4})] and asked == []


# -- what a cluster is asked for -------------------------------------------------------------------------------------


def test_jobs_and_address_reach_the_engine(asked):
    list(finished([Square(2)], Progress(), None, Workers("ray", 3, "ray://head:10001")))
    assert asked[-1] == ("ray", {"jobs": 3, "address": "ray://head:10001", "device": "cpu"})


def test_rows_of_pictures_ask_for_a_gpu_where_there_is_one(asked, monkeypatch):
    """Ray hides every GPU from a task that does not ask for one."""
    monkeypatch.setattr(learning, "device_here", lambda: "cuda")
    monkeypatch.setattr(learning.Learning, "run", lambda self: {})
    learning.learned(
        [learning.Learning("mnist", tuple(UNDEFENDED.items()), 0, "smoke")], Progress(), None, Workers("ray")
    )
    assert asked[-1][1]["device"] == "cuda"


@pytest.mark.parametrize(("kind", "device"), [("faces", "cuda"), ("adult", "cpu")])
def test_of_the_equilibrium_rows_only_faces_ask_for_one(asked, monkeypatch, kind, device):
    monkeypatch.setattr(equilibrium, "device_here", lambda: "cuda")
    monkeypatch.setattr(Play, "run", lambda self: {"target": 0.5})
    equilibrium.played([Play(Case(kind, 2), NONE, None, 0, "smoke")], Progress(), "t", None, Workers("ray"))
    assert asked[-1][1]["device"] == device


def test_a_bench_that_is_a_matrix_hands_its_workers_on(asked, monkeypatch, tmp_path):
    told = {}

    def run_matrix(*given, **options):
        told.update(options)
        return SimpleNamespace(frame=pd.DataFrame({"party": []}))

    monkeypatch.setattr(matrix, "run_matrix", run_matrix)
    monkeypatch.setattr(images, "pictures", lambda *given: None)
    trial = images.Trial("mnist", [UNDEFENDED], ["ridge"])
    assert images.run_trial(trial, "smoke", Progress(), tmp_path, Workers("ray", 3, "auto")) == []
    assert (told["engine"], told["jobs"], told["address"]) == ("ray", 3, "auto")


# -- gathering -------------------------------------------------------------------------------------------------------


def test_half_a_bench_makes_a_table_that_says_what_is_missing(squares, command, tmp_path):
    """Whoever stopped a bench of hours wants to see what is there, and must not take it for the whole."""
    rows = tmp_path / "rows"
    list(finished([Square(2)], Progress(), rows))
    ran = command("run", squares, "--gather", "--preset", "smoke", "--out", tmp_path)
    assert ran.exit_code == 0, ran.output
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["rows"] == [{"square": 4}]
    assert result["notes"] == [
        "rows were run before; the device named here is that of the machine that gathered them",
        "1 of 3 rows are there; not run: square of 13, square of 3",
    ]
    assert result["command"].endswith(" --gather")
    assert [path.name for path in rows.iterdir()] == ["square-2.json"], "nothing was run"


def test_what_is_timed_alone_is_not_timed_while_gathering(tmp_path):
    ran = []
    assert list(finished([Square(2, ran)], Progress(), tmp_path, Workers(gather=True).one_by_one)) == [(0, None)]
    list(finished([Square(2, ran)], Progress(), tmp_path, Workers("ray", address="auto").one_by_one))
    assert ran == [2], "and is timed here, whoever the workers are"


def test_whoever_interrupts_a_bench_is_told_that_it_goes_on(tmp_path):
    """People took hours of rows for lost, and deleted the folder."""

    class Stopped(Square):
        def run(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interruption:
        list(finished([Square(2), Stopped(3), Square(4)], Progress(), tmp_path))
    assert interruption.value.__notes__ == ["1 of 3 rows are kept; the same command goes on from there"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("squares", "out: no row is kept here (name the folder that a run of this bench and preset wrote, or run it "
         "without --gather)"),
        ("keystone-frontier-cut6", "out: no row is kept here (name the folder that a run of this bench and preset "
         "wrote, or run it without --gather)"),
        ("secure-matmul", "--gather: 'secure-matmul' keeps no rows (run it without --gather)"),
        ("causshield-matrix", "out/rows/cifar10-6: no cell is kept here (name the folder that a run with these "
         "settings wrote, or let it run)"),
    ],
)  # fmt: skip
def test_what_cannot_be_gathered_is_one_line(squares, command, tmp_path, monkeypatch, name, line):
    monkeypatch.chdir(tmp_path)
    ran = command("run", name, "--gather", "--preset", "smoke", "--out", "out")
    assert ran.exit_code == 3 and ran.stderr.splitlines()[-1] == f"error: {line}"
    assert not (tmp_path / "out/result.json").exists()


def test_rows_that_were_never_run_are_no_table(command, tmp_path):
    """Rows that hold published numbers alone would overwrite a result that was hours of work."""
    (tmp_path / "result.json").write_text("precious")
    ran = command("run", "vfedcd-table6", "--gather", "--preset", "smoke", "--out", tmp_path)
    assert ran.exit_code == 3 and "no row is kept here" in ran.stderr
    assert (tmp_path / "result.json").read_text() == "precious"


def test_a_damaged_row_is_named(squares, command, tmp_path):
    list(finished([Square(2)], Progress(), tmp_path / "rows"))
    (tmp_path / "rows/square-2.json").write_text('{"squa')
    ran = command("run", squares, "--preset", "smoke", "--out", tmp_path)
    assert ran.exit_code == 3 and "square-2.json: is damaged (delete it: the row is run again)" in ran.stderr


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_runs_on_an_engine_and_the_result_says_so(squares, command, asked, tmp_path):
    options = ("--engine", "ray", "--jobs", 2, "--address", "auto", "--preset", "smoke", "--out")
    ran = command("run", squares, *options, tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert asked[-1] == ("ray", {"jobs": 2, "address": "auto", "device": "cpu"})
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert result["rows"] == [{"square": 4}, {"square": 9}]
    assert (
        result["notes"][0] == "rows were tasks of Ray; the device named here is that of the machine that gathered them"
    )
    assert sorted(path.name for path in (tmp_path / "out/rows").iterdir()) == ["square-2.json", "square-3.json"]
    run_bench(squares, "smoke", tmp_path / "here", Progress())
    here = json.loads((tmp_path / "here/result.json").read_text())
    assert here["rows"] == result["rows"] and len(here["notes"]) == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--engine", "slurm"], "engine: unknown engine 'slurm' (known: local, ray)"),
        (["--engine", "rai"], "engine: unknown engine 'rai' (did you mean 'ray'?)"),
        (["--address", "auto"], "address: an address is for a cluster (choose the engine 'ray')"),
        (["--gather", "--engine", "ray"], "--gather: nobody is needed to gather (leave engine and address out)"),
    ],
)
def test_a_wrong_choice_is_one_line_before_anything_runs(squares, command, tmp_path, options, line):
    ran = command("run", squares, *options, "--out", tmp_path / "out")
    assert ran.exit_code == 3 and ran.stderr == f"error: {line}\n"
    assert not (tmp_path / "out").exists()


def test_without_ray_the_remedy_is_told(squares, command, tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(engine, "import_module", missing)
    ran = command("run", squares, "--engine", "ray", "--out", tmp_path / "out")
    line = "engine: Ray is not installed (pip install 'colonnade[ray]', or choose the engine 'local')"
    assert ran.exit_code == 3 and ran.stderr == f"error: {line}\n"


@pytest.mark.parametrize("name", ["secure-matmul", "causshield-fig14", "causshield-unsplit-speed"])
def test_a_bench_that_must_run_here_does_not_pretend(command, tmp_path, asked, name):
    """Otherwise somebody waits for a cluster that does nothing, and takes the times of this machine for its."""
    ran = command("run", name, "--engine", "ray", "--out", tmp_path / "out")
    line = f"engine: '{name}' has no rows that could run elsewhere (choose the engine 'local')"
    assert ran.exit_code == 3 and ran.stderr == f"error: {line}\n"
    assert not (tmp_path / "out").exists()


def test_a_row_that_finds_no_memory_leaves_the_others_alone(tmp_path):
    """Ten minutes of a shared GPU were lost because one of thirteen rows found it full."""
    notes = Notes()
    work = [Square(2), Square(17), Square(3)]
    assert sorted(finished(work, notes, tmp_path)) == [(0, {"square": 4}), (1, None), (2, {"square": 9})]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["square-2.json", "square-3.json"]
    assert notes.notes == ["left out: square of 17: out of memory (run it again with fewer jobs)"]


def test_a_row_with_a_bug_is_not_called_short_of_memory(tmp_path):
    """Every error of torch would be left out in silence."""
    with pytest.raises(RuntimeError, match="something else"):
        list(finished([Square(19)], Notes(), tmp_path))
