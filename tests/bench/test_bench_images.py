"""If these fail, a table of reconstructions holds numbers of other pictures, or published ones beside the wrong row."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from bench_parts import Notes, striped_pictures

from colonnade.attack import unsplit
from colonnade.audit.audit import audit
from colonnade.bench import BENCHES, Workers, run_bench
from colonnade.bench.images import classes, deployment, learning, proxy, risk, sets, speed, steering
from colonnade.bench.images.matrix import KEYS, MEASURES, Trial, run_trial
from colonnade.bench.images.published import Published, entry
from colonnade.bench.images.setting import SIZES, Size, attacks_of, size_note, task_of
from colonnade.bench.keystone.setting import PICTURES
from colonnade.bench.keystone.victim import Victim
from colonnade.errors import ConfigError
from colonnade.learn.train import train
from colonnade.measure.risk import push
from colonnade.progress import make_progress

PRUNE = {"name": "prune", "rate": 0.99}
NONE = {"name": "none"}
CAUSSHIELD = sorted(name for name in BENCHES if name.startswith("causshield-"))


@pytest.fixture
def small(monkeypatch):
    """Made-up pictures, ten classes of stripes and noise, in place of every data set; few of them in a smoke run."""
    made = striped_pictures()
    monkeypatch.setattr(sets, "_loaded", lambda name: made)
    monkeypatch.setitem(SIZES, "smoke", Size(64, 48, 1, 8, "smoke"))
    return made


@pytest.fixture
def no_training(monkeypatch):
    """Call it, and from then on training is an error."""

    def refuse(*args, **options):
        raise AssertionError("trained again")

    def forbid():
        for module in ("colonnade.learn.train", "colonnade.audit.cell"):
            monkeypatch.setattr(import_module(module), "train", refuse)

    return forbid


def by_hand(defense, attacks=("ridge",), **options):
    """Train and attack what a smoke run trains and attacks, step by step."""
    federation = sets.pictures("cifar10", 64, 48, **options)
    model = train(federation, defense, task=task_of("cifar10", "smoke"), seed=0, progress=False)
    found = audit(model, attacks, federation=federation, seeds=[0], targets=8, progress=False).frame
    return model, found[found["party"] == "all"].set_index("attack")


# -- the pictures -----------------------------------------------------------------------------------------------------


def test_nobody_trains_on_what_is_held_out(small):
    images, labels, tested = small
    federation = sets.pictures("cifar10", None, None, watched=10)
    assert federation.split.value_counts().to_dict() == {"train": 160, "test": 70, "validation": 10}
    whole = np.concatenate([federation.records[party].images for party in sets.STRIPS], axis=-1)
    place = {picture.tobytes(): row for row, picture in enumerate(images)}
    rows = np.array([place[picture.tobytes()] for picture in whole])
    assert len(set(rows)) == 240
    assert not tested[rows[federation.split == "train"]].any(), "published test pictures are never trained on"
    assert (federation.records[federation.active].label.to_numpy() == labels[rows]).all()


def test_rows_of_other_pictures_are_not_taken_for_those_of_these(small, monkeypatch):
    """A table would mix 10,000 pictures with 50,000, or one download with another, and nobody would hear of it."""
    none = (("name", "none"),)
    jobs = [
        learning.Learning("cifar10", none, 0, "smoke"),
        classes.Victim(none, "smoke"),
        risk.Victim(none, 0, "smoke"),
        deployment.Deployment(none, 0, "smoke"),
        Victim(PICTURES, none, 0, "smoke"),
    ]
    before = [job.file_name for job in jobs]
    assert before == [job.file_name for job in jobs]
    images, labels, tested = small
    brighter, longer = images // 2 + 100, np.concatenate([images, images[:20]])
    others = ((brighter, labels, tested), (longer, np.resize(labels, len(longer)), np.resize(tested, len(longer))))
    for other in others:
        monkeypatch.setattr(sets, "_loaded", lambda name, other=other: other)
        assert all(job.file_name != name for job, name in zip(jobs, before, strict=True))


def test_a_part_of_a_set_is_called_a_part(small, monkeypatch):
    assert sets.note_of("cifar10") == "CIFAR-10: 200 of its 50,000 training pictures are at hand"
    tested = np.arange(60_000) >= 50_000
    monkeypatch.setattr(sets, "_loaded", lambda name: (None, None, tested))
    assert sets.note_of("cifar10") is None
    assert sets.note_of("cifar100").startswith("in place of CIFAR-100")


def test_few_pictures_still_hold_every_class(small, monkeypatch):
    images, _, tested = small
    rare = np.where(np.arange(240) % 40 == 7, 10 + np.arange(240) // 40, 0)
    monkeypatch.setattr(sets, "_loaded", lambda name: (images, rare, tested))
    federation = sets.pictures("cifar10", 8, 40)
    label = federation.records[federation.active].label.to_numpy()
    inside = (federation.split == "train").to_numpy()
    assert inside.sum() == 8
    assert set(label[inside]) == set(rare[~tested])


@pytest.mark.parametrize("overlap", [0.25, 0.5])
def test_with_less_overlap_one_party_lacks_training_records_and_no_others(small, overlap):
    whole, federation = (sets.pictures("cifar10", 64, 48, overlap=share) for share in (1.0, overlap))
    left, right = (federation.rows[party] for party in sets.STRIPS)
    inside = (federation.split == "train").to_numpy()
    assert (left >= 0).all() and (right[~inside] >= 0).all()
    assert (right[inside] >= 0).mean() == overlap
    assert (right[right >= 0] == whole.rows["right"][right >= 0]).all()


# -- settings ---------------------------------------------------------------------------------------------------------


def test_names_of_attacks_are_read_with_their_variant_and_preset():
    assert attacks_of(["decoder", "decoder-strong", "decoder-repeated", "ridge"], "default") == [
        {"name": "decoder", "preset": "weak", "mixed": True},
        {"name": "decoder", "preset": "strong", "mixed": True},
        {"name": "decoder", "preset": "repeated", "mixed": True},
        {"name": "ridge"},
    ]
    assert attacks_of(["decoder-strong"], "smoke")[0]["epochs"] == 1
    assert attacks_of(["urvfl-adaptive", "fsha"], "paper") == [
        {"name": "urvfl", "preset": "paper", "mixed": True, "adaptive": True},
        {"name": "fsha", "preset": "paper", "mixed": True},
    ]
    assert attacks_of(["decoder", "pcat-adaptive"], "small") == [
        {"name": "decoder", "preset": "weak", "mixed": True, "epochs": 20},
        {
            "name": "pcat",
            "preset": "default",
            "mixed": True,
            "decoder_width": 32,
            "inverse_epochs": 20,
            "refine_steps": 20,
            "adaptive": True,
        },
    ]
    assert attacks_of(["fsha"], "medium") == [
        {"name": "fsha", "preset": "default", "mixed": True, "critic_width": 32, "critic_steps": 2}
    ]
    assert attacks_of(["ridge", "witness"], "default") == [{"name": "ridge"}, {"name": "witness", "mixed": True}]
    searches = {preset: attacks_of(["unsplit"], preset)[0]["preset"] for preset in SIZES}
    assert searches == {**dict.fromkeys(SIZES, "smoke"), "paper": "paper"}


def test_only_smoke_and_reduced_runs_leave_the_published_network():
    families = {preset: task_of("cifar10", preset).network.family for preset in SIZES}
    assert families == {
        "smoke": "mnist_net",
        "small": "resnet18_narrow",
        "medium": "resnet18_narrow",
        "default": "resnet18",
        "paper": "resnet18",
    }
    assert {task_of("mnist", preset).network.family for preset in SIZES} == {"mnist_net"}


def test_a_published_entry_is_found_by_strength_or_without_or_not_at_all():
    column = {("prune", 0.9): Published(0.1), ("prune", None): Published(0.2)}
    assert [entry(column, "prune", strength).mse for strength in (0.9, 0.99, None)] == [0.1, 0.2, 0.2]
    assert entry(column, "none", None) == Published()


def test_listing_benches_loads_no_torch():
    code = "import sys, colonnade.bench as b; print(*b.BENCHES); print('torch' in sys.modules)"
    names, torch_is_there = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert set(CAUSSHIELD) <= set(names.split())
    assert torch_is_there == "False"


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_of_a_trial_are_what_is_found_by_hand_and_kept(small, tmp_path, no_training):
    trial = Trial("cifar10", [NONE, PRUNE], ["ridge"], published={"ridge": {("prune", 0.99): Published(0.5, ssim=0.1)}})
    rows = run_trial(trial, "smoke", Notes(), tmp_path)
    attacked = {row["defense"]: row for row in rows if row["attack"] == "ridge"}
    for defense in (NONE, PRUNE):
        model, found = by_hand(defense)
        row = attacked[defense["name"]]
        assert row["mse"] == pytest.approx(found.loc["ridge", "mse"], abs=6e-5)
        assert row["accuracy"] == pytest.approx(model.scores["accuracy"], abs=6e-5)
    told = ("published_mse", "published_psnr", "published_ssim", "published_accuracy")
    assert [attacked["prune"][name] for name in told] == [0.5, None, 0.1, None]
    assert all(row[name] is None for row in rows for name in told if row is not attacked["prune"])
    guesses = {row["attack"] for row in rows if row["knowledge"] == "baseline"}
    assert guesses == {"mean record", "constant grey", "random other", "per-record mean"}
    assert set(attacked["none"]) == {
        *KEYS, *MEASURES, *(f"{name}_ci" for name in MEASURES), *told, "defense_settings", "attack_settings",
    }  # fmt: skip
    assert attacked["none"]["cut"] == 6 and attacked["prune"]["strength"] == 0.99
    no_training()
    assert run_trial(trial, "smoke", Notes(), tmp_path) == rows


def test_a_matrix_that_was_stopped_can_be_gathered(small, tmp_path, no_training):
    """Hours of cells would be there, and no table of them."""
    name, silent = "causshield-table2", make_progress("silent")
    rows = run_bench(name, "smoke", tmp_path, silent)["rows"]
    no_training()
    assert run_bench(name, "smoke", tmp_path, silent, Workers(gather=True))["rows"] == rows
    with pytest.raises(ConfigError, match="no cell is kept here"):
        run_bench(name, "smoke", tmp_path / "elsewhere", silent, Workers(gather=True))


def test_missing_records_are_rows_of_their_own_and_kept(small, tmp_path, no_training):
    rows = BENCHES["causshield-fig13"]("smoke", Notes(), folder=tmp_path)
    assert [(row["overlap"], row["defense"]) for row in rows] == [
        (0.5, "none"), (0.5, "prune"), (1.0, "none"), (1.0, "prune"),
    ]  # fmt: skip
    task = task_of("cifar10", "smoke", missing="impute")
    halved = train(sets.pictures("cifar10", 64, 48, overlap=0.5), "none", task=task, seed=0, progress=False)
    assert rows[0]["accuracy"] == pytest.approx(halved.scores["accuracy"], abs=6e-5)
    no_training()
    assert BENCHES["causshield-fig13"]("smoke", Notes(), folder=tmp_path) == rows


def test_final_accuracy_stands_beside_the_published_one(small):
    progress = Notes()
    rows = BENCHES["causshield-table3"]("smoke", progress)
    assert {row["defense"]: row["published_accuracy"] for row in rows} == {"none": 0.8921, "prune": 0.8472}
    assert "EMNIST: digits only, 200 training pictures" in progress.notes
    assert size_note("emnist", "smoke") in progress.notes, "presets change: a result tells what it was made with"


def test_curves_have_a_row_for_every_epoch(small, monkeypatch):
    monkeypatch.setitem(SIZES, "smoke", Size(64, 48, 2, 8, "smoke"))
    rows = BENCHES["causshield-fig12"]("smoke", Notes())
    assert [(row["defense"], row["epoch"]) for row in rows] == [("none", 1), ("none", 2), ("prune", 1), ("prune", 2)]
    federation = sets.pictures("cifar10", 64, 48, watched=24)
    model = train(federation, task=task_of("cifar10", "smoke"), seed=0, progress=False)
    assert [row["loss"] for row in rows[:2]] == pytest.approx(model.history["validation_loss"].tolist(), abs=6e-5)
    assert {row["psi"] for row in rows} == {None}


def test_a_result_is_not_taken_for_that_of_another_run():
    one = learning.Learning("mnist", (("name", "none"),), 0, "smoke")
    others = [
        learning.Learning("emnist", (("name", "none"),), 0, "smoke"),
        learning.Learning("mnist", (("name", "prune"),), 0, "smoke"),
        learning.Learning("mnist", (("name", "none"),), 1, "smoke"),
        learning.Learning("mnist", (("name", "none"),), 0, "default"),
        learning.Learning("mnist", (("name", "none"),), 0, "smoke", overlap=0.5),
        learning.Learning("mnist", (("name", "none"),), 0, "smoke", curves=True),
    ]
    assert len({run.file_name for run in [one, *others]}) == 7
    victims = [risk.Victim((("name", "none"),), seed, preset) for seed in (0, 1) for preset in SIZES]
    assert len({victim.file_name for victim in victims}) == len(victims)


# -- risk and proxy ---------------------------------------------------------------------------------------------------


def test_risk_stands_beside_errors_and_published_values_and_is_kept(small, tmp_path, no_training, monkeypatch):
    monkeypatch.setattr(risk, "ATTACKS", ("decoder", "ridge"))  # the strong one trains twice, for longer
    progress = Notes()
    rows = BENCHES["causshield-fig1"]("smoke", progress, folder=tmp_path)
    none, prune = rows
    assert (none["defense"], prune["defense"]) == ("none", "prune")
    told = ("published_inversion_risk", "published_urvfl_mse", "published_proxy_cosine")
    assert [none[name] for name in told] == [0.729, 0.017, None]
    assert [prune[name] for name in told] == [None, None, 0.765]
    found = by_hand(PRUNE, attacks_of(risk.ATTACKS, "smoke"))[1]["mse"]
    for name, attack in (("decoder_mse", "decoder"), ("ridge_mse", "ridge"), ("mean_picture_mse", "mean record")):
        assert prune[name] == pytest.approx(found[attack], abs=6e-5)
    assert 0 <= prune["inversion_risk"] < none["inversion_risk"] <= 1
    assert any("is ours" in note for note in progress.notes)
    no_training()
    assert BENCHES["causshield-fig1"]("smoke", Notes(), folder=tmp_path) == rows


@pytest.mark.parametrize(
    "defense",
    [
        *risk.DEFENSES[:2],
        {"name": "ressfl", "warm_up": 0},
        {"name": "bottleneck", "sigma": 0.1, "adversary": 0.0},
        {"name": "invl_enp", "noise": 0.01, "rank": 2},
    ],
    ids=lambda one: one["name"],
)
def test_risk_is_that_of_the_map_from_records_to_uploads(small, defense):
    """The differentiated map uploads what the party uploads, up to noise, and has a slope."""
    check_map(defense, task_of("cifar10", "smoke"), noisy=defense["name"] in ("bottleneck", "invl_enp"))


@pytest.mark.slow
def test_risk_of_causshield_is_that_of_the_generator_it_deploys(small):
    """Of a ResNet, whose norms the generator replaces by its own."""
    plain = task_of("cifar10", "smoke")
    task = plain.model_copy(update={"network": plain.network.model_copy(update={"family": "resnet18", "cut": 3})})
    check_map({"name": "causshield", "rounds": 1, "surrogate_epochs": 1, "learning_rate": 0.01}, task, noisy=False)


def check_map(defense, task, noisy):
    federation = sets.pictures("cifar10", 64, 48)
    model = train(federation, defense, task=task, seed=0, progress=False)
    bottom, records = model.parts["left"].bottom, federation.records["left"].take(np.arange(6))
    x = torch.from_numpy(bottom.preparation.transform(records))
    noise, function = risk.noise_of(bottom), risk.noiseless(bottom)
    without = function(x).detach()
    assert callable(noise) == noisy
    if noisy:
        draws = torch.stack([bottom.upload(records) for _ in range(200)]) - without
        assert draws.mean(0).abs().max() < 6 * draws.std(0).max() / 200**0.5
        drawn = torch.stack([noise(x) for _ in range(200)])
        assert float(drawn.std(0).mean()) == pytest.approx(float(draws.std(0).mean()), rel=0.1)
    else:
        assert torch.equal(bottom.upload(records), without)
    # A difference quotient would stumble over the kinks of ReLUs, so two ways to differentiate are compared.
    back = torch.randn(without.shape, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    (slope,) = torch.autograd.grad((function(x) * back).sum(), x)
    assert slope.abs().max() > 0
    pushed = push(function, x.detach(), slope.flatten(1)[:, None])[:, 0]
    assert float((pushed * back).sum()) == pytest.approx(float(slope.square().sum()), rel=1e-4)


def test_stable_records_keep_their_neighbours_from_layer_to_layer():
    torch.manual_seed(0)
    network = torch.nn.Sequential(*(torch.nn.Conv2d(2, 2, 3), torch.nn.ReLU(), torch.nn.Conv2d(2, 1, 3)))
    records = torch.randn(30, 2, 8, 8)
    layers = [network[:1](records), network(records)]
    expected = []
    for row in range(30):
        near = []
        for layer in layers:
            cosines = torch.cosine_similarity(layer[row].flatten()[None], layer.flatten(1))
            order = [place for place in cosines.argsort(descending=True).tolist() if place != row]
            near.append(set(order[:10]))
        expected.append(len(near[0] & near[1]) / 10)
    assert proxy.neighbour_stability(network, records).tolist() == pytest.approx(expected)
    assert 0 < np.mean(expected) < 1


def test_proxies_are_the_upper_half_of_their_class_by_both():
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    stability = torch.tensor([0.9, 0.8, 0.2, 0.1, 0.01, 0.02])
    confidence = torch.tensor([0.3, 0.9, 0.8, 0.1, 0.1, 0.2])
    assert proxy.stands_for_class(stability, confidence, labels).tolist() == [False, True, False, False, False, True]


def test_cosines_tell_the_own_class_from_others():
    torch.manual_seed(0)
    uploads, others = torch.rand(6, 4), torch.rand(5, 4)
    labels, other_labels = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 2, 0, 9])
    own, foreign = [], []
    for upload, label in zip(others[:4], other_labels[:4], strict=True):
        for kind in range(3):
            cosine = float(torch.cosine_similarity(upload, uploads[labels == kind].mean(0), dim=0))
            (own if kind == label else foreign).append(cosine)
    found = proxy.cosines_to_proxies(uploads, labels, others, other_labels)
    assert found == pytest.approx((np.mean(own), np.mean(foreign)))
    assert proxy.cosines_to_proxies(uploads[:2], labels[:2], others, other_labels) == (None, None)


# -- speed ------------------------------------------------------------------------------------------------------------


def test_speed_is_that_of_the_attack_and_what_is_extrapolated_says_so(small, monkeypatch):
    monkeypatch.setitem(unsplit.PRESETS, "smoke", unsplit.Preset(2, 3))
    progress = Notes()
    at_once, single = BENCHES["causshield-unsplit-speed"]("smoke", progress)
    assert (at_once["pictures"], at_once["extrapolated_from"]) == (8, None)
    assert (single["pictures"], single["extrapolated_from"]) == (8, speed.SINGLE["smoke"])
    for row in (at_once, single):
        assert row["pictures_per_second"] == pytest.approx(8 / row["seconds"], rel=0.05)
    assert single["times_as_fast"] == 1
    assert any("extrapolated" in note for note in progress.notes)
    found = by_hand(NONE, attacks_of(["unsplit"], "smoke"))[1]
    assert at_once["mse"] == pytest.approx(found.loc["unsplit", "mse"], abs=6e-5)
    assert at_once["mean_picture_mse"] == pytest.approx(found.loc["mean record", "mse"], abs=6e-5)


def test_rows_of_steering_tell_which_way_the_gradient_took(small, tmp_path):
    """Uploads that can be steered and those that can't would stand in one row."""
    rows = steering.steer("smoke", Notes(), folder=tmp_path)
    attacked = {row["defense"]: row for row in rows if row["attack"] == "urvfl"}
    assert {name: row["route"] for name, row in attacked.items()} == {"none": None, "causshield": "separate"}
    assert attacked["causshield"]["learning_rate"] == 0
    assert attacked["none"]["published_mse"] == 0.017
    assert attacked["causshield"]["published_mse"] is None, "the paper has no network that rests"


# -- the real thing, small --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSSHIELD)
def test_every_bench_of_pictures_runs_in_small(name, shared_data, tmp_path):
    result = run_bench(name, "smoke", tmp_path, make_progress("silent"))
    assert result["rows"]
    assert not any(note.startswith("left out") for note in result["notes"])
    measures = {"accuracy", "mse", "seconds", "inversion_risk"}
    assert all(any(row.get(name) is not None for name in measures) for row in result["rows"])
    if name == "causshield-fig14":
        bare = result["rows"][0]
        assert bare["upload_bytes"] == 4 * 128 * 16 * 8, "128 maps of a half, four bytes a number"
        assert bare["round_bytes"] == 2 * 128 * bare["upload_bytes"], "and as many gradients"
