"""If these fail, a comparison shows an open model's leak beside a protected one's name, or its score."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.report import report_page
from colonnade.report.chapters import SKILL, comparison, sections
from colonnade.report.gather import Study, gather
from colonnade.run import Run


def audit_of(*defenses):
    """Return an audit of one model for each (defense, its accuracy, the skills of its attacks)."""
    measured = dict.fromkeys(("mse", "psnr", "ssim", "lpips", "identification", "asr"), 0.5)
    base = {**measured, "dataset": "", "cut": 1, "party": "lab", "strength": np.nan, "seed": 0, "accuracy_cost": np.nan}
    rows = []
    for defense, accuracy, skills in defenses:
        tried = {"mean": 0.0, **{f"attack {number}": skill for number, skill in enumerate(skills)}}
        for name, skill in tried.items():
            how = {"attack": name, "knowledge": "baseline" if name == "mean" else "oracle", "attack_settings": "{}"}
            model = {"defense": defense, "defense_settings": "{}", "accuracy": accuracy, "model_seed": defense}
            rows.append({**base, **how, **model, "skill": skill})
    return co.AuditResult(pd.DataFrame(rows))


def trained(folder, **test):
    run = Run.create("clinic", {"party": "clinic", "task": {"kind": "auto"}}, folder)
    run.finish({"test": test})
    return folder


def rounded(value):
    return round(value, 9) if isinstance(value, float) else value


def compared(*studies):
    """Return the rows of the table, and how many points its chart has."""
    table, *charts = comparison(studies).blocks
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    drawn = sum(len(trace["x"]) for chart in charts for trace in chart.data)
    known = [{name: None if pd.isna(value) else rounded(value) for name, value in row.items()} for row in rows]
    return [tuple(row[name] for name in ("study", "job", "defense", "score", SKILL)) for row in known], drawn


def test_every_audit_stands_beside_its_own_defense_and_score(tmp_path):
    """The protected model was shown with the skill of attacks on the open one: protection seemed to do nothing."""
    both = {"protected": audit_of(("gaussian", 0.7, [0.1, 0.2])), "undefended": audit_of(("none", 0.9, [0.95, 0.4]))}
    for name, audit in both.items():
        audit.save(tmp_path / "a" / "audit" / name)
    trained(tmp_path / "a" / "train", accuracy=0.7)
    alone = Study("b", Path(), audits={"audit": audit_of(("none", 0.8, [0.9]))})
    found, drawn = compared(gather(tmp_path / "a"), alone)
    assert found == [
        ("a", "audit/protected", "gaussian", 0.7, 0.2),
        ("a", "audit/undefended", "none", 0.9, 0.95),
        ("b", "audit", "none", 0.8, 0.9),
    ]
    assert drawn == 3


def test_every_defense_of_a_matrix_has_a_row_of_its_own():
    """A matrix was told as its first defense with the skill of attacks on its worst one."""
    study = Study("matrix", Path(), audits={"m": audit_of(("none", 0.9, [0.95]), ("prune", 0.8, [0.3, 0.1]))})
    assert compared(study)[0] == [("matrix", "m", "none", 0.9, 0.95), ("matrix", "m", "prune", 0.8, 0.3)]


def test_what_nobody_attacked_has_a_score_and_no_skill(tmp_path):
    """A training would be missing from the comparison, or get the skill of another."""
    for name, score in (("first", 0.7), ("second", 0.8)):
        trained(tmp_path / "study" / name, accuracy=score)
    guesses = Study("guesses", Path(), audits={"m": audit_of(("none", 0.9, []))})
    found, drawn = compared(gather(tmp_path / "study"), guesses, Study("nothing", Path()))
    assert found == [
        ("study", "first", "–", 0.7, None),
        ("study", "second", "–", 0.8, None),
        ("guesses", "m", "none", 0.9, None),
        ("nothing", "–", "–", None, None),
    ]
    assert drawn == 0


@pytest.mark.parametrize(("trainings", "score"), [(["train"], 0.6), (["train", "another"], None)])
def test_a_regressions_score_is_that_of_the_one_training_beside_its_audit(tmp_path, trainings, score):
    """An audit does not know R²: a regression would have no score; of two trainings, nobody knows whose it is."""
    audit_of(("none", np.nan, [0.9])).save(tmp_path / "audit")
    for name in trainings:
        trained(tmp_path / name, r2=0.6)
    study = gather(tmp_path)
    assert compared(study)[0] == [(study.name, "audit", "none", score, 0.9)]
    assert "Side by side" in report_page([study, study])


def test_heads_of_the_active_party_are_drawn_apart_from_the_task(tmp_path):
    """Whoever holds labels and a secret could not see what its head knows, or saw it among losses of the task."""
    row = {"epoch": 0, "train_loss": 0.5, "validation_loss": 0.4, "head_loss_sex": 0.6, "cost_sex": -0.6}
    with Run.create("clinic", {"party": "clinic", "task": {"kind": "auto"}}, tmp_path / "train") as run:
        run.finish({"test": {"accuracy": 0.7}, "history": [row]})
    charts = [block for section in sections(gather(tmp_path)) for block in section.blocks if block.kind == "chart"]
    drawn = {chart.title: [trace["name"] for trace in chart.data] for chart in charts}
    assert drawn["Loss of train"] == ["train_loss", "validation_loss"]
    assert drawn["Heads that guess clinic's secrets in train"] == ["head_loss_sex", "cost_sex"]
