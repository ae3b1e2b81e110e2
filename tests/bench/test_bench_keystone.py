"""If these fail, the frontier says that Keystone costs or hides what it does not, or compares it with too little."""

import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
from bench_parts import Notes, striped_pictures

from colonnade.audit.evidence import uploads_of, working_copy
from colonnade.audit.settings import Settings
from colonnade.bench import BENCHES, run_bench
from colonnade.bench.equilibrium import sets as tables
from colonnade.bench.images import sets
from colonnade.bench.images.matrix import KEYS, MEASURES
from colonnade.bench.images.setting import quicker
from colonnade.bench.keystone import reading, setting
from colonnade.bench.keystone.front import COSTS, Point, contests, efficient, told
from colonnade.bench.keystone.setting import PICTURES, SIZES, TABLES, Ground
from colonnade.bench.keystone.table import compare
from colonnade.bench.keystone.victim import Victim
from colonnade.bench.registry import presets_of
from colonnade.bench.step import bottom_of, step_of_all, step_on
from colonnade.data.datasets import Dataset
from colonnade.defend import DEFENSES
from colonnade.learn.bottom import Bottom
from colonnade.learn.timetable import Timetable
from colonnade.learn.top import Top
from colonnade.learn.train import named_defense, train
from colonnade.progress import make_progress

NAMES = sorted(name for name in BENCHES if name.startswith("keystone-"))
NONE = {"name": "none"}
VEIL = {"name": "keystone", "veil": 8}
COLUMNS = {
    *KEYS, *MEASURES, *(f"{name}_ci" for name in MEASURES), "party", "metric", "step_ratio", "oracle_skill", "matched",
    "front", "capacity_bits", "upload_numbers", "defense_settings", "attack_settings",
}  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """Made-up pictures of ten classes in place of CIFAR-10, and made-up people in place of tables."""
    made = striped_pictures()
    monkeypatch.setattr(sets, "_loaded", lambda name: made)
    monkeypatch.setattr(tables, "_loaded", people)


def people(name, target="", secrets=()):
    rng = np.random.default_rng(0)
    ids = pd.RangeIndex(600, name="id")
    label = pd.Series(rng.integers(2, size=600), index=ids, name="label")
    wards = [column for ward in tables._WARDS.values() for column in ward] + ["insulin"]
    columns = [column for party in tables.ADULT.values() for column in party] if name == "adult" else wards
    frame = pd.DataFrame(rng.normal(size=(600, len(columns))) + label.to_numpy()[:, None], index=ids, columns=columns)
    hidden = pd.DataFrame({"sex": np.where(label == 1, "a", "b")}, index=ids)
    split = pd.Series(np.where(np.arange(600) < 240, "test", "train"), index=ids)
    return Dataset(
        name=name, ids=ids, table=frame, label=label, classes=("no", "yes"), split=split, attributes=hidden,
        secrets=("sex",),
    )  # fmt: skip


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("trained again")

    return lambda: monkeypatch.setattr(import_module("colonnade.bench.keystone.reading"), "train", refuse)


# -- what is compared -------------------------------------------------------------------------------------------------


def test_every_defense_takes_part_with_three_of_its_published_strengths():
    """A rival left out, or tried at one strength alone, makes any front look good."""
    tried = {}
    for choice in (*setting.CORE, *setting.GRIDS[1:]):
        made = named_defense(choice)
        tried.setdefault(made.name, set()).add(json.dumps(made.describe(), sort_keys=True))
    left_out = {"layered", "nashcoder"}  # a stack of others; hides single secrets that must be named
    ours = {name for name in DEFENSES if DEFENSES[name].__module__.startswith("colonnade.")}  # other tests enter theirs
    assert set(tried) == ours - left_out
    for name, strengths in tried.items():
        published = DEFENSES[name].published_strengths
        assert len(strengths) >= min(3, len(published)) or name == "causshield", name
    assert len({choice["veil"] for choice in setting.KEYSTONE}) >= 5, "a front of ours has at least five strengths"


@pytest.mark.parametrize(
    ("choices", "trainings"), [(setting.CORE, 87), (setting.GRIDS, 72), (setting.THIN, 60), (setting.OF_TABLES, 81)]
)
def test_nothing_is_trained_twice_and_as_often_as_the_page_says(choices, trainings):
    described = [json.dumps(named_defense(choice).describe(), sort_keys=True) for choice in choices]
    assert len(set(described)) == len(described)
    assert len(described) * len(setting.SEEDS["default"]) == trainings
    assert NONE in choices


def test_pictures_are_trained_for_as_long_as_was_promised():
    for preset, epochs in (("default", 30), ("paper", 60)):
        assert PICTURES.size(preset).epochs == epochs
        assert [len(setting.SEEDS[preset]), PICTURES.size(preset).repeats] == [{30: 3, 60: 5}[epochs], 100]


def test_a_result_is_not_taken_for_that_of_another_victim():
    grounds = {PICTURES: SIZES, Ground("cifar10", 4): SIZES, **dict.fromkeys(TABLES, setting.TABLE_SIZES)}
    work = [
        Victim(ground, tuple(choice.items()), seed, preset)
        for ground, presets in grounds.items()
        for choice in (NONE, VEIL)
        for seed in (0, 1)
        for preset in presets
    ]
    assert len({victim.file_name for victim in work}) == len(work)


def test_a_reduced_preset_says_what_it_is_and_shortens_what_takes_longest(small):
    """Numbers of a smaller network, beside notes that tell of eight thousand pairs, would pass for the real ones."""
    progress = Notes()
    compare({Ground("cifar10", 4): [NONE]}, "smoke", progress, None)
    said = " ".join(progress.notes)
    assert "smoke, cut 4: 128 pictures trained on, 64 held out, 1 epochs of batches of 32, mnist_net" in said
    assert "up to 24 true pairs" in said and "the mean of 3;" in said and "one of 16 people" in said
    assert "resnet18_narrow" in PICTURES.size_note("medium")
    assert presets_of(BENCHES["keystone-frontier-cut4"]) == ("smoke", "medium", "default", "paper")
    assert "medium" not in presets_of(BENCHES["keystone-frontier-tables"]), "which wants no GPU"
    assert quicker([{"name": "soteria", "rate": 0.95}], "medium") == [{"name": "soteria", "rate": 0.95, "probes": 8}]


# -- who is attacked --------------------------------------------------------------------------------------------------


def test_nobody_is_both_known_and_wanted():
    split = np.repeat([0, 2], [500, 160]).astype(np.uint8)
    timetable = Timetable(split, 32, 2, seed=0)
    size = setting.Size(None, None, 2, 100, 400, 3, 1, 1, (1, 1))
    division = reading.Division.of(timetable, size, seed=3)
    assert len(division.known) == 400 and len(division.wanted) == len(division.wanted_trained) == 100
    assert len(division.known_trained) == 250
    assert not set(division.known) & set(division.wanted)
    assert not set(division.known_trained) & set(division.wanted_trained)
    assert (split[division.wanted] == 2).all() and (split[division.wanted_trained] == 0).all()
    assert (split[division.known] == 2).sum() == 60, "those that were held out come first"
    assert set(division.wanted) != set(reading.Division.of(timetable, size, seed=4).wanted)


def crowd_under(choice):
    federation, task = PICTURES.laid_out("smoke")
    model = train(federation, choice, task=task, seed=0, progress=False)
    settings = Settings(targets=8)
    return federation, reading.Crowd(working_copy(model, ["left", "right"]), federation, settings, seed=0)


def test_many_uploads_are_averaged_and_equal_ones_are_not_read_twice(small):
    """The mean of a hundred must be what a hundred uploads tell, though no more than one is ever kept."""
    known, wanted = np.arange(30), np.arange(40, 48)
    federation, crowd = crowd_under({"name": "gaussian", "sigma": 1.0})
    often = crowd.often(known, wanted, 400)
    bottom = crowd.model.parts["left"].bottom
    records = federation.records["left"].take(federation.rows["left"][wanted])
    clean = bottom.network(bottom.features(records)).detach()
    mean = often.uploads["left"][1]
    assert mean.shape == (8, 1, *clean.shape[1:])
    assert float((mean[:, 0] - clean).std()) == pytest.approx(1 / 20, rel=0.1)
    assert float((uploads_of(bottom, records) - clean).std()) == pytest.approx(1, rel=0.1)
    assert crowd_under(NONE)[1].often(known, wanted, 400) is None


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_of_pictures_have_all_columns_and_are_kept(small, tmp_path, no_training):
    progress = Notes()
    rows = compare({PICTURES: [NONE, VEIL]}, "smoke", progress, tmp_path)
    assert all(set(row) == COLUMNS and row["party"] == "all" for row in rows)
    attacks = ["decoder-strong", "decoder-repeated", "witness", "matcher", "matcher-repeated", "matcher-witness"]
    by_name = {(row["defense"], row["attack"]): row for row in rows}
    assert [key for key in by_name if key[0] == "keystone"] == [("keystone", attack) for attack in attacks]
    assert {row["attack"] for row in rows if row["knowledge"] == "baseline"} == {
        "mean record", "constant grey", "random other", "per-record mean",
    }  # fmt: skip
    federation, task = PICTURES.laid_out("smoke")
    honest = {
        choice["name"]: train(federation, choice, task=task, seed=0, progress=False).scores["accuracy"]
        for choice in (NONE, VEIL)
    }
    for (defense, _), row in by_name.items():
        assert row["accuracy"] == pytest.approx(honest[defense], abs=6e-5), "a witness must not disturb what it sees"
        assert row["accuracy_cost"] == pytest.approx(honest["none"] - honest[defense], abs=6e-5)
        assert row["oracle_skill"] == by_name[defense, "decoder-strong"]["skill"]
        assert row["matched"] == by_name[defense, "matcher"]["identification"]
        assert row["step_ratio"] > 0 and row["seeds"] == 1
    ours = by_name["keystone", "witness"]
    assert (ours["upload_numbers"], ours["strength"]) == (64, 8)
    assert ours["capacity_bits"] == pytest.approx(32 * np.log2(1601), abs=1e-3)
    assert by_name["none", "matcher"]["capacity_bits"] is None and by_name["none", "matcher"]["skill"] is None
    assert by_name["none", "decoder-strong"]["skill"] == by_name["none", "decoder-repeated"]["skill"]
    assert sum("keystone leaves least at" in note for note in progress.notes) == 2
    no_training()
    assert compare({PICTURES: [NONE, VEIL]}, "smoke", Notes(), tmp_path) == rows
    kept = next(path for path in tmp_path.iterdir() if "keystone" in path.name and "pace" not in path.name)
    older = json.loads(kept.read_text())
    older["rows"] = [row for row in older["rows"] if row["attack"] != "matcher-witness"]
    kept.write_text(json.dumps(older))
    progress = Notes()
    compare({PICTURES: [NONE, VEIL]}, "smoke", progress, tmp_path)
    assert "1 of 2 trainings were run before there was a matcher-witness, and not read by it" in progress.notes


def test_rows_of_tables_are_of_each_party_and_told_apart_by_capacity(small):
    few = setting.FEW_OF_TABLES
    rows = compare(dict.fromkeys(TABLES, few), "smoke", Notes(), None)
    assert all(set(row) == COLUMNS for row in rows)
    assert {(row["dataset"], row["metric"], row["party"]) for row in rows} == {
        ("adult", "accuracy", "employer"), ("adult", "accuracy", "registry"),
        ("diabetes130", "auc", "hospital"), ("diabetes130", "auc", "clinic"),
    }  # fmt: skip
    ours = {
        (row["capacity_bits"], row["upload_numbers"], row["strength"]) for row in rows if row["defense"] == "keystone"
    }
    assert ours == {(3, 1, 8), (2, 1, 4)}
    assert {row["attack"] for row in rows if row["defense"] == "gaussian"} == {
        "decoder-strong", "decoder-repeated", "witness", "ridge", "matcher", "matcher-repeated", "matcher-witness",
    }  # fmt: skip


@pytest.mark.parametrize("ground", [PICTURES, TABLES[0]], ids=lambda ground: ground.name)
def test_a_step_under_a_defense_is_a_step_of_the_party(small, ground):
    """What is timed must learn: a step that skips the way back would make every defense look quick."""
    federation, task = ground.laid_out("smoke")
    party = next(name for name in federation.parties if name != federation.active)
    bottom = bottom_of(federation.records[party].take(np.arange(64)), VEIL, task, "cpu")
    before = [parameter.detach().clone() for parameter in bottom.network.parameters()]
    step_on(bottom, task.batch_size)()
    assert any(not torch.equal(old, new) for old, new in zip(before, bottom.network.parameters(), strict=True))


@pytest.mark.parametrize("ground", [PICTURES, TABLES[0]], ids=lambda ground: ground.name)
def test_a_step_of_all_is_one_of_every_party_and_of_the_top_model(small, ground, monkeypatch):
    """Keystone moves work from the top model to the parties: a step that left one of them out would tell a story."""
    federation, task = ground.laid_out("smoke")
    learned = []
    for owner in (Bottom, Top):
        learn = owner.learn

        def counted(self, *given, learn=learn, **named):
            before = [parameter.detach().clone() for parameter in self.network.parameters()]
            answer = learn(self, *given, **named)
            assert any(not torch.equal(old, new) for old, new in zip(before, self.network.parameters(), strict=True))
            learned.append(type(self))
            return answer

        monkeypatch.setattr(owner, "learn", counted)
    step_of_all(federation, VEIL, task, "cpu")()
    assert learned == [Top, *(Bottom for held in federation.records.values() if held.has_features)]


def test_whoever_knows_of_the_coin_is_shown_beside_whoever_does_not(small, tmp_path):
    rows = BENCHES["keystone-coin"]("smoke", Notes(), folder=tmp_path)
    assert [(row["knows"], row["seeds"], row["negatives"]) for row in rows] == [(False, 1, True), (True, 1, True)]
    for row in rows:
        assert row["skill_up_to_sign"] <= 1 and row["shuffled"] < 1 and 0 <= row["identification"] <= 1
    assert BENCHES["keystone-coin"]("smoke", Notes(), folder=tmp_path) == rows, "kept"


def test_a_party_learns_what_keystone_costs_it(small):
    rows = BENCHES["keystone-pace"]("smoke", Notes())
    assert [(row["dataset"], row["upload_bytes"]) for row in rows] == [
        ("adult", 4), ("diabetes130", 4), ("cifar10", 32 * 2 * 4),
    ]  # fmt: skip
    assert all(row["step_ratio"] > 0 and row["whole_ratio"] > 0 and 0 < row["upload_ratio"] < 1 for row in rows)


# -- the front --------------------------------------------------------------------------------------------------------


def test_the_front_is_what_comparing_every_pair_gives():
    rng = np.random.default_rng(0)
    for _ in range(50):
        points = [
            Point(str(rng.choice(["keystone", "prune", "none"])), "", *map(float, rng.integers(-2, 9, 2)))
            for _ in range(6)
        ]
        for contest in contests(points):
            ours, others = (
                [
                    point.skill
                    for point in points
                    if (point.defense == "keystone") is mine and point.cost <= contest.cost
                ]
                for mine in (True, False)
            )
            assert contest.won == bool(ours and (not others or min(ours) < min(others)))
        for point, flag in zip(points, efficient(points), strict=True):
            worse = [
                other
                for other in points
                if other.cost <= point.cost and other.skill <= point.skill and other != point
                and (other.cost, other.skill) != (point.cost, point.skill)
            ]  # fmt: skip
            assert flag == (not worse)


def test_costs_run_from_a_half_to_eight_points_and_losses_are_named():
    assert (COSTS[0], COSTS[-1]) == (0.5, 8)
    points = [Point("none", "", 0, 0.9), Point("prune", "0.99", 3, 0.1), Point("keystone", "8", 1, 0.2)]
    assert told(contests(points)) == (
        "keystone leaves least at costs of 1 to 2.5 points; not at 0.5 (none 0.900, keystone –), "
        "3 to 8 (prune 0.99 0.100, keystone 0.200)"
    )
    assert told(contests(points[:2])).startswith("keystone leaves least at no cost; not at 0.5 to 2.5 (none 0.900")


# -- the real thing, small --------------------------------------------------------------------------------------------


def test_there_are_the_whole_and_its_parts():
    assert [
        "keystone-coin",
        "keystone-frontier",
        *(f"keystone-frontier-{part}" for part in ("cut4", "cut6", "grids", "tables")),
        "keystone-insiders",
        "keystone-pace",
    ] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_part_runs_in_small_on_the_real_data(name, shared_data, tmp_path):
    result = run_bench(name, "smoke", tmp_path, make_progress("silent"))
    assert result["rows"] and not any(note.startswith("left out") for note in result["notes"])
