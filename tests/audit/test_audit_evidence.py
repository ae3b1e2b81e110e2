"""What attacks are granted: if these fail, an audit lets attackers off with less than they would know."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from audit_parts import picture_model

from colonnade.attack.evidence import Knowledge
from colonnade.audit.evidence import before_training
from colonnade.audit.held_out import held_out_of
from colonnade.nets.veil import Veil


@pytest.fixture(scope="module")
def model():
    return picture_model(defense={"name": "keystone", "veil": 4})


def veil_in(network):
    return next(part for part in network.modules() if isinstance(part, Veil))


def test_imitators_fit_a_veil_on_the_records_they_know(model):
    """Attacks that imitate a bottom model would learn from pictures that the victim never shows its own."""
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    imitation = veil_in(before_training("left", bottom, known, seed=0).bottom_factory(3))
    expected = Veil((1, 8, 4), 4)
    expected.fit(bottom.features(known.records["left"]))
    torch.testing.assert_close(imitation.directions.abs(), expected.directions.abs())
    assert not torch.equal(imitation.mean, veil_in(bottom.network).mean), "the victim's own stays at home"


def test_who_is_granted_no_records_learns_nothing_of_them_through_a_veil(model):
    """UnSplit knows how a victim is built and no more: its guesses may not start from records it never had."""
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    everything = before_training("left", bottom, known, seed=0)
    blind = everything.only({Knowledge.ARCHITECTURE}, where="unsplit").bottom_factory(3)
    assert not veil_in(blind).mean.any() and not veil_in(blind).directions.any()
    both = everything.only({Knowledge.ARCHITECTURE, Knowledge.AUXILIARY_RECORDS}, where="fsha").bottom_factory(3)
    assert veil_in(both).mean.any()


def test_imitators_with_too_few_records_have_none():
    model = picture_model(defense={"name": "keystone", "veil": 30})
    bottom, known = model.parts["left"].bottom, held_out_of(model, None, None)
    few = {party: records.take(range(20)) for party, records in known.records.items()}
    imitation = veil_in(before_training("left", bottom, replace(known, records=few), seed=0).bottom_factory(3))
    assert not imitation.directions.any()


@pytest.mark.parametrize("defense", ["gaussian", "bottleneck", {"name": "keystone", "veil": 4}])
def test_who_imitates_two_parties_draws_twice(defense):
    """A decoder of both parties' uploads would learn to take off noise that they share, and fail at that of victims."""
    model = picture_model(defense=defense)
    known = held_out_of(model, None, None)
    h = torch.zeros(6, *model.parts["left"].bottom.upload(known.records["left"].take(range(1))).shape[1:])
    told = {
        (party, seed): before_training(party, model.parts[party].bottom, known, seed=seed)
        for party in ("left", "right")
        for seed in (0, 1)
    }
    drawn = [evidence.defense_operator(h) for evidence in told.values()]
    assert all(not torch.equal(one, other) for one, other in combinations(drawn, 2))
    again = before_training("left", model.parts["left"].bottom, known, seed=0).defense_operator(h)
    assert torch.equal(again, drawn[0]), "an audit can be repeated"
    if told["left", 0].disguise:
        coins = [signs(model, party, evidence, known) for (party, _), evidence in told.items()]
        assert all(not torch.equal(one, other) for one, other in combinations(coins, 2))


def signs(model, party, evidence, known):
    """Which pictures an imitator showed its network as they are, and which as negatives."""
    x = model.parts[party].bottom.features(known.records[party])
    worn = evidence.disguise(x[:64]) - x.mean(0)
    return torch.sign((worn * (x[:64] - x.mean(0))).flatten(1).sum(1))
