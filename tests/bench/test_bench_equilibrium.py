"""If these fail, a table on hidden secrets names the wrong leak or cost, or a front that its points do not make."""

import numpy as np
import pandas as pd
import pytest
from bench_parts import Notes

from colonnade.audit.attributes import audit_attributes
from colonnade.bench import BENCHES, run_bench
from colonnade.bench.equilibrium import local, sets
from colonnade.bench.equilibrium import methods as known
from colonnade.bench.equilibrium import rows as made
from colonnade.bench.equilibrium.attackers import NAMES, with_ceiling, without_ceiling
from colonnade.bench.equilibrium.play import Clock, Play, target_f1, trivial
from colonnade.bench.equilibrium.setting import SIZES, Size, task_of
from colonnade.bench.equilibrium.table import ADULT, FACES, HOSPITAL, compare, judged
from colonnade.bench.workers import ALONE
from colonnade.data.datasets import Dataset
from colonnade.errors import ConfigError
from colonnade.progress import make_progress

EQUILIBRIUM = sorted(name for name in BENCHES if name.startswith("equilibrium-"))
ATTACKED = [name for name in EQUILIBRIUM if name != "equilibrium-local"]
KEYS = (
    "dataset", "method", "weights", "alpha", "parties", "q_local", "seeds", "target", "target_cost", "client", "secret",
    "attacker", "leak", "majority", "ceiling", "hypervolume", "step_ratio",
)  # fmt: skip
MEASURED = ("target", "target_cost", "leak", "majority", "ceiling", "hypervolume", "step_ratio")
RECORDS, TESTED = 480, 160


def made_up(name, target="", secrets=()):
    """People of whom several columns tell the label, and others the secret."""
    rng = np.random.default_rng(0)
    ids = pd.RangeIndex(RECORDS, name="id")
    label, hidden = rng.integers(2, size=RECORDS), rng.integers(2, size=RECORDS)
    split = pd.Series(np.where(np.arange(RECORDS) < TESTED, "test", "train"), index=ids)
    word = np.where(hidden == 1, "yes", "no")
    of_label = pd.Series(label, index=ids, name="label")
    known = {"ids": ids, "label": of_label, "classes": ("no", "yes"), "split": split, "name": name}

    def numbers(columns):
        values = rng.normal(size=(RECORDS, len(columns)))
        values[:, 0] += 2 * label
        values[:, -1] += 3 * hidden
        return pd.DataFrame(values, index=ids, columns=columns)

    if name == "adult":
        columns = [column for party in sets.ADULT.values() for column in party]
        table = pd.concat([numbers(list(party)) for party in sets.ADULT.values()], axis=1)[columns].assign(sex=word)
        return Dataset(**known, table=table, secrets=("sex",))
    if name == "crema_d":
        parts = {part: numbers([f"{part}_{place}" for place in range(3)]) for part in ("voice", "face", "av")}
        return Dataset(**known, modalities=parts, attributes=pd.DataFrame({"sex": word}, index=ids), secrets=("sex",))
    if name == "diabetes130":
        columns = [column for ward in sets._WARDS.values() for column in ward] + [f"drug{place}" for place in range(8)]
        return Dataset(
            **known,
            table=numbers(columns[::-1]),
            attributes=pd.DataFrame({"age": word}, index=ids),
            secrets=("age",),
        )
    pixels = rng.normal(size=(RECORDS, 3, 32, 32)) * 30 + 100 + 40 * label[:, None, None, None]
    pixels[:, :, 0:8] += 80 * hidden[:, None, None, None]
    attributes = pd.DataFrame({"gender": word, "age": word, "race": word}, index=ids)
    return Dataset(**known, images=pixels.clip(0, 255).astype(np.uint8), attributes=attributes)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Made-up people in place of every data set."""
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setattr(sets, "_loaded", made_up)
    quick = Size(None, None, 4, ("linear",))
    faces = Size(96, 80, 1, ("linear",))
    monkeypatch.setitem(SIZES, "smoke", {**dict.fromkeys(SIZES["smoke"], quick), "faces": faces})


# -- who holds what ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [2, 4, 19])
def test_columns_of_a_hospital_are_dealt_once_each_and_the_secret_to_nobody(small, parties):
    staged = sets.scene(sets.Case("hospital", parties), None, None)
    held = [column for records in staged.federation.records.values() for column in records.columns]
    assert sorted(held) == sorted(made_up("diabetes130").table.columns)
    assert len(staged.hidden) == parties and staged.federation.active == sets.SERVER
    assert all(list(frame.columns) == ["age"] for frame in staged.hidden.values())


def test_too_many_parties_are_one_clear_error():
    with pytest.raises(ConfigError, match="3 columns can't be dealt to 4 parties"):
        sets.dealt(["a", "b", "c"], 4)


def test_adult_has_an_active_bank_and_two_parties_that_hide_sex(small):
    staged = sets.scene(ADULT, 100, 50)
    assert staged.federation.active == "bank" and set(staged.hidden) == {"employer", "registry"}
    assert staged.federation.split.value_counts().to_dict() == {"train": 100, "test": 50}


def test_halves_of_faces_hide_what_they_are_told_to(small):
    staged = sets.scene(sets.Case("faces", 2, "race", ("gender", "age")), 40, 30)
    assert {party: list(frame.columns) for party, frame in staged.hidden.items()} == {
        "left": ["gender"],
        "right": ["age"],
    }
    whole = made_up("fairface")
    halves = [staged.federation.records[party] for party in sets.HALVES]
    pictures = np.concatenate([half.images for half in halves], axis=-1)
    place = {picture.tobytes(): row for row, picture in enumerate(whole.images)}
    rows = [place[picture.tobytes()] for picture in pictures]
    assert halves[0].secrets["gender"].tolist() == whole.attributes["gender"].iloc[rows].tolist()


def test_the_published_set_is_used_where_its_folder_is(small, tmp_path):
    assert [case.dataset for case in (ADULT, HOSPITAL, FACES)] == ["adult", "diabetes130", "fairface"]
    (tmp_path / "mimic3").mkdir()
    assert HOSPITAL.dataset == "mimic3" and FACES.dataset == "fairface"


def test_real_sets_have_their_features_free_of_secrets_and_people_on_one_side(shared_data):
    diabetes, clips = sets._loaded("diabetes130"), sets._loaded("crema_d")
    assert not set(diabetes.table.columns) & {"age", "gender", "race"}
    for data, person in ((diabetes, "patient_nbr"), (clips, "actor_id")):
        sides = data.split.groupby(data.attributes[person]).nunique()
        assert (sides == 1).all() and set(data.split) == {"train", "test"}


# -- one run ----------------------------------------------------------------------------------------------------------


def test_attacking_uploads_alone_finds_what_the_audit_finds(small):
    play = Play(ADULT, known.SHAPLEY, 0.5, 1, "smoke")
    staged = sets.scene(ADULT, 300, 150)
    model = play.trained(staged, Clock())
    quick = without_ceiling(model, staged.hidden, ("linear", "boosting"), 1, "cpu")
    slow = with_ceiling(model, staged.hidden, ("linear", "boosting"), 1, "cpu")
    names = [name for name in NAMES if name != "ceiling"]
    assert [{name: told[name] for name in names} for told in quick] == [
        {name: told[name] for name in names} for told in slow
    ]
    assert {told["client"] for told in quick} == {"employer", "registry", "all"}
    one = dict(list(staged.hidden.items())[:1])
    alone = without_ceiling(model, one, ("linear",), 1, "cpu")
    assert alone == [told for told in quick if told["client"] == "all" and told["attacker"] == "linear"]


def test_scores_of_the_target_are_those_of_its_predictions(small):
    staged = sets.scene(HOSPITAL, None, None)
    model = Play(HOSPITAL, known.NONE, None, 0, "smoke").trained(staged, Clock())
    data = made_up("diabetes130")
    tested = data.table[data.split == "test"]
    truth = data.label.loc[tested.index].to_numpy()
    likely = model.predict_proba(tested).to_numpy()
    rare = int(np.bincount(truth).argmin())
    named = set(np.argsort(-likely[:, rare])[: int((truth == rare).sum())])
    right = sum(truth[place] == rare for place in named)
    assert target_f1(model) == pytest.approx(2 * right / (2 * len(named)))
    assert trivial(model, staged) == 0.5
    counted = sets.Scene(staged.federation, "accuracy", 2)
    assert trivial(model, counted) == pytest.approx(max(np.mean(truth), 1 - np.mean(truth)))


def test_a_step_takes_what_lies_between_two_of_them_without_validation(monkeypatch):
    now = iter([0.0, 1.0, 2.0, 100.0, 102.0, 104.0, 200.0, 203.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    clock = Clock()
    for epoch, steps in enumerate((3, 3, 2)):
        for step in range(steps):
            clock.advance(step, loss=0.0, sent_bytes=10 * epoch + step)
        clock.advance(0, epoch=epoch, train_loss=0.0)
    assert (clock.seconds, clock.steps, clock.sent_bytes) == (2.0, 8, 21)


def test_a_result_is_not_taken_for_that_of_another_run(small):
    plays = [
        Play(ADULT, known.SHAPLEY, 0.5, 0, "smoke"),
        Play(ADULT, known.SHAPLEY, 0.5, 1, "smoke"),
        Play(ADULT, known.SHAPLEY, 1.0, 0, "smoke"),
        Play(ADULT, known.UNIFORM, 0.5, 0, "smoke"),
        Play(HOSPITAL, known.SHAPLEY, 0.5, 0, "smoke"),
        Play(ADULT, known.SHAPLEY, 0.5, 0, "default"),
        Play(ADULT, known.SHAPLEY, 0.5, 0, "smoke", local_updates=5),
        Play(ADULT, known.SHAPLEY, 0.5, 0, "smoke", every_client=True),
    ]
    assert len({play.file_name for play in plays}) == len(plays)


# -- rows -------------------------------------------------------------------------------------------------------------


def result(target, leak, seconds=1.0, client="all"):
    attackers = {"linear": leak, "mlp": leak - 0.05}
    leaks = [
        dict(zip(NAMES, (client, "sex", name, found, found, 0.6, 0.9), strict=True))
        for name, found in attackers.items()
    ]
    told = {"target": target, "trivial": 0.5, "target_f1": 0.7, "metric": "accuracy", "leaks": leaks}
    return {**told, "seconds": seconds, "bytes": 8, "steps": 2, "history": []}


def test_rows_are_means_over_seeds_of_what_each_seed_lost_and_its_front_covers():
    method = known.SHAPLEY.at(0.1, 1.0)
    found = {}
    for seed, shift in ((0, 0.0), (1, 0.02)):
        found[Play(ADULT, known.NONE, None, seed, "smoke")] = result(0.9 + shift, 0.8)
        found[Play(ADULT, method, 0.1, seed, "smoke")] = result(0.9, 0.7, seconds=2.0)
        found[Play(ADULT, method, 1.0, seed, "smoke")] = result(0.8, 0.6, seconds=4.0)
    bare, weak, strong = made.rows(found)
    assert bare["hypervolume"] is None and bare["target_cost"] == 0 and bare["step_ratio"] == 1
    assert (weak["alpha"], strong["alpha"]) == (0.1, 1.0)
    assert weak["target_cost"] == pytest.approx(0.01) and weak["seeds"] == 2
    assert weak["attacker"] == "max" and weak["leak"] == pytest.approx(0.7)
    assert (weak["step_ratio"], strong["step_ratio"]) == (2, 4)
    # Gains of the task are counted from 0.5 to 0.9 or 0.92, of the secret from 0.8 down to 0.6.
    areas = [1.0 * 0.5 + 0.75 * 0.5, 0.4 / 0.42 * 0.5 + 0.3 / 0.42 * 0.5]
    assert weak["hypervolume"] == strong["hypervolume"] == pytest.approx(np.mean(areas), abs=6e-5)
    assert weak["hypervolume_ci"] == pytest.approx(12.706 * np.std(areas, ddof=1) / 2**0.5, abs=1e-4)


def test_every_attacker_has_rows_if_asked_for_and_the_best_of_them_is_the_largest():
    found = {Play(ADULT, known.NONE, None, 0, "smoke"): result(0.9, 0.8)}
    by_name = {row["attacker"]: row["leak"] for row in made.rows(found, attacker=None)}
    assert by_name == {"linear": 0.8, "mlp": 0.75, "max": 0.8}


def test_an_undefended_run_that_leaks_nothing_has_no_front():
    found = {
        Play(ADULT, known.NONE, None, 0, "smoke"): result(0.9, 0.6),
        Play(ADULT, known.SHAPLEY.at(1.0), 1.0, 0, "smoke"): result(0.9, 0.6),
    }
    assert [row["hypervolume"] for row in made.rows(found)] == [None, None]


def test_a_front_that_one_seed_does_not_have_is_no_mean_over_the_others():
    found = {}
    for seed, leak in enumerate((0.8, 0.6, 0.8)):  # the majority guess is right in 0.6 of cases
        found[Play(ADULT, known.NONE, None, seed, "smoke")] = result(0.9, leak)
        found[Play(ADULT, known.SHAPLEY.at(1.0), 1.0, seed, "smoke")] = result(0.9, 0.6)
    row = made.rows(found)[1]
    assert row["seeds"] == 3 and row["hypervolume"] is None and row["hypervolume_ci"] is None


def test_heads_that_nobody_listens_to_do_not_count_as_a_cost_of_noise():
    found = {
        Play(ADULT, known.NONE, None, 0, "smoke"): result(0.9, 0.8),
        Play(ADULT, known.NOISE.at(1.0), 1.0, 0, "smoke"): result(0.9, 0.6, seconds=3.0),
        Play(ADULT, known.SHAPLEY.at(1.0), 1.0, 0, "smoke"): result(0.9, 0.6, seconds=3.0),
    }
    assert {row["method"]: row["step_ratio"] for row in made.rows(found)} == {
        "none": 1, "noise alone": None, "nashcoder": 3
    }  # fmt: skip


def test_runs_without_their_undefended_counterpart_are_left_out():
    found = {
        Play(ADULT, known.NONE, None, 0, "smoke"): result(0.9, 0.8),
        Play(ADULT, known.SHAPLEY.at(1.0), 1.0, 1, "smoke"): result(0.9, 0.6),
    }
    assert [row["method"] for row in made.rows(found)] == ["none"]


def test_the_best_strength_hides_at_least_cost_or_else_leaks_least():
    keys = {"dataset": "adult", "task": None, "weights": "none", "secret": "sex", "majority": 0.6}
    rows = [
        {**keys, "method": "a", "target_cost": 0.00, "leak": 0.70},
        {**keys, "method": "a", "target_cost": 0.01, "leak": 0.62},
        {**keys, "method": "a", "target_cost": 0.05, "leak": 0.60},
        {**keys, "method": "b", "target_cost": 0.00, "leak": 0.80},
        {**keys, "method": "b", "target_cost": 0.02, "leak": 0.65},
    ]
    best = [(row["method"], row["leak"], row["hidden"]) for row in judged(rows) if row["best"]]
    assert best == [("a", 0.62, True), ("b", 0.65, False)]
    assert len(judged(rows)) == 5 and [row["best"] for row in judged(rows)] == [True, True, False, False, False]


# -- benches ----------------------------------------------------------------------------------------------------------


def test_listed_are_the_published_figures_and_the_table():
    tables = ["equilibrium-table", "equilibrium-table-faces"]
    figures = [f"equilibrium-fig{number}" for number in range(4, 10)]
    assert ["equilibrium-attackers", *figures, "equilibrium-local", *tables] == EQUILIBRIUM


def test_a_table_is_what_is_found_by_hand_and_kept(small, tmp_path, monkeypatch):
    rows = compare([ADULT], "smoke", Notes(), tmp_path, ALONE)
    row = next(row for row in rows if row["method"] == "nashcoder" and row["alpha"] == 2.0)
    play = Play(ADULT, known._FEW[1], 2.0, 0, "smoke")
    model = play.trained(sets.scene(ADULT, None, None), Clock())
    found = audit_attributes(model, attackers="linear", seeds=[0], progress=False).to_frame().set_index("client")
    assert row["leak"] == pytest.approx(found.loc["all", "leak"], abs=6e-5)
    assert row["ceiling"] == pytest.approx(found.loc["all", "ceiling"], abs=6e-5)
    assert row["target"] == pytest.approx(model.scores["accuracy"], abs=6e-5)
    undefended = next(row for row in rows if row["method"] == "none")
    assert undefended["leak"] > undefended["majority"] + 0.1
    assert row["target_cost"] == pytest.approx(undefended["target"] - row["target"], abs=2e-4)
    assert {row["hypervolume"] is None for row in rows if row["method"] != "none"} == {False}
    monkeypatch.setattr(Play, "run", lambda self: pytest.fail("trained again"))
    assert compare([ADULT], "smoke", Notes(), tmp_path, ALONE) == rows


@pytest.mark.parametrize("name", ATTACKED)
def test_every_bench_has_the_keys_of_all_and_an_interval_for_what_is_measured(small, name, tmp_path):
    result = run_bench(name, "smoke", tmp_path / "out", make_progress("silent"))
    assert not any(note.startswith("left out") for note in result["notes"])
    attacked = [row for row in result["rows"] if row.get("attacker")]
    assert attacked
    for row in attacked:
        assert set(KEYS) <= set(row) and {f"{measure}_ci" for measure in MEASURED} <= set(row)
        assert 0 <= row["leak"] <= 1 and 0 <= row["majority"] <= 1 and row["seeds"] == 1
    fronts = {}
    for row in attacked:
        key = tuple(
            row[name] for name in ("dataset", "task", "method", "weights", "parties", "client", "secret", "attacker")
        )
        if name != "equilibrium-fig7":  # there every strength is a variant of its own
            assert fronts.setdefault(key, row["hypervolume"]) == row["hypervolume"]
    assert (tmp_path / "out" / "table.md").read_text().startswith(f"# {name}")


def test_weights_of_a_round_sum_to_one_and_stale_updates_exchange_less(small):
    rows = [row for row in BENCHES["equilibrium-fig8"]("smoke", Notes()) if row.get("q") is not None]
    sums = {}
    for row in rows:
        key = (row["weights"], row["alpha"], row["epoch"])
        sums[key] = sums.get(key, 0) + row["q"]
    assert sums and all(total == pytest.approx(1, abs=2e-4) for total in sums.values())
    assert {row["q"] for row in rows if row["weights"] == "uniform"} == {0.5}
    curves = [row for row in BENCHES["equilibrium-fig7"]("smoke", Notes()) if row.get("epoch") is not None]
    last = {row["q_local"]: row for row in curves if row["method"] == "none"}
    assert last[4]["exchanges"] * 4 == last[1]["exchanges"], "four epochs become one"
    assert last[4]["bytes"] < last[1]["bytes"] / 2


@pytest.mark.parametrize("preset", ["smoke", "default", "paper"])
def test_as_many_times_fewer_rounds_as_there_are_local_updates(preset):
    staged = sets.Scene(None, "auc", 2)
    for kind, updates in (("hospital", 4), ("hospital", 1)):
        size = SIZES[preset][kind]
        task = task_of(staged, size, preset, "none", local_updates=updates, watched=True)
        assert task.epochs * updates == size.epochs
    with pytest.raises(AssertionError, match="compared"):
        task_of(staged, Size(None, None, 4), preset, "none", local_updates=5, watched=True)


def test_every_attacker_is_named_under_the_published_form_and_under_ours(small, monkeypatch):
    monkeypatch.setitem(SIZES["smoke"], "adult", Size(None, None, 2, ("linear", "boosting")))
    rows = [row for row in BENCHES["equilibrium-attackers"]("smoke", Notes()) if row["dataset"] == "adult"]
    assert {(row["method"], row["attacker"]) for row in rows} == {
        (method, attacker)
        for method in ("none", "nashcoder", "nashcoder published", "nashcoder published, capped")
        for attacker in ("linear", "boosting", "max")
    }


def test_local_updates_are_told_with_rounds_bytes_and_what_they_cost(small, tmp_path):
    found = run_bench("equilibrium-local", "smoke", tmp_path / "out", make_progress("silent"))["rows"]
    rows = {(row["schedule"], row["q_local"], row["labels"], row["epochs"]): row for row in found}
    ways = [(1, "server", 4), (4, "server", 1), (4, "shared", 1), (1, "server", 1)]
    assert list(rows) == [(schedule, *way) for schedule in ("cosine", "constant") for way in ways]
    every, server, shared, few = (rows["cosine", *way] for way in ways)
    assert every["exchanges"] == 4 * server["exchanges"] == 4 * shared["exchanges"] == 4 * few["exchanges"]
    assert every["target_cost"] == every["largest_cost"] == 0
    assert few["target_cost"] == pytest.approx(every["target"] - few["target"], abs=2e-4)
    assert few["bytes_of_all"] == server["bytes_of_all"] < shared["bytes_of_all"] < every["bytes_of_all"]
    # Two passive parties upload 32 numbers of each record and get as many back, in validation and test only upload.
    passed = {"train": 320 * 0.9, "validation": 320 * 0.1, "test": TESTED}
    numbers = 2 * 32 * (2 * passed["train"] + passed["validation"] + passed["test"])
    assert few["bytes_of_all"] == pytest.approx(4 * numbers, rel=0.05)


def test_the_unluckiest_seed_of_local_updates_is_told():
    fewer = local.VARIANTS[1]
    found = {}
    for seed, cost in enumerate((0.0, 0.09)):
        told = {"metric": "accuracy", "exchanges": 2, "bytes_of_all": 8}
        found[local.Trial(local.ALL_ROUNDS, "cosine", seed, "smoke")] = {**told, "target": 0.9}
        found[local.Trial(fewer, "cosine", seed, "smoke")] = {**told, "target": 0.9 - cost}
    found[local.Trial(fewer, "cosine", 2, "smoke")] = {**told, "target": 0.1}  # nothing to compare it with
    row = local.rows(found)[1]
    assert (row["seeds"], row["target_cost"], row["largest_cost"]) == (2, 0.045, 0.09)


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUILIBRIUM)
def test_every_bench_runs_in_small_on_the_real_data(name, shared_data, tmp_path):
    result = run_bench(name, "smoke", tmp_path, make_progress("silent"))
    assert result["rows"] and not any(note.startswith("left out") for note in result["notes"])


def test_noise_suits_the_data_unless_it_was_chosen():
    assert known.SHAPLEY.suited_to("hospital").choice(0.1) == {"name": "nashcoder", "alpha": 0.1, "sigma": 0.5}
    assert known.SHAPLEY.suited_to("adult") == known.SHAPLEY
    for method in (known.NOISE, known.PUBLISHED, known.CAPPED, known.GAUSSIAN, known.NONE):
        assert method.suited_to("faces") == method
