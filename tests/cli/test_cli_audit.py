"""`colonnade audit` from files: if these fail, nobody can audit a run without writing Python."""

import json
import shutil
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from typed import colonnade, succeed
from typer.main import get_command

import colonnade as co
from colonnade.attack import make_attack, run_attack
from colonnade.audit.challenge import read_challenge
from colonnade.audit.held_out import held_out_of
from colonnade.audit.result import AuditResult
from colonnade.audit.settings import Settings
from colonnade.audit.source import federation_from, load_trained, own_test_records
from colonnade.cli.audit import audit, choices
from colonnade.errors import ConfigError, RunError

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))
from audit_parts import PARTIES, SETTINGS, table

TASK = {**SETTINGS, "network": {"family": "mlp", "hidden": [8, 8]}}


def write_study(folder: Path, task=TASK) -> Path:
    frame = table().rename_axis("patient")
    parties = {name: {"address": f"127.0.0.1:{7101 + place}"} for place, name in enumerate(PARTIES)}
    federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties, "task": task}
    (folder / "federation.yaml").write_text(yaml.safe_dump(federation))
    for name, columns in PARTIES.items():
        own = [*columns, "outcome"] if name == "clinic" else columns
        frame[own].to_csv(folder / f"{name}.csv")
        data = {"path": f"{name}.csv", "id_column": "patient"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"party": name, "data": data, "runs": "runs"}))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three parties' files, and what a training of them left."""
    folder = write_study(tmp_path_factory.mktemp("study"))
    succeed(
        "train", folder / "federation.yaml", *party_files(folder), "--out", folder / "model", "--run", folder / "runs"
    )
    return folder


def party_files(folder, *names):
    return [word for name in names or PARTIES for word in ("--party", folder / f"{name}.yaml")]


def files(folder, *names):
    return ["--federation", folder / "federation.yaml", *party_files(folder, *names)]


WRONG_ID = ("--data", "{study}/lab.csv", "--id", "patiant")
QUICK = ("--attacks", "decoder:epochs=2", "--seeds", "2")


def test_a_run_is_audited_and_its_tables_and_page_are_kept(study, tmp_path):
    printed = succeed("audit", "run", study / "runs", *files(study), *QUICK, "--out", tmp_path / "out")
    assert "lab: decoder (oracle), the only attack tried" in printed
    assert "mean record" in printed
    kept = AuditResult.load(tmp_path / "out")
    assert set(kept.frame["party"]) == {"lab", "insurer"}
    assert set(kept.frame["dataset"]) == {"study"}
    assert (tmp_path / "out" / "audit.html").read_text().startswith("<!doctype html>")


def test_the_word_run_may_be_left_out_and_saved_models_do_as_well(study, tmp_path):
    """The same model from its run folders, from its saved folder, and in Python: the same numbers."""
    for name, model in (("runs", study / "runs"), ("model", study / "model")):
        succeed("audit", model, *files(study), *QUICK, "--out", tmp_path / name)
    found = [AuditResult.load(tmp_path / name).frame for name in ("runs", "model")]
    assert found[0].equals(found[1])
    federation = co.Federation.from_frame(table(), PARTIES, label=("clinic", "outcome"))
    expected = co.audit(
        co.load(study / "model"), {"name": "decoder", "epochs": 2}, federation=federation, seeds=2, progress=False
    )
    keys = ["attack", "party"]
    one, other = (
        frame.drop(columns="dataset").sort_values(keys, ignore_index=True) for frame in (found[0], expected.frame)
    )
    assert one[keys].equals(other[keys])
    assert one[["mse", "skill", "accuracy"]].to_numpy() == pytest.approx(other[["mse", "skill", "accuracy"]].to_numpy())


def test_machines_get_json_lines(study):
    lines = [
        json.loads(line) for line in succeed("audit", study / "model", *files(study), *QUICK, "--json").splitlines()
    ]
    assert [line["event"] for line in lines] == ["start", "step", "step", "result"]
    assert {row["attack"] for row in lines[-1]["rows"]} >= {"decoder", "mean record"}
    assert all(row["psnr"] is None for row in lines[-1]["rows"])


def test_one_party_audits_its_own_run_with_its_own_file(study):
    """After `join` a party has its own run folder and its own records, and nothing of the others."""
    lines = succeed("audit", study / "runs" / "lab", *files(study, "lab"), *QUICK, "--json").splitlines()
    rows = json.loads(lines[-1])["rows"]
    assert {row["party"] for row in rows} == {"lab"}
    assert {row["accuracy"] for row in rows} == {None}
    with_others = succeed("audit", study / "runs", *files(study), *QUICK, "--json").splitlines()
    assert {row["party"] for row in json.loads(with_others[-1])["rows"]} == {"lab", "insurer"}


def test_a_partys_own_file_gives_it_exactly_the_tested_records(study):
    """Otherwise it would attack what it trained on, and take that for the truth about new records."""
    model = load_trained(study / "runs")
    federation = federation_from(study / "federation.yaml", [study / f"{name}.yaml" for name in PARTIES])
    expected = held_out_of(model, federation, None).records["lab"]
    own = own_test_records(model, study / "federation.yaml", study / "lab.yaml")
    assert set(own["lab"].ids) == set(expected.ids)
    assert 0 < len(expected) < len(table())


def test_a_run_over_the_network_is_read_too(study, tmp_path):
    """Its config holds the whole federation file, where a simulation's holds the parties' names."""
    shutil.copytree(study / "runs" / "lab", tmp_path / "lab")
    config = {
        "party": "lab",
        "federation": yaml.safe_load((study / "federation.yaml").read_text()) | {"seed": 0},
        "task": yaml.safe_load((study / "runs" / "lab" / "config.yaml").read_text())["task"],
    }
    (tmp_path / "lab" / "config.yaml").write_text(yaml.safe_dump(config))
    one, other = (
        json.loads(succeed("audit", run, *files(study, "lab"), *QUICK, "--json").splitlines()[-1])["rows"]
        for run in (tmp_path / "lab", study / "runs" / "lab")
    )
    assert one == other


def test_new_records_come_in_a_table(study, tmp_path):
    table(60, seed=8).rename_axis("patient").to_csv(tmp_path / "new.csv")
    lines = succeed("audit", study / "model", "--data", tmp_path / "new.csv", "--id", "patient", *QUICK, "--json")
    assert {row["dataset"] for row in json.loads(lines.splitlines()[-1])["rows"]} == {"new"}


def test_a_challenge_goes_out_and_guesses_come_back(study, tmp_path):
    challenge, truth = tmp_path / "challenge", tmp_path / "truth"
    succeed(
        "audit", "export", study / "model", *files(study), "--attack", "decoder:epochs=2", "--victim", "lab",
        "--out", challenge, "--truth", truth,
    )  # fmt: skip
    guesses = run_attack(make_attack("decoder", epochs=2), read_challenge(challenge))
    np.savez(tmp_path / "guesses.npz", guesses=guesses.numpy())
    scored = json.loads(succeed("audit", "score", truth, tmp_path / "guesses.npz", "--name", "ours", "--json"))
    audited = succeed("audit", study / "model", *files(study), "--attacks", "decoder:epochs=2", "--seeds", 1, "--json")
    rows = json.loads(audited.splitlines()[-1])["rows"]
    expected = next(row for row in rows if (row["attack"], row["party"]) == ("decoder", "lab"))
    found = next(row for row in scored["rows"] if row["attack"] == "ours")
    assert found["mse"] == pytest.approx(expected["mse"])
    assert "ours (oracle), the only attack tried" in succeed(
        "audit", "score", truth, tmp_path / "guesses.npz", "--name", "ours"
    )


def test_a_challenge_under_calibrated_privacy_can_be_attacked_adaptively(tmp_path):
    """The strongest fair attack on differential privacy could not be tried by anybody who is not the party itself."""
    folder, challenge, truth = write_study(tmp_path), tmp_path / "challenge", tmp_path / "truth"
    file = folder / "lab.yaml"
    chosen = {"name": "dp_laplace", "epsilon": 100.0}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"defense": chosen}))
    succeed("train", folder / "federation.yaml", *party_files(folder), "--out", folder / "model", "--run", folder / "r")
    attack = "unsplit:preset=smoke:adaptive=true"
    succeed(
        "audit", "export", folder / "model", *files(folder), "--attack", attack, "--victim", "lab", "--targets", 8,
        "--out", challenge, "--truth", truth,
    )  # fmt: skip
    guesses = run_attack(make_attack("unsplit", preset="smoke", adaptive=True), read_challenge(challenge))
    np.savez(tmp_path / "guesses.npz", guesses=guesses.numpy())
    scored = succeed("audit", "score", truth, tmp_path / "guesses.npz", "--name", "ours")
    assert "ours (adaptive), the only attack tried" in scored


def test_knowledge_can_be_listed(study, tmp_path):
    succeed(
        "audit", "export", study / "model", *files(study), "--knowledge", "uploads,architecture", "--victim", "lab",
        "--out", tmp_path / "c", "--truth", tmp_path / "t",
    )  # fmt: skip
    assert set(read_challenge(tmp_path / "c").held) == {"uploads", "architecture"}


def test_a_matrix_goes_on_where_it_was(study, tmp_path):
    words = (
        "audit", "matrix", study / "federation.yaml", *party_files(study), "--defenses", "none,gaussian:sigma=1.0",
        "--attacks", "decoder:epochs=1", "--seeds", 1, "--out", tmp_path / "out",
    )  # fmt: skip
    first = succeed(*words)
    assert "lab under gaussian 1:" in first
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("*.parquet")}
    assert len(kept) == 2 * 3
    assert succeed(*words) == first
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    frame = pd.read_parquet(tmp_path / "out" / "audit.parquet")
    assert frame.groupby("defense")["accuracy_cost"].first()["none"] == 0


def test_a_part_of_a_matrix_can_be_shown(study, tmp_path):
    """Whoever stops a study of days sees nothing of it otherwise, but by writing Python."""

    def words(seeds, *more):
        return (
            "audit", "matrix", study / "federation.yaml", *party_files(study), "--defenses", "none",
            "--attacks", "ridge", "--seeds", seeds, "--out", tmp_path / "out", *more,
        )  # fmt: skip

    nothing = colonnade(*words(1, "--gather"))
    assert nothing.exit_code == 3 and "no cell is kept here" in nothing.stderr
    succeed(*words(1))
    assert "left out: ridge on none, seed 1: not run" in succeed(*words(2, "--gather"))
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 1
    refused = colonnade(*words(2, "--gather", "--engine", "ray"))
    assert refused.stderr == "error: --gather: nobody is needed to gather (leave engine and address out)\n"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["audit", "{study}/model", "--attacks", "decoder"], 3, "no records to audit with"),
        (["audit", "{study}/model", "--federation", "{study}/federation.yaml"], 3, "no records to audit with"),
        (["audit", "{study}", "{files}"], 8, "holds no trained model"),
        (["audit", "{study}/model", "{files}", "--attacks", "decodr"], 3, "unknown attack 'decodr'"),
        (["audit", "{study}/model", "{files}", "--attacks", "decoder:epochs"], 3, "'epochs' is no parameter"),
        (["audit", "{study}/model", "{files}", "--auxiliary", "1.5"], 3, "1.5 is no share"),
        (["audit", "export", "{study}/model", "{files}", "--out", "c", "--truth", "t"], 3, "--attack or --knowledge"),
        (["audit", "score", "{study}/nowhere", "g.npz"], 8, "truth.json: is missing"),
        (["audit", "run", "{study}/model", *WRONG_ID], 4, "lab.csv: no column 'patiant' (did you mean 'patient'?)"),
        (
            ["audit", "export", "{study}/model", *WRONG_ID, "--attack", "decoder", "--out", "c", "--truth", "t"],
            4,
            "lab.csv: no column 'patiant' (did you mean 'patient'?)",
        ),
        (["predict", "{study}/model", *WRONG_ID], 4, "lab.csv: no column 'patiant' (did you mean 'patient'?)"),
        (
            ["audit", "export", "{study}/model", "{files}", "--attack", "pcat", "--out", "c", "--truth", "t"],
            3,
            "can't be put into a folder",
        ),
        (
            ["audit", "export", "{study}/model", "{files}", "--attack", "decoder,ridge", "--out", "c", "--truth", "t"],
            3,
            "--attack: a challenge grants what one attack knows",
        ),
        (
            ["audit", "run", "{study}/model", "{files}", "--attacks", "unsplit:adaptive=nope"],
            3,
            "unsplit.adaptive: 'nope' is not allowed (give true or false)",
        ),
        (
            [
                "audit",
                "matrix",
                "{study}/federation.yaml",
                "{parties}",
                "--defenses",
                "gaussian:sigma=-1",
                "--out",
                "o",
            ],
            3,
            "gaussian.sigma: -1 is not allowed",
        ),
        (
            [
                "audit",
                "matrix",
                "{study}/federation.yaml",
                "{parties}",
                "--defenses",
                "none",
                "--engine",
                "x",
                "--out",
                "o",
            ],
            3,
            "unknown engine 'x'",
        ),
    ],
)
def test_a_mistake_is_one_line(study, words, code, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled = []
    for word in words:
        filled += files(study) if word == "{files}" else party_files(study) if word == "{parties}" else [
            word.replace("{study}", str(study))
        ]  # fmt: skip
    result = colonnade(*filled)
    assert result.exit_code == code, result.output
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["run", "attributes", "matrix", "train"])
def test_a_gpu_that_is_not_here_is_told_before_anything_is_read(study, tmp_path, monkeypatch, command):
    """People would be told that their model is damaged, and train it anew."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("colonnade.data.read.read_table", None)
    monkeypatch.setattr("colonnade.learn.join.read_table", None)
    monkeypatch.setattr("colonnade.learn.part.read_tensors", None)
    words = {
        "run": ("audit", "run", study / "model", *files(study), "--device", "cuda"),
        "attributes": ("audit", "attributes", study / "runs", *files(study), "--device", "cuda"),
        "matrix": ("audit", "matrix", study / "federation.yaml", *party_files(study), "--defenses", "none",
                   "--out", tmp_path / "out", "--device", "cuda"),
        "train": ("train", study / "federation.yaml", *party_files(study), "--run", tmp_path / "out"),
    }  # fmt: skip
    text = (study / "clinic.yaml").read_text()
    if command == "train":
        (study / "clinic.yaml").write_text(text + "device: cuda\n")
    result = colonnade(*words[command])
    (study / "clinic.yaml").write_text(text)
    assert result.exit_code == 3, result.exception or result.stderr
    assert "device: no device 'cuda' here (use cpu" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_one_party_does_not_know_the_active_partys_split_column(study, tmp_path):
    shutil.copytree(study / "runs" / "lab", tmp_path / "lab")
    config = yaml.safe_load((tmp_path / "lab" / "config.yaml").read_text())
    config["task"]["split"]["column"] = "part"
    (tmp_path / "lab" / "config.yaml").write_text(yaml.safe_dump(config))
    result = colonnade("audit", tmp_path / "lab", *files(study, "lab"))
    assert result.exit_code == 3
    assert "only the active party knows" in result.stderr


def test_choices_are_names_with_parameters():
    assert choices("none, gaussian:sigma=0.5:deep=true") == [
        {"name": "none"}, {"name": "gaussian", "sigma": 0.5, "deep": True},
    ]  # fmt: skip
    assert choices("decoder:learning_rate=1e-3") == [{"name": "decoder", "learning_rate": 0.001}]
    for wrong in ("decoder:epochs", "decoder:=5", "decoder:name=x"):
        with pytest.raises(ConfigError, match="is no parameter"):
            choices(wrong)


def test_a_list_is_one_value():
    """It was cut at its commas: what takes several numbers, or several names, could be used in Python alone."""
    assert choices("unsplit:start=[.1,.2,.3]:preset=smoke, causshield:graph=[age, bmi],none") == [
        {"name": "unsplit", "start": [0.1, 0.2, 0.3], "preset": "smoke"},
        {"name": "causshield", "graph": ["age", "bmi"]},
        {"name": "none"},
    ]
    assert choices("causshield:graph={outcome: [age, bmi], age: []}:label=outcome,ridge") == [
        {"name": "causshield", "graph": {"outcome": ["age", "bmi"], "age": []}, "label": "outcome"}, {"name": "ridge"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["decoder:epochs=[", "ridge:x={a: b", "ridge:x=*y", "unsplit:start=[.1,.2,ridge", "ridge:x=]"]
)
def test_a_value_that_can_not_be_read_names_the_text(text):
    """It ended in a traceback of a parser that nobody had called."""
    with pytest.raises(ConfigError, match="is no value") as error:
        choices(text)
    assert str(error.value).startswith(f"{text}: ")


def test_settings_of_an_audit_can_be_chosen(study, tmp_path):
    """The rate of success would stay at one published threshold, and averaging at eight uploads."""
    words = (*files(study), "--attacks", "decoder:preset=repeated:epochs=2", "--seeds", 1)
    rows = {}
    for threshold in (0, 1000):
        chosen = ("--repeats", 3, "--threshold", threshold)
        succeed("audit", "run", study / "model", *words, *chosen, "--out", tmp_path / f"{threshold}")
        found = AuditResult.load(tmp_path / f"{threshold}")
        assert (found.settings["repeats"], found.settings["threshold"]) == (3, threshold)
        rows[threshold] = set(found.frame.loc[found.frame["attack"] == "decoder", "asr"])
    assert rows == {0: {0.0}, 1000: {1.0}}
    chosen = ("--repeats", 3, "--threshold", 1000)
    succeed(
        "audit", "export", study / "model", *files(study), "--attack", "decoder:preset=repeated", "--victim", "lab",
        "--out", tmp_path / "c", "--truth", tmp_path / "t", *chosen,
    )  # fmt: skip
    evidence = read_challenge(tmp_path / "c")
    assert evidence.uploads.shape[1] == 3
    guesses = np.zeros((len(evidence.uploads), *evidence.input_shape))
    np.savez(tmp_path / "g.npz", guesses=guesses)
    scored = json.loads(succeed("audit", "score", tmp_path / "t", tmp_path / "g.npz", "--json"))
    assert {row["asr"] for row in scored["rows"]} == {1.0}
    succeed(
        "audit", "matrix", study / "federation.yaml", *party_files(study), "--defenses", "none", "--attacks", "ridge",
        "--seeds", 1, "--out", tmp_path / "matrix", *chosen,
    )  # fmt: skip
    found = AuditResult.load(tmp_path / "matrix")
    assert (found.settings["repeats"], found.settings["threshold"]) == (3, 1000)


@pytest.mark.parametrize("command", ["run", "matrix", "export"])
def test_the_commands_and_python_begin_with_the_same_settings(command):
    """The same audit would have other numbers in Python."""
    options = {one.name: one.default for one in get_command(audit).commands[command].params}
    shared = {one.name: one.default for one in fields(Settings) if one.name in options}
    assert {"auxiliary", "targets", "repeats", "threshold"} <= shared.keys()
    assert {name: options[name] for name in shared} == shared


@pytest.mark.parametrize("command", ["run", "attributes", "export", "score", "matrix"])
def test_a_folder_that_can_not_be_written_is_told_before_anything_is_computed(study, tmp_path, monkeypatch, command):
    """Hours of attacks would end in a traceback, and say nothing of what they found."""
    for module, work in (("source", "load_trained"), ("submission", "score_challenge"), ("matrix", "run_matrix")):
        monkeypatch.setattr(import_module(f"colonnade.audit.{module}"), work, None)
    (tmp_path / "file").write_bytes(b"mine")
    words = {
        "run": (study / "model", *files(study)),
        "attributes": (study / "model", *files(study)),
        "export": (study / "model", *files(study), "--attack", "decoder", "--truth", tmp_path / "truth"),
        "score": ("truth", "guesses.npz"),
        "matrix": (study / "federation.yaml", *party_files(study), "--defenses", "none"),
    }[command]
    result = colonnade("audit", command, *words, "--out", tmp_path / "file")
    assert result.exit_code == 3, result.exception or result.stderr
    assert "file: no folder can be written here: File exists (name another folder)" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_what_was_found_is_told_even_where_it_can_not_be_kept(study, tmp_path, monkeypatch, as_json):
    """A disk that fills up meanwhile would take hours of attacks with it."""

    def full(result, folder):
        raise RunError("cannot be written: No space left on device", where=str(folder))

    monkeypatch.setattr(AuditResult, "save", full)
    result = colonnade("audit", study / "model", *files(study), *QUICK, "--out", tmp_path / "out", *as_json)
    assert result.exit_code == 8
    assert "lab: decoder (oracle), the only attack tried" in result.stdout
    assert "No space left" in result.stderr


def test_knowledge_may_be_listed_with_blanks(study, tmp_path):
    succeed(
        "audit", "export", study / "model", *files(study), "--knowledge", "uploads, auxiliary_records,",
        "--victim", "lab", "--out", tmp_path / "c", "--truth", tmp_path / "t",
    )  # fmt: skip
    assert set(read_challenge(tmp_path / "c").held) == {"uploads", "auxiliary_records"}


@pytest.mark.parametrize(
    ("guess", "complaint"),
    [(1e200, "beyond 1e+12"), (1e30, "beyond 1e+12"), (np.longdouble("1e4000"), "beyond 1e+12|infinite numbers")],
)
def test_guesses_without_measure_are_refused(study, tmp_path, guess, complaint):
    """Their errors would be infinite, or a line of sixty digits."""
    succeed(
        "audit", "export", study / "model", *files(study), "--attack", "ridge", "--victim", "lab",
        "--out", tmp_path / "c", "--truth", tmp_path / "t",
    )  # fmt: skip
    uploads = read_challenge(tmp_path / "c")
    np.savez(tmp_path / "g.npz", guesses=np.full((len(uploads.uploads), *uploads.input_shape), guess))
    result = colonnade("audit", "score", tmp_path / "t", tmp_path / "g.npz")
    assert result.exit_code == 4, result.exception
    assert any(one in result.stderr for one in complaint.split("|"))
    assert len(result.stderr.splitlines()) == 1
