"""If these fail, attacks inside training look harmless because they do not work, or watching changes the run."""

import pytest
import torch
from torch import nn

import colonnade as co
from colonnade.attack import Evidence, Insider, Knowledge, make_attack
from colonnade.attack.shadow import SideBySide, step_down
from colonnade.errors import ConfigError, DataError
from colonnade.measure.reconstruct import skill, squared_error

INSIDERS = ("fsha", "pcat", "sdar", "urvfl")
MALICIOUS = ("fsha", "urvfl")
SETTINGS = {"seed": 0, "batch_size": 32, "progress": False, "network": {"hidden": (48, 32)}}
VICTIMS = ("left", "right")
EARLY = {"pcat": {"late_start": 0}}


@pytest.fixture(scope="module")
def digits():
    """Two halves of 1,797 small digits as columns, and a party that holds the labels alone."""
    data = co.load_dataset("digits")
    table = data.table.assign(digit=data.label)
    columns = list(data.table.columns)
    parties = {"left": columns[:32], "right": columns[32:], "active": []}
    return co.Federation.from_frame(table, parties, label=("active", "digit"))


class Watching:
    """Keeps the gradients that an insider sends beside the honest ones."""

    def __init__(self, insider):
        self.insider, self.changed = insider, 0

    def begin(self, top, shapes, outputs):
        self.insider.begin(top, shapes, outputs)

    def watch(self, step, uploads, labels, honest):
        sent = self.insider.watch(step, uploads, labels, dict(honest))
        self.changed += any(not torch.equal(sent[party], honest[party]) for party in honest)
        return sent


def weights(model, party="left"):
    return nn.utils.parameters_to_vector(model.parts[party].bottom.network.parameters()).detach()


def best_skill(name, federation, epochs, **parameters):
    model = co.train(federation, epochs=1, **SETTINGS)
    model.agreement = model.agreement.__class__(
        **{**vars(model.agreement), "task": model.agreement.task.model_copy(update={"epochs": epochs})}
    )
    choice = {"name": name, "preset": "smoke", **parameters}
    result = co.audit(model, [choice], federation=federation, seeds=[0], progress=False)
    attacked = result.frame[(result.frame["attack"] == name)]
    return attacked.set_index("party")["skill"]


@pytest.mark.slow
def test_an_audit_lets_an_insider_train_again_and_see_more_than_the_mean_record(digits):
    found = best_skill("sdar", digits, epochs=10)
    assert found.loc["left"] > 0.2 and found.loc["right"] > 0.2


@pytest.mark.parametrize("name", INSIDERS)
def test_honest_insiders_leave_the_run_as_it_is_and_malicious_ones_do_not(digits, name):
    quiet = co.train(digits, epochs=1, **SETTINGS)
    insider = make_attack(name, preset="smoke")
    insider.meet(known(insider))
    watched = Watching(insider)
    model = co.train(digits, epochs=1, curious=watched, **SETTINGS)
    assert torch.equal(weights(model), weights(quiet)) == (name not in MALICIOUS)
    assert (watched.changed > 0) == (name in MALICIOUS)


def known(insider, records=60, **changed):
    """Evidence about both halves, as much as any insider may ask for."""
    torch.manual_seed(0)
    labels = torch.arange(records) % 10
    held = {
        "auxiliary_records": torch.randn(records, 32),
        "auxiliary_labels": labels,
        "architecture": lambda seed: nn.Sequential(nn.Linear(32, 48), nn.ReLU()),
        "defense_operator": lambda upload: upload,
        **changed,
    }
    return {victim: Evidence((32,), dict(held)) for victim in VICTIMS}


def begun(name, shape=(48,), evidence=None, **parameters):
    insider = make_attack(name, preset="smoke", **parameters)
    insider.meet(evidence or known(insider))
    top = nn.Sequential(nn.Linear(sum(shape) * 2, 10))
    insider.begin(Joined(top), dict.fromkeys(VICTIMS, shape), 10)
    return insider


class Joined(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, uploads):
        return self.body(torch.cat(list(uploads), dim=1))


@pytest.mark.parametrize("name", INSIDERS)
def test_guesses_have_the_shape_of_records_and_stay_within_what_is_known(name):
    insider = begun(name, **EARLY.get(name, {}))
    uploads = {victim: torch.randn(16, 48) for victim in VICTIMS}
    for step in range(3):
        insider.watch(step, uploads, torch.arange(16) % 10, {victim: torch.zeros(16, 48) for victim in VICTIMS})
    insider.finish()
    guesses = insider.reconstruct_all(uploads, torch.arange(16) % 10)
    largest = known(insider)["left"].auxiliary_records.max()
    for victim in VICTIMS:
        assert guesses[victim].shape == (16, 32) and guesses[victim].isfinite().all()
        assert guesses[victim].max() <= largest + 1e-6


def test_the_gradient_of_urvfl_drives_uploads_to_the_shadow_of_their_own_class():
    """Against autograd on the discriminator as it was before its step: label 2c + 1 is the shadow of class c."""
    insider = begun("urvfl")
    upload, labels = torch.randn(8, 48), torch.arange(8) % 10
    discriminator = insider.discriminators[0]
    leaf = upload.clone().requires_grad_()
    nn.functional.cross_entropy(discriminator(leaf), 2 * labels + 1).backward()
    sent = insider.watch(0, dict.fromkeys(VICTIMS, upload), labels, {victim: torch.zeros(8, 48) for victim in VICTIMS})
    torch.testing.assert_close(sent["left"], leaf.grad)


def test_an_insider_without_labels_can_not_read_them():
    insider = make_attack("fsha", preset="smoke")
    assert Knowledge.LABELS not in insider.knowledge and Knowledge.AUXILIARY_LABELS not in insider.knowledge
    insider.meet(known(insider))
    with pytest.raises(ConfigError, match="'auxiliary_labels' was not granted"):
        _ = insider.evidence["left"].auxiliary_labels


@pytest.mark.parametrize("name", INSIDERS)
def test_what_it_was_not_given_is_told_before_the_run(name):
    insider = make_attack(name, preset="smoke")
    held = {"architecture": lambda seed: nn.Linear(32, 48)}
    with pytest.raises(ConfigError, match="auxiliary_records"):
        insider.meet({"left": Evidence((32,), held)})


@pytest.mark.parametrize("name", INSIDERS)
def test_an_adaptive_insider_passes_its_shadows_through_the_operator(name):
    seen = []

    def operator(upload):
        seen.append(upload.shape)
        return upload

    insider = make_attack(name, preset="smoke", adaptive=True, **EARLY.get(name, {}))
    assert insider.strength == "adaptive" and Knowledge.DEFENSE_OPERATOR in insider.knowledge
    insider.meet(known(insider, defense_operator=operator))
    insider.begin(Joined(nn.Linear(96, 10)), dict.fromkeys(VICTIMS, (48,)), 10)
    zeros = {victim: torch.zeros(16, 48) for victim in VICTIMS}
    for step in range(2):
        insider.watch(step, {victim: torch.randn(16, 48) for victim in VICTIMS}, torch.arange(16) % 10, zeros)
    insider.finish()
    assert seen


def test_too_few_known_records_and_unknown_presets_are_refused():
    with pytest.raises(ConfigError, match="unknown preset"):
        make_attack("sdar", preset="huge")
    with pytest.raises(DataError, match="can't train shadows"):
        begun("sdar", evidence=known(None, records=5))


@pytest.mark.parametrize(
    ("name", "flag"),
    [*((name, flag) for name in INSIDERS for flag in ("adaptive", "mixed")),
     ("sdar", "conditional"), ("urvfl", "sync"), ("urvfl", "augment")],
)  # fmt: skip
def test_what_is_neither_yes_nor_no_is_refused(name, flag):
    """Whoever writes adaptive=maybe would be told the strength of an attack that he did not ask for."""
    for wrong in ("maybe", "no", 3, *([] if flag == "conditional" else [None])):
        with pytest.raises(ConfigError, match=rf"{name}\.{flag}: .* is not allowed .give true or false"):
            make_attack(name, preset="smoke", **{flag: wrong})
    assert getattr(make_attack(name, preset="smoke", **{flag: True}), flag) is True


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("sdar", "discriminator_width", 1),
        ("fsha", "critic_width", 0),
        ("urvfl", "decoder_width", 0),
        ("urvfl", "learning_rate", 0.0),
        ("sdar", "updates", 0),
        ("pcat", "inverse_epochs", 0),
        ("fsha", "critic_steps", 0),
    ],
)
def test_an_attack_that_could_not_learn_is_refused(name, argument, value):
    """It would find nothing, and the verdict would read as if a defense had held."""
    with pytest.raises(ConfigError, match=rf"{name}\.{argument}: .* is not allowed .give a .*at least"):
        make_attack(name, preset="smoke", **{argument: value})


def test_the_published_sdar_tells_its_decoder_the_class():
    told = {preset: make_attack("sdar", preset=preset).conditional for preset in ("smoke", "default", "paper")}
    assert told == {"smoke": False, "default": False, "paper": True}


def test_guessing_before_training_says_so():
    with pytest.raises(ConfigError, match="seen no training"):
        make_attack("urvfl", preset="smoke").reconstruct_all({"left": torch.zeros(2, 48)})


def test_parts_are_laid_side_by_side_and_cut_apart_again():
    for shapes in ([(3, 8, 5), (3, 8, 3)], [(4,), (7,)], [(2, 3, 3), (5,)]):
        parts = [torch.randn(6, *shape) for shape in shapes]
        both = SideBySide(shapes)
        joined = both.join(parts)
        assert tuple(joined.shape[1:]) == both.shape
        for part, again in zip(parts, both.cut(joined), strict=True):
            torch.testing.assert_close(part, again)


def test_insiders_are_what_training_takes():
    for name in INSIDERS:
        assert issubclass(co.attacks()[name], Insider)
    assert skill(float(squared_error([[0.0]], [[1.0]])[0]), 1.0) == 0


def test_it_does_not_matter_how_pictures_lie_in_memory():
    """On a GPU channels lie last: Adam refused such gradients there, and elsewhere took them for others."""
    maps, learned = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(0)), []
    for form in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        network = nn.Conv2d(3, 4, 3)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01, fused=True)
        step_down(optimizer, network(maps.to(memory_format=form)).square().mean())
        learned.append(network.weight.detach())
    torch.testing.assert_close(*learned)
