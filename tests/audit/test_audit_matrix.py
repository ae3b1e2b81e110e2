"""If these fail, a matrix loses hours of work to one kill, or keeps numbers of other settings."""

import os
import time
from functools import partial

import pandas as pd
import pytest
import torch
from audit_parts import PARTIES, SETTINGS, Linear, Spy, row, table, table_federation

import colonnade as co
from colonnade.attack import ATTACKS
from colonnade.audit import cell as cells_module
from colonnade.audit import matrix as matrix_module
from colonnade.audit.cell import Study, study_digest
from colonnade.audit.matrix import cells_of, missing_of, run_matrix
from colonnade.audit.result import AuditResult
from colonnade.audit.settings import Settings
from colonnade.audit.standing import standing_of
from colonnade.defend import DEFENSES, Defense, Gaussian
from colonnade.errors import ConfigError, RunError
from colonnade.progress import Progress

NOISE = {"name": "gaussian", "sigma": 1.0}
TASK = co.Task.model_validate(SETTINGS)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(ATTACKS, "_entries", {**ATTACKS._entries, "linear": Linear, "spy": Spy})


@pytest.fixture
def counted(monkeypatch):
    """Counts models that are trained and cells that are computed."""
    counts = {"trained": 0, "attacked": 0}

    def counting(name, work):
        def count(study, job):
            counts[name] += 1
            return work(study, job)

        return count

    for name, work in (("trained", "train_victim"), ("attacked", "attack_victim")):
        monkeypatch.setattr(matrix_module, work, counting(name, getattr(cells_module, work)))
    return counts


class Told(Progress):
    """Remembers what it was told."""

    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def matrix(
    out, defenses=("none", NOISE), attacks=("linear",), seeds=2, federation=None, task=TASK, progress=False, **settings
):
    return run_matrix(
        federation or table_federation(),
        defenses,
        attacks,
        out=out,
        task=task,
        seeds=seeds,
        progress=progress,
        **settings,
    )


def test_every_cell_is_the_audit_of_its_own_model(tmp_path):
    result = matrix(tmp_path, seeds=[3], dataset="patients")
    for defense in ("none", NOISE):
        model = co.train(table_federation(), defense, task=TASK, seed=3, progress=False)
        audited = co.audit(model, Linear(), seeds=[3], progress=False, dataset="patients")
        name = defense if isinstance(defense, str) else "gaussian"
        found = row(result, attack="linear", party="lab", defense=name)
        expected = row(audited, attack="linear", party="lab")
        found.pop("accuracy_cost"), expected.pop("accuracy_cost")
        assert found == pytest.approx(expected, nan_ok=True)


def test_rows_are_means_over_models_and_tell_what_a_defense_costs(tmp_path):
    result = matrix(tmp_path)
    frame, seeds = result.frame, result.per_seed
    assert len(frame) == 2 * 2 * 4, "two defenses, two parties, an attack and three trivial guesses"
    assert set(frame["seeds"]) == {2}
    own = {
        name: seeds[seeds["defense"] == name].drop_duplicates("model_seed").set_index("model_seed")["accuracy"]
        for name in ("none", "gaussian")
    }
    cost = own["none"] - own["gaussian"]
    found = row(result, attack="linear", party="lab", defense="gaussian")
    assert found["accuracy_cost"] == pytest.approx(cost.mean())
    assert found["accuracy_cost_ci"] > 0
    assert row(result, attack="linear", party="lab", defense="none")["accuracy_cost"] == 0
    assert pd.read_parquet(tmp_path / "audit.parquet").equals(frame)
    assert AuditResult.load(tmp_path).verdict == result.verdict


def test_without_an_undefended_model_no_cost_is_made_up(tmp_path):
    assert matrix(tmp_path, defenses=[NOISE], seeds=1).frame["accuracy_cost"].isna().all()


def test_nothing_is_computed_twice(tmp_path, counted):
    first = matrix(tmp_path)
    assert counted == {"trained": 4, "attacked": 4}
    again = matrix(tmp_path)
    assert counted == {"trained": 4, "attacked": 4}
    assert again.frame.equals(first.frame)
    more = matrix(tmp_path, attacks=["linear", {"name": "decoder", "epochs": 1}], seeds=3)
    assert counted == {"trained": 6, "attacked": 4 + 2 + 6}
    both = more.per_seed[(more.per_seed["attack"] == "linear") & (more.per_seed["seed"] < 2)]
    before = first.per_seed[first.per_seed["attack"] == "linear"]
    assert both["mse"].tolist() == before["mse"].tolist()


def test_a_part_of_a_matrix_can_be_looked_at(tmp_path, counted):
    """Who stops a study of days would see nothing of what is there already."""
    matrix(tmp_path, seeds=[0])
    told = Told()
    part = matrix(tmp_path, seeds=2, gather=True, progress=told)
    assert counted == {"trained": 2, "attacked": 2}, "nothing new"
    assert set(part.frame["seeds"]) == {1}
    assert part.settings["left_out"] == [
        "linear on none, seed 1: not run",
        "linear on gaussian sigma=1.0, seed 1: not run",
    ]
    assert told.messages == [
        "2 of 4 cells are there; not run: linear on none, seed 1, linear on gaussian sigma=1.0, seed 1"
    ]
    with pytest.raises(ConfigError, match="no cell is kept here"):
        matrix(tmp_path, seeds=[7], gather=True)


def test_many_missing_cells_are_counted_and_few_are_named():
    """A matrix that was stopped lacks hundreds of cells; a page of names would hide what else its notes say."""
    cells = cells_of(["none", NOISE], ["sdar", "decoder", "ridge"], seeds=3)
    seeds = [cell.victim.seed for cell in cells]
    places = {seed: [place for place, one in enumerate(seeds) if one == seed] for seed in range(3)}
    lacking = {*places[0][:1], *places[1], *places[2]}
    assert missing_of(cells, lacking) == [
        "sdar on none, seed 0", "all 6 cells of seed 1", "all 6 cells of seed 2"
    ]  # fmt: skip
    more = cells_of(["none", NOISE], ["sdar", "decoder", "ridge", "unsplit"], seeds=1)
    assert missing_of(more, set(range(6))) == ["6 of 8 cells of seed 0"]
    assert missing_of(cells, set()) == []


@pytest.mark.parametrize(
    ("change", "trained"),
    [
        ({"auxiliary": 0.3}, 0),
        ({"threshold": 0.5}, 0),
        ({"attacks": [{"name": "decoder", "epochs": 2}]}, 0),
        ({"defenses": [{"name": "gaussian", "sigma": 1.5}]}, 1),
        ({"task": TASK.model_copy(update={"epochs": 1})}, 1),
        ({"federation": table_federation(236)}, 1),
    ],
)
def test_a_kept_cell_of_other_settings_is_not_taken(tmp_path, counted, change, trained):
    usual = {"defenses": [NOISE], "attacks": [{"name": "decoder", "epochs": 1}], "seeds": 1}
    matrix(tmp_path, **usual)
    matrix(tmp_path, **{**usual, **change})
    assert counted == {"trained": 1 + trained, "attacked": 2}


def test_a_damaged_cell_is_computed_again(tmp_path, counted):
    """Told to run the audit again, people ran into the same cell."""
    whole = matrix(tmp_path, [NOISE], seeds=2)
    damaged = next((tmp_path / "cells").iterdir()) / "seeds.parquet"
    damaged.write_bytes(damaged.read_bytes()[:40])
    assert matrix(tmp_path, [NOISE], seeds=2).frame.equals(whole.frame)
    assert counted == {"trained": 2, "attacked": 3}


def test_what_was_finished_survives_kills_and_first_seeds_come_first(tmp_path, counted, monkeypatch):
    whole = cells_module.attack_victim

    def killed_after(most):
        def attack(study, job):
            if counted["attacked"] == most:
                raise KeyboardInterrupt
            counted["attacked"] += 1
            return whole(study, job)

        return attack

    for most, finished in ((1, {("none", 0)}), (2, {("none", 0), ("gaussian", 0)})):
        with monkeypatch.context() as patch:
            patch.setattr(matrix_module, "attack_victim", killed_after(most))
            with pytest.raises(KeyboardInterrupt):
                matrix(tmp_path)
        found = matrix(tmp_path, gather=True).per_seed
        assert {*zip(found["defense"], found["model_seed"], strict=True)} == finished
    matrix(tmp_path)
    assert counted == {"trained": 4, "attacked": 4}
    reference = matrix(tmp_path / "undisturbed")
    assert matrix(tmp_path).frame.equals(reference.frame)


def killed(monkeypatch, after):
    """Let somebody press Ctrl-C when so many cells have been computed."""
    whole, computed = cells_module.attack_victim, []

    def attack(study, job):
        if len(computed) == after:
            raise KeyboardInterrupt
        computed.append(job)
        return whole(study, job)

    monkeypatch.setattr(matrix_module, "attack_victim", attack)


def test_whoever_interrupts_a_matrix_is_told_that_it_goes_on(tmp_path, monkeypatch):
    """People took hours of work for lost, and deleted the folder."""
    killed(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt) as interruption:
        matrix(tmp_path)
    assert interruption.value.__notes__ == ["1 of 4 cells are kept; the same command goes on from there"]


def test_a_stopped_matrix_tells_what_is_missing(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        killed(patch, after=3)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path)
    standing = standing_of(tmp_path)
    assert standing.unfinished == "this matrix is unfinished: 1 of 4 cells is missing"
    assert standing.result.notes[:2] == [
        standing.unfinished, "left out: linear on gaussian sigma=1.0, seed 1: not run"
    ]  # fmt: skip
    found = standing.result.per_seed
    assert found.equals(matrix(tmp_path, gather=True).per_seed)
    assert {*zip(found["defense"], found["model_seed"], strict=True)} == {("none", 0), ("gaussian", 0), ("none", 1)}
    whole = matrix(tmp_path)
    standing = standing_of(tmp_path)
    assert standing.unfinished is None and standing.result.frame.equals(whole.frame)


def test_the_result_of_a_smaller_matrix_does_not_hide_what_came_after(tmp_path, monkeypatch):
    """A study was widened, stopped and shown: its page was the old one, and said nothing."""
    matrix(tmp_path, defenses=["none"], seeds=1)
    with monkeypatch.context() as patch:
        killed(patch, after=0)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path, defenses=[NOISE], seeds=1)
    begun = standing_of(tmp_path)
    assert set(begun.result.frame["defense"]) == {"none"}, "nothing else is there yet"
    assert begun.unfinished == ("this matrix is unfinished: 1 of 1 cell is missing; what is told here was found before")
    with monkeypatch.context() as patch:
        killed(patch, after=1)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path, defenses=["none", NOISE])
    wider = standing_of(tmp_path)
    assert set(wider.result.frame["defense"]) == {"none", "gaussian"}
    assert wider.unfinished == "this matrix is unfinished: 2 of 4 cells are missing"


def test_cells_of_an_earlier_command_are_not_mixed_in(tmp_path, monkeypatch):
    """They may be of other settings: a table would hold numbers that can't be compared."""
    matrix(tmp_path, defenses=["none"], seeds=1, auxiliary=0.3)
    with monkeypatch.context() as patch:
        killed(patch, after=1)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path, defenses=["none"])
    result = standing_of(tmp_path).result
    assert result.per_seed.equals(matrix(tmp_path, defenses=["none"], seeds=1).per_seed)
    assert "left out: 1 cell that the last command did not ask for" in result.notes


def test_cells_of_one_defense_of_several_say_which(tmp_path, monkeypatch):
    """The verdict names no defense where there is one: noise was taken for no defense at all."""
    with monkeypatch.context() as patch:
        killed(patch, after=1)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path, defenses=[NOISE, "none"], seeds=1)
    unfinished = "this matrix is unfinished: 1 of 2 cells is missing; what is told here is under gaussian 1"
    assert standing_of(tmp_path).unfinished == unfinished


def test_a_gathered_part_is_told_until_there_is_more(tmp_path):
    matrix(tmp_path, seeds=[0])
    part = matrix(tmp_path, gather=True)
    standing = standing_of(tmp_path)
    assert standing.result.frame.equals(part.frame)
    assert standing.unfinished == "this matrix is unfinished: 2 of 4 cells are missing"
    (tmp_path / "beside").mkdir()
    matrix(tmp_path / "beside")
    for cell in (tmp_path / "beside" / "cells").glob("*-seed-1-*"):
        cell.rename(tmp_path / "cells" / cell.name)  # as another process leaves them here
    assert len(standing_of(tmp_path).result.per_seed) == 2 * len(part.per_seed)


def test_cells_that_were_unpacked_by_hand_are_one_audit(tmp_path):
    """Cells are kept and passed on without the plan of the command that made them."""
    whole = matrix(tmp_path, dataset="patients")
    for file in tmp_path.iterdir():
        if file.is_file():
            file.unlink()
    standing = standing_of(tmp_path)
    order = ["defense", "party", "attack", "model_seed"]
    found, expected = (one.per_seed.sort_values(order, ignore_index=True) for one in (standing.result, whole))
    pd.testing.assert_frame_equal(found, expected)
    assert standing.unfinished == "4 cells of a matrix, and no matrix-plan.json that says how many it should have"


def test_unpacked_cells_of_two_settings_are_not_averaged(tmp_path):
    for auxiliary in (0.3, 0.5):
        matrix(tmp_path, defenses=["none"], seeds=1, auxiliary=auxiliary)
    (tmp_path / "matrix-plan.json").unlink()
    (tmp_path / "audit.json").unlink()
    damaged = tmp_path / "cells" / "ridge-on-none-seed-0-0123456789abcdef"
    damaged.mkdir()
    (damaged / "audit.json").write_text("{")
    result = standing_of(tmp_path).result
    assert set(result.frame["seeds"]) == {1}
    other, broken = sorted(note for note in result.notes if note.startswith("left out"))
    assert other.endswith("of other settings than a cell of the same attack on the same model")
    assert broken == f"left out: {damaged.name}: damaged"


def test_a_result_without_a_plan_says_what_it_does_not_tell(tmp_path, monkeypatch):
    """Folders of earlier versions: an old result hid all cells that came after it."""
    matrix(tmp_path, defenses=["none"], seeds=1)
    (tmp_path / "matrix-plan.json").unlink()
    assert standing_of(tmp_path).unfinished is None
    killed(monkeypatch, after=2)
    with pytest.raises(KeyboardInterrupt):
        matrix(tmp_path)
    (tmp_path / "matrix-plan.json").unlink()
    standing = standing_of(tmp_path)
    assert set(standing.result.frame["defense"]) == {"none"}
    assert standing.unfinished == "2 of 3 cells that lie here are of another command, and not told"


def test_a_damaged_plan_is_one_clear_error(tmp_path):
    matrix(tmp_path, defenses=["none"], seeds=1)
    (tmp_path / "matrix-plan.json").write_text('{"cells": [{}]}')
    with pytest.raises(RunError, match=r"matrix-plan.json: is damaged .*or delete the file"):
        standing_of(tmp_path)
    matrix(tmp_path, defenses=["none"], seeds=1)
    assert standing_of(tmp_path).unfinished is None


def test_two_processes_may_work_on_one_matrix(tmp_path, monkeypatch):
    """The slower one died of the first cell that both had computed."""
    whole = cells_module.attack_victim

    def overtaken(study, job):
        monkeypatch.setattr(matrix_module, "attack_victim", whole)
        matrix(tmp_path)
        return whole(study, job)

    monkeypatch.setattr(matrix_module, "attack_victim", overtaken)
    slower = matrix(tmp_path)
    assert slower.frame.equals(matrix(tmp_path).frame)
    assert len(list((tmp_path / "cells").iterdir())) == len(list((tmp_path / "models").iterdir())) == 4


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(tmp_path, counted):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(RunError, match="out: cannot be written: File exists"):
        matrix(tmp_path / "out")
    assert counted == {"trained": 0, "attacked": 0}


def test_half_filled_folders_are_taken_away(tmp_path, monkeypatch):
    """Every Ctrl-C left one for good; what another process is writing right now must stay."""

    def stopped(self, folder):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AuditResult, "save", stopped)
        with pytest.raises(KeyboardInterrupt):
            matrix(tmp_path, defenses=["none"], seeds=1)
    assert list((tmp_path / "cells").iterdir()) == []
    abandoned, written, foreign = (tmp_path / "cells" / f".{one * 16}" for one in ("a", "b", "x"))
    for folder, age in ((abandoned, 25), (written, 1), (foreign, 25)):
        folder.mkdir()
        (folder / "seeds.parquet").write_bytes(b"half")
        os.utime(folder, (time.time() - age * 3600,) * 2)
    matrix(tmp_path, defenses=["none"], seeds=1)
    assert {path.name for path in (tmp_path / "cells").glob(".*")} == {written.name, foreign.name}


class Fragile(Defense):
    name = "fragile"

    def prepare(self, bottom, data):
        raise ConfigError("can't stand these records", where="fragile")


def test_a_cell_that_fails_is_left_out_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(DEFENSES, "_entries", {**DEFENSES._entries, "fragile": Fragile})
    result = matrix(tmp_path, defenses=["none", "fragile"], seeds=1)
    assert set(result.frame["defense"]) == {"none"}
    assert any("linear on fragile, seed 0: fragile: can't stand these records" in note for note in result.notes)
    assert standing_of(tmp_path).unfinished is None, "it was tried, and why it failed is told"
    with pytest.raises(RunError, match="no cell could be computed; the first: linear on fragile"):
        matrix(tmp_path, defenses=["fragile"], seeds=1)


def test_a_mistake_in_somebodys_code_costs_its_own_cells_alone(tmp_path, monkeypatch):
    """A plug-in, or a full GPU, took what others were computing with it, at every start anew."""

    def prepare(self, bottom, data):
        raise IndexError("list index out of range")

    monkeypatch.setattr(Fragile, "prepare", prepare)
    monkeypatch.setattr(DEFENSES, "_entries", {**DEFENSES._entries, "fragile": Fragile})
    result = matrix(tmp_path, defenses=["none", "fragile"], seeds=1)
    assert set(result.frame["defense"]) == {"none"}
    (told,) = [note for note in result.notes if "fragile" in note]
    assert "IndexError: list index out of range (test_audit_matrix.py, line " in told


def test_insiders_play_in_a_matrix_too(tmp_path):
    result = matrix(tmp_path, attacks=["spy"], defenses=["none"], seeds=1)
    assert row(result, attack="spy", party="lab")["skill"] == pytest.approx(0, abs=1e-6)


def test_a_required_protection_does_not_hinder_a_study_of_others(tmp_path):
    required = TASK.model_copy(update={"protection": "gaussian"})
    assert len(matrix(tmp_path, defenses=["none"], seeds=1, task=required).frame)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"defenses": [{"name": "gaussian", "sigma": -1}]}, "gaussian.sigma: -1 is not allowed"),
        ({"defenses": ["gausian"]}, "unknown defense 'gausian'"),
        ({"defenses": []}, "defenses: is empty"),
        ({"attacks": []}, "attacks: is empty"),
        ({"attacks": [{"name": "decoder", "epochs": 0}]}, "decoder.epochs: 0 is not allowed"),
        ({"attacks": [Linear()]}, "is no name"),
        ({"attacks": [{"name": 3}]}, "{'name': 3} is no name and no mapping with a name"),
        ({"defenses": [{"name": Gaussian()}]}, "is no name and no mapping with a name"),
        ({"seeds": 2.5}, "seeds: 2.5 is not allowed .give a whole number"),
        ({"engine": "cloud"}, "unknown engine 'cloud'"),
        ({"auxiliary": 0}, "no share of the records"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(tmp_path, counted, change, complaint):
    with pytest.raises(ConfigError, match=complaint):
        matrix(tmp_path / "out", **change)
    assert counted == {"trained": 0, "attacked": 0}
    assert not (tmp_path / "out").exists()


def test_a_defense_that_needs_labels_is_refused_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(Gaussian, "needs_labels", True)
    with pytest.raises(ConfigError, match="defenses: 'gaussian' needs labels, which a passive party does not have"):
        matrix(tmp_path)
    with pytest.raises(ConfigError, match="lab: 'gaussian' needs labels, which a passive party does not have"):
        co.train(table_federation(), NOISE, task=TASK, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.alone)])
def test_other_processes_find_the_same(tmp_path, engine, request):
    if engine == "ray":
        pytest.importorskip("ray", reason="Ray is an extra: pip install 'colonnade[ray]'")
        request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
        torch.set_num_threads(1)  # as every worker of Ray has; sums over more threads differ in the last digit
    attacks = [{"name": "decoder", "epochs": 2}]
    here, there = (
        matrix(tmp_path / name, attacks=attacks, seeds=1, **options)
        for name, options in (("here", {}), ("there", {"engine": engine, "jobs": 2}))
    )
    assert here.frame.equals(there.frame)


def test_a_model_that_hides_another_secret_is_another_model():
    """The table of a study that hides age would be that of one that hides sex, with no word said."""
    frame = table().assign(sex=["f", "m"] * 120, smoker=["yes", "no", "no"] * 80)
    digests = {
        study_digest(Study(federation, co.Task(), Settings(), None))
        for secrets in ({"lab": ["sex"]}, {"lab": ["smoker"]}, {"lab": ["sex", "smoker"]}, None)
        for federation in [co.Federation.from_frame(frame, PARTIES, label=("clinic", "outcome"), secrets=secrets)]
    }
    assert len(digests) == 4
