"""Where a federation moves pictures, insiders move theirs; else an audit calls safe what its attackers missed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from insider_parts import CLASSES, SHAPES, evidence_of_halves
from torch import nn

import colonnade as co
from colonnade.attack import Evidence, Knowledge, make_attack
from colonnade.defend import make_defense
from colonnade.learn.augment import Shifts
from colonnade.nets import Top

EARLY = {"pcat": {"late_start": 0}, "urvfl": {"pretrain_epochs": 0}}
ROWS = torch.arange(30)


def begun(name, *, moved):
    attack = make_attack(name, preset="smoke", **EARLY.get(name, {}))
    attack.meet({party: replace(held, moved=moved) for party, held in evidence_of_halves().items()})
    attack.begin(
        Top(nn.Linear(sum(s[0] * s[1] * s[2] for s in SHAPES.values()), CLASSES), by_width=True), SHAPES, CLASSES
    )
    return attack


def moves_of(strip, moved):
    """Return which ways of moving `strip` by a pixel at most make `moved`."""
    padded = nn.functional.pad(strip[None], [1] * 4, mode="reflect")[0]
    height, width = strip.shape[1:]
    places = [(down, right) for down in range(3) for right in range(3)]
    return {(d, r) for d, r in places if torch.equal(moved, padded[:, d : d + height, r : r + width])}


def test_each_strip_is_moved_by_draws_of_its_own_afresh_each_time():
    attack = begun("urvfl", moved=True)
    still, first, second = attack.auxiliary[ROWS], attack.known(ROWS).whole, attack.known(ROWS).whole
    assert not torch.equal(first, second)
    ways = [
        [moves_of(strip, moved) for strip, moved in zip(*parts, strict=True)]
        for parts in zip(attack.strips(still), attack.strips(first), strict=True)
    ]
    assert all(found for party in ways for found in party), "pictures are moved, not torn"
    assert any(not left & right for left, right in zip(*ways, strict=True)), "parties do not share their draws"


def test_where_nothing_is_moved_records_stay_and_no_draw_is_spent():
    attack = begun("urvfl", moved=False)
    assert torch.equal(attack.known(ROWS).whole, attack.auxiliary[ROWS])
    assert attack.generator.initial_seed() == begun("urvfl", moved=False).generator.initial_seed()


@pytest.mark.parametrize("name", ["urvfl", "fsha"])
def test_what_victims_uploads_are_compared_with_is_moved(name, monkeypatch):
    """A discriminator would learn to tell the moves, and drive victims nowhere."""
    attack = begun(name, moved=True)
    seen = []
    monkeypatch.setattr(type(attack), "imitate", lambda self, strips: seen.append(strips) or imitate(self, strips))
    imitate = super(type(attack), attack).imitate.__func__
    uploads = {party: torch.rand(8, *shape) for party, shape in SHAPES.items()}
    attack.watch(0, uploads, torch.arange(8) % CLASSES, uploads)
    plain = {record.numpy().tobytes() for strip in attack.strips(attack.auxiliary) for record in strip}
    assert seen and not all(
        record.numpy().tobytes() in plain for strips in seen for strip in strips for record in strip
    )


def test_what_is_granted_says_so_still():
    held = Evidence((1, 8, 4), {"uploads": torch.zeros(2, 3)}, moved=True)
    assert held.only([Knowledge.UPLOADS], where="a test").moved


@pytest.mark.parametrize("augment", ["none", "shift"])
def test_an_audit_tells_insiders_what_the_federations_file_tells_all(augment, monkeypatch):
    told = []
    monkeypatch.setattr(Shifts, "__call__", lambda self, pictures: pictures)
    digits = co.load_dataset("digits")
    federation = co.Federation.from_images(digits.images[:400], digits.label.to_numpy()[:400], ["left", "right"])
    settings = {"epochs": 1, "batch_size": 64, "network": {"family": "resnet18_narrow", "cut": 2}, "kind": "multiclass"}
    model = co.train(federation, augment=augment, progress=False, **settings)
    attack = make_attack("urvfl", preset="smoke", pretrain_epochs=0)
    monkeypatch.setattr(type(attack), "set_up", lambda self: told.extend(one.moved for one in self.evidence.values()))
    monkeypatch.setattr(type(attack), "see", lambda self, step, uploads, labels: None)
    co.audit(model, attack, seeds=1, progress=False)
    assert told == [augment == "shift"] * 2


def test_an_adaptive_insider_disguises_what_it_knows_and_wants_it_undisguised():
    """Its discriminator would tell pictures from their negatives, and its decoder would learn to guess negatives."""
    attack = make_attack("urvfl", preset="smoke", adaptive=True, **EARLY["urvfl"])
    more = {"defense_operator": lambda upload: upload}
    evidence = evidence_of_halves(more)
    attack.meet({party: replace(held, moved=True, disguise=torch.neg) for party, held in evidence.items()})
    attack.begin(Top(nn.Linear(1, 1), by_width=True), SHAPES, CLASSES)
    known = attack.known(ROWS)
    assert not torch.equal(known.whole, attack.auxiliary[ROWS])
    for strip, shown in zip(attack.strips(known.whole), known.shown, strict=True):
        assert torch.equal(shown, -strip), "both are moved alike"
    plain = make_attack("urvfl", preset="smoke", **EARLY["urvfl"])
    plain.meet({party: replace(held, disguise=torch.neg) for party, held in evidence.items()})
    assert all(held.disguise is None for held in plain.evidence.values()), "it does not know the defense"


@pytest.mark.parametrize("layers", [False, True])
def test_keystones_disguise_is_imitated_with_a_veil_and_coins_of_ones_own(layers):
    defense = make_defense("keystone", veil=4)
    if layers:
        defense = make_defense("layered", layers=["none", defense])
    assert make_defense("gaussian").imitated_disguise(torch.rand(50, 1, 8, 4)) is None
    known = torch.rand(400, 1, 8, 4, generator=torch.Generator().manual_seed(0))
    defense.seed(0)
    defense.extend(nn.Conv2d(1, 4, 3, padding=1), (1, 8, 4))
    defense.prepare(nn.Identity(), known + 1)
    stream = defense.generator.get_state()
    first, second = (defense.imitated_disguise(known)(known[:60]) for _ in range(2))
    assert torch.equal(defense.generator.get_state(), stream), "the victim's coins are not spent"
    centre = known.flatten(1).mean(0)
    signs = {
        float(sign) for sign in torch.sign(((first.flatten(1) - centre) * (known[:60].flatten(1) - centre)).sum(1))
    }
    assert signs == {-1.0, 1.0}
    assert torch.allclose((first.flatten(1) - centre).abs(), (second.flatten(1) - centre).abs(), atol=1e-5)
    of_a_table = make_defense("keystone")
    of_a_table.extend(nn.Linear(3, 4), (3,))
    assert of_a_table.imitated_disguise(torch.rand(50, 3)) is None
