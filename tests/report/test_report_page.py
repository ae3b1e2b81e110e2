"""If these fail, a report hides a number, says too much, or lets a file's contents become part of the page."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from typer.testing import CliRunner

import colonnade as co
from colonnade.audit.result import Pictures
from colonnade.cli import app
from colonnade.report import gather, report_page, write_report
from colonnade.report.chapters import sections
from colonnade.report.flow import MEANING, traffic
from colonnade.report.gather import Study
from colonnade.report.graph_drawing import layout
from colonnade.report.page import audit_page
from colonnade.report.verdict import sentences
from colonnade.run import Run


@pytest.fixture(scope="module")
def page(study):
    return report_page([gather(study)])


def blocks(study, kind):
    return [block for section in sections(gather(study)) for block in section.blocks if block.kind == kind]


def test_every_chart_is_one_that_plotly_accepts(study):
    charts = blocks(study, "chart")
    assert len(charts) >= 5
    for chart in charts:
        go.Figure(data=list(chart.data), layout=dict(chart.layout))


def test_every_number_of_a_chart_stands_in_its_table(study):
    for chart in blocks(study, "chart"):
        told = {round(cell, 9) for row in chart.table.rows for cell in row if isinstance(cell, int | float)}
        drawn = {round(y, 9) for trace in chart.data for y in trace["y"] if y is not None}
        assert drawn <= told, chart.title


def shown_of(parties, side=32):
    """Return the gallery of an audit with pictures of these parties, and its page."""
    rng = np.random.default_rng(0)
    keys = {"dataset": "d", "cut": 6, "defense": "none", "strength": 0.0, "defense_settings": "{}", "attack": "ridge"}
    keys |= {"knowledge": "oracle", "attack_settings": "{}"}
    row = dict.fromkeys(("mse", "psnr", "ssim", "lpips", "skill", "identification", "asr", "accuracy"), 0.5)
    rows = [{**keys, "party": party, "seed": 0, "model_seed": 0, **row, "accuracy_cost": 0.0} for party in parties]
    drawn = rng.random((2, len(parties), 8, 3, side, side)).astype(np.float32)
    pictures = [Pictures({**keys, "party": party}, *drawn[:, place]) for place, party in enumerate(parties)]
    result = co.AuditResult(pd.DataFrame(rows), pictures=pictures)
    study = Study("Audit", Path(), audits={"audit": result})
    (gallery,) = (block for section in sections(study) for block in section.blocks if block.kind == "gallery")
    return gallery, audit_page(result)


def test_whole_pictures_are_shown_and_not_their_halves_again():
    """A page of a whole matrix had 51 MB."""
    assert [shot.title for shot in shown_of(["left", "right", "all"])[0].shots] == [
        "ridge (oracle) on all, defense none"
    ]
    assert len(shown_of(["left", "right"])[0].shots) == 2


def test_a_picture_takes_no_more_of_a_page_than_it_has_pixels():
    gallery, page = shown_of(["all"])
    raw = 3 * 32 * 32
    (shot,) = gallery.shots
    assert all(len(source) < 1.5 * raw for source in (*shot.originals, *shot.guesses))
    assert "image-rendering: pixelated; height: 96px" in page, "the browser magnifies them"


SKILLS = {("none", np.nan): (0.9, 0.8, 0.3), ("prune", 0.9): (0.7, 0.5, 0.3), ("keystone", 32.0): (-2.0, 0.1, 0.05)}
TRIED = (("decoder", "weak"), ("decoder", "strong"), ("sdar", "default"))


def many_defenses(parties=("left", "all")):
    """Return an audit of three defenses and three attacks, two of one name; Keystone is the best."""
    scored = dict.fromkeys(("mse", "psnr", "ssim", "lpips", "identification", "asr"), 0.5)
    scored |= {"dataset": "d", "cut": 6, "seed": 0, "model_seed": 0, "accuracy": 0.6, "accuracy_cost": 0.02}
    rows = []
    for (defense, strength), skills in SKILLS.items():
        defended = {"defense": defense, "strength": strength, "defense_settings": json.dumps({"s": str(strength)})}
        for (attack, preset), skill in zip(TRIED, skills, strict=True):
            attacked = {"attack": attack, "knowledge": "oracle", "attack_settings": json.dumps({"preset": preset})}
            rows += [{**defended, **attacked, **scored, "party": party, "skill": skill} for party in parties]
    return co.AuditResult(pd.DataFrame(rows))


def tables_of(result):
    study = Study("Audit", Path(), audits={"audit": result})
    return {block.title: block for one in sections(study) for block in one.blocks if block.kind == "table"}


def test_many_defenses_stand_in_one_table_the_best_first():
    """Whoever audits 23 defenses had 69 sentences and 500 rows to read."""
    (found,) = (table for title, table in tables_of(many_defenses()).items() if "under each defense" in title)
    attacks = ["decoder (preset weak)", "decoder (preset strong)", "sdar"]
    assert sorted(found.columns) == sorted(["defense", "accuracy", "accuracy_cost", "strongest", *attacks])
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    best_first = [("keystone 32", 0.1), ("prune 0.9", 0.7), ("none", 0.9)]
    assert [(row["defense"], row["strongest"]) for row in rows] == best_first
    assert [row["decoder (preset weak)"] for row in rows] == [-2, 0.7, 0.9]
    assert found.shaded and not {"defense", "accuracy", "accuracy_cost"} & set(found.shaded)
    page = audit_page(many_defenses())
    assert 'style="--share: 0%">-2<' in page and 'style="--share: 54%">0.9<' in page
    alone = co.AuditResult(many_defenses().per_seed.query("defense == 'none'"))
    assert not any("under each defense" in title for title in tables_of(alone))


def test_audits_of_several_cuts_are_not_averaged():
    """A defense that hides at one cut and not at another was shown halfway between."""
    deeper = many_defenses().per_seed.assign(cut=9)
    deeper.loc[deeper["defense"] == "keystone", "skill"] = 0.95
    audits = {"six": many_defenses(), "nine": co.AuditResult(deeper), "six again": many_defenses()}
    for chosen, about in ((["six", "nine"], ["cut"]), (["six", "six again"], ["audit"])):
        study = Study("Audits", Path(), audits={name: audits[name] for name in chosen})
        tables = {block.title: block for one in sections(study) for block in one.blocks if block.kind == "table"}
        (found,) = (table for title, table in tables.items() if "under each defense" in title)
        assert list(found.columns[:2]) == [*about, "defense"] and len(found.rows) == 6
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        strongest = {row[about[0]]: row["strongest"] for row in rows if row["defense"] == "keystone 32"}
        assert strongest == ({6: 0.1, 9: 0.95} if about == ["cut"] else {"six": 0.1, "six again": 0.1})


def test_what_is_said_of_many_defenses_names_them_shortly_and_the_best_first():
    told = many_defenses().verdict
    assert [line.split(":")[0] for line in told] == [
        "whole pictures under keystone 32", "whole pictures under prune 0.9", "whole pictures under none",
    ]  # fmt: skip
    halves = many_defenses(("left", "right")).verdict
    assert [line.split(" under")[0] for line in halves] == ["left"] * 3 + ["right"] * 3
    assert "under" not in co.AuditResult(many_defenses().per_seed.query("defense == 'none'")).verdict[0]


def test_so_many_sentences_are_folded():
    rows = many_defenses(("left",)).per_seed
    many = pd.concat([rows.assign(party=f"party {number}") for number in range(6)], ignore_index=True)
    first, details = sentences(Study("Audit", Path(), audits={"audit": co.AuditResult(many)}))
    assert len(details) == 18 and first == details[:8]


def test_weights_that_looks_found_are_drawn_by_step(tmp_path):
    """An epoch may hold many looks: at its end alone, nobody sees how weights got there."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["age", "glucose"])
    table["outcome"] = np.where(table.sum(axis=1) > 0, "ill", "well")
    federation = co.Federation.from_frame(table, {"clinic": ["age"], "lab": ["glucose"]}, label=("clinic", "outcome"))
    settings = {"epochs": 2, "batch_size": 20, "progress": False, "weights": {"strategy": "shapley", "every": 3}}
    model = co.train(federation, run=tmp_path / "train", **settings)
    (chart,) = (chart for chart in blocks(tmp_path, "chart") if chart.title.startswith("Weights"))
    drawn = {trace["name"]: (trace["x"], trace["y"]) for trace in chart.data}
    steps = model.looks["step"].tolist()
    assert drawn == {name: (steps, model.looks[name].tolist()) for name in ("weight_clinic", "weight_lab")}
    assert len(steps) > 4 and chart.layout["xaxis"]["title"]["text"] == "step"


def test_the_flow_tells_what_the_ledgers_say(study):
    job = gather(study).jobs[0]
    sent = traffic(job)
    assert sent["bytes"].sum() == sum(run.ledger.sent_bytes for run in job.runs.values())
    assert set(sent["kind"]) <= set(MEANING), "a message without a word on what it holds"


@pytest.fixture(scope="module")
def hiding(tmp_path_factory):
    """A run of three parties, one of which hides two secrets; one of them has a name like a loss."""
    folder = tmp_path_factory.mktemp("hiding")
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(200, 3)), columns=["age", "glucose", "claims"])
    table["outcome"] = np.where(table.sum(axis=1) > 0, "ill", "well")
    table["sex"] = np.where(table["glucose"] > 0, "f", "m")
    table["weight loss"] = np.where(table["glucose"] > 0.5, "much", "little")
    parties = {"clinic": ["age"], "lab": ["glucose"], "insurer": ["claims"]}
    secrets = {"lab": ["sex", "weight loss"]}
    federation = co.Federation.from_frame(table, parties, label=("clinic", "outcome"), secrets=secrets)
    settings = {"epochs": 2, "batch_size": 32, "progress": False}
    co.train(federation, {"lab": {"name": "nashcoder"}}, run=folder / "train", **settings)
    return folder / "train"


def test_a_party_that_hides_secrets_sees_its_heads_and_no_empty_chart(hiding):
    charts = blocks(hiding / "lab", "chart")
    assert all(chart.data for chart in charts) and not any(chart.title.startswith("Loss") for chart in charts)
    (heads,) = (chart for chart in charts if chart.title.startswith("Heads that guess lab's secrets"))
    history = Run.open(hiding / "lab").result["history"]
    names = {"head_loss_sex", "cost_sex", "head_loss_weight loss", "cost_weight loss"}
    assert {trace["name"]: trace["y"] for trace in heads.data} == {
        name: [epoch[name] for epoch in history] for name in names
    }
    told = " ".join(line for block in blocks(hiding / "lab", "sentences") for line in block.lines)
    assert "the higher, the less that head knows" in told


def test_the_report_of_all_parties_shows_the_heads_beside_the_losses(hiding):
    charts = {chart.title: {trace["name"] for trace in chart.data} for chart in blocks(hiding, "chart")}
    assert charts["Loss of train"] == {"train_loss", "validation_loss"}
    assert "Heads that guess lab's secrets in train" in charts


def test_a_party_that_measures_nothing_has_no_chart_of_losses(hiding):
    titles = [chart.title for chart in blocks(hiding / "insurer", "chart")]
    assert not any(title.startswith(("Loss", "Heads")) for title in titles)


def test_one_partys_report_says_how_many_took_part(hiding):
    """The others' folders are elsewhere, but they were there."""
    (alone, *_), _ = sentences(gather(hiding / "lab"))
    assert "a training of 3 parties has finished at lab;" in alone and alone.endswith("were sent from there.")
    (whole, *_), _ = sentences(gather(hiding))
    assert "a training of 3 parties has finished;" in whole and whole.endswith("were sent.")


def test_every_kind_of_message_is_explained():
    """An arrow without a word on what it holds is what people look for in a report, and do not find."""
    from colonnade.discover.agreement import COORDINATOR_KINDS, PARTY_KINDS
    from colonnade.learn.agreement import ACTIVE_KINDS, PASSIVE_KINDS

    assert set(MEANING) == ACTIVE_KINDS | PASSIVE_KINDS | COORDINATOR_KINDS | PARTY_KINDS


def test_the_verdict_says_what_was_not_tried(tmp_path):
    with Run.create("lab", {"task": {"kind": "binary"}}, tmp_path / "train") as run:
        run.finish({"test": {"accuracy": 0.5}})
    most, details = sentences(gather(tmp_path))
    assert not details
    assert "No attack was tried on these uploads: what they give away is not known." in most


def test_the_programs_own_sentences_come_first(study):
    most, details = sentences(gather(study))
    assert most == ["All is <well>."] and any("test records" in line for line in details)


def test_names_from_files_stay_text(tmp_path):
    bad = "</script><img src=x onerror=alert(1)>"
    frame = pd.DataFrame([[0, 0.5], [0, 0]], [bad, "b"], [bad, "b"])
    co.CausalGraph(frame, {bad: "clinic", "b": "lab"}, contributions={"clinic": 1.0, "lab": 0.0}).save(
        tmp_path / "graph.json"
    )
    found = report_page([gather(tmp_path)])
    assert bad not in found and "&lt;/script&gt;" in found


def test_the_page_asks_nobody_for_anything(page):
    own = page.replace(_plotly(page), "")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", own)


def _plotly(page):
    return max(re.findall(r"<script>(.*?)</script>", page, re.DOTALL), key=len)


def test_the_graph_answers_before_the_library_of_the_charts_is_read(page):
    """That library is most of the page: who waits for it waits a second or two with a slider that does nothing."""
    assert page.index("function filtered(") < page.index(_plotly(page)) < page.index("Plotly.react(place")


def test_numbers_of_attacks_stand_beside_their_intervals(study):
    tables = {block.title: block for block in blocks(study, "table")}
    attacks = tables["Attacks and trivial guesses"]
    assert {"attack", "skill"} <= set(attacks.columns)
    assert not {"audit", "dataset"} & set(attacks.columns), "with one audit of no name they say nothing"
    assert not any(name.endswith("_ci") for name in attacks.columns)
    assert len(attacks.rows) == len(gather(study).audits["audit"].frame)


def test_the_page_is_under_eight_megabytes(page):
    assert len(page.encode()) < 8_000_000


def test_causes_stand_left_of_their_effects():
    rng = np.random.default_rng(0)
    names = [f"v{number}" for number in range(12)]
    frame = pd.DataFrame(np.triu(rng.uniform(size=(12, 12)) < 0.3, 1) * 1.0, names, names)
    graph = co.CausalGraph(frame, dict.fromkeys(names[:6], "a") | dict.fromkeys(names[6:], "b"))
    places = layout(graph)
    assert len(set(places.values())) == len(names)
    assert all(places[edge.cause][0] < places[edge.effect][0] for edge in graph.edge_list())


def test_several_studies_are_compared(study, tmp_path):
    page = write_report([study, study / "train"], tmp_path / "both.html").read_text()
    assert "Side by side" in page and "digits: Training" in page and "train: Training" in page


def test_studies_of_one_name_are_told_apart(study, tmp_path):
    """Everybody calls a run 'train': headings and anchors must not mix them up."""
    other = tmp_path / "train"
    shutil.copytree(study / "train", other)
    page = report_page([gather(study / "train"), gather(other)])
    assert f"{other}: Training" in page and f"{study / 'train'}: Training" in page
    anchors = re.findall(r'<h2 id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors)) > 4


def test_the_command_writes_the_page(study, tmp_path):
    result = CliRunner().invoke(app, ["report", str(study), "--out", str(tmp_path / "r.html")])
    assert result.exit_code == 0 and (tmp_path / "r.html").stat().st_size > 1e6
    wrong = CliRunner().invoke(app, ["report", str(tmp_path / "nowhere")])
    assert wrong.exit_code != 0 and "there is no such folder" in wrong.output


def test_watching_shows_every_party_and_ends(study):
    result = CliRunner().invoke(app, ["watch", str(study / "train")])
    assert result.exit_code == 0
    assert all(f"{party}: finished" in result.stdout.replace("\n", "") for party in ("left", "right", "active"))


def test_looks_at_weights_push_no_epoch_out_of_sight(tmp_path):
    with Run.create("train", {}, tmp_path) as run:
        run.log(10, epoch=1, loss=0.4321)
        for step in range(11, 40):
            run.log(step, weight_lab=0.5)
    shown = CliRunner().invoke(app, ["watch", str(tmp_path / "train"), "--once"])
    assert shown.exit_code == 0 and "0.4321" in shown.stdout


def test_a_run_that_measures_nothing_is_one_line(tmp_path):
    """A coordinator has no numbers of its own; a header above nothing looks like something lost."""
    with Run.create("train", {}, tmp_path) as run:
        run.close()
    shown = CliRunner().invoke(app, ["watch", str(tmp_path / "train"), "--once"])
    assert shown.exit_code == 0 and shown.stdout.replace("\n", "").rstrip().endswith("sent")


def test_a_bench_of_a_front_is_drawn(tmp_path):
    rows = [{"method": name, "target": 0.8, "leak": leak} for name, leak in (("none", 0.9), ("nashcoder", 0.6))]
    (tmp_path / "result.json").write_text(json.dumps({"bench": "front", "preset": "smoke", "rows": rows}))
    charts = [block for section in sections(gather(tmp_path)) for block in section.blocks if block.kind == "chart"]
    assert [trace["name"] for trace in charts[0].data] == ["none", "nashcoder"]
