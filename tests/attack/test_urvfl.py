"""URVFL reads undefended uploads by sending other gradients than the task's."""

import pytest
import torch
from insider_parts import CLASSES, SHAPES, Halves, Table, digits, evidence_of_halves, halves, model_weights

from colonnade.attack import Evidence, make_attack
from colonnade.attack.urvfl import Urvfl
from colonnade.errors import ConfigError, DataError
from colonnade.nets import Top


def begun(attack):
    """Return the attack as it is when a run begins, without a run."""
    attack.meet(evidence_of_halves({"defense_operator": lambda upload: 2 * upload} if attack.adaptive else None))
    attack.begin(Top(torch.nn.Linear(1, 1), by_width=True), SHAPES, CLASSES)
    return attack


def test_undefended_halves_of_digits_are_read():
    """The audit would call plain split training safe from a malicious server. Measured: .46 to .63 over four seeds."""
    run = Halves(Urvfl("smoke", pretrain_epochs=20), seed=2)
    run.train(150)
    assert min(run.skill().values()) > 0.25


def test_the_sync_variant_reads_without_pretraining():
    """Measured: .39 to .74 over four seeds."""
    run = Halves(Urvfl("smoke", sync=True), seed=2)
    run.train(150)
    assert min(run.skill().values()) > 0.25


def test_each_upload_is_pushed_to_the_shadows_side_of_its_own_class():
    """The attack would not be the published one: a gradient for the wrong class, or of the discriminator's own loss."""
    attack = begun(Urvfl("smoke", pretrain_epochs=0))
    uploads = {party: torch.rand(6, *shape) for party, shape in SHAPES.items()}
    labels = torch.tensor([0, 1, 2, 9, 9, 4])
    discriminators = [network.double() for network in attack.discriminators]
    expected = {}
    for (party, upload), discriminator in zip(uploads.items(), discriminators, strict=True):
        leaf = upload.double().requires_grad_()
        total = 0.0
        for row, label in enumerate(labels.tolist()):
            shares = discriminator(leaf)[row].exp()
            total = total - (shares[2 * label + 1] / shares.sum()).log()
        expected[party] = torch.autograd.grad(total / 6, leaf)[0].float()
    for network in discriminators:
        network.float()
    honest = {party: torch.ones_like(upload) for party, upload in uploads.items()}
    sent = attack.watch(0, uploads, labels, honest)
    for party in SHAPES:
        assert torch.allclose(sent[party], expected[party], atol=1e-7)


def test_shadows_and_decoder_stand_still_while_they_attack_unless_sync():
    """Published URVFL freezes them: a decoder that moves on could no longer read what the victim was driven to."""
    for sync in (False, True):
        attack = begun(Urvfl("smoke", pretrain_epochs=1, sync=sync))
        before = [value.clone() for value in (*attack.shadows.state_dict().values(), *attack.decoder.parameters())]
        uploads = {party: torch.rand(6, *shape) for party, shape in SHAPES.items()}
        attack.watch(0, uploads, torch.arange(6), uploads)
        after = (*attack.shadows.state_dict().values(), *attack.decoder.parameters())
        assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True)) != sync


def ways(padded, shifted):
    """Return every shift, plain or mirrored, that makes `shifted` of the padded image."""
    found = []
    for down in range(3):
        for right in range(3):
            crop = padded[down : down + 8, right : right + 8]
            found += [(down, right, "plain")] * torch.equal(shifted, crop)
            found += [(down, right, "mirrored")] * torch.equal(shifted, crop.flip(-1))
    return found


def test_augmented_records_are_drawn_afresh_and_stay_whole():
    """Frozen crops add nothing, and strips that were shifted one by one would teach the decoder a broken image."""
    attack = begun(Urvfl("smoke", pretrain_epochs=0, augment=True))
    whole = digits()[0][:40]
    first, second = attack.augmented(whole).whole, attack.augmented(whole).whole
    assert not torch.equal(first, second)
    seen = set()
    for image, shifted in zip(whole[:, 0], first[:, 0], strict=True):
        padded = torch.zeros(10, 10)
        padded[1:9, 1:9] = image
        found = ways(padded, shifted)
        assert found
        seen |= set(found)
    assert len(seen) > 12, "all eighteen ways to shift and mirror should turn up"


def test_an_adaptive_attacker_puts_the_defense_behind_its_shadows():
    """Against a public defense the audit would report the weaker attacker alone."""
    attack = Urvfl("smoke", pretrain_epochs=0, adaptive=True)
    assert (attack.strength, Urvfl.strength) == ("adaptive", "published")
    assert "defense_operator" in attack.describe()["knowledge"]
    with pytest.raises(ConfigError, match="defense_operator"):
        attack.meet(evidence_of_halves())
    begun(attack)
    whole = digits()[0][:4]
    plain = [shadow(strip) for shadow, strip in zip(attack.shadows, attack.strips(whole), strict=True)]
    assert all(
        torch.equal(2 * before, after)
        for before, after in zip(plain, attack.imitate(attack.strips(whole)), strict=True)
    )


def test_tables_are_attacked_and_the_bottoms_no_longer_learn_the_task():
    table = Table()
    attack = make_attack(Urvfl("smoke", pretrain_epochs=5))
    attacked, honest = table.train(attack), table.train()
    assert not torch.equal(model_weights(attacked), model_weights(honest))
    assert all(value < 1 for value in table.skill(attack, attacked).values())


def test_the_same_seed_repeats_the_attack_and_the_global_stream_does_not_matter():
    """An audit would not repeat."""

    def guess(seed):
        torch.rand(1)
        run = Halves(Urvfl("smoke", pretrain_epochs=1), seed=seed)
        state = torch.get_rng_state()
        run.train(2)
        assert torch.equal(torch.get_rng_state(), state)
        return run.attack.reconstruct_all(run.uploads())["left"]

    assert torch.equal(guess(1), guess(1))
    assert not torch.equal(guess(1), guess(2))


def test_guesses_stay_within_the_range_of_the_auxiliary_records():
    attack = begun(Urvfl("smoke", pretrain_epochs=1))
    guesses = attack.reconstruct_all({party: 1e6 * torch.randn(5, *shape) for party, shape in SHAPES.items()})
    for party, strip in halves().items():
        assert guesses[party].shape == (5, 1, 8, 4)
        known = strip[1097:1597]
        assert known.min() <= guesses[party].min() and guesses[party].max() <= known.max()


def evidence_with(**changes):
    left = evidence_of_halves()["left"]
    return {"left": Evidence(left.input_shape, {**left.held, **changes}), "right": evidence_of_halves()["right"]}


@pytest.mark.parametrize(
    ("evidence", "outputs", "error", "message"),
    [
        (evidence_of_halves(), 1, ConfigError, "the label is a quantity"),
        ({"up": evidence_of_halves()["left"]}, 10, ConfigError, "no party 'up'"),
        ({}, 10, ConfigError, "nothing is known of 'left'"),
        (evidence_with(auxiliary_records=torch.zeros(7, 1, 8, 4)), 10, DataError, r"lengths \[7, 500\]"),
        (evidence_with(auxiliary_labels=torch.zeros(9)), 10, DataError, r"lengths \[9, 500\]"),
    ],
)
def test_what_can_not_be_attacked_is_said_before_training(evidence, outputs, error, message):
    attack = Urvfl("smoke")
    attack.meet(evidence)
    with pytest.raises(error, match=message):
        attack.begin(torch.nn.Identity(), SHAPES, outputs)


def test_an_attack_out_of_order_is_said():
    with pytest.raises(ConfigError, match="call meet before training"):
        Urvfl().begin(torch.nn.Identity(), SHAPES, 10)
    with pytest.raises(ConfigError, match="seen no training"):
        Urvfl().reconstruct_all({})


def test_a_batch_that_a_victim_holds_in_part_is_refused():
    """Uploads and labels of different people would be matched, in silence."""
    attack = begun(Urvfl("smoke", pretrain_epochs=0))
    uploads = {"left": torch.zeros(5, *SHAPES["left"]), "right": torch.zeros(4, *SHAPES["right"])}
    with pytest.raises(ConfigError, match="4 of 5 records"):
        attack.watch(0, uploads, torch.zeros(5, dtype=torch.long), uploads)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "smok"}, "did you mean 'smoke'"),
        ({"pretrain_epochs": 1.5}, "pretrain_epochs"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"batch_size": 1}, "batch_size"),
        ({"pretrain": 3}, "unknown parameter"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        make_attack("urvfl", **wrong)


def test_every_number_of_the_recipe_is_written_beside_the_result():
    described = make_attack("urvfl", preset="paper", batch_size=32).describe()
    assert described["pretrain_epochs"] == 20
    assert described["learning_rate"] == 1e-4
    assert described["batch_size"] == 32
    assert described["sync"] is False
