"""If these fail, a result claims more than was measured, or is lost when it is kept."""

import html
import json
import math

import numpy as np
import pandas as pd
import pytest
from audit_parts import Linear
from scipy import stats

import colonnade as co
from colonnade.audit import result as result_module
from colonnade.audit.result import AuditResult, Pictures
from colonnade.audit.rows import NUMBERS, defense_names, settings_of, strength_of, summarised
from colonnade.defend.base import Defense
from colonnade.errors import RunError
from colonnade.run import write_atomically

KEYS = {
    "dataset": "d", "cut": 2, "defense": "gaussian", "strength": 0.5, "attack": "decoder", "knowledge": "oracle",
    "party": "lab", "defense_settings": '{"sigma": 0.5}', "attack_settings": "{}",
}  # fmt: skip


def rows(skills, **changed):
    measured = dict.fromkeys(NUMBERS, math.nan)
    return [
        {**KEYS, "seed": seed, "model_seed": 0, **measured, "skill": skill, "identification": 0.25, **changed}
        for seed, skill in enumerate(skills)
    ]


def result(*skills, settings=None, **changed) -> AuditResult:
    return AuditResult.from_rows(rows(skills, **changed), [], [], settings or {"candidates": 20})


def test_means_come_with_the_interval_of_95_percent():
    frame = summarised(pd.DataFrame(rows([0.2, 0.4, 0.9])))
    low, high = stats.t.interval(0.95, 2, loc=0.5, scale=stats.sem([0.2, 0.4, 0.9]))
    assert len(frame) == 1
    assert frame["seeds"].item() == 3
    assert frame["skill"].item() == pytest.approx(0.5)
    assert frame["skill_ci"].item() == pytest.approx((high - low) / 2)
    assert math.isnan(summarised(pd.DataFrame(rows([0.2])))["skill_ci"].item()), "one seed has no interval"


def test_columns_are_those_that_every_reader_relies_on():
    names = list(summarised(pd.DataFrame(rows([0.1]))).columns)
    assert names[:8] == ["dataset", "cut", "defense", "strength", "attack", "knowledge", "party", "seeds"]
    assert [name for name in names if name.endswith("_ci")] == [f"{name}_ci" for name in NUMBERS]


def test_three_attacks_on_one_model_do_not_make_its_accuracy_surer():
    same = [{**one, "accuracy": 0.9} for one in rows([0.1, 0.2, 0.3])]
    assert math.isnan(summarised(pd.DataFrame(same))["accuracy_ci"].item())
    other = [{**one, "accuracy": 0.9 + one["seed"] / 100, "model_seed": one["seed"]} for one in same]
    assert summarised(pd.DataFrame(other))["accuracy_ci"].item() > 0


def test_perfect_guesses_have_an_infinite_ratio_and_no_interval():
    perfect = summarised(pd.DataFrame(rows([1.0, 1.0], psnr=math.inf)))
    assert perfect["psnr"].item() == math.inf
    assert math.isnan(perfect["psnr_ci"].item())


@pytest.mark.parametrize(
    ("skills", "said", "not_said"),
    [
        ([0.8, 0.82, 0.81], "takes away 81.0 ± 2.5 % of a blind guess's error", "no better"),
        ([0.8, 0.82, 0.81], "finds the true record among 20 in 25.0 ± 0.0 % of the cases (by chance 5 %)", "safe"),
        ([0.1, -0.1, 0.2], "was not seen to do better than a blind guess (skill 6.7 ± 37.9 %)", "takes away"),
        ([-0.5], "was not seen to do better than a blind guess (skill -50.0 %)", "takes away"),
        ([0.3], "the only attack tried, takes away 30.0 % of", "±"),
    ],
)
def test_the_verdict_says_what_the_numbers_say(skills, said, not_said):
    found = result(*skills)
    assert said in found.verdict[0]
    assert not_said not in found.verdict[0]
    assert found.verdict[0] in repr(found)


def test_the_verdict_is_about_the_strongest_attack():
    more = [*rows([0.2, 0.3]), *rows([0.6, 0.7], attack="ridge"), *rows([0.9, 0.9], knowledge="baseline", attack="x")]
    found = AuditResult.from_rows(more, [], [], {"candidates": 20}).verdict
    assert len(found) == 1
    assert found[0].startswith("lab: ridge (oracle), the strongest of 2 attacks tried, takes away 65.0")


def test_every_defense_has_a_verdict_of_its_own():
    more = [*rows([0.2, 0.3]), *rows([0.6, 0.7], defense="none", defense_settings="{}", strength=math.nan)]
    found = AuditResult.from_rows(more, [], [], {"candidates": 20}).verdict
    assert [one.split(":")[0] for one in found] == ["lab under gaussian 0.5", "lab under none"]


def test_a_party_without_a_defense_is_named_though_the_other_has_one():
    """The mean of an open half and a hidden one hid whose half was open."""
    halves = [("left", "none", 0.97), ("right", "gaussian", 0.0), ("all", "mixed", 0.48)]
    told = [one for party, name, skill in halves for one in rows([skill], party=party, defense=name)]
    found = AuditResult.from_rows(told, [], [], {"candidates": 20}).verdict
    assert [line.split(":")[0] for line in found][:2] == ["left under none 0.5", "right under gaussian 0.5"]
    assert "97.0 %" in found[0]


def test_names_of_defenses_tell_whatever_differs_but_the_strength():
    """Noise as published at 1 looked stronger than noise that is calibrated at 100."""
    kinds = [("dp", 1.0, "paper"), ("dp", 100.0, "calibrated"), ("prune", 0.9, None), ("prune", 0.99, None)]
    frame = pd.DataFrame(
        {"defense": name, "strength": strength, "defense_settings": json.dumps({"rate": strength, "mode": mode})}
        for name, strength, mode in kinds
    )
    assert defense_names(frame).tolist() == [
        "dp 1 (mode paper)", "dp 100 (mode calibrated)", "prune 0.9", "prune 0.99",
    ]  # fmt: skip


def test_nothing_scored_says_nothing():
    assert result(math.nan).verdict == ["no attack was scored: this says nothing about the uploads"]


def test_few_seeds_and_what_was_left_out_are_noted():
    assert "fewer than 3 seeds" in result(0.1, 0.2).notes[0]
    assert result(0.1, 0.2, 0.3, settings={"notes": ["a"], "left_out": ["b"]}).notes == ["a", "left out: b"]


def test_a_kept_result_reads_back_as_it_was(painted, tmp_path):
    found = co.audit(painted, Linear(), seeds=2, progress=False)
    read = AuditResult.load(found.save(tmp_path / "kept"))
    assert read.frame.equals(found.frame)
    assert read.verdict == found.verdict
    assert len(read.pictures) == len(found.pictures) == 3
    for one, other in zip(read.pictures, found.pictures, strict=True):
        assert np.array_equal(one.guesses, other.guesses)
        assert np.array_equal(one.originals, other.originals)
    tidy = pd.read_parquet(tmp_path / "kept" / "audit.parquet")
    assert tidy.equals(found.frame)


def files_of(folder):
    return {file.name for file in folder.iterdir()}


def test_a_result_saved_over_another_is_that_result_alone(tmp_path):
    """Columns and pictures of last month's audit stood under this month's numbers."""
    keys = {**KEYS, "column": "age", "kind": "number"}
    columns = [{**keys, "seed": 0, "model_seed": 0, "skill": 0.5, "hits": math.nan, "majority": math.nan}]
    shown = np.zeros((1, 1, 2, 2), np.float32)
    rich = AuditResult.from_rows(rows([0.1]), columns, [Pictures(KEYS, shown, shown)], {"candidates": 20})
    rich.save(tmp_path)
    assert files_of(tmp_path) >= {"columns.parquet", "pictures.safetensors"}
    read = AuditResult.load(result(0.2).save(tmp_path))
    assert len(read.columns) == len(read.pictures) == 0
    assert files_of(tmp_path) == {"audit.json", "audit.parquet", "seeds.parquet"}
    AuditResult.from_rows([], [], [], {}).save(tmp_path)
    assert files_of(tmp_path) == {"audit.json"}


@pytest.mark.parametrize("written", range(3))
def test_a_crash_while_saving_never_leaves_two_audits_mixed(tmp_path, monkeypatch, written):
    """Half of the tables were another audit's, and nothing told."""
    result(0.1).save(tmp_path)
    left = iter(range(written))

    def until_the_crash(path, data):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write_atomically(path, data)

    monkeypatch.setattr(result_module, "write_atomically", until_the_crash)
    with pytest.raises(KeyboardInterrupt):
        result(0.9).save(tmp_path)
    with pytest.raises(RunError, match="is no result of an audit"):
        AuditResult.load(tmp_path)


def test_columns_are_kept_too(trained, tmp_path):
    found = co.audit(trained, Linear(), seeds=1, progress=False)
    assert AuditResult.load(found.save(tmp_path)).columns.equals(found.columns)


def test_a_folder_that_can_not_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(RunError, match="file: cannot be written: File exists"):
        result(0.2).save(tmp_path / "file")


def test_a_folder_without_a_result_is_told(tmp_path):
    with pytest.raises(RunError, match="is no result of an audit"):
        AuditResult.load(tmp_path)
    (tmp_path / "audit.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        AuditResult.load(tmp_path)


def test_the_page_needs_nothing_else_and_trusts_no_name(tmp_path):
    shown = np.zeros((2, 3, 4, 4), np.float32)
    keys = {**KEYS, "party": "<script>alert(1)</script>"}
    more = [{**one, **keys} for one in rows([0.1, 0.2, 0.3])]
    found = AuditResult.from_rows(more, [], [Pictures(keys, shown, shown)], {"candidates": 20, "notes": ["told"]})
    page = found.to_html(tmp_path / "audit.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "http" not in page
    assert page.count("data:image/png;base64,") == 4
    assert "0.2000 ± 0.2484" in page
    assert "told" in page and "candidates 20" in page
    assert html.escape(found.verdict[0]) in page


def test_the_page_is_small_enough_to_send(tmp_path):
    """A chart would bring four megabytes of library along; what the page shows must be open, not folded away."""
    page = result(0.1, 0.2, 0.3).to_html(tmp_path / "audit.html")
    assert page.stat().st_size < 50_000
    assert 'class="chart"' not in page.read_text() and "<details" not in page.read_text()


def test_a_perfect_guess_is_not_shown_as_a_missing_number(tmp_path):
    page = result(1.0, 1.0, psnr=math.inf).to_html(tmp_path / "audit.html").read_text()
    assert ">∞</td>" in page


def test_a_result_without_rows_has_a_page(tmp_path):
    page = AuditResult.from_rows([], [], [], {}).to_html(tmp_path / "audit.html").read_text()
    assert "no attack was scored" in page.lower()


def test_every_kind_of_picture_can_be_shown(tmp_path):
    for channels in (1, 2, 3):
        shown = np.zeros((1, channels, 200, 2), np.float32)
        found = AuditResult.from_rows(rows([0.1]), [], [Pictures(KEYS, shown, shown)], {})
        assert found.to_html(tmp_path / "audit.html").stat().st_size > 500


def keystone(**settings):
    described = {"veil": 32, "channels": None, "levels": None, **settings}
    return rows([0.1], defense="keystone", strength=math.nan, defense_settings=settings_of(described))


def test_rows_of_one_strength_are_shown_with_what_differs():
    """Two rows of the same name with other numbers: nobody could say which one to choose."""
    printed = repr(AuditResult.from_rows([*keystone(), *keystone(levels=4), *rows([0.2])], [], [], {}))
    table = [line.split("  ") for line in printed.splitlines()[-3:]]
    assert [next(cell for cell in line if cell).strip() for line in table] == [
        "keystone (levels None)", "keystone (levels 4)", "gaussian",
    ]  # fmt: skip


def test_where_the_strength_tells_rows_apart_it_does():
    other = rows([0.1], strength=1.0, defense_settings='{"sigma": 1.0}')
    printed = repr(AuditResult.from_rows([*rows([0.2]), *other], [], [], {}))
    assert [line.split()[0:2] for line in printed.splitlines()[-2:]] == [["gaussian", "0.500"], ["gaussian", "1.000"]]


class Two(Defense):
    knob = "rate"

    def describe(self):
        return {"name": "two", "rate": 3, "other": "x"}


def test_the_strength_is_the_knobs_value():
    assert strength_of(Two()) == 3.0
    assert settings_of(Two().describe()) == '{"other": "x", "rate": 3}'
    assert math.isnan(strength_of(Defense()))
