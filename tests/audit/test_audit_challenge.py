"""If these fail, a challenge gives its attacker too much or too little, or scores what nobody guessed."""

import hashlib
import json

import numpy as np
import pytest
import torch
from audit_parts import (
    Averaging,
    Curious,
    Linear,
    Spy,
    picture_federation,
    picture_model,
    row,
    table_federation,
    table_model,
)
from safetensors.numpy import load_file
from torch import nn

import colonnade as co
from colonnade.attack import Knowledge, make_attack, run_attack
from colonnade.audit.attacks import fresh
from colonnade.audit.challenge import export_challenge, read_challenge
from colonnade.audit.evidence import draw_noise_from, operator_seed, working_copy
from colonnade.audit.held_out import divide, held_out_of
from colonnade.audit.submission import score_challenge
from colonnade.defend import DEFENSES, Defense
from colonnade.errors import ColonnadeError, ConfigError, DataError, RunError
from colonnade.nets import initialised
from colonnade.nets.veil import Veil

TENSORS = {"uploads", "labels", "auxiliary_records", "auxiliary_labels", "auxiliary_uploads"}


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "challenge", tmp_path / "truth"


def export(model, knowledge, folders, party="lab", **settings):
    return export_challenge(model, knowledge, folders[0], truth=folders[1], party=party, **settings)


def guessed(attack, folder, path, seed=0):
    guesses = run_attack(fresh(attack, seed, "cpu"), read_challenge(folder))
    np.savez(path, guesses=guesses.numpy())
    return path


def own_digest(listed):
    """Written anew from the page that tells of it, so that the page is true."""
    rest = {key: value for key, value in listed.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize(
    "granted",
    [
        ["uploads"],
        ["uploads", "architecture"],
        ["uploads", "labels", "auxiliary_records", "auxiliary_labels"],
        ["uploads", "weights"],
        ["auxiliary_records", "auxiliary_uploads"],
    ],
)
def test_the_folder_holds_exactly_what_was_granted(trained, folders, granted):
    folder = export(trained, granted, folders)
    known = {"uploads", *granted}
    expected = {f"{name}.safetensors" for name in known & (TENSORS | {"weights"})}
    assert {path.name for path in folder.rglob("*")} == {*expected, "challenge.json"}
    listed = json.loads((folder / "challenge.json").read_text())
    assert set(listed["files"]) == expected
    assert set(listed["knowledge"]) == known
    assert ("architecture" in listed) == bool(known & {"architecture", "weights"})
    assert "defense" not in listed
    for name in known & TENSORS:
        assert list(load_file(folder / f"{name}.safetensors")) == [name]
    evidence = read_challenge(folder)
    assert set(evidence.held) == known


def test_no_target_lies_in_the_attackers_folder(trained, folders):
    """Not in any file, in any place: every byte of it is searched for every wanted record."""
    folder = export(
        trained, [name for name in Knowledge if name not in ("gradients_control", "defense_operator")], folders
    )
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    truth = load_file(folders[1] / "truth.safetensors")["records"]
    assert truth.nbytes > 0
    assert not any(record.tobytes() in content for record in truth)
    known = load_file(folder / "auxiliary_records.safetensors")["auxiliary_records"]
    assert all(record.tobytes() in content for record in known), "the search finds what is there"
    for name in trained.federation.records["lab"].ids[:50]:
        assert name.encode() not in content, "ids stay at home"


def test_any_program_can_read_it(trained, folders):
    """With a JSON reader and the safetensors format alone: the digests, the shapes, the order of records."""
    folder = export(trained, Linear(), folders, seed=3)
    listed = json.loads((folder / "challenge.json").read_text())
    assert listed["format"] == 2
    assert own_digest(listed) == listed["sha256"]
    for name, entry in listed["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"]
        assert {key: list(value.shape) for key, value in load_file(folder / name).items()} == entry["tensors"]
    auxiliary, targets = divide(held_out_of(trained, None, None), 0.5, 1000, seed=3)
    bottom = trained.parts["lab"].bottom
    found = {name.removesuffix(".safetensors"): load_file(folder / name) for name in listed["files"]}
    assert np.array_equal(found["uploads"]["uploads"], bottom.upload(targets.records["lab"]).numpy())
    assert np.array_equal(
        found["auxiliary_records"]["auxiliary_records"], bottom.preparation.transform(auxiliary.records["lab"])
    )
    assert listed["targets"] == len(targets)
    assert listed["input_shape"] == list(bottom.recipe["input_shape"])


def test_guesses_for_a_challenge_score_as_they_do_in_an_audit(trained, folders, tmp_path):
    folder = export(trained, Linear(), folders, dataset="patients")
    scored = score_challenge(folders[1], guessed(Linear(), folder, tmp_path / "g.npz"), attack="linear")
    audited = co.audit(trained, Linear(), seeds=1, progress=False, dataset="patients")
    one, other = (row(found, attack="linear", party="lab") for found in (scored, audited))
    assert one.pop("attack_settings") == "{}"
    other.pop("attack_settings")
    assert one == pytest.approx(other, nan_ok=True)
    trivial = scored.frame[scored.frame["knowledge"] == "baseline"]
    expected = audited.frame[(audited.frame["knowledge"] == "baseline") & (audited.frame["party"] == "lab")]
    assert trivial.reset_index(drop=True).equals(expected.reset_index(drop=True))
    assert scored.columns["skill"].tolist() == pytest.approx(
        audited.columns[audited.columns["party"] == "lab"]["skill"].tolist(), nan_ok=True
    )


def test_pictures_are_scored_as_pixels(painted, folders, tmp_path):
    folder = export(painted, Linear(), folders, party="left")
    scored = score_challenge(folders[1], guessed(Linear(), folder, tmp_path / "g.npz"))
    audited = co.audit(painted, Linear(), seeds=1, progress=False)
    one, other = row(scored, attack="submission"), row(audited, attack="linear", party="left")
    assert [one[name] for name in ("mse", "psnr", "ssim", "skill")] == pytest.approx(
        [other[name] for name in ("mse", "psnr", "ssim", "skill")]
    )
    assert scored.pictures[0].guesses.shape == (8, 1, 8, 4)


def test_repeated_uploads_are_exported_for_those_who_average(noisy, folders):
    folder = export(noisy, Averaging(), folders, repeats=5)
    assert read_challenge(folder).uploads.shape[1] == 5
    assert json.loads((folder / "challenge.json").read_text())["repeats"] == 5


def test_nobody_can_draw_the_noise_of_a_challenge_once_more(noisy, folders):
    """Seed and names are public: with them alone all noise was taken off, and a private release was private no more."""
    export(noisy, make_attack("decoder"), folders)
    told, lab = read_challenge(folders[0]), noisy.parts["lab"].bottom
    known = working_copy(noisy, ["lab"]).parts["lab"].bottom
    draw_noise_from("lab", known, 0)
    known_first = (torch.zeros_like(h) for h in (told.auxiliary_uploads, told.uploads))
    *_, drawn = [known.defense.protect(h, h, train=False) for h in known_first]
    _, targets = divide(held_out_of(noisy, None, None), 0.5, 1000, seed=0)
    clean = lab.network(lab.features(targets.records["lab"])).detach()
    hidden = told.uploads - clean
    assert abs(float(torch.corrcoef(torch.stack([drawn.flatten(), hidden.flatten()]))[0, 1])) < 0.1
    again = folders[0].parent / "again", folders[0].parent / "truth again"
    export(noisy, make_attack("decoder"), again)
    assert torch.equal(read_challenge(again[0]).uploads, told.uploads), "whoever has the records can repeat it"


@DEFENSES.register("test-narrow")
class Narrow(Defense):
    """Appends a layer, and has a public operator."""

    name = "test-narrow"

    def __init__(self, width: int = 3):
        super().__init__()
        self.width = width

    def extend(self, bottom, input_shape):
        seed = int(torch.randint(2**31, (1,), generator=self.generator))
        return nn.Sequential(bottom, initialised(lambda: nn.Linear(8, self.width), seed))

    def operator(self):
        return lambda h: h * 2

    def describe(self):
        return {"name": self.name, "width": self.width}


def test_the_building_is_told_with_the_layers_of_the_defense(folders):
    model = table_model({"lab": {"name": "test-narrow", "width": 2}})
    folder = export(model, ["architecture", "weights", "defense_operator"], folders)
    listed = json.loads((folder / "challenge.json").read_text())
    assert listed["architecture"]["defense"] == listed["defense"] == {"name": "test-narrow", "width": 2}
    linear = [layer for layer in listed["architecture"]["layers"] if layer["type"] == "Linear"]
    assert linear[-1]["weights"] == {"weight": [2, 8], "bias": [2]}
    evidence, own = read_challenge(folder), model.parts["lab"].bottom.network
    x = torch.zeros(3, *evidence.input_shape)
    assert torch.equal(evidence.bottom(x), own(x))
    assert str(evidence.bottom_factory(5)) == str(own)
    assert not torch.equal(evidence.bottom_factory(5)(x), own(x))
    assert evidence.defense_operator(torch.ones(1)).item() == 2


@pytest.mark.parametrize("granted", [["defense_operator"], ["architecture", "defense_operator"]])
@pytest.mark.parametrize("defense", ["keystone", {"name": "layered", "layers": ["keystone", "prune"]}])
def test_the_operator_is_that_of_the_audit(folders, granted, defense):
    """Keystone rounds tables and leaves pictures alone: which of both it does follows from what it is built on."""
    model = table_model({"lab": defense})
    evidence = read_challenge(export(model, granted, folders))
    assert set(evidence.held) == {"uploads", *granted}
    sent = evidence.defense_operator(torch.linspace(-3, 3, 200)[:, None])
    assert len(sent.unique()) == 8
    assert torch.equal(sent, model.parts["lab"].bottom.defense.operator()(torch.linspace(-3, 3, 200)[:, None]))


def test_the_operator_for_pictures_is_that_of_the_audit(folders):
    model = picture_model(defense={"name": "keystone", "veil": 4})
    evidence = read_challenge(export(model, ["defense_operator"], folders, party="left"))
    h, defense = torch.linspace(-3, 3, 64).view(2, 32), model.parts["left"].bottom.defense
    defense.seed(operator_seed("left", 0))
    assert torch.equal(evidence.defense_operator(h), defense.operator()(h))


CALIBRATED = [
    {"name": "dp_laplace", "epsilon": 200.0},
    {"name": "dp_gaussian", "epsilon": 200.0},
    {"name": "layered", "layers": ["prune", {"name": "dp_laplace", "epsilon": 200.0}]},
]


@pytest.mark.parametrize("defense", CALIBRATED, ids=lambda defense: defense["name"])
def test_calibrated_noise_is_imitated_with_the_bound_that_the_party_fitted(folders, tmp_path, defense):
    """Adaptive attacks on differential privacy would end in an error, and nobody would know how strong they are."""
    model, attack = table_model({"lab": defense}), make_attack("unsplit", preset="smoke", adaptive=True)
    model = co.load(model.save(tmp_path / "model"))
    federation = table_federation()
    folder = export(model, attack, folders, federation=federation, targets=8)
    scored = score_challenge(folders[1], guessed(attack, folder, tmp_path / "g.npz"), attack="unsplit")
    audited = co.audit(model, attack, federation=federation, seeds=1, targets=8, progress=False)
    one, other = (row(found, attack="unsplit", party="lab") for found in (scored, audited))
    assert one["knowledge"] == "adaptive"
    assert one["mse"] == pytest.approx(other["mse"])


def test_only_whoever_may_know_the_operator_is_told_the_bound(folders):
    model = table_model({"lab": "dp_laplace"})
    listed = json.loads((export(model, ["architecture"], folders) / "challenge.json").read_text())
    assert "fitted" not in listed


def test_a_folder_without_the_bound_is_one_clear_error(folders):
    """Folders of before it was told: the operator would fail in the middle of an attack."""
    path = export(table_model({"lab": "dp_laplace"}), ["defense_operator"], folders) / "challenge.json"
    listed = json.loads(path.read_text())
    assert listed.pop("fitted")["bound"] > 0
    path.write_text(json.dumps({**listed, "sha256": own_digest(listed)}))
    with pytest.raises(RunError, match=r"challenge.json: does not fit its files: 'bound' .get the folder anew"):
        read_challenge(folders[0])


def test_whoever_knows_records_imitates_the_veil_too(tmp_path):
    """An imitation that sees more of a record than the victim's network does would look for the wrong thing."""
    model = picture_model(defense={"name": "keystone", "veil": 4})
    for known, ready in (([], False), (["auxiliary_records"], True)):
        where = (tmp_path / f"challenge {ready}", tmp_path / f"truth {ready}")
        evidence = read_challenge(export(model, ["architecture", *known], where, party="left"))
        veil = next(part for part in evidence.bottom_factory(0).modules() if isinstance(part, Veil))
        assert bool(veil.directions.any()) is ready


def test_a_defense_without_layers_is_no_part_of_the_building(noisy, folders):
    folder = export(noisy, ["architecture"], folders)
    assert b"gaussian" not in (folder / "challenge.json").read_bytes(), "which defense it is was not granted"


def spoil(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("place", [0, 1])
def test_a_missing_or_altered_file_is_one_clear_error(trained, folders, tmp_path, place):
    export(trained, Linear(), folders)
    np.savez(tmp_path / "g.npz", guesses=np.zeros((1, 1)))
    read = (
        (lambda: read_challenge(folders[0])) if place == 0 else lambda: score_challenge(folders[1], tmp_path / "g.npz")
    )
    file = sorted(folders[place].glob("*.safetensors"))[0]
    listed = next(folders[place].glob("*.json"))
    spoil(file)
    with pytest.raises(RunError, match=rf"{file.name}: has been altered"):
        read()
    file.unlink()
    with pytest.raises(RunError, match=rf"{file.name}: is missing"):
        read()
    listed.write_text(listed.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(RunError, match="is of format 9"):
        read()
    listed.write_text("[]")
    with pytest.raises(RunError, match="is damaged"):
        read()
    listed.unlink()
    with pytest.raises(RunError, match="is missing"):
        read()


def test_a_list_that_points_out_of_its_folder_is_refused(trained, folders):
    folder = export(trained, ["uploads"], folders)
    listed = json.loads((folder / "challenge.json").read_text())
    listed["files"]["../truth/truth.safetensors"] = listed["files"].pop("uploads.safetensors")
    (folder / "challenge.json").write_text(json.dumps({**listed, "sha256": own_digest(listed)}))
    with pytest.raises(RunError, match="is missing"):
        read_challenge(folder)


@pytest.mark.parametrize(
    ("place", "name", "alter"),
    [
        (0, "challenge", lambda listed: listed.update(targets=3)),
        (0, "challenge", lambda listed: listed["input_shape"].append(1)),
        (1, "truth", lambda listed: listed["settings"].update(threshold=0.9)),
        (1, "truth", lambda listed: listed.update(accuracy=0.1)),
        (1, "truth", lambda listed: listed.pop("sha256")),
    ],
)
def test_an_altered_list_is_an_error_too(trained, folders, tmp_path, place, name, alter):
    """A digest of every other file is no use if the numbers in the list itself can be changed."""
    export(trained, ["uploads"], folders)
    path = folders[place] / f"{name}.json"
    listed = json.loads(path.read_text())
    alter(listed)
    path.write_text(json.dumps(listed))
    with pytest.raises(RunError, match=rf"{name}.json: has been altered"):
        score_challenge(folders[1], tmp_path / "g.npz") if place else read_challenge(folders[0])


def test_another_layout_of_the_list_is_no_alteration(trained, folders):
    path = export(trained, ["uploads"], folders) / "challenge.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4, sort_keys=True))
    assert set(read_challenge(folders[0]).held) == {"uploads"}


def test_a_list_of_before_there_was_a_digest_is_refused(trained, folders):
    path = export(trained, ["uploads"], folders) / "challenge.json"
    listed = {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}
    path.write_text(json.dumps({**listed, "format": 1}))
    with pytest.raises(RunError, match="is of format 1, this program reads 2"):
        read_challenge(folders[0])


def test_the_truth_belongs_to_one_challenge(trained, folders):
    folder = export(trained, ["uploads"], folders)
    digest = hashlib.sha256((folder / "challenge.json").read_bytes()).hexdigest()
    assert json.loads((folders[1] / "truth.json").read_text())["challenge"] == digest


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.write_bytes(b"nonsense"), "no .npz file"),
        (lambda path: np.savez(path, other=np.zeros(3)), "no array 'guesses'"),
        (lambda path: np.savez(path, guesses=np.array([{}], dtype=object)), "no .npz file of numbers"),
        (lambda path: np.savez(path, guesses=np.zeros((2, 2))), "guesses have shape"),
    ],
)
def test_guesses_that_can_not_be_read_are_told(trained, folders, tmp_path, write, complaint):
    export(trained, ["uploads"], folders)
    path = tmp_path / "g.npz"
    write(path)
    with pytest.raises(DataError, match=complaint):
        score_challenge(folders[1], path)


def test_the_strength_of_a_submission_follows_from_what_it_was_granted(trained, folders, tmp_path):
    folder = export(trained, ["architecture"], folders)
    np.savez(tmp_path / "g.npz", guesses=np.zeros((json.loads((folder / "challenge.json").read_text())["targets"],
             *read_challenge(folder).input_shape)))  # fmt: skip
    assert row(score_challenge(folders[1], tmp_path / "g.npz"), attack="submission")["knowledge"] == "published"


@pytest.mark.parametrize(
    ("knowledge", "options", "complaint"),
    [
        (["upload"], {}, "unknown knowledge 'upload' .did you mean 'uploads'"),
        (["gradients_control"], {}, "can't be put into a folder"),
        (Spy(), {}, "can't be put into a folder"),
        (make_attack("pcat"), {}, "can't be put into a folder"),
        (make_attack("sdar"), {}, "attack 'sdar' takes part in training, which can't be put into a folder"),
        (["uploads"], {"party": None}, "several parties could be attacked .choose one of lab, insurer"),
        (["uploads"], {"party": "clinic"}, "no audited party 'clinic'"),
    ],
)
def test_what_can_not_be_exported_is_told_and_nothing_is_written(trained, folders, knowledge, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        export(trained, knowledge, folders, **options)
    assert not folders[0].exists()
    assert not folders[1].exists()


def test_the_truth_lies_elsewhere_and_nothing_is_overwritten(trained, folders, tmp_path):
    with pytest.raises(ConfigError, match="lies in the attacker's folder"):
        export_challenge(trained, ["uploads"], folders[0], truth=folders[0] / "truth", party="lab")
    with pytest.raises(ConfigError, match="lies in the attacker's folder"):
        export_challenge(trained, ["uploads"], folders[0], truth=folders[0], party="lab")
    folders[0].mkdir()
    (folders[0] / "letter.txt").write_text("mine")
    with pytest.raises(ColonnadeError, match="is there already"):
        export(trained, ["uploads"], folders)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_folder_that_is_taken_leaves_the_other_one_unwritten(trained, folders, taken):
    """Otherwise the corrected command would fail as well, at the half that the first one left."""
    folders[taken].mkdir()
    (folders[taken] / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match=rf"{folders[taken].name}: is there already"):
        export(trained, ["uploads"], folders)
    assert not folders[1 - taken].exists()
    (folders[taken] / "letter.txt").unlink()
    export(trained, ["uploads"], folders)


def test_the_challenge_lies_outside_the_folder_of_the_truth(trained, tmp_path):
    with pytest.raises(ConfigError, match="lies in the folder of the truth"):
        export(trained, ["uploads"], (tmp_path / "truth" / "challenge", tmp_path / "truth"))
    assert not (tmp_path / "truth").exists()


def test_exporting_leaves_the_model_as_it_was(noisy, folders):
    defense = noisy.parts["lab"].bottom.defense
    before = defense.generator.get_state()
    export(noisy, Curious(), folders)
    assert torch.equal(defense.generator.get_state(), before)


def test_pictures_of_three_colours_too(tmp_path):
    model = picture_model(picture_federation(60, channels=3))
    folder = export(model, Linear(), (tmp_path / "c", tmp_path / "t"), party="right")
    scored = score_challenge(tmp_path / "t", guessed(Linear(), folder, tmp_path / "g.npz"))
    audited = co.audit(model, Linear(), seeds=1, progress=False)
    one, other = row(scored, attack="submission"), row(audited, attack="linear", party="right")
    assert one["mse"] == pytest.approx(other["mse"])
    assert one["ssim"] == pytest.approx(other["ssim"])
